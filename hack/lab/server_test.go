// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

const address = "127.0.0.1:8123"

func newTestLab(t *testing.T) (*lab, http.Handler) {
	t.Helper()
	l, err := newLab(root)
	if err != nil {
		t.Fatal(err)
	}
	return l, l.handler(address)
}

func TestOnlyLocal(t *testing.T) {
	_, handler := newTestLab(t)
	for name, test := range map[string]struct {
		method, host, origin, contentType string
		want                              int
	}{
		"page":                 {http.MethodGet, address, "", "", http.StatusOK},
		"by name":              {http.MethodGet, "localhost:8123", "http://localhost:8123", "", http.StatusOK},
		"rebound host":         {http.MethodGet, "evil.example:8123", "", "", http.StatusForbidden},
		"other port":           {http.MethodGet, "127.0.0.1:80", "", "", http.StatusForbidden},
		"foreign origin":       {http.MethodGet, address, "http://evil.example", "", http.StatusForbidden},
		"origin of a file":     {http.MethodGet, address, "null", "", http.StatusForbidden},
		"origin of other port": {http.MethodPost, address, "http://127.0.0.1:80", "application/json", http.StatusForbidden},
		"form":                 {http.MethodPost, address, "", "application/x-www-form-urlencoded", http.StatusUnsupportedMediaType},
		"post":                 {http.MethodPost, address, "http://" + address, "application/json", http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			target := "/"
			if test.method == http.MethodPost {
				target = "/motion"
			}
			r := httptest.NewRequest(test.method, target, strings.NewReader(`{"mode":"run"}`))
			r.Host = test.host
			for header, value := range map[string]string{"Origin": test.origin, "Content-Type": test.contentType} {
				if value != "" {
					r.Header.Set(header, value)
				}
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != test.want {
				t.Errorf("code %d, want %d: %s", w.Code, test.want, w.Body)
			}
		})
	}
}

func post(handler http.Handler, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
	r.Host = address
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func TestOnlyListedActions(t *testing.T) {
	_, handler := newTestLab(t)
	for target, want := range map[string]int{"/acts/shell": http.StatusNotFound, "/acts/kill": http.StatusNotFound, "/faults/kill": http.StatusBadRequest,
		"/exercises/none": http.StatusNotFound, "/motion": http.StatusBadRequest} {
		if w := post(handler, target, `{"action":"start"}`); w.Code != want {
			t.Errorf("%s: code %d, want %d: %s", target, w.Code, want, w.Body)
		}
	}
	w := post(handler, "/acts/scale", `{"replicas":3}`)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "not running yet") {
		t.Errorf("an act without a cluster: %d %s", w.Code, w.Body)
	}
}

func TestValuesAreValidated(t *testing.T) {
	for body, want := range map[string]string{
		`{"name":"b","replicas":7}`:         "b 7",
		`{"name":"b","replicas":"7"}`:       "b 7",
		``:                                  "a 3",
		`{"replicas":11}`:                   "",
		`{"replicas":1.5}`:                  "",
		`{"name":"x; rm -rf /"}`:            "",
		`{"name":"../secrets/x"}`:           "",
		`{"name":"'\"}},\"spec\":{\"x\":"}`: "",
		`{"namespace":"kube-system"}`:       "",
		`[]`:                                "",
	} {
		scale, _ := find(acts, "scale")
		v, err := scale.parse([]byte(body))
		if got := v["name"] + " " + v["replicas"]; err == nil && got != want || err != nil && (want != "" || !errors.Is(err, errInvalid)) {
			t.Errorf("%s: got %q, error %v, want %q", body, got, err, want)
		}
	}
	cut, _ := find(faultActions, "cutWatch")
	if _, err := cut.parse([]byte(`{"lane":"secrets"}`)); !errors.Is(err, errInvalid) {
		t.Errorf("error %v for an option that does not exist", err)
	}
}

func TestStepsAreStreamed(t *testing.T) {
	l, _ := newTestLab(t)
	server := httptest.NewUnstartedServer(nil)
	server.Config.Handler = l.handler(server.Listener.Addr().String())
	server.Start()
	defer server.Close()
	l.stream.add([]Step{{Seq: 1, Kind: "one"}, {Seq: 2, Kind: "two"}})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/steps", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Last-Event-ID", "1")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxLine)
	next := func(event string) (data string) {
		t.Helper()
		for lines.Scan() {
			if lines.Text() != "event: "+event {
				continue
			}
			for lines.Scan() && lines.Text() != "" {
				data = strings.TrimPrefix(lines.Text(), "data: ")
			}
			return data
		}
		t.Fatalf("there is no event %s: %v", event, lines.Err())
		return ""
	}
	if state := next("state"); !strings.Contains(state, `"phase":"building"`) {
		t.Errorf("the state is %s", state)
	}
	if steps := next("steps"); !strings.Contains(steps, `"two"`) || strings.Contains(steps, `"one"`) {
		t.Errorf("after step 1 come %s", steps)
	}
	l.stream.add([]Step{{Seq: 3, Kind: "three"}})
	if steps := next("steps"); !strings.Contains(steps, `"three"`) {
		t.Errorf("then come %s", steps)
	}
	l.change(func() { l.phase = starting })
	if state := next("state"); !strings.Contains(state, `"phase":"starting"`) {
		t.Errorf("the state has become %s", state)
	}
}

func TestSlowPageGetsCounts(t *testing.T) {
	var steps []Step
	for seq := range int64(maxBehind + 1) {
		steps = append(steps, Step{Seq: seq + 1, Kind: []string{"handler", "sync"}[seq%2]})
	}
	got := leaveOut(steps)
	if len(got) != maxBatch+1 || got[0].Kind != "summary" || got[0].Count != len(steps)-maxBatch || got[0].Seq+1 != got[1].Seq ||
		got[0].Counts["handler"]+got[0].Counts["sync"] != got[0].Count {
		t.Errorf("%d steps are left, the first is %+v", len(got), got[0])
	}
}

func TestRecording(t *testing.T) {
	l, handler := newTestLab(t)
	l.stream.add([]Step{{Seq: 1, Kind: "one"}, {Seq: 2, Kind: "two", Raw: "a\nb"}})
	r := httptest.NewRequest(http.MethodGet, "/recording", nil)
	r.Host = address
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	steps, err := readRecording(w.Body)
	if err != nil || len(steps) != 2 || steps[1].Raw != "a\nb" {
		t.Errorf("the recording has %v (%v)", steps, err)
	}
}

func TestPageIsInlined(t *testing.T) {
	html, err := inlinePage(fstest.MapFS{
		"index.html":       {Data: []byte("<head><link rel=\"stylesheet\" href=\"a.css\"></head><body><script src=\"a.js\"></script><script src=\"b.js\"></script>")},
		"a.css":            {Data: []byte("p{}")},
		"a.js":             {Data: []byte("a()")},
		"b.js":             {Data: []byte("b()")},
		recordingFile:      {Data: []byte(`{"raw":"</script>"}`)},
		exercisesFile:      {Data: []byte("[]")},
		"variants/v.jsonl": {Data: []byte(`{"seq":1}`)},
		"not-part-of-it":   {},
	}, `[{"diff":"<"}]`, `{}`, []string{"v"})
	if err != nil {
		t.Fatal(err)
	}
	want := "<head><style>\np{}</style></head><body>" +
		"<script type=\"application/x-ndjson\" id=\"lab-recording\">{\"raw\":\"\\u003c/script>\"}</script>\n" +
		"<script type=\"application/json\" id=\"lab-exercises\">[]</script>\n" +
		"<script type=\"application/json\" id=\"lab-variants\">[{\"diff\":\"\\u003c\"}]</script>\n" +
		"<script type=\"application/json\" id=\"lab-glossary\">{}</script>\n" +
		"<script type=\"application/x-ndjson\" id=\"lab-variant-v\">{\"seq\":1}</script>\n" +
		"<script>\na()</script><script>\nb()</script>"
	if html != want {
		t.Errorf("got\n%s\nwant\n%s", html, want)
	}
	if _, err := inlinePage(fstest.MapFS{"index.html": {}}, "", "", nil); err != nil {
		t.Errorf("a page without scripts: %v", err)
	}
	if _, err := inlinePage(fstest.MapFS{"index.html": {Data: []byte(`<script src="c.js"></script>`)}}, "", "", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v for a missing script", err)
	}
}

// What docs has of the lab is what make lab-docs writes.
func TestDocsAreUpToDate(t *testing.T) {
	dir := t.TempDir()
	if err := writeDocs(root, dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"lab.html", "exercises.md"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(root, "docs", name)); err != nil || string(got) != string(want) {
			t.Errorf("docs/%s is not up to date (%v); run make lab-docs", name, err)
		}
	}
}

func TestStepsAsText(t *testing.T) {
	s := Step{Time: start, Source: inferred, Stop: "indexer", Lane: deployments, Pod: "a", Key: "default/a", Object: "default/a", ResourceVersion: "7", What: "into the Indexer"}
	want := fmt.Sprintf("%s  a  ~indexer     deployments  default/a | 7 | into the Indexer", start.Local().Format("15:04:05.000"))
	if got := s.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if text, err := json.Marshal(s); err != nil || strings.Contains(string(text), "status") {
		t.Errorf("fields without a value are in %s (%v)", text, err)
	}
}

// readRecording reads what writeRecording has written.
func readRecording(r io.Reader) ([]Step, error) {
	var steps []Step
	decoder := json.NewDecoder(r)
	for {
		var s Step
		if err := decoder.Decode(&s); errors.Is(err, io.EOF) {
			return steps, nil
		} else if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
}
