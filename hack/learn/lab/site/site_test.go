// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../../../.."

// newTestBuilder returns a builder whose output is in a temporary directory.
func newTestBuilder(t *testing.T) *builder {
	t.Helper()
	b, err := newBuilder(root)
	if err != nil {
		t.Fatal(err)
	}
	b.dir = t.TempDir()
	return b
}

func TestServer(t *testing.T) {
	b := newTestBuilder(t)
	b.recorded[""], b.recorded["no-done"] = true, true
	for name, content := range map[string]string{
		"version.json": "{}", recordingFile(""): `{"name":"offline"}`, recordingFile("no-done"): `{"name":"no-done"}`,
	} {
		path := filepath.Join(b.dir, name)
		if err := cmp.Or(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	const host = "127.0.0.1:8000"
	handler := newHandler(b, host)
	for _, test := range []struct {
		method, path, host, origin string
		code                       int
		content                    string
	}{
		{"GET", "/", host, "", http.StatusOK, "<title>sample-controller lab</title>"},
		{"GET", "/worker.js", host, "http://" + host, http.StatusOK, "wasm_exec.js"},
		{"GET", "/version.json", host, "", http.StatusOK, "{}"},
		{"GET", "/variants/no-done.jsonl", host, "", http.StatusOK, `"name":"no-done"`},
		{"GET", "/recording.jsonl", host, "", http.StatusOK, `"name":"offline"`},
		{"GET", "/variants/none.jsonl", host, "", http.StatusNotFound, ""},
		{"GET", "/variants/.jsonl", host, "", http.StatusNotFound, ""},
		{"GET", "/variants/no-done", host, "", http.StatusNotFound, ""},
		{"GET", "/variants/none.wasm", host, "", http.StatusNotFound, ""},
		{"GET", "/none", host, "", http.StatusNotFound, ""},
		{"POST", "/", host, "", http.StatusMethodNotAllowed, ""},
		{"GET", "/", "example.com", "", http.StatusForbidden, "the lab is at http://" + host},
		{"GET", "/variants/no-done.wasm", host, "http://example.com", http.StatusForbidden, ""},
	} {
		r := httptest.NewRequest(test.method, test.path, nil)
		r.Host = test.host
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != test.code || !strings.Contains(w.Body.String(), test.content) {
			t.Errorf("%s %s of %s from %q: %d %.200s", test.method, test.path, test.host, test.origin, w.Code, w.Body)
		}
	}
}

// TestRecord records the program itself, whatever cluster the user's kubeconfig names.
func TestRecord(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	path, err := newTestBuilder(t).record(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	recording, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{`"eventType":"tombstone"`, `"eventType":"resync"`, `"kind":"leader","pod":"b"`} {
		if !strings.Contains(string(recording), step) {
			t.Errorf("no step has %s", step)
		}
	}
}

// TestTerms verifies that the documentation has the terms that the page offers for a stop of the picture, and those that the exercises name.
func TestTerms(t *testing.T) {
	find := func(name, expression string) (found []string) {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(expression).FindAllStringSubmatch(string(content), -1) {
			found = append(found, match[1])
		}
		if len(found) == 0 {
			t.Errorf("%s has nothing like %s", name, expression)
		}
		return found
	}
	inClientGo := find("docs/reference/client-go.md", `(?m)^### (.+)\n\n[^|-]`) // with a text
	inProduction := find("docs/reference/production.md", `(?m)^## (.+)\n\n[^|-]`)
	terms := slices.Concat(inClientGo, inProduction)
	for _, list := range find("hack/learn/lab/page/glossary.js", `terms: \["([^\]]+)"\]`) {
		for _, term := range strings.Split(list, `", "`) {
			if !slices.Contains(terms, term) {
				t.Errorf("the documentation has no section %s", term)
			}
		}
	}
	var anchors []string
	for file, terms := range map[string][]string{"client-go.md": inClientGo, "production.md": inProduction} {
		for _, term := range terms {
			anchors = append(anchors, file+"#"+strings.ReplaceAll(strings.ToLower(term), " ", "-"))
		}
	}
	for _, anchor := range find("hack/learn/lab/page/exercises.json", `"misunderstanding": "([^"]+)"`) {
		if !slices.Contains(anchors, anchor) {
			t.Errorf("docs/reference has no section %s", anchor)
		}
	}
}

// TestCode verifies that the places in client-go that the lab names exist.
func TestCode(t *testing.T) {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/client-go")
	list.Dir = root
	clientGo, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, "hack/learn/lab/trace.go"))
	if err != nil {
		t.Fatal(err)
	}
	places := regexp.MustCompile(`"client-go/(\S+) (\w+)"`).FindAllStringSubmatch(string(content), -1)
	for _, place := range places {
		source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(clientGo)), place[1]))
		if err != nil || !regexp.MustCompile(`(?m)^func (\(.*\) )?`+place[2]+`\b`).Match(source) {
			t.Errorf("client-go has no %s in %s (%v)", place[2], place[1], err)
		}
	}
	if len(places) < 10 {
		t.Errorf("only %d places were found", len(places))
	}
}

var tags = regexp.MustCompile(`<(a|link|script|img)\b[^>]*?\b(href|src)="([^"]*)"`)

// TestPages follows each link of the documentation, and verifies that the pages load nothing from elsewhere.
// The links of HTML are not those of the Markdown, which hack/check/doctest checks: their targets are rewritten, and goldmark makes the anchors.
func TestPages(t *testing.T) {
	dir := t.TempDir()
	const repository = "https://example.com/repository"
	if err := writePages(root, dir, repository); err != nil {
		t.Fatal(err)
	}
	all, err := documents(root)
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		return string(content)
	}
	links := 0
	for _, d := range all {
		content := read(d.target)
		for _, tag := range tags.FindAllStringSubmatch(content, -1) {
			name, anchor, _ := strings.Cut(tag[3], "#")
			switch {
			case tag[1] == "a" && strings.HasPrefix(name, repository+"/blob/main/"):
				links++
				if _, err := os.Stat(filepath.Join(root, strings.TrimPrefix(name, repository+"/blob/main/"))); err != nil {
					t.Errorf("%s: %v", d.source, err)
				}
			case strings.Contains(name, ":"):
				if tag[1] != "a" && tag[3] != "data:," {
					t.Errorf("%s loads %s", d.source, name)
				}
			case path.Join(path.Dir(d.target), name) == "..": // the lab
			default:
				links++
				linked := content
				if name != "" {
					linked = read(path.Join(path.Dir(d.target), name))
				}
				if anchor != "" && !strings.Contains(linked, ` id="`+anchor+`"`) {
					t.Errorf("%s: there is no %s", d.source, tag[3])
				}
			}
		}
	}
	if links < 100 {
		t.Errorf("there are only %d links", links)
	}
}
