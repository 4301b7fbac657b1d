// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
	typedv1alpha1 "k8s.io/sample-controller/pkg/generated/clientset/versioned/typed/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/ownership"
)

// client makes the requests of a scenario. As a http.RoundTripper it records what it sees.
type client struct {
	*testing.T
	ctx         context.Context
	core        rest.Interface
	foos        typedv1alpha1.FooInterface
	deployments appsclient.DeploymentInterface
	leases      coordinationclient.LeaseInterface
	namespace   string
	transport   http.RoundTripper
	silent      bool // It records nothing.
	responses   []seen
}

// seen is a response or an event.
type seen struct {
	what   string
	object map[string]any
}

const initialEvents = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

var paths = []string{"samplecontroller.k8s.io/v1alpha1 foos", "apps/v1 deployments", "coordination.k8s.io/v1 leases"}

// observe runs a scenario in a namespace, and returns the responses in their order, and the events of each object in theirs.
func observe(t *testing.T, config *rest.Config, namespace string, run func(c *client)) map[string][]string {
	ctx, cancel := context.WithTimeout(t.Context(), 5*convergence)
	defer cancel()
	c := &client{T: t, ctx: ctx, namespace: namespace}
	config = rest.CopyConfig(config)
	config.ContentType = "application/json"
	config.Wrap(func(transport http.RoundTripper) http.RoundTripper {
		c.transport = transport
		return c
	})
	kube := kubernetes.NewForConfigOrDie(config)
	c.core, c.foos = kube.CoreV1().RESTClient(), clientset.NewForConfigOrDie(config).SamplecontrollerV1alpha1().Foos(namespace)
	c.deployments, c.leases = kube.AppsV1().Deployments(namespace), kube.CoordinationV1().Leases(namespace)

	var watches sync.WaitGroup
	events := make([][]seen, len(paths))
	for i, path := range paths {
		var stream io.ReadCloser
		eventually(t, convergence, func() (err error) { // The CRD may be new.
			stream, err = c.watch(path, initialEvents)
			return err
		})
		watches.Go(func() {
			events[i] = readEvents(stream, func(event seen) bool { return nested(event.object, "metadata", "name") == lastName })
		})
	}
	run(c)
	// The last event of each watch.
	_, err := c.foos.Create(ctx, newFoo(lastName, lastName, 1), metav1.CreateOptions{})
	requireNoError(t, err)
	c.createDeployment(lastName, nil)
	_, err = c.leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: lastName}}, metav1.CreateOptions{})
	requireNoError(t, err)
	watches.Wait()
	return compared(t, c.responses, slices.Concat(events...))
}

func (c *client) watch(path, options string) (io.ReadCloser, error) {
	groupVersion, resource, _ := strings.Cut(path, " ")
	uri := fmt.Sprintf("/apis/%s/namespaces/%s/%s?watch=true&%s", groupVersion, c.namespace, resource, options)
	return c.core.Get().RequestURI(uri).Stream(c.ctx)
}

const lastName = "last"

// readEvents reads a watch until the last event.
func readEvents(stream io.ReadCloser, isLast func(event seen) bool) (events []seen) {
	defer stream.Close()
	for decoder := json.NewDecoder(stream); ; {
		var event struct {
			Type   string
			Object map[string]any
		}
		if err := decoder.Decode(&event); err != nil {
			return append(events, seen{err.Error(), nil})
		}
		if event.Type == "BOOKMARK" {
			if nested(event.Object, "metadata", "annotations", metav1.InitialEventsAnnotationKey) == nil {
				continue // The API server sends one every minute.
			}
			delete(event.Object, "spec") // It is empty.
		}
		events = append(events, seen{event.Type, event.Object})
		if isLast(events[len(events)-1]) {
			return events
		}
	}
}

// record records a number of events of a watch of Foos.
func (c *client) record(number int, options string) {
	stream, err := c.watch(paths[0], options)
	requireNoError(c.T, err)
	for _, event := range readEvents(stream, func(seen) bool { number--; return number == 0 }) {
		c.responses = append(c.responses, seen{"WATCH: " + event.what, event.object})
	}
}

// RoundTrip implements http.RoundTripper.
func (c *client) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.transport.RoundTrip(request)
	if err != nil || c.silent || request.URL.Query().Has("watch") {
		return response, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		return nil, err
	}
	_, path, _ := strings.Cut(request.URL.Path, "/"+c.namespace+"/")
	c.responses = append(c.responses, seen{fmt.Sprint(request.Method, " ", path, ": ", response.StatusCode), object})
	return response, nil
}

// create creates a Foo and its Deployment, and returns them when the Deployment is available.
func (c *client) create(name string) (*samplev1alpha1.Foo, *appsv1.Deployment) {
	foo, _ := c.foos.Create(c.ctx, newFoo(name, name, 1), metav1.CreateOptions{})
	c.createDeployment(name, foo)
	return c.wait(name, isAvailable(1))
}

func (c *client) createDeployment(name string, owner *samplev1alpha1.Foo) {
	deployment := newDeployment(name, "nginx", map[string]string{"app": "nginx"})
	if owner != nil {
		deployment.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, ownership.FooKind)}
	}
	c.deployments.Create(c.ctx, deployment, metav1.CreateOptions{})
}

func (c *client) updateFoo(foo *samplev1alpha1.Foo, edit func(foo *samplev1alpha1.Foo)) *samplev1alpha1.Foo {
	edited := foo.DeepCopy()
	edit(edited)
	updated, _ := c.foos.Update(c.ctx, edited, metav1.UpdateOptions{})
	return updated
}

// patch patches a Deployment as the controller does, with its resourceVersion as a precondition.
func (c *client) patch(deployment *appsv1.Deployment, edit func(deployment *appsv1.Deployment)) {
	before, after := deployment.DeepCopy(), deployment.DeepCopy()
	before.ResourceVersion = ""
	edit(after)
	from, fromErr := json.Marshal(before)
	to, toErr := json.Marshal(after)
	patch, err := strategicpatch.CreateTwoWayMergePatch(from, to, appsv1.Deployment{})
	requireNoError(c.T, errors.Join(fromErr, toErr, err))
	c.deployments.Patch(c.ctx, deployment.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
}

type state func(*samplev1alpha1.Foo, *appsv1.Deployment) bool

// wait waits until a Foo and a Deployment of the same name, empty if there is none, are in a state and have not changed for a while.
func (c *client) wait(name string, is state) (foo *samplev1alpha1.Foo, d *appsv1.Deployment) {
	c.Helper()
	c.silent = true
	last, since := "", time.Now()
	// It takes half a minute until the garbage collector knows the Foos of a new cluster.
	eventually(c.T, 3*convergence, func() error {
		foo, _ = c.foos.Get(c.ctx, name, metav1.GetOptions{})
		d, _ = c.deployments.Get(c.ctx, name, metav1.GetOptions{})
		if state := foo.ResourceVersion + " " + d.ResourceVersion; state != last {
			last, since = state, time.Now()
		}
		if !is(foo, d) || time.Since(since) < 500*time.Millisecond {
			return fmt.Errorf("after the state %q, Foo %s is %+v, and its Deployment %+v", last, name, foo.ObjectMeta, d.Status)
		}
		return nil
	})
	c.silent = false
	return foo, d
}

func isGone(foo *samplev1alpha1.Foo, d *appsv1.Deployment) bool { return foo.UID == "" && d.UID == "" }

func isAvailable(replicas int32) state {
	return func(_ *samplev1alpha1.Foo, d *appsv1.Deployment) bool {
		return d.UID != "" && d.Status.ObservedGeneration == d.Generation && *d.Spec.Replicas == replicas &&
			d.Status.UpdatedReplicas == replicas && d.Status.AvailableReplicas == replicas && d.Status.Replicas == replicas
	}
}

// compared returns the responses, and the events by object, without what may differ.
func compared(t *testing.T, responses, events []seen) map[string][]string {
	uids := map[any]string{nil: "none"}
	for _, response := range responses {
		if uid := nested(response.object, "metadata", "uid"); uids[uid] == "" {
			uids[uid] = fmt.Sprint("uid-", len(uids))
		}
	}
	versions := map[string][]string{} // those of the events of an object, which are in their order
	for _, event := range events {
		id := id(event.object)
		versions[id] = append(versions[id], versionOf(event.object))
		if !slices.IsSortedFunc(versions[id], compareVersions) {
			t.Errorf("the events of %s have the resourceVersions %s", id, versions[id])
		}
	}
	line := func(s seen) string {
		id := id(s.object)
		version := fmt.Sprint("version ", slices.Index(versions[id], versionOf(s.object))) // -1 if no event has it
		if strings.HasPrefix(id, "Deployment ") && version != "version -1" {
			version = "" // It depends on how often the status has changed.
		}
		return strings.ReplaceAll(fmt.Sprint(s.what, " ", view(s.object, uids), " ", version), "map[", "[")
	}
	result := map[string][]string{}
	for _, response := range responses {
		result["responses"] = append(result["responses"], line(response))
	}
	for _, event := range events {
		id, line := id(event.object), line(event)
		if lines := result[id]; strings.HasPrefix(id, "Deployment ") && len(lines) > 0 && lines[len(lines)-1] == line {
			continue // Only the status has changed.
		}
		result[id] = append(result[id], line)
	}
	return result
}

func id(object map[string]any) string {
	return fmt.Sprint(object["kind"], " ", nested(object, "metadata", "name"))
}

func versionOf(object map[string]any) string {
	return fmt.Sprint(nested(object, "metadata", "resourceVersion"))
}

func compareVersions(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

func nested(object map[string]any, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object, path...) // nil if there is none
	return value
}

// ignored are fields that differ from run to run, and those that the API server sets and the simulation does not.
var ignored = strings.Fields(`
	apiVersion namespace continue creationTimestamp managedFields resourceVersion message deployment.kubernetes.io/revision unknownField
	strategy revisionHistoryLimit progressDeadlineSeconds restartPolicy terminationGracePeriodSeconds dnsPolicy securityContext
	schedulerName resources terminationMessagePath terminationMessagePolicy imagePullPolicy`)

// view returns the parts of a value that are compared.
func view(value any, uids map[any]string) any {
	switch value := value.(type) {
	case []any:
		var views []any
		for _, element := range value {
			views = append(views, view(element, uids))
		}
		return slices.CompactFunc(views, reflect.DeepEqual) // Some causes are there twice.
	case map[string]any:
		views := map[string]any{}
		for name, field := range value {
			v := view(field, uids)
			switch {
			case slices.Contains(ignored, name), fmt.Sprint(v) == "map[]", fmt.Sprint(v) == "[]",
				name == "status" && value["kind"] == "Deployment":
			case name == "uid":
				views[name] = uids[field]
			case name == "deletionTimestamp":
				views[name] = "set"
			default:
				views[name] = v
			}
		}
		return views
	}
	return value
}
