// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package others

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	"github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned" // It registers itself.
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/client-go/rest"
)

// certManagerControllers are those that issue certificates which sign themselves.
var certManagerControllers = []string{
	issuers.ControllerName, issuing.ControllerName, keymanager.ControllerName, readiness.ControllerName, requestmanager.ControllerName,
	revisionmanager.ControllerName, trigger.ControllerName, approver.ControllerName, selfsigned.CRControllerName,
}

func init() { http.DefaultTransport = clusters }

// CertManagerCRDs returns the files of the CRDs of cert-manager.
func CertManagerCRDs() (files []string, err error) {
	directory, err := exec.Command("go", "list", "-m", "-f={{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"certificaterequests", "certificates", "clusterissuers", "issuers"} {
		files = append(files, filepath.Join(strings.TrimSpace(string(directory)), "deploy/crds/cert-manager.io_"+name+".yaml"))
	}
	return files, nil
}

// CertManager runs the controllers of cert-manager that issue certificates which sign themselves.
func CertManager(ctx context.Context, config *rest.Config) error {
	host, err := clusters.add(config)
	if err != nil {
		return err
	}
	defer clusters.Delete(host)
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		APIServerHost: "http://" + host, KubernetesAPIQPS: 20, KubernetesAPIBurst: 50,
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour, CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: "kube-system"},
	})
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	for _, name := range certManagerControllers {
		c, err := controller.Known()[name](factory)
		if err != nil {
			return err
		}
		running.Go(func() { _ = c.Run(5, ctx) }) // Its only error is that it was stopped.
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	<-ctx.Done()
	return nil
}

// hosts are the transports of clusters, by a host name that each process has for its own. cert-manager makes its clients itself, and has no
// option for their transport: without TLS, it is http.DefaultTransport.
type hosts struct {
	sync.Map
	count atomic.Int64
}

var clusters = &hosts{}

// cluster is what is behind a host name.
type cluster struct {
	transport http.RoundTripper
	address   *url.URL
}

// add returns the host name of a cluster.
func (h *hosts) add(config *rest.Config) (host string, err error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return "", err
	}
	address, err := url.Parse(config.Host)
	if err != nil {
		return "", err
	}
	host = fmt.Sprintf("cluster-%d.test", h.count.Add(1))
	h.Store(host, cluster{transport, address})
	return host, nil
}

// RoundTrip implements http.RoundTripper. API Priority and Fairness is on, as in each cluster.
func (h *hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/livez/ping" {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID: {"exempt"}}}, nil
	}
	found, ok := h.Load(r.URL.Host)
	if !ok {
		return nil, fmt.Errorf("%s has ended", r.URL.Host)
	}
	c := found.(cluster)
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = c.address.Scheme, c.address.Host, ""
	return c.transport.RoundTrip(r)
}
