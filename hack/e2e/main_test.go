// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e contains the end-to-end tests. They run the controller binary on a local Kubernetes, and check the state of the API
// server and the requests in its audit log.
package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"

	"k8s.io/sample-controller/hack/cluster"
	"k8s.io/sample-controller/hack/cluster/faults"
)

const (
	root        = "../.."
	binDir      = root + "/.build/bin"
	crdFile     = root + "/artifacts/examples/crd.yaml"
	exampleFile = root + "/artifacts/examples/example-foo.yaml"
	// policyFile has a ValidatingAdmissionPolicy that judges each write of a Deployment by a controller under test.
	policyFile = "policy.yaml"
	policyName = "deployments-of-foos"
)

// The tests share a cluster with the CRD installed, clients with administrator permissions, and the controller binary.
var (
	local            *cluster.Cluster
	kubeClient       kubernetes.Interface
	sampleClient     clientset.Interface
	adminConfig      *rest.Config
	controllerBinary string
)

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp(binDir, "e2e")
	if err != nil {
		return 0, fmt.Errorf("%w; build the local Kubernetes first: make cluster", err)
	}
	defer os.RemoveAll(dir)
	built := make(chan error, 1)
	go func() {
		var err error
		controllerBinary, err = buildController(dir)
		built <- err
	}()
	// Kubernetes before 1.36 has no other version of MutatingAdmissionPolicy, and disables this one by default.
	policies := []string{"--feature-gates=MutatingAdmissionPolicy=true", "--runtime-config=admissionregistration.k8s.io/v1beta1=true"}
	if local, err = cluster.Start(context.Background(), cluster.Options{BinDir: binDir, APIServerFlags: policies}); err != nil {
		return 0, err
	}
	defer local.Stop()
	if err := <-built; err != nil {
		return 0, err
	}
	if adminConfig, err = clientcmd.BuildConfigFromFlags("", local.Kubeconfig()); err != nil {
		return 0, err
	}
	adminConfig.QPS = -1
	kubeClient = kubernetes.NewForConfigOrDie(adminConfig)
	sampleClient = clientset.NewForConfigOrDie(adminConfig)
	if output, err := local.Command(context.Background(), "kubectl", "apply", "-f", crdFile, "-f", policyFile).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("installing the CRD and the policy: %w\n%s", err, output)
	}
	if err := grantPermissions(kubeClient); err != nil {
		return 0, err
	}
	if err := waitForPolicy(); err != nil {
		return 0, err
	}
	code = m.Run()
	if err := local.Err(); err != nil {
		return 1, fmt.Errorf("the local Kubernetes failed during the tests: %w", err)
	}
	if completeSuite := flag.Lookup("test.run").Value.String() == ""; completeSuite && code == 0 {
		return code, checkPermissions()
	}
	return code, nil
}

// waitForPolicy waits until the policy denies a controller to create a Deployment that no Foo controls.
func waitForPolicy() error {
	config := rest.CopyConfig(adminConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{group}}
	deployments := kubernetes.NewForConfigOrDie(config).AppsV1().Deployments(metav1.NamespaceDefault)
	return poll(context.Background(), convergence, func() error {
		probe := newDeployment("probe", "nginx", map[string]string{"app": "probe"})
		_, err := deployments.Create(context.Background(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), policyName) {
			return fmt.Errorf("the policy does not deny a Deployment that no Foo controls: %v", err)
		}
		return nil
	})
}

// checkPermissions returns an error unless the controller used exactly the permissions that the manifests grant. An exception is
// foos/finalizers, which no request shows: it is needed by an admission plugin, and has a test of its own.
func checkPermissions() error {
	requests, err := local.Requests()
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, request := range requests {
		if !strings.HasPrefix(request.UserAgent, "sample-controller/") || request.User == nobody || request.Resource == "" {
			continue
		}
		resource := strings.TrimSuffix(request.Resource+"/"+request.Subresource, "/")
		if request.Denied && !strings.HasPrefix(request.User, outageUser) {
			return fmt.Errorf("the controller is not allowed to %s %s (%s)", request.Verb, resource, request.URI)
		}
		used[fmt.Sprintf("%s %s.%s", request.Verb, resource, request.APIGroup)] = true
	}
	var errs []error
	for _, rule := range slices.Concat(foosRules, leasesRules) {
		for _, verb := range rule.Verbs {
			permission := fmt.Sprintf("%s %s.%s", verb, rule.Resources[0], rule.APIGroups[0])
			if !used[permission] && rule.Resources[0] != "foos/finalizers" {
				errs = append(errs, fmt.Errorf("the permission to %s is granted but not used by any test", permission))
			}
		}
	}
	return errors.Join(errs...)
}

// buildController builds the controller, with the race detector if there is a C compiler.
func buildController(dir string) (string, error) {
	path, err := filepath.Abs(filepath.Join(dir, "sample-controller"))
	if err != nil {
		return "", err
	}
	args := []string{"build", "-o", path}
	if _, err := exec.LookPath("cc"); err == nil {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, ".")...)
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the controller: %w\n%s", err, output)
	}
	return path, nil
}

// user is the user name of the controller, unless a test runs several instances. Permissions are bound to the group.
const (
	user  = "sample-controller"
	group = "sample-controllers"
)

// process is a running controller.
type process struct {
	t       *testing.T
	command *exec.Cmd
	log     *syncBuffer
	exited  chan struct{}
}

// startController starts a controller for a namespace, or for all if namespace is empty, and waits until its workers have started.
func startController(t *testing.T, namespace string, flags ...string) *process {
	t.Helper()
	args := append([]string{"-kubeconfig", kubeconfigFor(t, user), "-namespace", namespace, "-v=4"}, flags...)
	p := startCommand(t, local.Command(context.Background(), controllerBinary, args...), "KUBE_CACHE_MUTATION_DETECTOR=true")
	p.waitForLog("Started workers")
	return p
}

// kubeconfigFor returns the path of a kubeconfig for a user with the permissions of the controller.
func kubeconfigFor(t *testing.T, user string) string {
	t.Helper()
	kubeconfig, err := local.KubeconfigFor(user, group)
	requireNoError(t, err)
	return kubeconfig
}

// startProcess starts the controller with an empty environment. It is killed at the end of the test, and its output is logged if the
// test failed.
func startProcess(t *testing.T, flags ...string) *process {
	t.Helper()
	return startCommand(t, local.Command(context.Background(), controllerBinary, flags...))
}

// startCommand is startProcess for any command that runs the controller, and with an environment.
func startCommand(t *testing.T, command *exec.Cmd, environment ...string) *process {
	t.Helper()
	p := &process{t: t, command: command, log: &syncBuffer{}, exited: make(chan struct{})}
	p.command.Env = append([]string{"GORACE=exitcode=66 halt_on_error=1"}, environment...)
	p.command.Stdout, p.command.Stderr = p.log, p.log
	requireNoError(t, p.command.Start())
	go func() {
		p.command.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.command.Process.Kill()
		<-p.exited
		for _, text := range []string{"DATA RACE", "panic"} {
			if line := firstLineWith(p.log.String(), text); line != "" {
				t.Errorf("the log says %s", line)
			}
		}
		if line := firstLineWith(p.log.String(), policyName); line != "" {
			t.Errorf("the policy has denied a write of a Deployment: %s", line)
		}
		if t.Failed() {
			t.Logf("output of %q:\n%s", p.command.Args, p.log)
		}
	})
	return p
}

// startProxy starts a proxy that sends requests to the API server as a user.
func startProxy(t *testing.T, user string, seed uint64) *faults.Proxy {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfigFor(t, user))
	requireNoError(t, err)
	proxy, err := faults.Start(config, seed)
	requireNoError(t, err)
	t.Cleanup(proxy.Close)
	return proxy
}

// startBehindProxy starts a controller that connects to the API server through a proxy.
func startBehindProxy(t *testing.T, proxy *faults.Proxy, flags ...string) *process {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	requireNoError(t, proxy.WriteKubeconfig(kubeconfig))
	return startProcess(t, append([]string{"-kubeconfig", kubeconfig, "-v=4"}, flags...)...)
}

// instance is a controller behind a proxy.
type instance struct {
	*process
	namespace string
	proxy     *faults.Proxy
	start     func() *process
	ended     []*process // earlier ones
}

// startInstance starts a controller for a namespace behind a proxy.
func startInstance(t *testing.T, user, namespace string, seed uint64, flags ...string) *instance {
	t.Helper()
	in := &instance{namespace: namespace, proxy: startProxy(t, user, seed)}
	in.start = func() *process {
		return startBehindProxy(t, in.proxy, append([]string{"-namespace", namespace, "-resync-period=1s"}, flags...)...)
	}
	in.process = in.start()
	return in
}

// startBehindNewProxy starts a controller for a new namespace behind a proxy, and waits until its workers have started.
func startBehindNewProxy(t *testing.T, user string) *instance {
	t.Helper()
	in := startInstance(t, user, newNamespace(t), 0)
	in.waitForLog("Started workers")
	return in
}

// restart kills the controller, unless it has exited, and starts it again.
func (in *instance) restart() {
	in.command.Process.Kill()
	<-in.exited
	in.ended = append(in.ended, in.process)
	in.process = in.start()
}

func (p *process) waitForLog(text string) {
	p.t.Helper()
	eventually(p.t, convergence, func() error {
		if !strings.Contains(p.log.String(), text) {
			return fmt.Errorf("the controller has not logged %q", text)
		}
		return nil
	})
}

var serving = regexp.MustCompile(`"Serving" address="(\S+)"`)

// address waits until the controller serves, and returns the address. That is logged with -v=2.
func (p *process) address() string {
	p.t.Helper()
	p.waitForLog(`"Serving"`)
	return serving.FindStringSubmatch(p.log.String())[1]
}

func (p *process) signal(signal syscall.Signal) {
	p.t.Helper()
	requireNoError(p.t, p.command.Process.Signal(signal))
}

// stop shuts the controller down gracefully.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.waitForExit(0)
}

// waitForExit waits until the process exits and checks its exit code.
func (p *process) waitForExit(code int) {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(convergence):
		p.t.Fatalf("the controller is still running after %s", convergence)
	}
	if got := p.command.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("exit code = %d, want %d", got, code)
	}
}

// errorLine returns the error that main prints before it exits, or else the last line of the output. When leadership is lost, workers
// may still log after it.
func (p *process) errorLine() string {
	lines := strings.Split(strings.TrimSpace(p.log.String()), "\n")
	for _, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, "Error: ") {
			return line
		}
	}
	return lines[len(lines)-1]
}

// syncBuffer is a bytes.Buffer that is safe for concurrent use.
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

// startWithHeldCreates starts a controller whose create requests for Deployments are held. For each of them creates delivers a
// channel that releases the request when it is closed.
func startWithHeldCreates(t *testing.T, namespace string, flags ...string) (controller *process, creates <-chan chan struct{}) {
	t.Helper()
	held := make(chan chan struct{})
	proxy := startProxy(t, user, 0)
	proxy.SetRules(faults.Rule{Verbs: []string{"create"}, Resources: []string{"deployments"}, Fault: faults.During(func() {
		release := make(chan struct{})
		select {
		case held <- release:
		case <-t.Context().Done():
			return
		}
		wait(t, release)
	})})
	controller = startBehindProxy(t, proxy, append([]string{"-namespace", namespace}, flags...)...)
	controller.waitForLog("Started workers")
	return controller, held
}

// grantPermissions grants the permissions of the manifests to group, and access to Leases of any name.
func grantPermissions(client kubernetes.Interface) error {
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"}},
		},
	}
	for _, rule := range foosRules {
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
