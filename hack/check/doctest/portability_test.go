// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestPortability checks what runs on the machine of a developer. The workflows run on Linux.
func TestPortability(t *testing.T) {
	list := output(t, root, "git", "ls-files", "-co", "--exclude-standard", "--", "Makefile", "*.mk", ".ci/run", "*.sh", "*.go", ":!*_linux*", ":!hack/check/doctest")
	checked := 0
	for name := range strings.FieldsSeq(list) {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if path.Ext(name) == ".go" && !strings.Contains(string(content), `"sh", "-c"`) {
			continue
		}
		checked++
		for i, line := range strings.Split(string(content), "\n") {
			checkPortable(t, name, i+1, line)
		}
	}
	if checked < 5 {
		t.Errorf("checked %d files, want the Makefile, the scripts, and Go code that runs scripts", checked)
	}
	for _, d := range readDocuments(t) {
		for _, b := range d.blocks {
			for i, line := range strings.Split(b.text, "\n") {
				entered := b.language == "shell" || b.language == "console" && strings.HasPrefix(line, "$ ")
				if saysOtherwise := strings.Contains(line, "# macOS: "); entered && !saysOtherwise {
					checkPortable(t, d.path, b.line+i, line)
				}
			}
		}
	}
}

func checkPortable(t *testing.T, file string, number int, line string) {
	t.Helper()
	if found := lacking(file, line); len(found) > 0 {
		t.Errorf("%s:%d: not on macOS: %q", file, number, found)
	}
}

func TestNotPortable(t *testing.T) {
	for file, test := range map[string]struct{ portable, lacking string }{
		"Makefile": {
			portable: `
				BIN := .build/bin
				RACE := $(if $(shell command -v cc 2> /dev/null),-race)
				export KUBERNETES
				run: export WITH := $(WITH)
				check: lint # If a&b: yes.
				@$(MAKE) --no-print-directory --jobs=2 test-e2e test-unit
				git ls-files -co --exclude-standard '*.go' | xargs gofmt -w
				kubectl delete --ignore-not-found -f a
				git rm -r --quiet a`,
			lacking: `
				@$(MAKE) --jobs=2 --output-sync=target test-e2e
				COMMIT != git rev-parse HEAD
				BIN ::= .build/bin
				RACE := $(if $(shell command -v cc),-race)
				$(file > a,b)
				.ONESHELL:
				undefine BIN
				define LINES :=
				a b &: c
				git ls-files | xargs -r gofmt -l
				date +%s%N`,
		},
		"run.sh": {
			portable: `
				tmp=$(mktemp -d)
				types+=("./$(dirname "${gv}")")
				--input "${versions[@]/#/--input=}" "${1%%:*}"
				sed -n '/^status:/,$p'
				cp -R a b && rm -rf -- "$c"
				command 2>&1 | tail -n 3
				case $a in b) ;; esac
				echo "sleep is not a synchronization, nor is a timeout"`,
			lacking: `
				sed -i 's/a/b/' c
				sed --in-place s/a/b/ c
				readlink -f a
				cp --recursive a b
				cp -a a b
				mktemp --tmpdir a
				mktemp -d -p a
				date -d yesterday
				stat -c %s a
				head -n -1 a
				find -name a
				find . -printf %p
				grep -oP a b
				sort -V a
				echo -n a
				sleep 1m
				timeout 5 a
				a; sha256sum b
				if a; then nproc --all; fi
				mapfile -t a
				declare -A a
				local -n a=b
				echo "${a,,}"
				echo "${a^}"
				echo "${a[-1]}"
				a &>> b
				a |& b
				[[ -v a ]]
				wait -n`,
		},
		"a.go": {portable: "exec.Command(\"sh\", \"-c\", `exec cat`) // no timeout here\ncase a|&b:", lacking: "exec.Command(\"sh\", \"-c\", `readlink -f \"$0\"`)"},
	} {
		for line := range strings.Lines(test.portable) {
			if found := lacking(file, strings.TrimSpace(line)); len(found) > 0 {
				t.Errorf("%s: got %q in %s, want nothing", file, found, line)
			}
		}
		for line := range strings.Lines(test.lacking) {
			if found := lacking(file, strings.TrimSpace(line)); len(found) == 0 && line != "\n" {
				t.Errorf("%s: got nothing in %s", file, line)
			}
		}
	}
}
