// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
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

func TestLoad(t *testing.T) {
	first := writeKubeconfig(t, "first", "https://first:6443", "apps")
	second := writeKubeconfig(t, "second", "https://second:6443", "")
	odd := writeKubeconfig(t, "odd"+string(filepath.ListSeparator)+"name", "https://odd:6443", "")
	noServer := writeKubeconfig(t, "no-server", "", "apps")
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
		"master without a server":     {"", noServer, "https://other:1", "https://other:1", "apps"},
		"master alone":                {"", "", "http://127.0.0.1:8001", "http://127.0.0.1:8001", "default"},
		"flag overrides environment":  {list, first, "", "https://first:6443", "apps"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", test.environment)
			t.Setenv("KUBERNETES_SERVICE_HOST", "") // The test may run in a Pod.
			config, namespace, err := Load(test.kubeconfig, test.master)
			if err != nil {
				t.Fatal(err)
			}
			if config.Host != test.wantHost || namespace != test.wantNamespace || config.QPS != -1 || config.RateLimiter != nil || !config.DisableCompression {
				t.Errorf("Load() = %s, %s, QPS %v, %v, compression disabled %t, want %s, %s, QPS -1, true",
					config.Host, namespace, config.QPS, config.RateLimiter, config.DisableCompression, test.wantHost, test.wantNamespace)
			}
		})
	}
}

// Whoever gives a kubeconfig never works in another cluster, nor as another user.
func TestLoadErrors(t *testing.T) {
	good := writeKubeconfig(t, "good", "https://good:6443", "")
	content, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(old, new string) string {
		path := filepath.Join(t.TempDir(), "changed")
		if err := os.WriteFile(path, []byte(strings.Replace(string(content), old, new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	noContext := changed(`"current-context":"good",`, "")
	noSuchContext := changed(`"current-context":"good"`, `"current-context":"gone"`)
	noSuchCluster := changed(`"cluster":"good"`, `"cluster":"gone"`)
	noSuchUser := changed(`"namespace":""`, `"user":"gone"`)
	noServer := changed(`"server":"https://good:6443"`, "")
	noCluster := changed(`"cluster":"good",`, "")
	empty := changed(string(content), "")
	const noFile = "/does/not/exist"
	noFiles := strings.Join([]string{noFile, "/nor/does/this"}, string(filepath.ListSeparator))
	missingAndNoContext := strings.Join([]string{noFile, noContext}, string(filepath.ListSeparator))
	for name, test := range map[string]struct {
		environment, kubeconfig, master string
		want                            []string
	}{
		"nothing given":                        {"", "", "", []string{"no cluster is configured; set -kubeconfig=$HOME/.kube/config or KUBECONFIG"}},
		"no file":                              {"", noFile, "", []string{noFile, "no such file"}},
		"no file, another in the environment":  {good, noFile, "", []string{noFile, "no such file"}},
		"no file in the environment":           {noFiles, "", "", []string{noFiles, "does not exist"}},
		"no file in the environment, master":   {noFiles, "", "http://127.0.0.1:8001", []string{noFiles, "does not exist"}},
		"no name in the environment":           {string(filepath.ListSeparator), "", "", []string{"does not exist"}},
		"empty":                                {"", empty, "", []string{empty, "it is empty"}},
		"empty, another in the environment":    {good, empty, "", []string{empty, "it is empty"}},
		"empty in the environment":             {empty, "", "", []string{empty, "it is empty"}},
		"empty, master":                        {"", empty, "http://127.0.0.1:8001", []string{empty, "it is empty"}},
		"no current-context":                   {"", noContext, "", []string{noContext, "no current-context"}},
		"no current-context, master":           {"", noContext, "https://other:1", []string{noContext, "no current-context"}},
		"no current-context in an environment": {missingAndNoContext, "", "", []string{noContext, "no current-context"}},
		"context does not exist":               {"", noSuchContext, "", []string{noSuchContext, "context gone"}},
		"context does not exist, master":       {"", noSuchContext, "https://other:1", []string{noSuchContext, "context gone"}},
		"cluster does not exist":               {"", noSuchCluster, "", []string{noSuchCluster, "cluster gone"}},
		"user does not exist":                  {"", noSuchUser, "", []string{noSuchUser, "user gone"}},
		"no server":                            {"", noServer, "", []string{noServer, "no server found"}},
		"no cluster":                           {"", noCluster, "", []string{noCluster, "no cluster is configured"}},
		"not a kubeconfig":                     {"", os.Args[0], "", []string{os.Args[0], "check -kubeconfig"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", test.environment)
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			config, _, err := Load(test.kubeconfig, test.master)
			if err == nil {
				t.Fatalf("Load() = %s, want an error with %q", config.Host, test.want)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Load() = %v, want %q", err, want)
				}
			}
		})
	}
}

func TestOIDC(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	var authorization string
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		authorization = r.Header.Get("Authorization")
	}))
	defer server.Close()
	token := "header." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":99999999999}`)) + ".signature"
	kubeconfig := filepath.Join(t.TempDir(), "oidc")
	content := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c",
		"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],
		"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"users":[{"name":"u","user":{"auth-provider":{"name":"oidc",
			"config":{"client-id":"id","idp-issuer-url":"https://issuer","id-token":%q}}}}]}`, server.URL, token)
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	config, _, err := Load(kubeconfig, "")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.RESTClient().Get().AbsPath("/version").Do(t.Context()).Error(); err != nil || authorization != "Bearer "+token {
		t.Errorf("Authorization = %q (%v), want the id-token", authorization, err)
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
	config, _, err := Load("", server.URL)
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

func TestWithoutRetryAfter(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	config.Wrap(WithoutRetryAfter)
	_, err := kubernetes.NewForConfigOrDie(config).CoordinationV1().Leases("default").Get(t.Context(), "lease", metav1.GetOptions{})
	if !apierrors.IsTooManyRequests(err) || requests != 1 {
		t.Errorf("Get() made %d requests, error = %v, want 1 request, too many", requests, err)
	}
}
