// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

func TestCodeIsFound(t *testing.T) {
	s, err := readSources(root)
	if err != nil {
		t.Fatal(err)
	}
	clientGo, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/client-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{
		codeWatch, codeWatchList, codeFIFOAdd, codeFIFOReplace, codeFIFOResync, codeFIFOPop, codeIndexer, codeReplaced, codeQueueGet,
		codeQueueDone, codeQueueForget, codeQueueReady, codeQueueRetry, codeRequest,
	} {
		name, function, _ := strings.Cut(strings.TrimPrefix(code, "client-go/"), " ")
		file, err := parse(filepath.Join(strings.TrimSpace(string(clientGo)), name), name)
		if err != nil || !slices.ContainsFunc(file.functions, isNamed(function)) {
			t.Errorf("there is no %s (%v)", code, err)
		}
	}
	if !strings.Contains(s.ours("handleErr"), ".go:") {
		t.Error("there is no function handleErr")
	}
	controller := s.files["controller.go"]
	i := slices.IndexFunc(controller.functions, isNamed("syncHandler"))
	line := controller.functions[i].first + 3
	if got, want := s.caller(fmt.Sprint("checkout/controller.go:", line)), fmt.Sprintf("controller.go:%d syncHandler", line); got != want {
		t.Errorf("a line of syncHandler is in %q, want %q", got, want)
	}
	if got := s.caller("consistency/consistency.go:1"); got != "pkg/consistency/consistency.go:1" {
		t.Errorf("a line of a package is in %q", got)
	}
	if got := s.caller("cache/reflector.go:425"); got != "cache/reflector.go:425" {
		t.Errorf("a line of the Reflector is in %q", got)
	}
}

func isNamed(name string) func(function) bool {
	return func(f function) bool { return f.name == name }
}

// The table has no message that the controller no longer logs. One that the table lacks becomes a step of the kind log.
func TestMessagesAreLogged(t *testing.T) {
	var code []byte
	for _, pattern := range []string{"controller.go", "pkg/control/*.go", "pkg/pacing/*.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("there is no %s (%v)", pattern, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			code = append(code, content...)
		}
	}
	for message := range messages {
		isOfElection := strings.Contains(message, "lease")
		if !bytes.Contains(code, []byte(strconv.Quote(message))) && !isOfElection && message != "Deleting Foo" {
			t.Errorf("the controller does not log %q", message)
		}
	}
}
