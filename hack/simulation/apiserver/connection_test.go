// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
)

var configMaps = schema.GroupResource{Resource: "configmaps"}

// faulty is a network with one fault for creations. It knows what the client has seen.
type faulty struct {
	Reliable
	fault Fault
	seen  []string
	ended chan struct{}
}

func (f *faulty) Ended(*Request) { close(f.ended) }

func (f *faulty) Request(r *Request) (fault Fault, responded func(*Object, error)) {
	if r.Verb == "create" {
		fault = f.fault
	}
	return fault, func(result *Object, err error) {
		f.seen = append(f.seen, fmt.Sprintf("%s: %t %v", r, result != nil, err))
	}
}

func TestFaults(t *testing.T) {
	for _, test := range []struct {
		name      string
		fault     Fault
		takes     time.Duration
		isApplied bool
		wantError string
	}{
		{"none", Fault{}, 2 * latency, true, ""},
		{"delay", Fault{Delay: time.Second, AfterDelay: time.Minute}, time.Minute + time.Second + 2*latency, true, ""},
		{"status", Fault{Err: StatusError(http.StatusServiceUnavailable, "overloaded")}, latency, false, "overloaded"},
		{"broken", Fault{Err: ErrConnection}, latency, false, ErrConnection.Error()},
		{"lost", Fault{Lost: true}, 2 * latency, true, ErrConnection.Error()},
	} {
		t.Run(test.name, func(t *testing.T) {
			network := &faulty{fault: test.fault}
			inCluster(t, Options{}, network, func(c *cluster) {
				start, o := time.Now(), object(t, configMap)
				_, err := c.of(o).Create(c.ctx, o, metav1.CreateOptions{})
				if err == nil != (test.wantError == "") || err != nil && !strings.Contains(err.Error(), test.wantError) {
					t.Errorf("the error is %v", err)
				}
				if took := time.Since(start); took != test.takes {
					t.Errorf("it took %s", took)
				}
				if isApplied := c.get(o) != nil; isApplied != test.isApplied {
					t.Errorf("that it was applied is %t", isApplied)
				}
				if got := network.seen[0]; !strings.HasPrefix(got, "create configmaps a: ") || !strings.Contains(got, test.wantError) {
					t.Errorf("the network was told %q", got)
				}
			})
		})
	}
}

// TestKill kills a client at the moment when its request was applied: it gets no answer to that one nor to others, its watches end, and
// discovery still answers.
func TestKill(t *testing.T) {
	network := &faulty{}
	inCluster(t, Options{}, network, func(c *cluster) {
		network.fault.Applied, network.ended = c.connection.Break, make(chan struct{})
		_, stop := c.watching(metav1.ListOptions{})
		o := object(t, configMap)
		_, err := c.of(o).Create(c.ctx, o, metav1.CreateOptions{})
		if !errors.Is(err, ErrConnection) {
			t.Errorf("the request that was applied has the error %v", err)
		}
		if _, err := c.of(o).Get(c.ctx, "a", metav1.GetOptions{}); !errors.Is(err, ErrConnection) {
			t.Errorf("a later request has the error %v", err)
		}
		start := time.Now()
		if <-network.ended; time.Since(start) > time.Second {
			t.Errorf("its watch ends after %s", time.Since(start))
		}
		if c.Server.Client("user").Get(configMaps, "default", "a") == nil {
			t.Error("the request was not applied")
		}
		if _, err := c.kube.Discovery().ServerVersion(); err != nil {
			t.Error(err)
		}
		stop()
	})
}

// observed is an Observer.
type observed []string

func (o *observed) Committed(c *Change) {
	*o = append(*o, fmt.Sprintf("%s %s by %s %s: %t %t", c.Type, c.Request, c.Request.Client, c.Request.Manager, c.Old != nil, c.Admitted))
}

func (o *observed) Failed(r *Request, found *Object, err error) {
	*o = append(*o, fmt.Sprintf("%s by %s: %t %s", r, r.Client, found != nil, apierrors.ReasonForError(err)))
}

func TestObserver(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		var o observed
		c.Observe(&o)
		a := c.create(configMap)
		c.merge(a, "data: {x: z}")
		c.merge(a, "data: {x: z}") // It changes nothing.
		_, _ = c.patch(a, "application/merge-patch+json", "metadata: {name: b}")
		_, _ = c.Client("user").Create(object(t, configMap))
		_, _ = c.kube.CoreV1().RESTClient().Get().Resource("configmaps").SetHeader("Accept", "application/cbor").DoRaw(c.ctx)
		if err := c.Client("user").Delete(a, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if want := []string{
			"ADDED create configmaps a by tester program: false false", "MODIFIED patch configmaps a by tester program: true false",
			"patch configmaps a by tester: true BadRequest", "create configmaps a by user: true AlreadyExists",
			"list configmaps by tester: false ",
			"DELETED delete configmaps a by user user: true false",
		}; !slices.Equal(o, want) {
			t.Errorf("it was told %q", o)
		}
	})
}

func TestClear(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		seen, stop := c.watching(metav1.ListOptions{})
		defer stop()
		c.merge(c.create(configMap), "metadata: {finalizers: [example.com/f]}")
		c.create(widget)
		c.Client("user").Clear()
		for _, o := range c.All() {
			if o.GetKind() != "Namespace" {
				t.Errorf("there is still %s %s", o.GetKind(), o.GetName())
			}
		}
		c.create(configMap)
		advance(time.Second)
		if got := seen(); got != "ADDED a, MODIFIED a, DELETED a, ADDED a" {
			t.Errorf("a watch has seen %q", got)
		}
	})
}

func TestRules(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		matches := func(r *Request) bool { return r.Client == "tester" && r.IsWrite() }
		create := func(name string) (*Object, error) {
			o := object(t, labelled(name, "x"))
			return c.of(o).Create(c.ctx, o, metav1.CreateOptions{})
		}
		c.AddRule(Rule{Until: time.Now().Add(time.Minute), Matches: matches, Admit: func(r *Request, o *Object) error {
			if r.Name == "denied" {
				return apierrors.NewForbidden(r.Resource, r.Name, errors.New("denied"))
			}
			o.SetLabels(nil)
			return nil
		}})
		a, err := create("a")
		if err != nil || len(a.GetLabels()) > 0 {
			t.Errorf("admission makes %v, %v", a, err)
		}
		_, err = create("denied")
		expectError(t, err, metav1.StatusReasonForbidden, "denied")
		c.AddRule(Rule{Until: time.Now().Add(time.Second), Matches: matches, Reject: func(r *Request) error {
			return apierrors.NewForbidden(r.Resource, r.Name, errors.New("exceeded quota"))
		}})
		_, err = create("b")
		expectError(t, err, metav1.StatusReasonForbidden, "exceeded quota")
		advance(time.Second)
		_, err = create("b")
		expectError(t, err, "", "")
		c.ClearRules()
		if d, err := create("d"); err != nil || len(d.GetLabels()) == 0 {
			t.Errorf("without rules there is %v, %v", d, err)
		}
	})
}

// TestAdmissionRevertsChange has admission that undoes a change: nothing has changed, but for the time at which somebody tried.
func TestAdmissionRevertsChange(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		o := c.create(configMap)
		c.AddRule(Rule{
			Until: time.Now().Add(2 * time.Hour), Matches: (*Request).IsWrite,
			Admit: func(_ *Request, o *Object) error { set(o, "v", "data", "k"); return nil },
		})
		advance(time.Hour)
		if got := c.merge(o, "data: {k: w}"); got.GetResourceVersion() != o.GetResourceVersion() {
			t.Errorf("it becomes %v", got)
		}
	})
}

// TestRefused has what the API server cannot do: it says so.
func TestRefused(t *testing.T) {
	for _, test := range []struct {
		method, path, contentType, accept, body string
		code                                    int
		part                                    string
	}{
		{"DELETE", "/api/v1/namespaces/default/configmaps/a?dryRun=All", "", "", "", 501, "parameter dryRun=All of delete"},
		{"GET", "/api/v1/namespaces/default/configmaps?nope=1", "", "", "", 501, "parameter nope=1 of list"},
		{"GET", "/api/v1/namespaces/default/pods/a/log", "", "", "", 501, "subresource log of pods"},
		{"POST", "/api/v1/namespaces/default/pods/a/eviction", "", "", "", 501, "subresource eviction of pods"},
		{"GET", "/api/v1/namespaces/default/configmaps", "", "application/vnd.kubernetes.protobuf", "", 406, "use application/json"},
		{"POST", "/api/v1/namespaces/default/configmaps", "application/cbor", "", "k8s", 415, "use application/json"},
		{"POST", "/api/v1/namespaces/default/configmaps", "application/vnd.kubernetes.protobuf", "", "k8s", 415, "version/kind"},
		{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "", "", "{}", 404, "not simulated"},
		{"GET", "/apis/apps/v1beta1/namespaces/default/deployments", "", "", "", 404, "not simulated"},
		{"GET", "/openapi/v3", "", "", "", 404, "not simulated"},
		{"PATCH", "/apis/apps/v1/namespaces/default/deployments/a/scale?fieldManager=x", "application/apply-patch+yaml", "", "{}", 501, "apply of a scale"},
		{"DELETE", "/apis/apps/v1/namespaces/default/deployments/a", "", "", `{"orphanDependents": true}`, 501, "options"},
		{"GET", "/api/v1/configmaps/a", "", "", "", 404, "scope"},
		{"POST", "/api/v1/namespaces/default/configmaps", "", "", "{", 400, "no JSON"},
	} {
		inCluster(t, Options{}, Reliable{}, func(c *cluster) {
			c.create(deployment)
			c.create(pod)
			r, err := http.NewRequestWithContext(c.ctx, test.method, "http://x"+test.path, bytes.NewBufferString(test.body))
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(test.body, "{api") {
				r.Body = io.NopCloser(bytes.NewReader(encode(object(t, test.body).Object)))
			}
			r.Header.Set("Content-Type", test.contentType)
			r.Header.Set("Accept", test.accept)
			response, err := c.connection.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != test.code || !strings.Contains(string(body), test.part) {
				t.Errorf("%s %s responds %d %s, %v", test.method, test.path, response.StatusCode, body, err)
			}
		})
	}
}

// TestProtobuf has a client that sends protobuf.
func TestProtobuf(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		config := c.connection.Config()
		config.ContentType = runtime.ContentTypeProtobuf
		client := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
		a, err := client.Create(c.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		found := c.Client("user").Get(configMaps, "default", "a")
		if found.GetKind() != "ConfigMap" || found.GetUID() != a.UID || value(found, "data", "k") != "v" {
			t.Errorf("it was created as %v", found)
		}
		expectError(t, client.Delete(c.ctx, "a", *metav1.NewPreconditionDeleteOptions("other")), metav1.StatusReasonConflict, "UID")
		expectError(t, client.Delete(c.ctx, "a", *metav1.NewPreconditionDeleteOptions(string(a.UID))), "", "")
	})
}

// TestAccessReview asks for permissions, and then for what each API server has, and this one does not: an observer is told.
func TestAccessReview(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		var o observed
		c.Observe(&o)
		review, err := c.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(c.ctx, &authorizationv1.SelfSubjectAccessReview{}, metav1.CreateOptions{})
		if err != nil || !review.Status.Allowed {
			t.Errorf("the review is %v, %v", review, err)
		}
		_, err = c.kube.AuthenticationV1().TokenReviews().Create(c.ctx, &authenticationv1.TokenReview{}, metav1.CreateOptions{})
		expectError(t, err, metav1.StatusReasonNotFound, "")
		if want := (observed{"post tokenreviews by tester: false NotFound"}); !slices.Equal(o, want) {
			t.Errorf("the observer was told %q, want %q", o, want)
		}
	})
}

func TestFieldValidation(t *testing.T) {
	for _, text := range []string{
		strings.Replace(configMap, ", data:", ", nope: 1, data:", 1), strings.Replace(widget, "red", "red, nope: 1", 1),
		strings.Replace(deployment, "spec: {", "spec: {nope: 1, ", 1),
	} {
		inCluster(t, Options{}, Reliable{}, func(c *cluster) {
			o := object(t, text)
			_, err := c.of(o).Create(c.ctx, o, metav1.CreateOptions{FieldValidation: "Strict"})
			expectError(t, err, metav1.StatusReasonBadRequest, "unknown field")
			_, err = c.of(o).Create(c.ctx, o, metav1.CreateOptions{})
			expectError(t, err, "", "")
		})
	}
}

func TestDiscovery(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		start, client := time.Now(), c.kube.Discovery()
		groups, err := restmapper.GetAPIGroupResources(client)
		if err != nil {
			t.Fatal(err)
		}
		mapper := restmapper.NewDiscoveryRESTMapper(groups)
		for kind, want := range map[schema.GroupKind]string{
			{Kind: "ConfigMap"}: "configmaps namespace", {Kind: "Node"}: "nodes root", {Group: "example.com", Kind: "Widget"}: "widgets namespace",
			{Group: "networking.k8s.io", Kind: "NetworkPolicy"}: "networkpolicies namespace", {Group: "example.com", Kind: "Plain"}: "plains root",
		} {
			mapping, err := mapper.RESTMapping(kind)
			if err != nil || mapping.Resource.Resource+" "+string(mapping.Scope.Name()) != want {
				t.Errorf("%s is %+v, %v", kind, mapping, err)
			}
		}
		for _, path := range []string{"/api", "/apis", "/apis/apps", "/apis/apps/v1", "/api/v1", "/version"} { // as old clients ask
			if _, err := client.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(c.ctx); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		list, err := client.ServerResourcesForGroupVersion("example.com/v1")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range list.APIResources {
			names = append(names, r.Name+" "+r.Kind)
		}
		if want := []string{"plains Plain", "widgets Widget", "widgets/status Widget", "widgets/scale Scale"}; !slices.Equal(names, want) {
			t.Errorf("example.com/v1 has %q", names)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("discovery took %s", took)
		}
	})
}

// TestConcurrency has many clients at once: each write is on the newest state.
func TestConcurrency(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		c.create(widget)
		const writers = 20
		done := make(chan error)
		for range writers {
			go func() {
				client := dynamic.NewForConfigOrDie(c.Connect("writer", Reliable{}).Config()).Resource(c.ForKind(schema.GroupKind{
					Group: "example.com", Kind: "Widget"}).GroupVersionResource).Namespace("default")
				for {
					o, err := client.Get(context.Background(), "a", metav1.GetOptions{})
					if err == nil {
						labels := o.GetLabels()
						if labels == nil {
							labels = map[string]string{}
						}
						labels[fmt.Sprint("n", len(labels))] = "x"
						o.SetLabels(labels)
						_, err = client.Update(context.Background(), o, metav1.UpdateOptions{})
					}
					if !apierrors.IsConflict(err) {
						done <- err
						return
					}
				}
			}()
		}
		for range writers {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if labels := c.get(object(t, widget)).GetLabels(); len(labels) != writers {
			t.Errorf("of %d writes, %d are there", writers, len(labels))
		}
	})
}
