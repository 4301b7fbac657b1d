// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"k8s.io/sample-controller/hack/e2e/faults"
)

// user is the name by which the API server knows the program under test, unless a test runs more than one. The permissions
// are the group's.
const (
	user  = "sample-controller"
	group = "sample-controllers"
)

// process is a running program under test.
type process struct {
	t       *testing.T
	command *exec.Cmd
	log     *syncBuffer
	exited  chan struct{}
}

// startController starts the program as user, and waits until its workers have started. It watches only namespace unless
// that is empty.
func startController(t *testing.T, namespace string, flags ...string) *process {
	t.Helper()
	args := append([]string{"-kubeconfig", kubeconfigFor(t, user), "-namespace", namespace, "-v=4"}, flags...)
	p := startCommand(t, local.Command(context.Background(), program, args...), "KUBE_CACHE_MUTATION_DETECTOR=true")
	p.waitForLog("Started workers")
	return p
}

// kubeconfigFor returns the path of a kubeconfig of a user with the permissions of the program under test.
func kubeconfigFor(t *testing.T, user string) string {
	t.Helper()
	kubeconfig, err := local.KubeconfigFor(user, group)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// startProgram starts the program with the given flags and a bare environment. It is killed at the end of the test, whose
// log shows what it said if the test fails.
func startProgram(t *testing.T, flags ...string) *process {
	t.Helper()
	return startCommand(t, local.Command(context.Background(), program, flags...)) // It never outlives the cluster.
}

// startCommand is startProgram for a command that runs the program, with an environment of just these variables.
func startCommand(t *testing.T, command *exec.Cmd, environment ...string) *process {
	t.Helper()
	p := &process{t: t, command: command, log: &syncBuffer{}, exited: make(chan struct{})}
	p.command.Env = append([]string{"GORACE=exitcode=66 halt_on_error=1"}, environment...)
	p.command.Stdout, p.command.Stderr = p.log, p.log
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.command.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.command.Process.Kill()
		<-p.exited
		if strings.Contains(p.log.String(), "DATA RACE") {
			t.Error("the race detector found a data race")
		}
		if t.Failed() {
			t.Logf("%q said:\n%s", p.command.Args, p.log)
		}
	})
	return p
}

// startProxy starts a proxy in front of the API server, whose requests are those of a user.
func startProxy(t *testing.T, user string, seed uint64) *faults.Proxy {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfigFor(t, user))
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := faults.Start(config, seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy
}

// startBehind starts a program that reaches the API server through a proxy.
func startBehind(t *testing.T, proxy *faults.Proxy, flags ...string) *process {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := proxy.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	return startProgram(t, append([]string{"-kubeconfig", kubeconfig, "-v=4"}, flags...)...)
}

func (p *process) waitForLog(text string) {
	p.t.Helper()
	eventually(p.t, 30*time.Second, func() error {
		if !strings.Contains(p.log.String(), text) {
			return errors.New("the program has not said " + text)
		}
		return nil
	})
}

func (p *process) signal(signal syscall.Signal) {
	p.t.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
}

// wantExit waits for the end of the program and checks its exit code.
func (p *process) wantExit(code int, timeout time.Duration) {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(timeout):
		p.t.Fatalf("the program still runs after %s", timeout)
	}
	if got := p.command.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("exit code = %d, want %d", got, code)
	}
}

// lastLine returns the last line that the program printed.
func (p *process) lastLine() string {
	lines := strings.Split(strings.TrimSpace(p.log.String()), "\n")
	return lines[len(lines)-1]
}

// syncBuffer is a bytes.Buffer for more than one goroutine.
type syncBuffer struct {
	lock   sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.buffer.String()
}

// gate stands between the program and the API server and holds up each creation of a Deployment until the test lets it
// through.
type gate struct {
	proxy *faults.Proxy
	// arrived delivers, for each creation that arrives, the channel that lets it through when it is closed.
	arrived chan chan struct{}
}

func startGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{proxy: startProxy(t, user, 0), arrived: make(chan chan struct{})}
	g.proxy.SetRules(faults.Rule{Verbs: []string{"create"}, Resources: []string{"deployments"}, Fault: faults.During(func() {
		pass := make(chan struct{})
		select {
		case g.arrived <- pass:
		case <-t.Context().Done():
			return
		}
		select {
		case <-pass:
		case <-t.Context().Done():
		}
	})})
	return g
}

// startController starts a program that reaches the API server through the gate.
func (g *gate) startController(t *testing.T, namespace string, flags ...string) *process {
	t.Helper()
	p := startBehind(t, g.proxy, append([]string{"-namespace", namespace}, flags...)...)
	p.waitForLog("Started workers")
	return p
}

// grantPermissions gives group what the manifests give the program, and Leases of any name.
func grantPermissions(client kubernetes.Interface) error {
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"}},
		},
	}
	for _, rule := range foosRights {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: rule.APIGroups, Resources: rule.Resources, Verbs: rule.Verbs})
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
	}
	_, roleErr := client.RbacV1().ClusterRoles().Create(context.Background(), role, metav1.CreateOptions{})
	_, bindingErr := client.RbacV1().ClusterRoleBindings().Create(context.Background(), binding, metav1.CreateOptions{})
	return errors.Join(roleErr, bindingErr)
}
