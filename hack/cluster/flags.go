// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"net"
	"slices"
)

const (
	serviceRange  = "10.96.0.0/16"
	podRange      = "10.244.0.0/16"
	serviceIssuer = "https://kubernetes.default.svc.cluster.local"
	etcdPeerURL   = "https://127.0.0.1:0" // required, although there are no peers
)

// firstServiceIP is the cluster IP of the Service "kubernetes".
var firstServiceIP = net.IPv4(10, 96, 0, 1)

// Without leader election the only kube-scheduler is active immediately after a restart. The same applies to
// kube-controller-manager.
const schedulerConfigFormat = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: %q
  qps: 1000
  burst: 2000
`

// arguments returns the arguments of the component.
func (c *Cluster) arguments(component Component) []string {
	switch component {
	case Etcd:
		return c.etcdArguments()
	case APIServer:
		return c.apiServerArguments()
	case ControllerManager:
		return c.controllerManagerArguments()
	case Scheduler:
		return []string{"--config=" + c.path("scheduler.yaml"), "--secure-port=0"}
	case Kwok:
		return []string{"--kubeconfig=" + c.componentKubeconfig(Kwok), "--config=" + c.path("kwok.yaml"),
			"--manage-all-nodes", "--node-ip=127.0.0.1", "--node-lease-duration-seconds=40", "--cidr=" + podRange}
	}
	panic(fmt.Sprintf("unknown component %q", component))
}

func (c *Cluster) etcdArguments() []string {
	certificate := []string{"cert-file=" + c.path("pki", "etcd.crt"), "key-file=" + c.path("pki", "etcd.key"),
		"trusted-ca-file=" + c.path("pki", "etcd-ca.crt"), "client-cert-auth"}
	args := []string{"--name=etcd", "--data-dir=" + c.path("etcd"), "--log-level=warn",
		"--unsafe-no-fsync", // the data does not have to survive a power failure
		"--listen-client-urls=" + c.etcdURL(), "--advertise-client-urls=" + c.etcdURL(),
		"--listen-peer-urls=" + etcdPeerURL, "--initial-advertise-peer-urls=" + etcdPeerURL,
		"--initial-cluster=etcd=" + etcdPeerURL}
	for _, flag := range certificate {
		args = append(args, "--"+flag, "--peer-"+flag)
	}
	return args
}

func (c *Cluster) apiServerArguments() []string {
	return slices.Concat([]string{
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.apiServerPort),
		"--endpoint-reconciler-type=none", // endpoints must not be loopback addresses
		"--service-cluster-ip-range=" + serviceRange,
		"--tls-cert-file=" + c.path("pki", "apiserver.crt"), "--tls-private-key-file=" + c.path("pki", "apiserver.key"),
		"--client-ca-file=" + c.path("pki", "ca.crt"), "--authorization-mode=RBAC",
		"--etcd-servers=" + c.etcdURL(), "--etcd-cafile=" + c.path("pki", "etcd-ca.crt"),
		"--etcd-certfile=" + c.path("pki", "etcd-client.crt"), "--etcd-keyfile=" + c.path("pki", "etcd-client.key"),
		"--service-account-issuer=" + serviceIssuer, "--service-account-key-file=" + c.path("pki", "service-accounts.crt"),
		"--service-account-signing-key-file=" + c.path("pki", "service-accounts.key"),
		"--audit-policy-file=" + c.path("audit-policy.yaml"), "--audit-log-path=" + c.path("audit.log"),
		"--audit-log-maxsize=100000", // MB; no rotation: Requests reads one file
	}, c.options.APIServerFlags)
}

func (c *Cluster) controllerManagerArguments() []string {
	return []string{"--kubeconfig=" + c.componentKubeconfig(ControllerManager),
		"--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000",
		"--use-service-account-credentials", "--root-ca-file=" + c.path("pki", "ca.crt"),
		"--service-account-private-key-file=" + c.path("pki", "service-accounts.key")}
}

func (c *Cluster) componentKubeconfig(component Component) string {
	return c.path(string(component) + ".kubeconfig")
}
