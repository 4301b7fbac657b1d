// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults is a proxy between a program and the API server that does to requests and watches what a test tells it to, and
// writes down what the API server answered. The program under test is the one that ships: it sees a server that fails.
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

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	samplescheme "k8s.io/sample-controller/pkg/generated/clientset/versioned/scheme"
)

// Rule says to which requests a fault happens. The first rule that applies decides.
type Rule struct {
	Name      string   // of the fault, for those who count it
	Verbs     []string // as RBAC has them; all if empty
	Resources []string // plural, with the subresource, as in "foos/status"; all if empty
	Nth       int      // only the n-th of these requests, counted from 1; all if 0
	Share     float64  // only this share of these requests, chosen at random; all if 0
	Fault     Fault
}

// Writes are the verbs that change something.
var Writes = []string{"create", "update", "patch", "delete"}

// Request is one that the API server was asked, other than a list or a watch.
type Request struct {
	Verb, Resource, Namespace, Name string
	Sent, Answered                  time.Time
	Code                            int            // 0 if there is no answer
	Object                          runtime.Object // that the server answered with, nil if it was none
}

// Proxy passes on HTTP/2, watches included, to an API server.
type Proxy struct {
	server  *httptest.Server
	reverse *httputil.ReverseProxy
	decoder runtime.Decoder
	watches watches

	lock     sync.Mutex
	random   *rand.Rand
	rules    []Rule
	matched  []int // by rule: requests so far that it is about
	injected map[string]int
	requests []*Request
}

// Start starts a proxy whose requests are those of config's user. The same seed chooses the same requests for rules with a Share,
// as long as these come in the same order.
func Start(config *rest.Config, seed uint64) (*Proxy, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	known := runtime.NewScheme()
	if err := scheme.AddToScheme(known); err != nil {
		return nil, err
	}
	if err := samplescheme.AddToScheme(known); err != nil {
		return nil, err
	}
	p := &Proxy{
		reverse:  httputil.NewSingleHostReverseProxy(target),
		decoder:  serializer.NewCodecFactory(known).UniversalDeserializer(),
		watches:  watches{blocks: map[string]block{}, gone: map[string]bool{}, running: map[*watch]bool{}, tapes: map[string]*tape{}, old: map[string]*tape{}},
		random:   rand.New(rand.NewPCG(seed, 0)),
		injected: map[string]int{},
	}
	p.reverse.Transport = transport
	p.reverse.FlushInterval = -1 // Watches must not wait for a full buffer.
	p.reverse.ModifyResponse = p.noteAnswer
	p.reverse.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	p.server = httptest.NewUnstartedServer(p)
	p.server.EnableHTTP2 = true
	// They would tell of each connection that ends early.
	quiet := log.New(io.Discard, "", 0)
	p.server.Config.ErrorLog, p.reverse.ErrorLog = quiet, quiet
	p.server.StartTLS()
	return p, nil
}

// Close ends all connections and the proxy.
func (p *Proxy) Close() {
	p.watches.openAll()
	p.CutConnections()
	p.server.Close()
}

// URL is the proxy's address.
func (p *Proxy) URL() string { return p.server.URL }

// WriteKubeconfig writes a kubeconfig that leads to the proxy.
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

// SetRules replaces the rules, and begins to count for the new ones.
func (p *Proxy) SetRules(rules ...Rule) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.rules, p.matched = rules, make([]int, len(rules))
}

// Injected returns how often each fault has happened, by the name of its rule.
func (p *Proxy) Injected() map[string]int {
	p.lock.Lock()
	defer p.lock.Unlock()
	return maps.Clone(p.injected)
}

// Requests returns what the API server has been asked since the start, or since Forget, in the order in which it was sent.
func (p *Proxy) Requests() []Request {
	p.lock.Lock()
	defer p.lock.Unlock()
	requests := make([]Request, len(p.requests))
	for i, request := range p.requests {
		requests[i] = *request
	}
	return requests
}

// Forget forgets the requests so far.
func (p *Proxy) Forget() {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.requests = nil
}

// CutConnections closes all connections of the program, with all that is under way on them.
func (p *Proxy) CutConnections() { p.server.CloseClientConnections() }

// ServeHTTP serves one request as the rules say.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := parse(r)
	pass := http.HandlerFunc(p.pass)
	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, request))
	if fault := p.faultFor(request); fault != nil {
		fault(w, r, pass)
		return
	}
	pass(w, r)
}

type requestKey struct{}

func (p *Proxy) pass(w http.ResponseWriter, r *http.Request) {
	request := r.Context().Value(requestKey{}).(*Request)
	if request.Verb == "watch" {
		p.watches.serve(w, r, request.Resource, p.reverse)
		return
	}
	if request.Verb != "list" && request.Resource != "" {
		p.lock.Lock()
		request.Sent = time.Now()
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
		if rule.Nth > 0 && rule.Nth != p.matched[i] || rule.Share > 0 && p.random.Float64() >= rule.Share {
			continue
		}
		p.injected[rule.Name]++
		return rule.Fault
	}
	return nil
}

// noteAnswer writes down what the API server answers to a request for one object.
func (p *Proxy) noteAnswer(response *http.Response) error {
	request := response.Request.Context().Value(requestKey{}).(*Request)
	if request.Verb == "watch" || request.Verb == "list" || request.Resource == "" {
		return nil
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	object, _, err := p.decoder.Decode(body, nil, nil)
	if err != nil {
		object = nil // Where a kind is not known the server answers with a text.
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	request.Answered, request.Code, request.Object = time.Now(), response.StatusCode, object
	return nil
}
