// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// writeKubeconfig writes a kubeconfig with one cluster and one context, and returns its path.
func writeKubeconfig(t *testing.T, name, server, namespace string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	content := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":%[1]q,
		"clusters":[{"name":%[1]q,"cluster":{"server":%[2]q}}],
		"contexts":[{"name":%[1]q,"context":{"cluster":%[1]q,"namespace":%[3]q}}]}`, name, server, namespace)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestClientConfig(t *testing.T) {
	first := writeKubeconfig(t, "first", "https://first:6443", "apps")
	second := writeKubeconfig(t, "second", "https://second:6443", "")
	odd := writeKubeconfig(t, "odd"+string(filepath.ListSeparator)+"name", "https://odd:6443", "")
	list := strings.Join([]string{"/does/not/exist", second, first}, string(filepath.ListSeparator))
	for name, test := range map[string]struct {
		environment, kubeconfig, master string
		wantHost, wantNamespace         string
	}{
		"kubeconfig":                  {"", first, "", "https://first:6443", "apps"},
		"no namespace":                {"", second, "", "https://second:6443", "default"},
		"separator in the path":       {"", odd, "", "https://odd:6443", "default"},
		"list in the environment":     {list, "", "", "https://second:6443", "default"},
		"master overrides kubeconfig": {"", first, "https://other:1", "https://other:1", "apps"},
		"master alone":                {"", "", "http://127.0.0.1:8001", "http://127.0.0.1:8001", "default"},
		"flag overrides environment":  {list, first, "", "https://first:6443", "apps"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", test.environment)
			t.Setenv("KUBERNETES_SERVICE_HOST", "") // The test may run in a Pod.
			config, namespace, err := (&Options{Kubeconfig: test.kubeconfig, Master: test.master}).ClientConfig()
			if err != nil {
				t.Fatal(err)
			}
			if config.Host != test.wantHost || namespace != test.wantNamespace || config.QPS != -1 || config.RateLimiter != nil {
				t.Errorf("ClientConfig() = %s, %s, QPS %v, %v, want %s, %s, QPS -1", config.Host, namespace, config.QPS, config.RateLimiter, test.wantHost, test.wantNamespace)
			}
		})
	}
}

func TestClientConfigErrors(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", "/does/not/exist/either")
	for kubeconfig, want := range map[string]string{
		"":                `set -kubeconfig=$HOME/.kube/config or KUBECONFIG, which is "/does/not/exist/either"`,
		"/does/not/exist": "check -kubeconfig",
		os.Args[0]:        "check -kubeconfig", // Not a kubeconfig.
	} {
		if _, _, err := (&Options{Kubeconfig: kubeconfig}).ClientConfig(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ClientConfig() with -kubeconfig=%q = %v, want %q", kubeconfig, err, want)
		}
	}
}

// client-go's default for request bodies of built-in resources is protobuf, which not every server and proxy accepts.
func TestContentTypes(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	var request http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request = r.Header
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1"}`)
	}))
	defer server.Close()
	config, _, err := (&Options{Master: server.URL}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	leases := kubernetes.NewForConfigOrDie(config).CoordinationV1().Leases("default")
	if _, err := leases.Create(t.Context(), &coordinationv1.Lease{}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	accept, body := request.Get("Accept"), request.Get("Content-Type")
	if accept != "application/vnd.kubernetes.protobuf,application/json" || body != "application/json" {
		t.Errorf("Accept = %q and Content-Type = %q, want protobuf or JSON, and JSON", accept, body)
	}
}
