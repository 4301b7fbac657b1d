// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/sample-controller/hack/cluster"
)

const (
	// asParent makes the test binary start a cluster, freeze some of its components, and wait to be killed.
	asParent = "CLUSTER_TEST_AS_PARENT"

	// testTimeout is far longer than any step takes.
	testTimeout = 3 * time.Minute
)

func TestMain(m *testing.M) {
	if os.Getenv(asParent) != "" {
		parent()
	}
	os.Exit(m.Run())
}

func binDir() string {
	if dir := os.Getenv("CLUSTER_BIN_DIR"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", ".build", "bin")
}

func start(t *testing.T, options cluster.Options) *cluster.Cluster {
	t.Helper()
	options.BinDir = binDir()
	began := time.Now()
	c, err := cluster.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %v", time.Since(began))
	t.Cleanup(func() {
		if err := c.Err(); err != nil {
			t.Error(err)
		}
		began := time.Now()
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		t.Logf("stopped in %v", time.Since(began))
	})
	return c
}

// kubectl runs kubectl and returns its output.
func kubectl(t *testing.T, c *cluster.Cluster, args ...string) string {
	t.Helper()
	output, err := c.Command(t.Context(), "kubectl", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

// eventually polls until check returns nil.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(testTimeout)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // The cluster is polled.
	}
}

func TestDeploymentBecomesAvailable(t *testing.T) {
	c := start(t, cluster.Options{})
	kubectl(t, c, "create", "deployment", "web", "--image=nginx", "--replicas=2")
	kubectl(t, c, "wait", "deployment/web", "--for=condition=Available", "--timeout="+testTimeout.String())

	t.Run("version", func(t *testing.T) {
		modFile, err := cluster.ModuleFile("controlplane")
		if err != nil {
			t.Fatal(err)
		}
		list := exec.CommandContext(t.Context(), "go", "list", "-modfile="+modFile, "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
		list.Dir = "controlplane"
		version, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		got := kubectl(t, c, "version")
		for side, binary := range map[string]string{"Client": "kubectl", "Server": "kube-apiserver"} {
			if path, err := os.Readlink(filepath.Join(c.BinDir(), binary)); err != nil || filepath.IsAbs(path) {
				t.Logf("%s is not built but installed: %s (%v)", binary, path, err)
				continue
			}
			if want := side + " Version: " + string(version); !strings.Contains(got, want) {
				t.Errorf("kubectl version printed:\n%swant it to contain %q", got, want)
			}
		}
	})

	t.Run("scale after restarts", func(t *testing.T) {
		for _, component := range []cluster.Component{cluster.ControllerManager, cluster.Scheduler, cluster.Kwok} {
			if err := c.Restart(t.Context(), component); err != nil {
				t.Fatal(err)
			}
		}
		kubectl(t, c, "scale", "deployment/web", "--replicas=4")
		kubectl(t, c, "wait", "deployment/web", "--for=jsonpath={.status.availableReplicas}=4", "--timeout="+testTimeout.String())
	})
}

func TestDataSurvivesFaults(t *testing.T) {
	c := start(t, cluster.Options{APIServerOnly: true})
	kubectl(t, c, "create", "configmap", "data")

	for _, component := range []cluster.Component{cluster.Etcd, cluster.APIServer} {
		t.Run("kill and restart "+string(component), func(t *testing.T) {
			if err := c.Kill(component); err != nil {
				t.Fatal(err)
			}
			wantNoResponse(t, c)
			if err := c.Restart(t.Context(), component); err != nil {
				t.Fatal(err)
			}
			kubectl(t, c, "get", "configmap", "data")
		})
		t.Run("freeze and resume "+string(component), func(t *testing.T) {
			if err := c.Freeze(component); err != nil {
				t.Fatal(err)
			}
			wantNoResponse(t, c)
			if err := c.Resume(component); err != nil {
				t.Fatal(err)
			}
			kubectl(t, c, "get", "configmap", "data")
		})
	}
}

func TestRestore(t *testing.T) {
	for _, raiseRevision := range []bool{false, true} {
		t.Run(fmt.Sprintf("raise revision %t", raiseRevision), func(t *testing.T) {
			c := start(t, cluster.Options{APIServerOnly: true})
			kubectl(t, c, "create", "configmap", "before")
			snapshot, err := c.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			kubectl(t, c, "delete", "configmap", "before")
			kubectl(t, c, "create", "configmap", "after")
			last := kubectl(t, c, "get", "configmap", "after", "-o", "jsonpath={.metadata.resourceVersion}")
			if err := c.Restore(t.Context(), snapshot, raiseRevision); err != nil {
				t.Fatal(err)
			}
			got := kubectl(t, c, "get", "configmaps", "-o", "name")
			if !strings.Contains(got, "configmap/before") || strings.Contains(got, "configmap/after") {
				t.Errorf("restored %q, want the state of the snapshot", got)
			}
			watch := "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1&resourceVersion=" + last
			output, _ := c.Command(t.Context(), "kubectl", "get", "--raw", watch).CombinedOutput()
			if expired := strings.Contains(string(output), "too old resource version"); expired != raiseRevision {
				t.Errorf("a watch from before the restore returned %q", output)
			}
		})
	}
}

// wantNoResponse fails if a read from etcd, not from the API server's watch cache, succeeds.
func wantNoResponse(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if output, err := c.Command(ctx, "kubectl", "get", "configmap", "data").CombinedOutput(); err == nil {
		t.Errorf("got a response:\n%s", output)
	}
}

func TestRequests(t *testing.T) {
	c := start(t, cluster.Options{APIServerOnly: true})
	kubeconfig, err := c.KubeconfigFor("alice", "readers")
	if err != nil {
		t.Fatal(err)
	}
	asAlice := func(args ...string) *exec.Cmd {
		return c.Command(t.Context(), "kubectl", append([]string{"--kubeconfig", kubeconfig}, args...)...)
	}
	// wantRequests waits until alice's requests for configmaps are exactly these.
	wantRequests := func(want ...string) {
		t.Helper()
		eventually(t, func() error {
			requests, err := c.Requests()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range requests {
				if r.User == "alice" && r.Resource == "configmaps" {
					got = append(got, fmt.Sprintf("%s in %s: %d, ended %t", r.Verb, r.Namespace, r.Code, r.Ended))
				}
			}
			if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
				return fmt.Errorf("got requests:\n%s\nwant:\n%s", g, w)
			}
			return nil
		})
	}

	if err := asAlice("get", "configmaps").Run(); err == nil {
		t.Error("a user without a role listed configmaps")
	}
	const denied = "list in default: 403, ended true"
	wantRequests(denied)

	kubectl(t, c, "create", "clusterrole", "reader", "--verb=get,list,watch", "--resource=configmaps")
	kubectl(t, c, "create", "clusterrolebinding", "readers", "--clusterrole=reader", "--group=readers")
	eventually(t, func() error { return asAlice("auth", "can-i", "list", "configmaps").Run() })
	if output, err := asAlice("get", "configmaps").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	const allowed = "list in default: 200, ended true"
	wantRequests(denied, allowed)

	watch := asAlice("get", "configmaps", "--watch-only")
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	wantRequests(denied, allowed, allowed, "watch in default: 200, ended false") // kubectl lists before it watches
	watch.Process.Kill()
	watch.Wait()
	wantRequests(denied, allowed, allowed, "watch in default: 200, ended true")
}

func TestStartFailsWithLogOfComponent(t *testing.T) {
	dir := t.TempDir()
	_, err := cluster.Start(t.Context(), cluster.Options{
		BinDir: binDir(), Dir: dir, APIServerOnly: true, APIServerFlags: []string{"--no-such-flag"},
	})
	if err == nil {
		t.Fatal("a cluster with an unknown flag started")
	}
	for _, want := range []string{string(cluster.APIServer), "unknown flag: --no-such-flag"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want it to contain %q", err, want)
		}
	}
	wantEmpty(t, dir)
}

func TestRestartAfterUnexpectedExit(t *testing.T) {
	c, err := cluster.Start(t.Context(), cluster.Options{BinDir: binDir(), APIServerOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	policyFile := filepath.Join(c.Dir(), "audit-policy.yaml")
	policy, err := os.ReadFile(policyFile)
	if err != nil {
		t.Fatal(err)
	}
	write := func(content []byte) {
		if err := os.WriteFile(policyFile, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	write([]byte("invalid"))
	if err := c.Restart(t.Context(), cluster.APIServer); err == nil {
		t.Error("kube-apiserver restarted with an invalid audit policy")
	}
	select {
	case <-c.Done():
	case <-time.After(testTimeout):
		t.Fatal("Done is not closed after kube-apiserver exited")
	}
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), "kube-apiserver exited unexpectedly") {
		t.Errorf("got error %v, want one that names kube-apiserver", err)
	}

	write(policy)
	if err := c.Restart(t.Context(), cluster.APIServer); err != nil {
		t.Error(err)
	}
	kubectl(t, c, "get", "namespaces")
}

func TestStartWithoutBinaries(t *testing.T) {
	_, err := cluster.Start(t.Context(), cluster.Options{BinDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "make cluster") {
		t.Errorf("got error %v, want one that names make cluster", err)
	}
}

func TestBuildUpToDate(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	var output bytes.Buffer
	if err := cluster.Build(ctx, "controlplane", binDir(), &output); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(output.String()) {
		if !strings.Contains(line, ": using ") { // installed binaries
			t.Errorf("got output: %s", line)
		}
	}
}

func TestClusterDiesWithParent(t *testing.T) {
	// All descendants of the parent inherit the writing end of this pipe: reading ends when the last of them has exited.
	descendants, inherited, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer descendants.Close()
	dir := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(parent.Environ(), asParent+"="+dir)
	parent.Stderr = os.Stderr
	parent.ExtraFiles = []*os.File{inherited, inherited} // twice: the reaper's own ExtraFiles replace the first
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	inherited.Close()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the parent did not start a cluster: %v", err)
	}
	parent.Process.Kill()
	parent.Wait()

	if err := descendants.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, descendants); err != nil {
		t.Errorf("processes of %s are still running: %v", strings.TrimSpace(line), err)
	}
	wantEmpty(t, dir)
}

// parent runs in a separate process and never returns.
func parent() {
	c, err := cluster.Start(context.Background(), cluster.Options{BinDir: binDir(), Dir: os.Getenv(asParent)})
	for _, component := range []cluster.Component{cluster.Etcd, cluster.APIServer} {
		if err == nil {
			err = c.Freeze(component)
		}
	}
	if err == nil {
		err = c.Command(context.Background(), "sh", "-c", "trap '' HUP INT TERM; sleep 1000 & kill -STOP $$").Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(c.Dir())
	select {}
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		t.Errorf("%s was not removed from %s", entry.Name(), dir)
	}
}
