// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// definitions are two CRDs: with everything that is simulated of one, and with nothing but a schema.
const definitions = `
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1beta1
    served: true
  - name: v1
    served: true
    storage: true
    selectableFields: [{jsonPath: .spec.color}]
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size, labelSelectorPath: .status.selector}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        x-kubernetes-validations: [{rule: "self.spec.size < 5"}]
        properties:
          spec:
            type: object
            required: [color]
            properties:
              color: {type: string, enum: [red, green, blue]}
              size: {type: integer, format: int32, minimum: 0, maximum: 10, default: 1}
              mode: {type: string, default: auto, nullable: true}
              name: {type: string, pattern: '^[a-z]+$', maxLength: 5}
              port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, count: {type: integer, default: 3}}
              tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              any: {type: object, x-kubernetes-preserve-unknown-fields: true}
              limits: {type: object, additionalProperties: {type: object, properties: {cpu: {type: string, default: one}}}}
          status:
            type: object
            properties: {size: {type: integer}, selector: {type: string}}
---
kind: CustomResourceDefinition
metadata: {name: plains.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: plains, kind: Plain}
  versions:
  - name: v1
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {status: {type: string}}}}
`

// The objects of the tests.
const (
	configMap  = `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default, labels: {l: a}}, data: {k: v}}`
	widget     = `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, namespace: default}, spec: {color: red}}`
	plain      = `{apiVersion: example.com/v1, kind: Plain, metadata: {name: a}}`
	lease      = `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a, namespace: default}, spec: {holderIdentity: x}}`
	podSpec    = `{containers: [{name: c, image: "c:1"}]}`
	workload   = `selector: {matchLabels: {l: a}}, template: {metadata: {labels: {l: a}}, spec: ` + podSpec + `}`
	deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: default}, spec: {` + workload + `}}`
	replicaSet = `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: a, namespace: default}, spec: {` + workload + `}}`
	stateful   = `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, namespace: default}, spec: {serviceName: s, ` + workload + `}}`
	daemonSet  = `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a, namespace: default}, spec: {` + workload + `}}`
	pod        = `{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: default}, spec: ` + podSpec + `}`
	job        = `{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: default}, spec: {template: {spec: {` +
		`restartPolicy: Never, containers: [{name: c, image: c}]}}}}`
	loadBalancer = `{apiVersion: v1, kind: Service, metadata: {name: a, namespace: default}, spec: {type: LoadBalancer,
		externalTrafficPolicy: Local, healthCheckNodePort: 30000, ports: [{port: 80}]}}`
	service = `{apiVersion: v1, kind: Service, metadata: {name: a, namespace: default}, spec: {ports: [{port: 80}]}}`
)

// cluster is an API server with clients of it.
type cluster struct {
	*testing.T
	*Server
	ctx        context.Context
	connection *Connection
	kube       kubernetes.Interface
	dynamic    dynamic.Interface
}

// inCluster runs a test in the bubble of a new cluster. Its client is named tester.
func inCluster(t *testing.T, options Options, network Network, run func(c *cluster)) {
	t.Helper()
	crds, err := ReadYAML([]byte(definitions))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := NewRegistry(crds...)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := New(registry, options)
		connection := s.Connect("tester", network)
		run(&cluster{
			T: t, Server: s, ctx: t.Context(), connection: connection,
			kube: kubernetes.NewForConfigOrDie(connection.Config()), dynamic: dynamic.NewForConfigOrDie(connection.Config()),
		})
	})
}

// object reads an object.
func object(t *testing.T, text string) *Object {
	t.Helper()
	objects, err := ReadYAML([]byte(text))
	if err != nil || len(objects) != 1 {
		t.Fatalf("%q has %d objects, %v", text, len(objects), err)
	}
	return objects[0]
}

// of returns the client of an object's resource, in its namespace if it has one.
func (c *cluster) of(o *Object) dynamic.ResourceInterface {
	c.Helper()
	resource := c.ForKind(o.GroupVersionKind().GroupKind())
	if resource == nil {
		c.Fatalf("%s is not served", o.GroupVersionKind())
	}
	client := c.dynamic.Resource(resource.GroupVersionResource)
	if o.GetNamespace() == "" {
		return client
	}
	return client.Namespace(o.GetNamespace())
}

// create creates an object.
func (c *cluster) create(text string) *Object {
	c.Helper()
	o := object(c.T, text)
	created, err := c.of(o).Create(c.ctx, o, metav1.CreateOptions{})
	if err != nil {
		c.Fatalf("creating %s: %v", text, err)
	}
	return created
}

// patch patches an object with YAML.
func (c *cluster) patch(o *Object, patchType types.PatchType, text string, subresources ...string) (*Object, error) {
	c.Helper()
	return c.of(o).Patch(c.ctx, o.GetName(), patchType, encode(object(c.T, text).Object), metav1.PatchOptions{}, subresources...)
}

// merge is a merge patch that must succeed.
func (c *cluster) merge(o *Object, text string, subresources ...string) *Object {
	c.Helper()
	patched, err := c.patch(o, types.MergePatchType, text, subresources...)
	if err != nil {
		c.Fatalf("patching %s with %s: %v", o.GetName(), text, err)
	}
	return patched
}

// get returns an object as it is now, or nil.
func (c *cluster) get(o *Object) *Object {
	c.Helper()
	found, err := c.of(o).Get(c.ctx, o.GetName(), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		c.Fatal(err)
	}
	return found
}

// expect compares fields, by their paths, with YAML values.
func (c *cluster) expect(o *Object, fields map[string]string) {
	c.Helper()
	for path, text := range fields {
		want := object(c.T, "value: "+text).Object["value"]
		if got := value(o, strings.Split(path, ".")...); !reflect.DeepEqual(got, want) {
			c.Errorf("%s of %s is %v, want %v", path, o.GetName(), got, want)
		}
	}
}

// expectError expects the reason of an error, or none if it is empty, and a part of the message.
func expectError(t *testing.T, err error, reason metav1.StatusReason, part string) {
	t.Helper()
	switch {
	case reason == "" && part == "" && err != nil:
		t.Errorf("got the error %v", err)
	case reason == "" && part == "":
	case err == nil:
		t.Errorf("got no error, want %s %q", reason, part)
	case apierrors.ReasonForError(err) != reason || !strings.Contains(err.Error(), part):
		t.Errorf("got the error %s %q, want %s %q", apierrors.ReasonForError(err), err, reason, part)
	}
}

func TestReadYAML(t *testing.T) {
	objects, err := ReadYAML([]byte("# A comment.\n---\n" + configMap + "\n---\n---\n" + widget + "\n"))
	if err != nil || len(objects) != 2 || objects[1].GetKind() != "Widget" {
		t.Errorf("the objects are %v, %v", objects, err)
	}
	for _, text := range []string{"[]", "a: [", "3"} {
		if _, err := ReadYAML([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestRegistry(t *testing.T) {
	crds, err := ReadYAML([]byte(definitions))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := NewRegistry(crds...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Resource{
		{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, HasStatus: true},
		{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Endpoints"}, Namespaced: true},
		{Kind: schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}, Namespaced: true},
		{Kind: schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}, Namespaced: true, HasStatus: true},
		{Kind: schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "IngressClass"}},
		{Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, Namespaced: true, HasStatus: true, IsCustom: true},
		{Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Plain"}, IsCustom: true},
	} {
		got := registry.ForKind(want.Kind.GroupKind())
		if got == nil || got.Kind != want.Kind || got.Namespaced != want.Namespaced || got.HasStatus != want.HasStatus || got.IsCustom != want.IsCustom {
			t.Errorf("the resource of %s is %+v", want.Kind, got)
		}
	}
	if r := registry.ForKind(schema.GroupKind{Group: "authorization.k8s.io", Kind: "SubjectAccessReview"}); r != nil {
		t.Errorf("%s is no resource that is stored", r.GroupResource())
	}
	if notes := strings.Join(registry.Notes(), "; "); !strings.Contains(notes, "v1beta1 is not served") || !strings.Contains(notes, "CEL rules") {
		t.Errorf("the notes are %q", notes)
	}
	for _, text := range []string{
		`{metadata: {name: a}, spec: {versions: [{name: v1}]}}`, `{metadata: {name: a}, spec: {versions: [{name: v1, storage: true}]}}`,
	} {
		if _, err := NewRegistry(object(t, text)); err == nil {
			t.Errorf("the CRD %s is accepted", text)
		}
	}
}

// TestServed compares what is served with what client-go has clients of, in the newest of its stable versions. AppsV1().Deployments(namespace)
// has the methods Get, UpdateStatus and GetScale.
func TestServed(t *testing.T) {
	want := map[schema.GroupKind]string{}
	for group := range reflect.TypeFor[kubernetes.Interface]().Methods() {
		if group.Type.NumOut() != 1 || group.Type.Out(0).Kind() != reflect.Interface {
			continue
		}
		for client := range group.Type.Out(0).Methods() {
			objects := client.Type.Out(0)
			if objects.Kind() != reflect.Interface {
				continue
			}
			get, isStored := objects.MethodByName("Get")
			if !isStored || get.Type.Out(0).Kind() != reflect.Pointer {
				continue
			}
			o, isObject := reflect.New(get.Type.Out(0).Elem()).Interface().(runtime.Object)
			if !isObject {
				continue
			}
			kinds, _, err := scheme.Scheme.ObjectKinds(o)
			if err != nil || strings.Contains(kinds[0].Version, "alpha") || strings.Contains(kinds[0].Version, "beta") {
				continue
			}
			_, hasStatus := objects.MethodByName("UpdateStatus")
			_, hasScale := objects.MethodByName("GetScale")
			gvr := kinds[0].GroupVersion().WithResource(strings.ToLower(client.Name))
			served := fmt.Sprintf("%s: namespaced %t, status %t, scale %t", gvr, client.Type.NumIn() == 1, hasStatus, hasScale)
			want[kinds[0].GroupKind()] = max(want[kinds[0].GroupKind()], served)
		}
	}
	for _, r := range builtIn() {
		kind := r.Kind.GroupKind()
		got := fmt.Sprintf("%s: namespaced %t, status %t, scale %t", r.GroupVersionResource, r.Namespaced, r.HasStatus, r.scale != nil)
		if got != want[kind] {
			t.Errorf("%s is served as %q, want %q", kind, got, want[kind])
		}
		delete(want, kind)
	}
	for kind, served := range want {
		t.Errorf("%s is not served, want %q", kind, served)
	}
}

// advance advances the fake clock of a synctest bubble. No test outside of a bubble calls it.
func advance(duration time.Duration) { time.Sleep(duration) } // The clock of the bubble is fake: no time passes.

// TestClock shows that what happens in a cluster takes virtual time: a Deployment becomes available.
func TestClock(t *testing.T) {
	start := time.Now()
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		begin, d := time.Now(), c.create(deployment)
		for value(c.get(d), "status", "availableReplicas") != int64(1) {
			advance(10 * time.Millisecond)
		}
		if took := time.Since(begin); took < reconcileDelay || took > time.Second {
			c.Errorf("it took %s", took)
		}
		advance(24 * time.Hour)
	})
	if took := time.Since(start); took > time.Minute {
		t.Errorf("it took %s of real time", took)
	}
}
