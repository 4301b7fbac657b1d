// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command exercise gives exercises to type: it makes a copy of the project in which something is missing, shows what fails, and says when it
// works again.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	root := flag.String("root", ".", "`directory` of the project")
	number := flag.String("n", "", "`number` of the exercise")
	dir := flag.String("dir", "", "`directory` for the copy, .build/exercise/N of the project by default")
	hint := flag.Bool("hint", false, "say where to look")
	solution := flag.Bool("solution", false, "show the solution")
	flag.Parse()
	if err := run(*root, *number, *dir, *hint, *solution); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

// marker is the file in a copy that has the number of its exercise.
const marker = ".exercise"

func run(root, number, dir string, hint, solution bool) error {
	all, err := exercises(root)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > len(all) {
		return fmt.Errorf("there is no exercise N=%s: choose one from N=1 to N=%d, see docs/learn/exercises.md", number, len(all))
	}
	e := all[n-1]
	if dir == "" {
		dir = filepath.Join(root, ".build/exercise", number)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	switch found, err := os.ReadFile(filepath.Join(dir, marker)); {
	case os.IsNotExist(err):
		if err := e.begin(root, dir, number); err != nil {
			return err
		}
		fmt.Printf("Exercise %d, in %s\n\n%s\n\n", n, dir, e.task)
	case err != nil:
		return err
	case strings.TrimSpace(string(found)) != number:
		return fmt.Errorf("%s has exercise %s: choose another DIR for N=%s, or remove it", dir, strings.TrimSpace(string(found)), number)
	}
	switch {
	case hint:
		fmt.Printf("%sSomething is missing here:\n%s", e.hint, places(e.solution))
		return nil
	case solution:
		fmt.Printf("This solves it, and is not applied. The text after @@ says where a change belongs:\n\n%s", e.solution)
		return nil
	}
	if err := e.check(dir, os.Stdout); err != nil {
		return fmt.Errorf("%w. Edit the files in %s, and run make exercise N=%d again; HINT=1 says where to look, SOLUTION=1 what to write", err, dir, n)
	}
	fmt.Printf("Exercise %d is solved. %s\n", n, e.explanation)
	return nil
}

// begin makes the copy of the project, with the exercise in it. If it fails, it leaves nothing behind.
func (e exercise) begin(root, dir, number string) (err error) {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty: choose another DIR", dir)
	}
	if err := copyProject(root, dir); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	if err := e.prepare(dir); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, marker), []byte(number+"\n"), 0o644); err != nil {
		return err
	}
	// A repository of its own shows what has been typed, and not what is missing.
	for _, args := range [][]string{
		{"init", "--quiet"}, {"add", "--all"},
		{"-c", "user.name=exercise", "-c", "user.email=exercise@example.com", "commit", "--quiet", "--message=Begin the exercise"},
	} {
		if err := inDir(dir, "git", args...); err != nil {
			return err
		}
	}
	return nil
}

// copied is what a copy has of the project: what the controller, its tests and the generators need.
var copied = []string{
	"main.go", "controller.go", "controller_test.go", "go.mod", "go.sum", "pkg", "artifacts", "hack/simulation", "hack/update-codegen.sh",
	"hack/verify-codegen.sh", "hack/boilerplate.go.txt", "hack/boilerplate.yaml.txt", "hack/models-schema", "hack/tools", "Makefile", ".gitignore",
}

// copyProject copies what git would commit of it.
func copyProject(root, dir string) error {
	list := exec.Command("git", append([]string{"-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"}, copied...)...)
	names, err := list.Output()
	if err != nil {
		return fmt.Errorf("git says which files to copy: install it, and use a clone: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		info, err := os.Stat(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // It is deleted, but not committed yet.
		}
		if err != nil {
			return err
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}

func inDir(dir, name string, args ...string) error {
	command := exec.Command(name, args...)
	command.Dir = dir
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %q: %w\n%s", name, args, err, output)
	}
	return nil
}

// check runs the commands that have to succeed, and shows what each that does not prints. All are run.
func (e exercise) check(dir string, out io.Writer) error {
	var failed []string
	for _, c := range e.checks {
		command := exec.Command(c.command[0], c.command[1:]...)
		command.Dir = dir
		output, err := command.CombinedOutput()
		if _, isExit := errors.AsType[*exec.ExitError](err); err != nil && !isExit {
			return err
		}
		if err != nil {
			failed = append(failed, c.name)
			fmt.Fprintf(out, "$ %s\n%s\n", strings.Join(c.command, " "), excerpt(output))
		}
	}
	if len(failed) > 0 {
		return errors.New("not solved yet: " + strings.Join(failed, " and ") + " failed")
	}
	return nil
}

var (
	story = regexp.MustCompile(`(?ms)^( +)(?:simulation|trial)\.go:\d+: (.*?\n) +repeat it with`)
	noise = regexp.MustCompile(`(?m)^\s*(=== .*|(\w+\.go:\d+: )?[IEW]\d{4} .*|ok\s.*|\?\s.*|FAIL|FAIL\s.*|exit status .*)\n`)
)

// maxExcerpt is how many lines of an output are shown that has no story.
const maxExcerpt = 30

// excerpt returns the shortest story in an output of go test, or else how it begins and ends.
func excerpt(output []byte) string {
	shortest := ""
	for _, told := range story.FindAllSubmatch(output, -1) {
		text := string(bytes.ReplaceAll(told[2], append([]byte("\n    "), told[1]...), []byte("\n")))
		if strings.Contains(text, "BROKEN PROMISE") && (shortest == "" || strings.Count(text, "\n") < strings.Count(shortest, "\n")) {
			shortest = text
		}
	}
	if shortest != "" {
		return shortest
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(noise.ReplaceAll(output, nil)), "\n"), "\n")
	if left := len(lines) - maxExcerpt; left > 0 {
		lines = slices.Concat(lines[:maxExcerpt-2], []string{fmt.Sprintf("... %d lines ...\n", left)}, lines[len(lines)-2:])
	}
	return strings.Join(lines, "") + "\n"
}
