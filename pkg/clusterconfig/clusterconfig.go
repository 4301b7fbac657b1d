// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterconfig finds out how to reach the cluster.
package clusterconfig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// podNamespaceFile holds, in a Pod, its namespace. See
// https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/.
const podNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Load returns how to reach the cluster, without a limit of requests, and the namespace to use unless another one is named:
// those of the kubeconfig (or, if it is $KUBECONFIG, of the several that this may name), with master as the address of the server if it
// is not empty; or, without either of them, those of the Pod in which this runs. The error says what to set.
func Load(kubeconfig, master string) (config *rest.Config, namespace string, err error) {
	if kubeconfig == "" && master == "" {
		config, namespace, err = loadInCluster()
	} else {
		config, namespace, err = loadKubeconfig(kubeconfig, master)
	}
	if err != nil {
		return nil, "", err
	}
	config.UserAgent = rest.DefaultKubernetesUserAgent()
	config.QPS = -1
	return config, namespace, nil
}

func loadInCluster() (*rest.Config, string, error) {
	config, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, "", errors.New("no cluster is configured; set -kubeconfig=$HOME/.kube/config or KUBECONFIG, or run this in a Pod")
	}
	if err != nil {
		return nil, "", fmt.Errorf("the Pod's service account cannot be used; check automountServiceAccountToken: %w", err)
	}
	namespace, err := os.ReadFile(podNamespaceFile)
	if err != nil {
		return nil, "", fmt.Errorf("the Pod's namespace cannot be read; check automountServiceAccountToken: %w", err)
	}
	return config, strings.TrimSpace(string(namespace)), nil
}

func loadKubeconfig(kubeconfig, master string) (*rest.Config, string, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	if paths := filepath.SplitList(kubeconfig); len(paths) > 1 && kubeconfig == os.Getenv(clientcmd.RecommendedConfigPathEnvVar) {
		rules = &clientcmd.ClientConfigLoadingRules{Precedence: paths}
	}
	overrides := &clientcmd.ConfigOverrides{ClusterInfo: clientcmdapi.Cluster{Server: master}}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("the kubeconfig %q cannot be used; check -kubeconfig and KUBECONFIG: %w", kubeconfig, err)
	}
	namespace, _, err := loader.Namespace()
	return config, namespace, err
}

// WithProtobuf returns a copy of config for clients of Kubernetes' own kinds, whose binary encoding costs both sides less than
// JSON. The kinds of CustomResourceDefinitions do not have it, see
// https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding.
func WithProtobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON // In which errors may come.
	return config
}
