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
	// asParent makes the test binary start a cluster, freeze components of it, and wait to be killed.
	asParent = "CLUSTER_TEST_AS_PARENT"

	// patience is far longer than anything here takes.
	patience = time.Minute
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

// eventually waits until check returns nil.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // Between two looks, of which the deadline limits the number: nothing can be waited for here.
	}
}

func TestDeploymentBecomesAvailable(t *testing.T) {
	c := start(t, cluster.Options{})
	kubectl(t, c, "create", "deployment", "web", "--image=nginx", "--replicas=2")
	kubectl(t, c, "wait", "deployment/web", "--for=condition=Available", "--timeout="+patience.String())

	t.Run("and is served by the version that was asked for", func(t *testing.T) {
		list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
		list.Dir = "controlplane"
		version, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		got := kubectl(t, c, "version")
		for _, side := range []string{"Client", "Server"} {
			if want := side + " Version: " + string(version); !strings.Contains(got, want) {
				t.Errorf("kubectl version printed\n%swhich lacks %q", got, want)
			}
		}
	})

	t.Run("and is scaled after restarts of what acts on it", func(t *testing.T) {
		for _, component := range []cluster.Component{cluster.ControllerManager, cluster.Scheduler, cluster.Kwok} {
			if err := c.Restart(t.Context(), component); err != nil {
				t.Fatal(err)
			}
		}
		kubectl(t, c, "scale", "deployment/web", "--replicas=4")
		kubectl(t, c, "wait", "deployment/web", "--for=jsonpath={.status.availableReplicas}=4", "--timeout="+patience.String())
	})
}

func TestFaultsLoseNoData(t *testing.T) {
	c := start(t, cluster.Options{APIServerOnly: true})
	kubectl(t, c, "create", "configmap", "precious")

	for _, component := range []cluster.Component{cluster.Etcd, cluster.APIServer} {
		t.Run(string(component)+" is killed and restarted", func(t *testing.T) {
			if err := c.Kill(component); err != nil {
				t.Fatal(err)
			}
			wantNoAnswer(t, c)
			if err := c.Restart(t.Context(), component); err != nil {
				t.Fatal(err)
			}
			kubectl(t, c, "get", "configmap", "precious")
		})
		t.Run(string(component)+" is frozen and resumed", func(t *testing.T) {
			if err := c.Freeze(component); err != nil {
				t.Fatal(err)
			}
			wantNoAnswer(t, c)
			if err := c.Resume(component); err != nil {
				t.Fatal(err)
			}
			kubectl(t, c, "get", "configmap", "precious")
		})
	}
}

// wantNoAnswer reads from the storage, past the API server's cache, which must fail.
func wantNoAnswer(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if output, err := c.Command(ctx, "kubectl", "get", "configmap", "precious").CombinedOutput(); err == nil {
		t.Errorf("got an answer:\n%s", output)
	}
}

func TestRequestsAreCountedByUser(t *testing.T) {
	c := start(t, cluster.Options{APIServerOnly: true})
	kubeconfig, err := c.KubeconfigFor("alice", "readers")
	if err != nil {
		t.Fatal(err)
	}
	asAlice := func(args ...string) *exec.Cmd {
		return c.Command(t.Context(), "kubectl", append([]string{"--kubeconfig", kubeconfig}, args...)...)
	}
	// wantRequests waits until exactly these requests of alice for configmaps have been logged.
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
		t.Error("a user without a role could list configmaps")
	}
	const refused = "list in default: 403, ended true"
	wantRequests(refused)

	kubectl(t, c, "create", "clusterrole", "reader", "--verb=get,list,watch", "--resource=configmaps")
	kubectl(t, c, "create", "clusterrolebinding", "readers", "--clusterrole=reader", "--group=readers")
	eventually(t, func() error { return asAlice("auth", "can-i", "list", "configmaps").Run() })
	if output, err := asAlice("get", "configmaps").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	const granted = "list in default: 200, ended true"
	wantRequests(refused, granted)

	watch := asAlice("get", "configmaps", "--watch-only")
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	wantRequests(refused, granted, granted, "watch in default: 200, ended false") // kubectl lists before it watches
	watch.Process.Kill()
	watch.Wait()
	wantRequests(refused, granted, granted, "watch in default: 200, ended true")
}

func TestFailedComponentIsNamed(t *testing.T) {
	dir := t.TempDir()
	_, err := cluster.Start(t.Context(), cluster.Options{
		BinDir: binDir(), Dir: dir, APIServerOnly: true, APIServerFlags: []string{"--no-such-flag"},
	})
	if err == nil {
		t.Fatal("a cluster with an impossible flag was started")
	}
	for _, want := range []string{string(cluster.APIServer), "unknown flag: --no-such-flag"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	wantEmpty(t, dir)
}

func TestUnexpectedEndIsReportedAndCanBeMended(t *testing.T) {
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

	write([]byte("nonsense"))
	if err := c.Restart(t.Context(), cluster.APIServer); err == nil {
		t.Error("the API server could be restarted with an impossible policy")
	}
	select {
	case <-c.Done():
	case <-time.After(patience):
		t.Fatal("the cluster does not know that its API server has ended")
	}
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), "kube-apiserver ended unexpectedly") {
		t.Errorf("got error %v, want one that names the API server", err)
	}

	write(policy)
	if err := c.Restart(t.Context(), cluster.APIServer); err != nil {
		t.Error(err)
	}
	kubectl(t, c, "get", "namespaces")
}

func TestMissingBinariesAreAClearError(t *testing.T) {
	_, err := cluster.Start(t.Context(), cluster.Options{BinDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "make cluster") {
		t.Errorf("got error %v, want one that says make cluster", err)
	}
}

func TestSecondBuildBuildsNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience) // in case it does
	defer cancel()
	var output bytes.Buffer
	if err := cluster.Build(ctx, "controlplane", binDir(), &output); err != nil {
		t.Fatal(err)
	}
	if output.Len() > 0 {
		t.Errorf("got output:\n%s", &output)
	}
}

func TestNothingOutlivesAKilledParent(t *testing.T) {
	// All descendants of the parent inherit the writing end of this pipe: it ends when the last of them has.
	descendants, inherited, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer descendants.Close()
	dir := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(parent.Environ(), asParent+"="+dir)
	parent.Stderr = os.Stderr
	parent.ExtraFiles = []*os.File{inherited, inherited} // twice: one of its children has another use for the first
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
		t.Fatalf("the parent has not started a cluster: %v", err)
	}
	parent.Process.Kill()
	parent.Wait()

	if err := descendants.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, descendants); err != nil {
		t.Errorf("processes of %s are left: %v", strings.TrimSpace(line), err)
	}
	wantEmpty(t, dir)
}

// parent runs in a process of its own and never returns.
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
		t.Errorf("%s is left in %s", entry.Name(), dir)
	}
}
