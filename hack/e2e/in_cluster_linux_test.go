// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// A Pod of the manifests on a node of kwok runs nothing. So the program runs beside it, with what that Pod would have: the
// token, the certificate and the namespace of its service account where a kubelet mounts them, and the two variables that
// name the API server. The mount is seen by the program alone.
func TestInAPodTheServiceAccountIsEnough(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	wantInstalled(t, overlayOf(t, oneNamespaceDir, "namespace: "+namespace), namespace)
	if err := rest.LoadTLSFiles(adminConfig); err != nil {
		t.Fatal(err)
	}
	account := t.TempDir()
	for name, content := range map[string]string{
		"token":     strings.TrimSpace(kubectl(t, "create", "token", "-n", namespace, "sample-controller")),
		"ca.crt":    string(adminConfig.CAData),
		"namespace": namespace,
	} {
		if err := os.WriteFile(filepath.Join(account, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server, err := url.Parse(adminConfig.Host)
	if err != nil {
		t.Fatal(err)
	}
	const mounted = "/run/secrets/kubernetes.io/serviceaccount" // /var/run is a link to /run.
	script := "mount --make-rprivate / && mount -t tmpfs tmpfs /run && mkdir -p " + mounted + ` && cp "$0"/* ` + mounted + ` && exec "$@"`
	command := local.Command(context.Background(), "sh", "-c", script, account, program, "-namespace", namespace,
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
	createFoo(t, namespace, "served", "served", 1)
	wantReplicas(t, namespace, "served", 1)
	p.signal(syscall.SIGTERM)
	p.wantExit(0, 20*time.Second)
	if writes := writesOf(t, serviceAccount(namespace)); len(writes) == 0 {
		t.Error("the API server has seen no request of the service account")
	}
}
