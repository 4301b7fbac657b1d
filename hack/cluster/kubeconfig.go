// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"os"
)

const kubeconfigFormat = `apiVersion: v1
kind: Config
current-context: local
contexts:
- name: local
  context:
    cluster: local
    user: %[1]q
clusters:
- name: local
  cluster:
    server: %[2]s
    certificate-authority-data: %[3]s
users:
- name: %[1]q
  user:
    client-certificate-data: %[4]s
    client-key-data: %[5]s
`

// Kubeconfig returns the path of the administrator's kubeconfig, which embeds its certificates.
func (c *Cluster) Kubeconfig() string { return c.path("admin.kubeconfig") }

// KubeconfigFor issues a client certificate for the user and groups and returns the path of a new kubeconfig that embeds it.
// The user has only the permissions that RBAC grants to it or to its groups.
func (c *Cluster) KubeconfigFor(user string, groups ...string) (string, error) {
	file, err := os.CreateTemp(c.path("users"), url.PathEscape(user)+"-*.kubeconfig")
	if err != nil {
		return "", err
	}
	if err := file.Close(); err != nil {
		return "", err
	}
	return file.Name(), c.writeKubeconfig(file.Name(), user, groups...)
}

func (c *Cluster) writeKubeconfig(path, user string, groups ...string) error {
	pair, err := c.authority.issueClient(user, groups...)
	if err != nil {
		return fmt.Errorf("cannot issue a certificate for %s: %w", user, err)
	}
	encode := base64.StdEncoding.EncodeToString
	config := fmt.Sprintf(kubeconfigFormat, user, c.URL(),
		encode(c.authority.certificate), encode(pair.certificate), encode(pair.key))
	return os.WriteFile(path, []byte(config), 0o600)
}
