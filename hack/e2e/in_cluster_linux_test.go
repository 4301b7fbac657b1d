// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"k8s.io/sample-controller/hack/cluster"
)

// Pods are simulated by kwok. Therefore the controller runs outside of its Pod, with the service account token, certificate and
// namespace where the kubelet would mount them, in a mount namespace of its own, and with the environment variables of a Pod.
func TestInClusterConfig(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	install(t, writeOverlay(t, oneNamespaceDir, "namespace: "+namespace), namespace)
	requireNoError(t, rest.LoadTLSFiles(adminConfig))
	mount := t.TempDir()
	for name, content := range map[string]string{
		"token":     strings.TrimSpace(kubectl(t, "create", "token", "-n", namespace, "sample-controller")),
		"ca.crt":    string(adminConfig.CAData),
		"namespace": namespace,
	} {
		requireNoError(t, os.WriteFile(filepath.Join(mount, name), []byte(content), 0o600))
	}
	server, err := url.Parse(adminConfig.Host)
	requireNoError(t, err)
	const mountPath = "/run/secrets/kubernetes.io/serviceaccount" // /var/run is a symbolic link to /run
	script := "mount --make-rprivate / && mount -t tmpfs tmpfs /run && mkdir -p " + mountPath + ` && cp "$0"/* ` + mountPath + ` && exec "$@"`
	startInPod := func(flags ...string) *process {
		args := append([]string{"-c", script, mount, controllerBinary, "-namespace", namespace}, flags...)
		command := local.Command(context.Background(), "sh", args...)
		command.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS
		if os.Getuid() != 0 {
			command.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		}
		return startCommand(t, command, "PATH="+os.Getenv("PATH"),
			"KUBERNETES_SERVICE_HOST="+server.Hostname(), "KUBERNETES_SERVICE_PORT="+server.Port())
	}

	// A kubeconfig that is given is never replaced by the configuration of the Pod.
	kubeconfig, err := clientcmd.LoadFromFile(local.Kubeconfig())
	requireNoError(t, err)
	kubeconfig.CurrentContext = ""
	for lacking, kubeconfig := range map[string]*clientcmdapi.Config{"it has no current-context": kubeconfig, "it is empty": {}} {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		requireNoError(t, clientcmd.WriteToFile(*kubeconfig, path))
		p := startInPod("-kubeconfig", path)
		p.waitForExit(1)
		if last := p.errorLine(); !strings.Contains(last, path) || !strings.Contains(last, lacking) {
			t.Errorf("the last line is %q, want an error with %q and %q", last, path, lacking)
		}
	}

	p := startInPod("-leader-elect", "-leader-elect-resource-name=sample-controller")
	p.waitForLog("Started workers")
	createReadyFoo(t, namespace, "served", "served", 1)
	p.stop()
	requests := auditedRequests(t, serviceAccount(namespace), func(r cluster.Request) bool { return r.Resource == "deployments" })
	if !slices.ContainsFunc(requests, func(request string) bool { return strings.HasPrefix(request, "create ") }) {
		t.Errorf("the requests of the service account are %q, want the creation of a Deployment", requests)
	}
}
