// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestProgram verifies that the code of the program and of client-go has the texts and constants that the lab repeats because it cannot import
// them.
func TestProgram(t *testing.T) {
	files, err := filepath.Glob("../../../pkg/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	election, err := exec.Command("go", "list", "-f", "{{.Dir}}/leaderelection.go", "k8s.io/client-go/tools/leaderelection").Output()
	if err != nil {
		t.Fatal(err)
	}
	code := ""
	for _, file := range append(files, "../../../controller.go", strings.TrimSpace(string(election))) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code += strings.Join(strings.Fields(string(content)), " ")
	}
	has := func(text string) bool { return strings.Contains(code, `"`+text+`"`) }
	for _, text := range slices.Concat(slices.Collect(maps.Keys(messages)), ignoredMessages, deploymentReasons) {
		for part := range strings.SplitSeq(text, "Deployment") { // The kind may be in a variable.
			if part != "" && !has(part) && !has(text) {
				t.Errorf("the program does not log %q", text)
			}
		}
	}
	if requeueDelay != time.Second {
		t.Error("requeueDelay is not the retryDelay that is looked for below")
	}
	// The page compares with the reasons of the last two.
	for _, constant := range []string{`containerName = "` + container + `"`, "retryDelay = time.Second", `foo, "deleted")`, `foo, "resync")`} {
		if !strings.Contains(code, constant) {
			t.Errorf("controller.go has no %s", constant)
		}
	}
}
