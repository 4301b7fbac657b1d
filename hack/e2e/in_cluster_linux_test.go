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
	command := local.Command(context.Background(), "sh", "-c", script, mount, controllerBinary, "-namespace", namespace,
		"-leader-elect", "-leader-elect-resource-name=sample-controller")
	command.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS
	if os.Getuid() != 0 {
		command.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	p := startCommand(t, command, "PATH="+os.Getenv("PATH"),
		"KUBERNETES_SERVICE_HOST="+server.Hostname(), "KUBERNETES_SERVICE_PORT="+server.Port())
	p.waitForLog("Started workers")
	createReadyFoo(t, namespace, "served", "served", 1)
	p.stop()
	requests := auditedRequests(t, serviceAccount(namespace), func(r cluster.Request) bool { return r.Resource == "deployments" })
	if !slices.ContainsFunc(requests, func(request string) bool { return strings.HasPrefix(request, "create ") }) {
		t.Errorf("the requests of the service account are %q, want the creation of a Deployment", requests)
	}
}
