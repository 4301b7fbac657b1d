// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// notInFileName is what the name of a file does not have.
var notInFileName = regexp.MustCompile(`[^a-z0-9]+`)

// record walks once more, until a promise is broken, and writes what happens to a file. It returns a line about that, unless there is no
// directory for recordings.
func (all *tester) record(t *testing.T, promise Promise, name string, newWalk func() *walk) string {
	if *recordDir == "" {
		return ""
	}
	for range attempts {
		w := newWalk()
		w.isRecorded = true
		w.inBubble(t)
		if w.broken[promise] == nil {
			continue
		}
		base := strings.Trim(notInFileName.ReplaceAllString(strings.ToLower(string(promise)+" "+name), "-"), "-")
		file := filepath.Join(*recordDir, base+".jsonl")
		if err := cmp.Or(os.MkdirAll(*recordDir, 0o755), os.WriteFile(file, w.recorder.Bytes(), 0o644)); err != nil {
			return "\nit cannot be recorded: " + err.Error()
		}
		return strings.TrimSuffix(fmt.Sprintf("\nit is recorded in %s, for %s", file, all.Viewer), ", for ")
	}
	return "\nit was not broken again when it was to be recorded"
}
