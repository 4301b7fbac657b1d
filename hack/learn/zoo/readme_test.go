// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"k8s.io/sample-controller/hack/simulation"
)

var update = flag.Bool("update", false, "generate README.md, and shrunk stories")

// TestREADME says in README.md what is known of each bug, and with -update how it is noticed. Without it, it tests that no bug is missing.
func TestREADME(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil && !*update {
		t.Fatal(err)
	}
	if !*update {
		for _, a := range all {
			if !bytes.Contains(readme, []byte(a.row())) {
				t.Errorf("README.md lacks what zoo.go says of %s: run go test -run='^TestREADME$' . -update -timeout=1h", a.name)
			}
			if _, err := os.Stat(a.story()); err != nil {
				t.Error(err)
			}
		}
		return
	}
	var table strings.Builder
	for _, a := range all {
		found, err := simulation.Find(t, a.configOf(false), a.promise, *limit, true)
		if err != nil || found == nil {
			t.Fatalf("%s is not noticed: %v", a.name, err)
		}
		lines, err := linesOf(a.file())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&table, "%s %d | %d |\n", a.row(), found.Walks, lines)
		for path, text := range map[string]string{"README.md": fmt.Sprintf(readmeFormat, table.String()), a.story(): found.Story + "\n"} {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil { // after each: it takes long
				t.Fatal(err)
			}
		}
	}
}

// row is what the table says of an animal, but for what is found.
func (a animal) row() string {
	number := a.source[strings.LastIndex(a.source, "/")+1:]
	repository := strings.Split(strings.TrimPrefix(a.source, "https://github.com/"), "/")[1]
	return fmt.Sprintf("| [%s](%s): [%s#%s](%s) | %s | %s | [%s](%s) | %s |", a.name, a.file(), repository, number, a.source, a.happened, a.mechanism,
		a.promise, a.story(), a.mend)
}

func (a animal) story() string { return "stories/" + a.name + ".txt" }

func (a animal) file() string { return strings.ReplaceAll(a.name, "-", "_") + ".go" }

// linesOf counts the lines of a controller: of the functions and types in its file, without those that are empty or have only a comment.
func linesOf(file string) (n int, err error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, source, parser.SkipObjectResolution)
	if err != nil {
		return 0, err
	}
	for _, d := range parsed.Decls {
		if g, isGeneral := d.(*ast.GenDecl); isGeneral && g.Tok != token.TYPE {
			continue
		}
		for line := range strings.Lines(string(source[files.Position(d.Pos()).Offset:files.Position(d.End()).Offset])) {
			if text := strings.TrimSpace(line); !strings.HasPrefix(cmp.Or(text, "//"), "//") {
				n++
			}
		}
	}
	return n, nil
}

const readmeFormat = `# The zoo

Public bugs of real controllers. Each is rebuilt as a small controller, in a broken and a fixed version that differ in a few lines, with nothing but
the mechanism of the bug. The [simulation](../../simulation) walks with both: a promise breaks in walks of the broken one, and not in those of the
fixed one. Only the promise of the bug is judged. The controllers use controller-runtime, with the set-up in [manager.go](manager.go).

    go test .                                              # each bug is noticed, and not in 40 walks of the fixed controller
    go test -run='^TestMended$' -timeout=0 . -zoo.mended=1000
    go test -run='^TestREADME$' . -update -timeout=1h      # generate this page and the stories

The broken promise links to the shortest story that was found in which it breaks. *walks* is how many it took: first those that try one probe each,
then random ones. *lines* are those of the controller in its file.

| bug | what happened | mechanism | broken promise | fix | walks | lines |
|---|---|---|---|---|---|---|
%s
` + "`no restart goes back in time` and `nothing is created twice`" + ` are strict [promises](../../simulation/promises.go), which are only judged of a
program that makes them; ` + "`one member goes at a time`" + ` is a promise of opensearch's own.
`
