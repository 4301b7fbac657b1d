// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
	"k8s.io/sample-controller/pkg/generated/clientset/versioned/fake"
	"k8s.io/sample-controller/pkg/ownership"
)

func newFoo(generation int64) *samplev1alpha1.Foo {
	return &samplev1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foo", UID: "uid", Generation: generation}}
}

func newControl(sampleClient clientset.Interface) *Control {
	return New(klog.Background(), sampleClient, cache.NewStore(cache.MetaNamespaceKeyFunc), "test")
}

func newOwned(kubeClient kubernetes.Interface, control *Control) *Owned[*appsv1.Deployment] {
	cached := cache.NewStore(cache.MetaNamespaceKeyFunc)
	return NewOwned(control, "Deployment", appsv1.Resource("deployments"), cached, kubeClient.AppsV1().Deployments)
}

func keep(*appsv1.Deployment) {}

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

// Nobody can compare a list whose items lack their merge key. So it is left out unless it is what differs.
func TestMergePatchOfListWithoutMergeKeys(t *testing.T) {
	found := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}}
	found.Spec.Template.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{}}
	desired := found.DeepCopy()
	desired.Spec.Replicas = new(int32(2))
	if patch, err := mergePatch(found, desired); err != nil || string(patch) != `{"metadata":{"resourceVersion":"7"},"spec":{"replicas":2}}` {
		t.Errorf("mergePatch() = %s and error %v", patch, err)
	}
	desired.Spec.Template.Spec.Containers = []corev1.Container{{Name: "nginx"}} // It is in the struct that has the list.
	if patch, err := mergePatch(found, desired); err != nil || !strings.Contains(string(patch), `"name":"nginx"`) {
		t.Errorf("mergePatch() = %s and error %v", patch, err)
	}
}

// A Deployment, superseded or not, is kept if a live read shows that the Foo has changed, whatever the cache says.
func TestFooHasChanged(t *testing.T) {
	foo, deployment := newFoo(1), &appsv1.Deployment{}
	for change, edit := range map[string]func(*samplev1alpha1.Foo){
		"spec":     func(foo *samplev1alpha1.Foo) { foo.Spec.DeploymentName = "renamed" },
		"UID":      func(foo *samplev1alpha1.Foo) { foo.UID = "new-uid" },
		"deletion": func(foo *samplev1alpha1.Foo) { foo.DeletionTimestamp = new(metav1.Now()) },
		"gone":     nil,
	} {
		live, notFound := foo.DeepCopy(), error(apierrors.NewNotFound(samplev1alpha1.Resource("foos"), foo.Name))
		if edit != nil {
			edit(live)
			live.ResourceVersion = "11"
			notFound = nil
		}
		kubeClient, sampleClient := &kubefake.Clientset{}, &fake.Clientset{}
		sampleClient.AddReactor("get", "foos", returning(live, notFound))
		for _, current := range []*appsv1.Deployment{deployment, nil} {
			owned := newOwned(kubeClient, newControl(sampleClient))
			err := owned.Delete(t.Context(), foo, deployment, current, canTakeOver)
			if !errors.Is(err, consistency.ErrStale) || len(kubeClient.Actions()) > 0 {
				t.Errorf("%s: error = %v, requests = %v, want ErrStale and none", change, err, kubeClient.Actions())
			}
			if isStale := owned.ConsistencyStore.EnsureReady(cache.MetaObjectToName(foo)) != nil; isStale != (edit != nil) {
				t.Errorf("%s: the next sync waits for the cache: %t, want %t", change, isStale, edit != nil)
			}
		}
	}
}

// A live read that fails shows nothing: nothing is written, and its error is what is retried.
func TestLiveReadFails(t *testing.T) {
	foo, deployment, kubeClient, sampleClient := newFoo(1), &appsv1.Deployment{}, &kubefake.Clientset{}, &fake.Clientset{}
	foo.Status.ObservedGeneration = 1 // The creation is not the first one.
	sampleClient.AddReactor("get", "foos", returning(nil, context.DeadlineExceeded))
	owned := newOwned(kubeClient, newControl(sampleClient))
	for request, err := range map[string]error{
		"CreateOrPatch": owned.CreateOrPatch(t.Context(), foo, deployment, keep).Err,
		"Delete":        owned.Delete(t.Context(), foo, deployment, nil, nil),
	} {
		if !errors.Is(err, context.DeadlineExceeded) || len(kubeClient.Actions()) > 0 {
			t.Errorf("%s() = %v, requests = %v, want the error and none", request, err, kubeClient.Actions())
		}
	}
}

// A superseded Deployment is kept if a live read shows that the current one cannot take over, whatever the cache says.
func TestCurrentHasChanged(t *testing.T) {
	foo := newFoo(1)
	cached := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, ownership.FooKind)}},
		Status:     appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1},
	}
	for name, test := range map[string]struct {
		change  func(*appsv1.Deployment)
		err     error
		want    error
		isStale bool // until the cache has what was read
	}{
		"available":      {func(*appsv1.Deployment) {}, nil, nil, false},
		"not available":  {func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 }, nil, consistency.ErrStale, true},
		"not controlled": {func(d *appsv1.Deployment) { d.OwnerReferences = nil }, nil, consistency.ErrStale, true},
		"gone":           {func(*appsv1.Deployment) {}, apierrors.NewNotFound(appsv1.Resource("deployments"), ""), consistency.ErrStale, false},
		"not known":      {func(*appsv1.Deployment) {}, context.DeadlineExceeded, context.DeadlineExceeded, false},
	} {
		live := cached.DeepCopy()
		live.ResourceVersion = "11"
		test.change(live)
		kubeClient, sampleClient := &kubefake.Clientset{}, &fake.Clientset{}
		kubeClient.AddReactor("get", "deployments", returning(live, test.err))
		sampleClient.AddReactor("get", "foos", returning(foo, nil))
		owned := newOwned(kubeClient, newControl(sampleClient))
		err := owned.Delete(t.Context(), foo, &appsv1.Deployment{}, cached, canTakeOver)
		if isStale := owned.ConsistencyStore.EnsureReady(cache.MetaObjectToName(foo)) != nil; isStale != test.isStale {
			t.Errorf("%s: the next sync waits for the cache: %t, want %t", name, isStale, test.isStale)
		}
		deleted := slices.ContainsFunc(kubeClient.Actions(), func(action clienttesting.Action) bool { return action.Matches("delete", "deployments") })
		if !errors.Is(err, test.want) || deleted != (test.want == nil) {
			t.Errorf("%s: Delete() = %v, deleted: %v, want %v", name, err, deleted, test.want)
		}
	}
}

// An object that no other supersedes is deleted after a live read of the Foo alone.
func TestDeleteWithoutCurrent(t *testing.T) {
	foo := newFoo(1)
	kubeClient, sampleClient := &kubefake.Clientset{}, &fake.Clientset{}
	sampleClient.AddReactor("get", "foos", returning(foo, nil))
	owned := newOwned(kubeClient, newControl(sampleClient))
	if err := owned.Delete(t.Context(), foo, &appsv1.Deployment{}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := requests(slices.Concat(sampleClient.Actions(), kubeClient.Actions())); !slices.Equal(got, []string{"get foos", "delete deployments"}) {
		t.Errorf("requests = %q, want a live read of the Foo and the deletion", got)
	}
	if err := owned.Delete(t.Context(), foo, &appsv1.Deployment{}, nil, nil); !errors.Is(err, ErrPaused) {
		t.Errorf("Delete() = %v while the object is still in the cache, want ErrPaused", err)
	}
}

func canTakeOver(deployment *appsv1.Deployment) bool { return deployment.Status.AvailableReplicas > 0 }

func returning(object runtime.Object, err error) clienttesting.ReactionFunc {
	return func(clienttesting.Action) (bool, runtime.Object, error) { return true, object, err }
}

// After each write, and after the live read of a Deployment that exists already, the cache is stale until it has caught up.
func TestWritesAreRecorded(t *testing.T) {
	foo := newFoo(1)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "foo", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, ownership.FooKind)},
	}}
	written := deployment.DeepCopy()
	written.ResourceVersion = "11"
	another := written.DeepCopy()
	another.OwnerReferences = nil
	exists := apierrors.NewAlreadyExists(appsv1.Resource("deployments"), "foo")
	create := func(o *Owned[*appsv1.Deployment]) Result[*appsv1.Deployment] {
		return o.CreateOrPatch(t.Context(), foo, deployment, keep)
	}
	for name, test := range map[string]struct {
		stored    *appsv1.Deployment
		createErr error
		write     func(*Owned[*appsv1.Deployment]) Result[*appsv1.Deployment]
		wantErr   error
	}{
		"create": {written, nil, create, nil},
		"patch": {written, nil, func(o *Owned[*appsv1.Deployment]) Result[*appsv1.Deployment] {
			return o.change(t.Context(), foo, deployment, func(d *appsv1.Deployment) { d.Spec.Paused = true })
		}, nil},
		"exists":        {written, exists, create, consistency.ErrStale},
		"another's one": {another, exists, create, nil},
	} {
		t.Run(name, func(t *testing.T) {
			kubeClient := &kubefake.Clientset{}
			kubeClient.AddReactor("create", "deployments", returning(test.stored, test.createErr))
			kubeClient.AddReactor("*", "deployments", returning(test.stored, nil))
			owned := newOwned(kubeClient, newControl(nil))
			store := owned.ConsistencyStore
			cached := owned.cached
			cached.Bookmark("10")
			got := test.write(owned)
			if !errors.Is(got.Err, test.wantErr) || got.Changed != (test.stored == written && got.Err == nil) || got.Changed && got.Object != written {
				t.Errorf("got %v, want the response and error %v", got, test.wantErr)
			}
			if err := store.EnsureReady(cache.MetaObjectToName(foo)); !errors.Is(err, consistency.ErrStale) {
				t.Errorf("EnsureReady() = %v before the cache has caught up", err)
			}
			cached.Bookmark("11")
			if err := store.EnsureReady(cache.MetaObjectToName(foo)); err != nil {
				t.Errorf("EnsureReady() = %v once the cache has caught up", err)
			}
		})
	}
}

// A new object is created as it is desired, with what is set at creation only.
func TestCreationIsDesired(t *testing.T) {
	kubeClient := &kubefake.Clientset{}
	kubeClient.AddReactor("create", "deployments", returning(&appsv1.Deployment{}, nil))
	desired := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{RevisionHistoryLimit: new(int32(1))}}
	newOwned(kubeClient, newControl(nil)).CreateOrPatch(t.Context(), newFoo(1), desired, func(d *appsv1.Deployment) { d.Spec.Paused = true })
	created := kubeClient.Actions()[0].(clienttesting.CreateAction).GetObject().(*appsv1.Deployment)
	if !created.Spec.Paused || *created.Spec.RevisionHistoryLimit != 1 {
		t.Errorf("created %v", created.Spec)
	}
}

// What was created has a write pause as well: what others change at once is not corrected before its end.
func TestCreatedIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		foo, kubeClient := newFoo(1), &kubefake.Clientset{}
		created := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			UID: "created", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, ownership.FooKind)},
		}}
		kubeClient.AddReactor("*", "deployments", returning(created, nil))
		owned := newOwned(kubeClient, newControl(nil))
		owned.CreateOrPatch(t.Context(), foo, &appsv1.Deployment{}, keep)
		for _, changed := range []bool{false, true} {
			got := owned.change(t.Context(), foo, created, func(d *appsv1.Deployment) { d.Spec.Paused = true })
			if got.Changed != changed {
				t.Errorf("change() changed it: %v, want %v; stalled: %v", got.Changed, changed, got.Stalled)
			}
			time.Sleep(time.Second) // The clock is fake: the pause is over.
		}
	})
}

// A creation that is not the first one of a Foo is preceded by a live read of the Foo.
func TestRepeatedCreation(t *testing.T) {
	foo, deployment := newFoo(1), &appsv1.Deployment{}
	kubeClient, sampleClient := &kubefake.Clientset{}, &fake.Clientset{}
	kubeClient.AddReactor("create", "deployments", returning(deployment, nil))
	live := &samplev1alpha1.Foo{}
	sampleClient.AddReactor("get", "foos", returning(live, nil))
	owned := newOwned(kubeClient, newControl(sampleClient))
	notSeen, observed := newFoo(2), newFoo(3)
	notSeen.Status.ObservedGeneration = -1 // the default
	observed.Status.ObservedGeneration = 1
	createdAgo := func(age time.Duration) *samplev1alpha1.Foo {
		foo := newFoo(1)
		foo.UID, foo.CreationTimestamp = types.UID(age.String()), metav1.NewTime(time.Now().Add(-age))
		return foo
	}
	synctest.Test(t, func(t *testing.T) {
		for i, test := range []struct {
			foo       *samplev1alpha1.Foo
			liveReads int // so far
		}{{foo, 0}, {foo, 1}, {notSeen, 2}, {observed, 3}, {createdAgo(memoryTime - 5*time.Second), 3}, {createdAgo(memoryTime), 4}} {
			test.foo.DeepCopyInto(live)
			if result := owned.CreateOrPatch(t.Context(), test.foo, deployment, keep); !result.Changed {
				t.Error(result)
			}
			if got := len(sampleClient.Actions()); got != test.liveReads {
				t.Errorf("creation %d: %d live reads, want %d", i+1, got, test.liveReads)
			}
			time.Sleep(time.Second) // The clock is fake: the write pause is over.
		}
	})
}
