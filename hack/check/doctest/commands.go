// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// command is a simple command in a code block, without redirections.
type command struct {
	document *document
	line     int
	section  string
	words    []string
}

func (c command) String() string { return strings.Join(c.words, " ") }

var (
	// word matches a redirection, a word of a shell command, an operator that ends a command, or a comment.
	word       = regexp.MustCompile(`\d?[<>]+|(?:[^\s;|&<>'"\\#]#*|'[^']*'|"[^"]*"|\\.)+|&&|\|\|?|;|&|#.*`)
	quotes     = regexp.MustCompile(`'([^']*)'|"([^"]*)"|\\(.)`)
	assignment = regexp.MustCompile(`^[A-Za-z_]+=`)
)

// commands returns the commands in the document's blocks of the languages shell and console. In the latter, commands follow "$ ".
func (d *document) commands() (commands []command) {
	for _, b := range d.blocks {
		for i, line := range strings.Split(b.text, "\n") {
			switch b.language {
			case "shell":
			case "console":
				entered, ok := strings.CutPrefix(line, "$ ")
				if !ok {
					continue
				}
				line = entered
			default:
				continue
			}
			for _, words := range split(line) {
				commands = append(commands, command{d, b.line + i, b.section, words})
			}
		}
	}
	return commands
}

// split returns the words of each simple command in a line of shell.
func split(line string) (commands [][]string) {
	var words []string
	redirection := false
	for _, match := range word.FindAllString(line, -1) {
		switch {
		case match[0] == '#':
		case strings.Trim(match, "&|;") == "":
			commands = append(commands, words)
			words = nil
		case strings.Trim(match, "0123456789<>") == "" && strings.ContainsAny(match, "<>"):
			redirection = true
			continue
		case !redirection:
			words = append(words, quotes.ReplaceAllString(match, "$1$2$3"))
		}
		redirection = false
	}
	return slices.DeleteFunc(append(commands, words), func(words []string) bool { return len(words) == 0 })
}

// checker checks commands without running them.
type checker struct {
	root string
	// help returns what kubectl prints for the given arguments, or the main package in a directory for -h.
	help func(program string, args ...string) (string, error)
	// sources are the directories of the main packages of the binaries in .build/bin, by name.
	sources map[string]string
}

// check returns an error if a command refers to something that does not exist: a target or variable of the Makefile, a subcommand or
// flag of kubectl or of the project's own programs, or a file of the repository. Other programs are not checked.
func (c *checker) check(words []string) error {
	for _, word := range words {
		name, _, _ := strings.Cut(word, "#")
		if regexp.MustCompile(`^(artifacts|docs|hack)/[\w./-]+$`).MatchString(name) {
			if _, err := os.Stat(filepath.Join(c.root, name)); err != nil {
				return fmt.Errorf("%s does not exist", name)
			}
		}
	}
	for len(words) > 1 && assignment.MatchString(words[0]) {
		words = words[1:]
	}
	program, args := words[0], words[1:]
	if source, ok := c.sources[path.Base(program)]; ok && strings.Contains(program, "/") {
		return c.checkOwn(source, args)
	}
	switch program {
	case "make":
		return c.checkMake(args)
	case "kubectl":
		return c.checkKubectl(args)
	case "go":
		if len(args) > 1 && args[0] == "-C" {
			_, err := os.Stat(filepath.Join(c.root, args[1]))
			return err
		}
	}
	return nil
}

func (c *checker) checkMake(args []string) error {
	makefile, err := c.readMakefiles()
	if err != nil {
		return err
	}
	for _, arg := range args {
		if name, _, isVariable := strings.Cut(arg, "="); isVariable {
			if !strings.Contains(makefile, "$("+name+")") {
				return fmt.Errorf("the Makefile has no variable %s", name)
			}
		} else if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(arg) + `:`).MatchString(makefile) {
			return fmt.Errorf("the Makefile has no target %s", arg)
		}
	}
	return nil
}

// readMakefiles returns the Makefile with the files that it includes.
func (c *checker) readMakefiles() (string, error) {
	included, err := filepath.Glob(filepath.Join(c.root, "hack/*/*.mk"))
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, name := range append(included, filepath.Join(c.root, "Makefile")) {
		content, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		text.Write(content)
	}
	return text.String(), nil
}

func (c *checker) checkKubectl(args []string) error {
	subcommand := args
	for i, arg := range args {
		// The arguments of a subcommand contain a slash or dot, or follow a flag, or another subcommand that has none itself.
		if strings.HasPrefix(arg, "-") || i > 0 && !slices.Contains([]string{"auth", "config", "create", "rollout", "set"}, args[i-1]) {
			subcommand = args[:i]
			break
		}
	}
	help, err := c.help("kubectl", slices.Concat(subcommand, []string{"--help"})...)
	if err != nil {
		return err
	}
	if usage := "kubectl " + strings.Join(subcommand, " "); !strings.Contains(help, usage) {
		return fmt.Errorf("no such command: %s", usage)
	}
	common, err := c.help("kubectl", "options")
	if err != nil {
		return err
	}
	return checkFlags(help+common, args)
}

func (c *checker) checkOwn(source string, args []string) error {
	help, err := c.help(source)
	if err != nil {
		return err
	}
	if separator := slices.Index(args, "--"); separator >= 0 {
		if err := c.check(args[separator+1:]); err != nil {
			return err
		}
		args = args[:separator]
	}
	return checkFlags(help, args)
}

// checkFlags returns an error if a help text does not mention a flag.
func checkFlags(help string, args []string) error {
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if strings.HasPrefix(arg, "-") && !regexp.MustCompile(`(?m)(^|[\s,\[])`+regexp.QuoteMeta(name)+`($|[\s,=\]])`).MatchString(help) {
			return fmt.Errorf("no such flag: %s", name)
		}
	}
	return nil
}
