// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig loads the configuration of the clients.
package kubeconfig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Load returns a client configuration without rate limits, and the default namespace: those of the kubeconfig
// ($KUBECONFIG may list several), with master as the server's address if it is given; or, if both are empty,
// those of the Pod in which the process runs. The error says what to set.
func Load(kubeconfig, master string) (config *rest.Config, namespace string, err error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	paths := filepath.SplitList(kubeconfig)
	if len(paths) > 1 && kubeconfig == os.Getenv(clientcmd.RecommendedConfigPathEnvVar) {
		rules = &clientcmd.ClientConfigLoadingRules{Precedence: paths}
	}
	overrides := &clientcmd.ConfigOverrides{ClusterInfo: clientcmdapi.Cluster{Server: master}}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err = loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, "", errors.New("no cluster is configured; set -kubeconfig=$HOME/.kube/config or KUBECONFIG, " +
			"or run in a Pod with the token of its service account")
	case err != nil:
		return nil, "", fmt.Errorf("the kubeconfig %q cannot be used; check -kubeconfig and KUBECONFIG: %w",
			kubeconfig, err)
	}
	config.QPS = -1
	// Each server and proxy accepts JSON. Lists and watches are large, and cost less in protobuf, which custom
	// resources do not support.
	config.ContentType = runtime.ContentTypeJSON
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	namespace, _, err = loader.Namespace()
	return config, namespace, err
}
