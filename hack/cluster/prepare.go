// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
)

// prepare chooses the ports and writes certificates, kubeconfigs and configuration files.
func (c *Cluster) prepare() error {
	for _, dir := range []string{"pki", "logs", "users"} {
		if err := os.MkdirAll(c.path(dir), 0o700); err != nil {
			return err
		}
	}
	if err := c.choosePorts(); err != nil {
		return err
	}
	for _, step := range []func() error{c.prepareAPIServer, c.prepareEtcd, c.prepareUsers, c.prepareConfigs} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// choosePorts chooses ports that are free now. They are below the ephemeral port range, so that no outgoing connection takes
// them while a component is down between Kill and Restart.
func (c *Cluster) choosePorts() error {
	for _, port := range []*int{&c.etcdPort, &c.apiServerPort} {
		listener, err := listenOnFreePort()
		if err != nil {
			return err
		}
		defer listener.Close() // not before both are chosen: they must differ
		*port = listener.Addr().(*net.TCPAddr).Port
	}
	return nil
}

func listenOnFreePort() (net.Listener, error) {
	const first, count, attempts = 20000, 10000, 100
	var err error
	for range attempts {
		var listener net.Listener
		if listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(count))); err == nil {
			return listener, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return nil, fmt.Errorf("cannot find a free port: %w", err)
}

func (c *Cluster) prepareAPIServer() error {
	var err error
	if c.authority, err = newAuthority("kubernetes"); err != nil {
		return err
	}
	service := "kubernetes.default.svc"
	server, err := c.authority.issueServer([]string{"kubernetes", "kubernetes.default", service, service + ".cluster.local"},
		firstServiceIP)
	if err != nil {
		return err
	}
	serviceAccounts, err := newAuthority("service-accounts") // signs tokens; the certificate contains the public key
	if err != nil {
		return err
	}
	return errors.Join(c.authority.write(c.path("pki", "ca")), server.write(c.path("pki", "apiserver")),
		serviceAccounts.write(c.path("pki", "service-accounts")))
}

// prepareEtcd creates a separate CA: with a shared one, every user of the API server could access etcd directly.
func (c *Cluster) prepareEtcd() error {
	authority, err := newAuthority("etcd")
	if err != nil {
		return err
	}
	server, err := authority.issueServer(nil)
	if err != nil {
		return err
	}
	client, err := authority.issueClient("kube-apiserver")
	if err != nil {
		return err
	}
	if c.etcdClient, err = newClient(authority, client); err != nil {
		return err
	}
	return errors.Join(authority.write(c.path("pki", "etcd-ca")), server.write(c.path("pki", "etcd")),
		client.write(c.path("pki", "etcd-client")))
}

func (c *Cluster) prepareUsers() error {
	const administrators = "system:masters"
	pair, err := c.authority.issueClient("local-cluster", administrators)
	if err != nil {
		return err
	}
	if c.apiClient, err = newClient(c.authority, pair); err != nil {
		return err
	}
	return errors.Join(
		c.writeKubeconfig(c.Kubeconfig(), "kubernetes-admin", administrators),
		c.writeKubeconfig(c.componentKubeconfig(ControllerManager), "system:kube-controller-manager"),
		c.writeKubeconfig(c.componentKubeconfig(Scheduler), "system:kube-scheduler"),
		c.writeKubeconfig(c.componentKubeconfig(Kwok), "kwok", administrators),
	)
}

func (c *Cluster) prepareConfigs() error {
	stages, err := os.ReadFile(filepath.Join(c.options.BinDir, builtDir, kwokStagesFile))
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"audit-policy.yaml": []byte(auditPolicy),
		"scheduler.yaml":    fmt.Appendf(nil, schedulerConfigFormat, c.componentKubeconfig(Scheduler)),
		"kwok.yaml":         stages,
	} {
		if err := os.WriteFile(c.path(name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func newClient(authority *authority, pair keyPair) (*http.Client, error) {
	config, err := authority.clientConfig(pair)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	return &http.Client{Transport: transport, Timeout: requestTimeout}, nil
}
