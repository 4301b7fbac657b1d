// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults provides a proxy in front of the API server that injects faults into requests, watches included, and records the
// requests. Faults are injected outside of the process under test, so that it is the binary that ships.
package faults

import (
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Rule selects the requests that a fault is injected into. Of several rules that select a request, the first one is used.
type Rule struct {
	Name        string   // the fault's key in Injected
	Verbs       []string // RBAC verbs; all if empty
	Resources   []string // plural, with the subresource, as in "deployments/status"; all if empty
	Nth         int      // only the n-th matching request, counted from 1; all if 0
	Probability float64  // of each matching request; 0 means all of them
	Fault       Fault
}

// Writes are the mutating verbs.
var Writes = []string{"create", "update", "patch", "delete"}

// Request is a request that was sent to the API server, other than a list or a watch.
type Request struct {
	Verb, Resource, Name string
	Sent                 time.Time
	Code                 int // of the API server's response; 0 if there was none
}

// Succeeded reports whether the API server applied the request and responded with a 2xx code.
func (r Request) Succeeded() bool { return r.Code >= 200 && r.Code <= 299 }

// Proxy forwards HTTP/2, watches included, to an API server.
type Proxy struct {
	server  *httptest.Server
	reverse *httputil.ReverseProxy

	lock     sync.Mutex
	random   *rand.Rand
	rules    []Rule
	matched  []int // number of matching requests, by rule
	injected map[string]int
	requests []*Request
}

// Start starts a proxy that sends requests as config's user. With the same seed, rules with a Probability select the same requests
// as long as requests arrive in the same order.
func Start(config *rest.Config, seed uint64) (*Proxy, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		reverse:  httputil.NewSingleHostReverseProxy(target),
		random:   rand.New(rand.NewPCG(seed, 0)),
		injected: map[string]int{},
	}
	p.reverse.Transport = transport
	p.reverse.FlushInterval = -1 // Watch events must not wait for a full buffer.
	p.reverse.ModifyResponse = p.recordResponse
	p.reverse.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	p.server = httptest.NewUnstartedServer(p)
	p.server.EnableHTTP2 = true
	// Connections that end early are expected, and would be logged.
	quiet := log.New(io.Discard, "", 0)
	p.server.Config.ErrorLog, p.reverse.ErrorLog = quiet, quiet
	p.server.StartTLS()
	return p, nil
}

// Close closes all connections and stops the proxy.
func (p *Proxy) Close() {
	p.CloseConnections()
	p.server.Close()
}

// WriteKubeconfig writes a kubeconfig for the proxy.
func (p *Proxy) WriteKubeconfig(path string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["proxy"] = &clientcmdapi.Cluster{
		Server:                   p.server.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw}),
	}
	config.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy"}
	config.CurrentContext = "proxy"
	content, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// SetRules replaces the rules and resets their counts of matching requests.
func (p *Proxy) SetRules(rules ...Rule) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.rules, p.matched = rules, make([]int, len(rules))
}

// Injected returns the number of injected faults by rule name.
func (p *Proxy) Injected() map[string]int {
	p.lock.Lock()
	defer p.lock.Unlock()
	return maps.Clone(p.injected)
}

// Requests returns the requests that were sent to the API server since Start or ResetRequests, in order.
func (p *Proxy) Requests() []Request {
	p.lock.Lock()
	defer p.lock.Unlock()
	requests := make([]Request, len(p.requests))
	for i, request := range p.requests {
		requests[i] = *request
	}
	return requests
}

// ResetRequests discards the recorded requests.
func (p *Proxy) ResetRequests() {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.requests = nil
}

// CloseConnections closes all client connections, including those with requests in flight.
func (p *Proxy) CloseConnections() { p.server.CloseClientConnections() }

// ServeHTTP injects a fault into the request if a rule selects it, and forwards it otherwise.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := parse(r)
	request.Sent = time.Now() // A fault may hold it from now on.
	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, request))
	if fault := p.faultFor(request); fault != nil {
		fault(w, r, http.HandlerFunc(p.forward))
		return
	}
	p.forward(w, r)
}

type requestKey struct{}

func (p *Proxy) forward(w http.ResponseWriter, r *http.Request) {
	request := r.Context().Value(requestKey{}).(*Request)
	if request.Verb != "watch" && request.Verb != "list" && request.Resource != "" {
		p.lock.Lock()
		p.requests = append(p.requests, request)
		p.lock.Unlock()
	}
	p.reverse.ServeHTTP(w, r)
}

func (p *Proxy) faultFor(request *Request) Fault {
	p.lock.Lock()
	defer p.lock.Unlock()
	for i, rule := range p.rules {
		if len(rule.Verbs) > 0 && !slices.Contains(rule.Verbs, request.Verb) ||
			len(rule.Resources) > 0 && !slices.Contains(rule.Resources, request.Resource) {
			continue
		}
		p.matched[i]++
		if rule.Nth > 0 && rule.Nth != p.matched[i] || rule.Probability > 0 && p.random.Float64() >= rule.Probability {
			continue
		}
		p.injected[rule.Name]++
		return rule.Fault
	}
	return nil
}

// recordResponse records the code of the API server's response, other than to a list or a watch. It reads the whole response first: to forward
// the response to a request whose body the API server has not read, for example because it is forbidden, may block forever.
func (p *Proxy) recordResponse(response *http.Response) error {
	request := response.Request.Context().Value(requestKey{}).(*Request)
	if request.Verb == "watch" || request.Verb == "list" {
		return nil
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	p.lock.Lock()
	defer p.lock.Unlock()
	request.Code = response.StatusCode
	return nil
}
