// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/sample-controller/hack/cluster"
)

const binDir = root + "/.build/bin"

// sources are the directories of the programs that documents run.
var sources = map[string]string{
	"sample-controller": ".",
	"cluster":           "hack/cluster/cmd/cluster",
	"image":             "hack/release/image",
}

func newChecker(t *testing.T) *checker {
	cached := map[string]string{}
	help := func(program string, args ...string) (string, error) {
		key := fmt.Sprint(program, args)
		if help, ok := cached[key]; ok {
			return help, nil
		}
		command := exec.Command(filepath.Join(binDir, "kubectl"), args...)
		if program != "kubectl" {
			command = exec.Command("go", "run", ".", "-h")
			command.Dir = filepath.Join(root, program)
		}
		output, err := command.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%q: %w\n%s", command.Args, err, output)
		}
		cached[key] = string(output)
		return cached[key], nil
	}
	if _, err := help("kubectl", "options"); err != nil {
		t.Fatalf("%v; build the local Kubernetes first: make cluster", err)
	}
	return &checker{root: root, help: help, sources: sources}
}

func TestCommands(t *testing.T) {
	checker := newChecker(t)
	for _, d := range readDocuments(t) {
		for _, command := range d.commands() {
			if err := checker.check(command.words); err != nil {
				t.Errorf("%s:%d: %s: %v", d.path, command.line, command, err)
			}
		}
	}
}

func TestBrokenCommands(t *testing.T) {
	checker := newChecker(t)
	for line, broken := range map[string]bool{
		"make run": false,
		"make deploy IMG=a NAMESPACE=b  # no error":                false,
		"kubectl apply -f artifacts/examples/crd.yaml && make run": false,
		"kubectl rollout status -n a deployment/a":                 false,
		"kubectl auth can-i watch foos -A":                         false,
		`kubectl patch foo/a --type=merge -p '{"a": "--b"}'`:       false,
		"./sample-controller -workers=3 -v=4 2> log &":             false,
		".build/bin/image -push":                                   false,
		".build/bin/cluster run -- kubectl get foos":               false,
		"export A=b; sleep 3":                                      false,
		"go -C hack/release build ./image":                         false,
		"make runs":                                                true,
		"make deploy IMGE=a":                                       true,
		"A=b make runs":                                            true,
		"make run && make runs":                                    true,
		"kubectl applies -f a":                                     true,
		"kubectl apply --files=a":                                  true,
		"kubectl rollout stats a":                                  true,
		"kubectl apply -f artifacts/examples/missing.yaml":         true,
		"./sample-controller -worker=3":                            true,
		".build/bin/image -pull":                                   true,
		".build/bin/cluster run -- kubectl gets foos":              true,
		".build/bin/cluster run -node=3":                           true,
		"go -C hack/missing build .":                               true,
	} {
		d, err := parse("a.md", "```shell\n"+line+"\n```\n```console\n$ "+line+"\nmake missing\n```\n")
		if err != nil {
			t.Fatal(err)
		}
		problems := 0
		for _, command := range d.commands() {
			if err := checker.check(command.words); err != nil {
				problems++
			}
		}
		if want := map[bool]int{true: 2}[broken]; problems != want {
			t.Errorf("%d problems with %q in two blocks, want %d", problems, line, want)
		}
	}
}

func TestSplit(t *testing.T) {
	for line, want := range map[string]string{
		"a -b=c d":                 "[[a -b=c d]]",
		"a && b | c; d &":          "[[a] [b] [c] [d]]",
		"a -v=4 2> file < b >> c":  "[[a -v=4]]",
		`a 'b c' "d # e"f \; g#h`:  "[[a b c d # ef ; g#h]]",
		"a # && b":                 "[[a]]",
		"# a":                      "[]",
		"":                         "[]",
		`echo -p '{"a": ["b&c"]}'`: `[[echo -p {"a": ["b&c"]}]]`,
	} {
		if got := fmt.Sprint(split(line)); got != want {
			t.Errorf("split(%q) = %s, want %s", line, got, want)
		}
	}
}

// TestQuickStart runs the commands of the quick start in the README, in their order, on the local Kubernetes.
func TestQuickStart(t *testing.T) {
	readme, err := readDocument(root, "README.md")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "controller")
	output(t, root, "go", "build", "-o", binary, ".")
	c := newCluster(t, root, binary)
	for _, command := range readme.commands() {
		if command.section == "quick-start" {
			c.run(t, command)
		}
	}
	if !c.started {
		t.Error("the quick start does not start the controller")
	}
}

// localCluster runs the commands of a document.
type localCluster struct {
	*cluster.Cluster
	dir, binary string
	started     bool
}

// newCluster starts a local Kubernetes. Commands run in dir, except for the controller, for which binary runs.
func newCluster(t *testing.T, dir, binary string) *localCluster {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{BinDir: binDir})
	if err != nil {
		t.Fatalf("%v; build the local Kubernetes first: make cluster", err)
	}
	t.Cleanup(func() { c.Stop() })
	return &localCluster{Cluster: c, dir: dir, binary: binary}
}

// run runs a command and returns its output. It repeats a command that fails for a while: a reader is slower than a test.
func (c *localCluster) run(t *testing.T, command command) string {
	t.Helper()
	if strings.HasSuffix(command.words[0], "/sample-controller") {
		c.startController(t, command.words[2:]...) // Without -kubeconfig, which is shortened in the document.
		return ""
	}
	if command.words[0] != "kubectl" {
		t.Fatalf("%s:%d: no way to run %s", command.document.path, command.line, command)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for {
		running := c.Command(t.Context(), command.words[0], command.words[1:]...)
		running.Dir = c.dir
		output, err := running.CombinedOutput()
		if err == nil {
			t.Logf("$ %s\n%s", command, output)
			return string(output)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s:%d: %s: %v\n%s", command.document.path, command.line, command, err, output)
		}
		time.Sleep(100 * time.Millisecond) // The command is repeated until it succeeds.
	}
}

func (c *localCluster) startController(t *testing.T, args ...string) {
	t.Helper()
	controller := c.Command(t.Context(), c.binary, append(args, "-kubeconfig="+c.Kubeconfig())...)
	controller.Stderr = t.Output()
	if err := controller.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		controller.Process.Kill() // Fails only if it has exited.
		controller.Wait()
	})
	c.started = true
}
