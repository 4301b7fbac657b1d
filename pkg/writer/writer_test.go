// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/generated/clientset/versioned/fake"
)

func TestMayBeStale(t *testing.T) {
	for name, test := range map[string]struct {
		resourceVersion                string
		generation, observedGeneration int64
		found, written                 bool
		want                           bool
	}{
		"new":                        {resourceVersion: "9", generation: 1},
		"not changed since start":    {resourceVersion: "10", generation: 1, found: true, want: true},
		"renamed before start":       {resourceVersion: "9", generation: 2, observedGeneration: 1, want: true},
		"renamed since start":        {resourceVersion: "11", generation: 2, observedGeneration: 1},
		"changed since start":        {resourceVersion: "11", generation: 1, found: true},
		"observed":                   {resourceVersion: "11", generation: 1, observedGeneration: 1, found: true, want: true},
		"written already":            {resourceVersion: "11", generation: 1, written: true, want: true},
		"resourceVersion not known":  {generation: 1, found: true},
		"resourceVersions by number": {resourceVersion: "100", generation: 1, found: true},
	} {
		writer := New(nil, nil, nil, "", nil)
		writer.Start(t.Context(), "10")
		foo := &samplev1alpha1.Foo{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: test.resourceVersion, Generation: test.generation},
			Status:     samplev1alpha1.FooStatus{ObservedGeneration: test.observedGeneration},
		}
		if test.written {
			writer.StartBackoff(foo)
		}
		var found *appsv1.Deployment
		if test.found {
			found = &appsv1.Deployment{}
		}
		if got := writer.mayBeStale(foo, found); got != test.want {
			t.Errorf("%s: mayBeStale() = %v, want %v", name, got, test.want)
		}
	}
}

func TestMergePatch(t *testing.T) {
	container := func(name, image string) corev1.Container { return corev1.Container{Name: name, Image: image} }
	current := func() *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "example", ResourceVersion: "7", Labels: map[string]string{"app": "nginx"}},
			Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(5)),
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					Containers: []corev1.Container{container("sidecar", "sidecar"), container("nginx", "apache")},
				}},
			},
		}
	}
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		want   string
	}{
		"nothing":  {func(*appsv1.Deployment) {}, `{"metadata":{"resourceVersion":"7"}}`},
		"replicas": {func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(2)) }, `{"metadata":{"resourceVersion":"7"},"spec":{"replicas":2}}`},
		"labels": {func(d *appsv1.Deployment) {
			d.Labels["team"] = "a"
			d.Spec.Template.Labels = map[string]string{"app": "nginx"}
		}, `{"metadata":{"labels":{"team":"a"},"resourceVersion":"7"},"spec":{"template":{"metadata":{"labels":{"app":"nginx"}}}}}`},
		"image": {func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[1].Image = "nginx:latest" }, `{
			"metadata":{"resourceVersion":"7"},"spec":{"template":{"spec":{
				"$setElementOrder/containers":[{"name":"sidecar"},{"name":"nginx"}],
				"containers":[{"image":"nginx:latest","name":"nginx"}]}}}}`},
		"new container": {func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, container("new", "image"))
		}, `{"metadata":{"resourceVersion":"7"},"spec":{"template":{"spec":{
				"$setElementOrder/containers":[{"name":"sidecar"},{"name":"nginx"},{"name":"new"}],
				"containers":[{"image":"image","name":"new","resources":{}}]}}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			cached, desired := current(), current()
			test.change(desired)
			patch, err := mergePatch(cached, desired)
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if err := errors.Join(json.Unmarshal(patch, &got), json.Unmarshal([]byte(test.want), &want)); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("mergePatch() = %s, want %s", patch, test.want)
			}
			if !reflect.DeepEqual(cached, current()) {
				t.Error("mergePatch() changed the cached Deployment")
			}
		})
	}
}

// A write is preceded by a live read of the Foo if the cached one may be stale.
func TestFooHasChanged(t *testing.T) {
	foo, deployment := newFoo(1), &appsv1.Deployment{}
	foo.Status.ObservedGeneration = 1
	for change, edit := range map[string]func(*samplev1alpha1.Foo){
		"spec":     func(foo *samplev1alpha1.Foo) { foo.Spec.DeploymentName = "renamed" },
		"UID":      func(foo *samplev1alpha1.Foo) { foo.UID = "new-uid" },
		"deletion": func(foo *samplev1alpha1.Foo) { foo.DeletionTimestamp = new(metav1.Now()) },
	} {
		live := foo.DeepCopy()
		edit(live)
		for name, write := range map[string]func(*Writer) error{
			"prune":           func(w *Writer) error { return w.Delete(t.Context(), foo, deployment, deployment) },
			"correction":      createOrPatch(foo, deployment, deployment),
			"second creation": createOrPatch(foo, nil, deployment),
		} {
			kubeClient, sampleClient := &kubefake.Clientset{}, &fake.Clientset{}
			sampleClient.AddReactor("get", "foos", returning(live, nil))
			err := write(New(kubeClient, sampleClient, nil, "", nil))
			if !errors.Is(err, consistency.ErrStale) || len(kubeClient.Actions()) > 0 {
				t.Errorf("%s before %s: error = %v, requests = %v, want ErrStale and none", change, name, err, kubeClient.Actions())
			}
		}
	}
}

// A superseded Deployment is kept if a live read shows that the current one cannot take over, whatever the cache says.
func TestCurrentHasChanged(t *testing.T) {
	foo := newFoo(1)
	cached := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, samplev1alpha1.FooKind)}},
		Status:     appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1},
	}
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		err    error
		want   error
	}{
		"available":      {func(*appsv1.Deployment) {}, nil, nil},
		"not available":  {func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 }, nil, consistency.ErrStale},
		"being deleted":  {func(d *appsv1.Deployment) { d.DeletionTimestamp = new(metav1.Now()) }, nil, consistency.ErrStale},
		"not controlled": {func(d *appsv1.Deployment) { d.OwnerReferences = nil }, nil, consistency.ErrStale},
		"gone":           {func(*appsv1.Deployment) {}, apierrors.NewNotFound(appsv1.Resource("deployments"), ""), consistency.ErrStale},
		"not known":      {func(*appsv1.Deployment) {}, context.DeadlineExceeded, context.DeadlineExceeded},
	} {
		live := cached.DeepCopy()
		test.change(live)
		kubeClient, sampleClient := &kubefake.Clientset{}, &fake.Clientset{}
		kubeClient.AddReactor("get", "deployments", returning(live, test.err))
		sampleClient.AddReactor("get", "foos", returning(foo, nil))
		err := New(kubeClient, sampleClient, nil, "", nil).Delete(t.Context(), foo, &appsv1.Deployment{}, cached)
		deleted := slices.ContainsFunc(kubeClient.Actions(), func(action clienttesting.Action) bool { return action.Matches("delete", "deployments") })
		if !errors.Is(err, test.want) || deleted != (test.want == nil) {
			t.Errorf("%s: Delete() = %v, deleted: %v, want %v", name, err, deleted, test.want)
		}
	}
}

func createOrPatch(foo *samplev1alpha1.Foo, found, desired *appsv1.Deployment) func(*Writer) error {
	return func(w *Writer) error {
		_, _, err := w.CreateOrPatch(context.Background(), foo, found, desired)
		return err
	}
}

func returning(object runtime.Object, err error) clienttesting.ReactionFunc {
	return func(clienttesting.Action) (bool, runtime.Object, error) { return true, object, err }
}

// After each write, and after the live read of a Deployment that exists already, the caches are stale until they have caught up.
func TestWritesAreRecorded(t *testing.T) {
	foo := newFoo(1)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "foo", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, samplev1alpha1.FooKind)},
	}}
	written, updated := deployment.DeepCopy(), foo.DeepCopy()
	written.ResourceVersion, updated.ResourceVersion = "11", "11"
	updated.Status.ObservedGeneration = 1
	exists := apierrors.NewAlreadyExists(appsv1.Resource("deployments"), "foo")
	for name, test := range map[string]struct {
		createErr error
		write     func(*Writer) error
		wantErr   error
	}{
		"create": {nil, createOrPatch(foo, nil, deployment), nil},
		"patch":  {nil, createOrPatch(foo, deployment, deployment), nil},
		"status": {nil, func(w *Writer) error { return w.UpdateStatus(t.Context(), foo, updated.Status) }, nil},
		"exists": {exists, createOrPatch(foo, nil, deployment), consistency.ErrStale},
	} {
		t.Run(name, func(t *testing.T) {
			kubeClient, sampleClient := &kubefake.Clientset{}, &fake.Clientset{}
			kubeClient.AddReactor("create", "deployments", returning(written, test.createErr))
			kubeClient.AddReactor("*", "deployments", returning(written, nil))
			sampleClient.AddReactor("update", "foos", returning(updated, nil))
			caches := map[schema.GroupResource]cache.Store{}
			for _, resource := range []schema.GroupResource{appsv1.Resource("deployments"), samplev1alpha1.Resource("foos")} {
				store := cache.NewStore(cache.MetaNamespaceKeyFunc)
				store.Bookmark("10")
				caches[resource] = store
			}
			store := consistency.NewStore(caches)
			w := New(kubeClient, sampleClient, store, "", func(*appsv1.Deployment, *samplev1alpha1.Foo) {})
			if err := test.write(w); !errors.Is(err, test.wantErr) {
				t.Errorf("error = %v, want %v", err, test.wantErr)
			}
			if err := store.EnsureReady(cache.MetaObjectToName(foo)); !errors.Is(err, consistency.ErrStale) {
				t.Errorf("EnsureReady() = %v before the caches have caught up", err)
			}
			for _, store := range caches {
				store.Bookmark("11")
			}
			if err := store.EnsureReady(cache.MetaObjectToName(foo)); err != nil {
				t.Errorf("EnsureReady() = %v once the caches have caught up", err)
			}
		})
	}
}
