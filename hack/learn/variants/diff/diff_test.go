// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"os"
	"path/filepath"
	"testing"
)

func TestApply(t *testing.T) {
	const content, other = "package a\n\nfunc f() {\n\ta := 1\n\tb\t:= 2\n\tg()\n}\n\nfunc h() {\n\tg()\n}\n", "a: 1\nb: 2\n"
	for name, test := range map[string]struct{ diff, want, wantOther string }{
		"context":   {"+++ b/a.go\n@@\n \ta := 1\n+\tc := 3\n \tb := 2\n", "package a\n\nfunc f() {\n\ta := 1\n\tc := 3\n\tb := 2\n\tg()\n}\n\nfunc h() {\n\tg()\n}\n", other},
		"two files": {"--- a/a.go\n+++ b/a.go\n@@\n-\ta := 1\n--- a/b.yaml\n+++ b/b.yaml\n@@\n-b: 2\n+b: 3\n", "package a\n\nfunc f() {\n\tb := 2\n\tg()\n}\n\nfunc h() {\n\tg()\n}\n", "a: 1\nb: 3\n"},
		"two hunks of a file, of which the second needs the first": {"+++ b/b.yaml\n@@\n-b: 2\n+c: 3\n@@\n-c: 3\n+d: 4\n", content, "a: 1\nd: 4\n"},
		"new file": {"--- /dev/null\n+++ b/c.go\n@@\n+package c\n+\n+func g() {}\n--- a/b.yaml\n+++ b/b.yaml\n@@\n-b: 2\n", content, "a: 1\n"},

		// What fails leaves all files as they are.
		"twice":              {"+++ b/b.yaml\n@@\n-b: 2\n+++ b/a.go\n@@\n-\tg()\n", "", ""},
		"not there":          {"+++ b/b.yaml\n@@\n-b: 2\n+++ b/a.go\n@@\n-\tc()\n", "", ""},
		"anywhere":           {"+++ b/a.go\n@@\n+\tc()\n", "", ""},
		"not Go":             {"+++ b/a.go\n@@\n-\tb := 2\n+\tb := )\n", "", ""},
		"exists":             {"--- /dev/null\n+++ b/a.go\n@@\n+package c\n", "", ""},
		"new with context":   {"--- /dev/null\n+++ b/c.go\n@@\n package c\n", "", ""},
		"no such file":       {"+++ b/c.go\n@@\n-\tb := 2\n", "", ""},
		"neither + nor -":    {"+++ b/a.go\n@@\n*\tb := 2\n", "", ""},
		"without a file":     {"@@\n-\tb := 2\n", "", ""},
		"no space but a tab": {"+++ b/a.go\n@@\n\ta := 1\n-\tb := 2\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range map[string]string{"a.go": content, "b.yaml": other} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			fails := test.want == ""
			if fails {
				test.want, test.wantOther = content, other
			}
			if err := Apply(dir, test.diff); (err != nil) != fails {
				t.Errorf("Apply() = %v", err)
			}
			created, _ := os.ReadFile(filepath.Join(dir, "c.go"))
			if want := map[string]string{"new file": "package c\n\nfunc g() {}\n"}[name]; string(created) != want {
				t.Errorf("c.go is %q, want %q", created, want)
			}
			for name, want := range map[string]string{"a.go": test.want, "b.yaml": test.wantOther} {
				if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
					t.Errorf("%s is %q, %v, want %q", name, got, err, want)
				}
			}
		})
	}
}

func TestInclude(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.diff"), []byte("-b\n+c\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for markdown, want := range map[string]string{
		"1. Change b:\n\n   [The change](a.diff)\n\n   See": "1. Change b:\n\n   ```diff\n   -b\n   +c\n   ```\n\n   See",
		"See [the change](a.diff)\n":                        "See [the change](a.diff)\n",
		"[The file](a.go)\n":                                "[The file](a.go)\n",
	} {
		if got, err := Include(dir, markdown); got != want || err != nil {
			t.Errorf("Include(%q) = %q, %v, want %q", markdown, got, err, want)
		}
	}
	if _, err := Include(dir, "[The change](b.diff)"); err == nil {
		t.Error("a diff that does not exist is no error")
	}
}
