// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig configures how a process reaches its cluster.
package kubeconfig

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // As kubectl has them.
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Load returns a client configuration without a rate limit, and the default namespace: those of the kubeconfig
// with the path or of $KUBECONFIG, with the address of master if it is given; or, only without any of them, those
// of the Pod in which the process runs. The error says what to set.
func Load(path, master string) (config *rest.Config, namespace string, err error) {
	files := cmp.Or(path, os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	paths := filepath.SplitList(files)
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: path, Precedence: paths}
	overrides := &clientcmd.ConfigOverrides{ClusterInfo: clientcmdapi.Cluster{Server: master}}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	kubeconfig, err := loader.RawConfig()
	switch {
	case err != nil || files == "":
	case clientcmdapi.IsConfigEmpty(&kubeconfig):
		err = errors.New("it is empty or does not exist")
	case kubeconfig.CurrentContext == "":
		err = errors.New("it has no current-context; choose one with: kubectl config use-context NAME")
	default: // That loader would use the Pod's configuration, or no credentials, in place of what is missing.
		err = clientcmdapi.MinifyConfig(&kubeconfig)
		loader = clientcmd.NewNonInteractiveClientConfig(kubeconfig, "", overrides, rules)
	}
	config, loaderErr := loader.ClientConfig()
	switch err := cmp.Or(err, loaderErr); {
	case clientcmd.IsEmptyConfig(err):
		return nil, "", fmt.Errorf("no cluster is configured; set -kubeconfig=$HOME/.kube/config or KUBECONFIG, "+
			"which is %q, or run in a Pod with the token of its service account", files)
	case err != nil:
		return nil, "", fmt.Errorf("cannot use the kubeconfig %q; check -kubeconfig and KUBECONFIG: %w", files, err)
	}
	config.DisableCompression = true // It costs both sides CPU time. kube-controller-manager disables it as well.
	config.QPS = -1
	// Each server and proxy accepts JSON. Lists and watches are large, and cost less in protobuf, which custom
	// resources do not support.
	config.ContentType = runtime.ContentTypeJSON
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	namespace, _, err = loader.Namespace()
	return config, namespace, err
}

// WithoutRetryAfter wraps a transport so that a request fails at once if the API server, or an admission webhook, wants to have it again
// later. client-go would send it again by itself, up to ten times, and sleep for as long as the header says: a worker would wait for that.
func WithoutRetryAfter(transport http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := transport.RoundTrip(request)
		if err == nil {
			response.Header.Del("Retry-After")
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }
