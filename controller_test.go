// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	typedappsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/foostatus"
	"k8s.io/sample-controller/pkg/generated/clientset/versioned/fake"
	samplescheme "k8s.io/sample-controller/pkg/generated/clientset/versioned/scheme"
	informers "k8s.io/sample-controller/pkg/generated/informers/externalversions"
	listers "k8s.io/sample-controller/pkg/generated/listers/samplecontroller/v1alpha1"
)

// Requests and events of most tests.
const (
	createDeployment = "create deployments example-deployment"
	getDeployment    = "get deployments example-deployment"
	patchDeployment  = "patch deployments example-deployment"
	deleteDeployment = "delete deployments example-deployment"
	getFoo           = "get foos example-foo"
	updateStatus     = "update foos/status example-foo"

	syncedEvent   = "Normal Synced Foo synced successfully"
	conflictEvent = `Warning ErrResourceExists Resource "example-deployment" already exists and is not managed by Foo`
	prunedEvent   = `Normal Pruned Deployment "example-deployment" deleted: it is superseded by "new-deployment"`
)

var (
	objectRef      = cache.NewObjectName("default", "example-foo")
	foosGVR        = schema.GroupVersion(samplev1alpha1.GroupVersion).WithResource("foos")
	deploymentsGVR = appsv1.SchemeGroupVersion.WithResource("deployments")
	transitionTime = metav1.NewTime(time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC))
)

func init() {
	// The other handlers limit the rate of errors by a clock that is not the one of synctest's bubbles.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
}

// option changes a Foo or a Deployment.
type option func(metav1.Object)

func newFoo(options ...option) *samplev1alpha1.Foo {
	foo := &samplev1alpha1.Foo{
		ObjectMeta: metav1.ObjectMeta{Namespace: objectRef.Namespace, Name: objectRef.Name, UID: "foo-uid", Generation: 1},
		Spec:       samplev1alpha1.FooSpec{DeploymentName: "example-deployment", Replicas: new(int32(2))},
	}
	for _, option := range options {
		option(foo)
	}
	return foo
}

// newDeploymentFor returns the Deployment of a Foo as the API server has it.
func newDeploymentFor(foo *samplev1alpha1.Foo, options ...option) *appsv1.Deployment {
	deployment := newDeployment(foo)
	deployment.UID, deployment.ResourceVersion, deployment.Generation = types.UID(deployment.Name+"-uid"), "7", 1
	for _, option := range options {
		option(deployment)
	}
	return deployment
}

func withName(name string) option  { return func(object metav1.Object) { object.SetName(name) } }
func withUID(uid types.UID) option { return func(object metav1.Object) { object.SetUID(uid) } }
func withResourceVersion(version string) option {
	return func(object metav1.Object) { object.SetResourceVersion(version) }
}
func withGeneration(generation int64) option {
	return func(object metav1.Object) { object.SetGeneration(generation) }
}
func notControlled(object metav1.Object) { object.SetOwnerReferences(nil) }

func controlledBy(uid types.UID) option {
	return func(object metav1.Object) { object.GetOwnerReferences()[0].UID = uid }
}

func deleting(object metav1.Object) {
	object.SetDeletionTimestamp(&transitionTime)
	object.SetFinalizers([]string{metav1.FinalizerDeleteDependents})
}

func withDeploymentName(name string) option {
	return func(object metav1.Object) { object.(*samplev1alpha1.Foo).Spec.DeploymentName = name }
}

func replicasOf(object metav1.Object) **int32 {
	if foo, ok := object.(*samplev1alpha1.Foo); ok {
		return &foo.Spec.Replicas
	}
	return &object.(*appsv1.Deployment).Spec.Replicas
}

func withReplicas(replicas int32) option {
	return func(object metav1.Object) { *replicasOf(object) = &replicas }
}

func withoutReplicas(object metav1.Object) { *replicasOf(object) = nil }

// available gives a Deployment the status of one whose desired replicas are all available.
func available(object metav1.Object) {
	deployment := object.(*appsv1.Deployment)
	replicas := *deployment.Spec.Replicas
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: replicas, UpdatedReplicas: replicas, AvailableReplicas: replicas,
	}
}

func withImage(image string) option {
	return func(object metav1.Object) { object.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Image = image }
}

// observing gives a Foo the status that reports a Deployment.
func observing(deployment *appsv1.Deployment) option {
	return func(object metav1.Object) {
		foo := object.(*samplev1alpha1.Foo)
		foo.Status = foostatus.New(foo, deployment, nil)
	}
}

// answer is the API server's to a request. Without an object or an error, the fake client serves the request.
type answer func(clienttesting.Action) (runtime.Object, error)

func failing(err error) answer {
	return func(clienttesting.Action) (runtime.Object, error) { return nil, err }
}

func returning(object runtime.Object) answer {
	return func(clienttesting.Action) (runtime.Object, error) { return object, nil }
}

// mutating is an admission webhook that changes what is created.
func mutating(options ...option) answer {
	return func(action clienttesting.Action) (runtime.Object, error) {
		for _, option := range options {
			option(action.(clienttesting.CreateAction).GetObject().(metav1.Object))
		}
		return nil, nil
	}
}

// fixture is a controller on fake clients that have the given objects. Its caches have them too, as if they had just synced.
type fixture struct {
	*Controller
	kubeClient      *kubefake.Clientset
	sampleClient    *fake.Clientset
	foosTracker     clienttesting.ObjectTracker
	kubeInformers   kubeinformers.SharedInformerFactory
	sampleInformers informers.SharedInformerFactory
	fakeRecorder    *record.FakeRecorder

	lock sync.Mutex
	// requests are those to both clients in their order, as "verb resource[/subresource] name".
	requests []string
	answers  map[string]answer
}

func newFixture(t testing.TB, objects ...runtime.Object) *fixture {
	t.Helper()
	f := newFixtureWithoutController(t, objects...)
	f.newController(t)
	f.fillCaches(t)
	return f
}

func newFixtureWithoutController(t testing.TB, objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{
		sampleClient: &fake.Clientset{},
		foosTracker:  clienttesting.NewObjectTracker(samplescheme.Scheme, samplescheme.Codecs.UniversalDecoder()),
		fakeRecorder: record.NewFakeRecorder(100),
		answers:      map[string]answer{},
	}
	var kubeObjects []runtime.Object
	for _, object := range objects {
		if foo, ok := object.(*samplev1alpha1.Foo); !ok {
			kubeObjects = append(kubeObjects, object)
		} else if err := f.foosTracker.Create(foosGVR, foo, foo.Namespace); err != nil {
			t.Fatal(err)
		}
	}
	f.kubeClient = kubefake.NewClientset(kubeObjects...)
	f.kubeClient.PrependReactor("*", "*", f.react)
	// As in fake.NewClientset, which guesses the plurals of kinds, and does not guess all of them right.
	f.sampleClient.AddReactor("*", "*", f.react)
	f.sampleClient.AddReactor("*", "*", clienttesting.ObjectReaction(f.foosTracker))
	f.sampleClient.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		watching, err := f.foosTracker.Watch(action.GetResource(), action.GetNamespace())
		return true, watching, err
	})
	f.kubeInformers = kubeinformers.NewSharedInformerFactoryWithOptions(f.kubeClient, 0, kubeinformers.WithTransform(trim))
	f.sampleInformers = informers.NewSharedInformerFactoryWithOptions(f.sampleClient, 0, informers.WithTransform(trim))
	return f
}

func (f *fixture) newController(t testing.TB, configs ...Config) {
	_, ctx := ktesting.NewTestContext(t)
	f.Controller = NewController(ctx, f.kubeClient, f.sampleClient,
		f.kubeInformers.Apps().V1().Deployments(), f.sampleInformers.Samplecontroller().V1alpha1().Foos(), configs...)
	t.Cleanup(f.eventBroadcaster.Shutdown)
	t.Cleanup(f.workqueue.ShutDown)
	f.recorder = f.fakeRecorder
}

// startInformers starts the informers, which run until ctx is done and the test ends.
func (f *fixture) startInformers(ctx context.Context, t *testing.T) {
	t.Cleanup(f.kubeInformers.Shutdown)
	t.Cleanup(f.sampleInformers.Shutdown)
	f.kubeInformers.StartWithContext(ctx)
	f.sampleInformers.StartWithContext(ctx)
}

func (f *fixture) react(action clienttesting.Action) (bool, runtime.Object, error) {
	name := ""
	switch action := action.(type) {
	case clienttesting.CreateAction: // An update is one as well.
		name = action.GetObject().(metav1.Object).GetName()
	case interface{ GetName() string }:
		name = action.GetName()
	}
	resource := strings.TrimSuffix(action.GetResource().Resource+"/"+action.GetSubresource(), "/")
	request := fmt.Sprintf("%s %s %s", action.GetVerb(), resource, name)
	f.lock.Lock()
	f.requests = append(f.requests, request)
	answer := f.answers[request]
	f.lock.Unlock()
	if answer == nil {
		return false, nil, nil
	}
	object, err := answer(action)
	return object != nil || err != nil, object, err
}

// fillCaches makes the caches have what the fake clients have.
func (f *fixture) fillCaches(t testing.TB) {
	t.Helper()
	deployments, err := f.kubeClient.AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	foos, err := f.sampleClient.SamplecontrollerV1alpha1().Foos("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var cachedDeployments, cachedFoos []any
	for i := range deployments.Items {
		cachedDeployments = append(cachedDeployments, trimmed(t, &deployments.Items[i]))
	}
	for i := range foos.Items {
		cachedFoos = append(cachedFoos, trimmed(t, &foos.Items[i]))
	}
	if err := errors.Join(f.deploymentsIndexer.Replace(cachedDeployments, ""), f.foosIndexer.Replace(cachedFoos, "")); err != nil {
		t.Fatal(err)
	}
	f.takeRequests()
}

func trimmed(t testing.TB, object any) any {
	t.Helper()
	object, err := trim(object)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// takeRequests returns the requests since it was last called.
func (f *fixture) takeRequests() []string {
	f.lock.Lock()
	defer f.lock.Unlock()
	requests := f.requests
	f.requests = nil
	return requests
}

func (f *fixture) takeEvents() (events []string) {
	for len(f.fakeRecorder.Events) > 0 {
		events = append(events, <-f.fakeRecorder.Events)
	}
	return events
}

// verifyRequests and verifyEvents compare what there was since they were last called.
func (f *fixture) verifyRequests(t *testing.T, want ...string) {
	t.Helper()
	if got := f.takeRequests(); !slices.Equal(got, want) {
		t.Errorf("requests = %q, want %q", got, want)
	}
}

func (f *fixture) verifyEvents(t *testing.T, want ...string) {
	t.Helper()
	if got := f.takeEvents(); !slices.Equal(got, want) {
		t.Errorf("events = %q, want %q", got, want)
	}
}

// verifyReady compares the Ready condition as "status reason", with " (stalled)" if Stalled is True.
func (f *fixture) verifyReady(t *testing.T, want string) {
	t.Helper()
	got, conditions := "", f.foo(t).Status.Conditions
	if ready := meta.FindStatusCondition(conditions, samplev1alpha1.ConditionReady); ready != nil {
		got = fmt.Sprintf("%s %s", ready.Status, ready.Reason)
	}
	if meta.IsStatusConditionTrue(conditions, samplev1alpha1.ConditionStalled) {
		got += " (stalled)"
	}
	if got != want {
		t.Errorf("Ready = %q, want %q", got, want)
	}
}

func verifyError(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("error = %v, want %q", err, want)
	}
}

func (f *fixture) deployment(t *testing.T, name string) *appsv1.Deployment {
	t.Helper()
	object, err := f.kubeClient.Tracker().Get(deploymentsGVR, objectRef.Namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return object.(*appsv1.Deployment)
}

func (f *fixture) foo(t *testing.T) *samplev1alpha1.Foo {
	t.Helper()
	object, err := f.foosTracker.Get(foosGVR, objectRef.Namespace, objectRef.Name)
	if err != nil {
		t.Fatal(err)
	}
	return object.(*samplev1alpha1.Foo)
}

// edit changes a Deployment as another client does, and the cache.
func (f *fixture) edit(t *testing.T, deployment *appsv1.Deployment, options ...option) {
	t.Helper()
	edited := f.deployment(t, deployment.Name).DeepCopy()
	for _, option := range options {
		option(edited)
	}
	if err := f.kubeClient.Tracker().Update(deploymentsGVR, edited, edited.Namespace); err != nil {
		t.Fatal(err)
	}
	f.fillCaches(t)
}

func (f *fixture) verifyPatch(t *testing.T, want string) {
	t.Helper()
	for _, action := range f.kubeClient.Actions() {
		if patch, ok := action.(clienttesting.PatchAction); ok {
			var gotJSON, wantJSON any
			if err := errors.Join(json.Unmarshal(patch.GetPatch(), &gotJSON), json.Unmarshal([]byte(want), &wantJSON)); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(gotJSON, wantJSON) || patch.GetPatchType() != types.StrategicMergePatchType {
				t.Errorf("%s = %s, want %s", patch.GetPatchType(), patch.GetPatch(), want)
			}
			return
		}
	}
	t.Error("there was no patch")
}

func TestSyncHandler(t *testing.T) {
	resource := appsv1.Resource("deployments")
	invalid := apierrors.NewInvalid(appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind(), "example-deployment", nil)
	quota := apierrors.NewForbidden(resource, "example-deployment", errors.New("exceeded quota"))
	terminating := apierrors.NewForbidden(resource, "example-deployment", errors.New("namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	webhook := apierrors.NewBadRequest("admission webhook denied the request")
	unavailable := apierrors.NewServiceUnavailable("etcd has no leader")
	conflict := apierrors.NewConflict(resource, "example-deployment", errors.New("object has been modified"))
	exists := apierrors.NewAlreadyExists(resource, "example-deployment")

	ours := newDeploymentFor(newFoo(), available)
	renamed := withDeploymentName("new-deployment")
	replacement := newDeploymentFor(newFoo(renamed), available)
	observed, observedReplacement := observing(ours), observing(replacement)

	tests := []struct {
		name        string
		foo         *samplev1alpha1.Foo
		deployments []*appsv1.Deployment
		answers     map[string]answer

		requests []string
		events   []string
		err      string
		ready    string
		verify   func(t *testing.T, f *fixture)
	}{
		{name: "Foo gone"},
		{
			name:     "new Foo",
			foo:      newFoo(),
			requests: []string{createDeployment, updateStatus},
			events:   []string{syncedEvent},
			ready:    "False DeploymentProgressing",
			verify: func(t *testing.T, f *fixture) {
				got, want := f.deployment(t, "example-deployment"), newDeployment(newFoo())
				if !equality.Semantic.DeepEqual(got.Spec, want.Spec) || !equality.Semantic.DeepEqual(got.OwnerReferences, want.OwnerReferences) {
					t.Errorf("created %v, want %v", got, want)
				}
				if status := f.foo(t).Status; status.Selector != "app=nginx,controller=example-foo" || status.ObservedGeneration != 1 {
					t.Errorf("status = %+v", status)
				}
			},
		},
		{
			name:     "new Foo without replicas",
			foo:      newFoo(withoutReplicas),
			requests: []string{createDeployment, updateStatus},
			events:   []string{syncedEvent},
			ready:    "False DeploymentProgressing",
			verify: func(t *testing.T, f *fixture) {
				if got := f.deployment(t, "example-deployment").Spec.Replicas; got != nil {
					t.Errorf("replicas = %d, want the API server's default", *got)
				}
			},
		},
		{name: "steady state", foo: newFoo(observed), deployments: []*appsv1.Deployment{ours}, ready: "True DeploymentAvailable"},
		{
			name:        "Foo without replicas, scaled by others",
			foo:         newFoo(withoutReplicas, observing(newDeploymentFor(newFoo(), withReplicas(7), available))),
			deployments: []*appsv1.Deployment{newDeploymentFor(newFoo(), withReplicas(7), available)},
			ready:       "True DeploymentAvailable",
		},
		{
			name:        "rolled out",
			foo:         newFoo(observing(newDeploymentFor(newFoo()))),
			deployments: []*appsv1.Deployment{ours},
			requests:    []string{updateStatus},
			ready:       "True DeploymentAvailable",
			verify: func(t *testing.T, f *fixture) {
				if status := f.foo(t).Status; status.AvailableReplicas != 2 || status.Replicas != 2 {
					t.Errorf("status = %+v", status)
				}
			},
		},
		{
			name:        "scaled",
			foo:         newFoo(observed, withGeneration(2), withReplicas(5)),
			deployments: []*appsv1.Deployment{ours},
			requests:    []string{patchDeployment, updateStatus},
			events:      []string{syncedEvent},
			ready:       "False DeploymentProgressing",
			verify: func(t *testing.T, f *fixture) {
				f.verifyPatch(t, `{"metadata":{"resourceVersion":"7"},"spec":{"replicas":5}}`)
			},
		},
		{
			name:        "generation without a change of the Deployment",
			foo:         newFoo(observed, withGeneration(2), withoutReplicas),
			deployments: []*appsv1.Deployment{ours},
			requests:    []string{updateStatus},
			events:      []string{syncedEvent},
			ready:       "True DeploymentAvailable",
		},
		{
			name:        "drift of replicas",
			foo:         newFoo(observed),
			deployments: []*appsv1.Deployment{newDeploymentFor(newFoo(), available, withReplicas(9))},
			requests:    []string{getFoo, patchDeployment},
			events:      []string{syncedEvent},
			ready:       "True DeploymentAvailable",
			verify: func(t *testing.T, f *fixture) {
				f.verifyPatch(t, `{"metadata":{"resourceVersion":"7"},"spec":{"replicas":2}}`)
			},
		},
		{
			name: "drift of image and labels",
			foo:  newFoo(observed),
			deployments: []*appsv1.Deployment{newDeploymentFor(newFoo(), available, withImage("apache"), func(object metav1.Object) {
				object.SetLabels(map[string]string{"app": "other", "team": "a"})
				template := &object.(*appsv1.Deployment).Spec.Template
				template.Labels = map[string]string{"controller": "example-foo"}
				template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2020-01-01T00:00:00Z"}
				template.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
				template.Spec.Containers = append([]corev1.Container{{Name: "sidecar", Image: "sidecar"}}, template.Spec.Containers...)
			})},
			requests: []string{getFoo, patchDeployment},
			events:   []string{syncedEvent},
			ready:    "True DeploymentAvailable",
			verify: func(t *testing.T, f *fixture) {
				got := f.deployment(t, "example-deployment")
				template := got.Spec.Template
				if want := map[string]string{"app": "nginx", "controller": "example-foo", "team": "a"}; !reflect.DeepEqual(got.Labels, want) {
					t.Errorf("labels = %v, want %v", got.Labels, want)
				}
				if want := map[string]string{"app": "nginx", "controller": "example-foo"}; !reflect.DeepEqual(template.Labels, want) {
					t.Errorf("labels of the Pods = %v, want %v", template.Labels, want)
				}
				var containers []string
				for _, container := range template.Spec.Containers {
					containers = append(containers, fmt.Sprint(container.Name, " ", container.Image, " ", container.ImagePullPolicy))
				}
				slices.Sort(containers)
				if want := []string{"nginx nginx:latest Always", "sidecar sidecar "}; !slices.Equal(containers, want) || len(template.Annotations) != 1 {
					t.Errorf("containers = %q, annotations = %v, want %q and one", containers, template.Annotations, want)
				}
			},
		},
		{
			name:        "name conflict",
			foo:         newFoo(),
			deployments: []*appsv1.Deployment{newDeploymentFor(newFoo(), notControlled)},
			requests:    []string{updateStatus},
			events:      []string{conflictEvent},
			err:         "already exists and is not managed by Foo",
			ready:       "False ErrResourceExists (stalled)",
		},
		{
			name:        "earlier Foo of the same name",
			foo:         newFoo(),
			deployments: []*appsv1.Deployment{newDeploymentFor(newFoo(withUID("earlier-uid")), available)},
			requests:    []string{updateStatus},
			events:      []string{conflictEvent},
			err:         "already exists and is not managed by Foo",
			ready:       "False ErrResourceExists (stalled)",
		},
		{
			name:     "ours exists, not in the cache",
			foo:      newFoo(),
			answers:  map[string]answer{createDeployment: failing(exists), getDeployment: returning(ours)},
			requests: []string{createDeployment, getDeployment},
			err:      consistency.ErrStale.Error(),
			verify: func(t *testing.T, f *fixture) {
				f.deploymentsIndexer.Bookmark("6")
				verifyError(t, f.syncHandler(t.Context(), objectRef), consistency.ErrStale.Error())
				f.verifyRequests(t)
			},
		},
		{
			name:     "another exists, not in the cache",
			foo:      newFoo(),
			answers:  map[string]answer{createDeployment: failing(exists), getDeployment: returning(newDeploymentFor(newFoo(), controlledBy("another-uid")))},
			requests: []string{createDeployment, getDeployment, updateStatus},
			events:   []string{conflictEvent},
			err:      "already exists and is not managed by Foo",
			ready:    "False ErrResourceExists (stalled)",
		},
		{
			name:     "exists, live read fails",
			foo:      newFoo(),
			answers:  map[string]answer{createDeployment: failing(exists), getDeployment: failing(unavailable)},
			requests: []string{createDeployment, getDeployment},
			err:      "etcd has no leader",
		},
		{
			name:     "invalid",
			foo:      newFoo(),
			answers:  map[string]answer{createDeployment: failing(invalid)},
			requests: []string{createDeployment, updateStatus},
			events:   []string{"Warning DeploymentRejected " + invalid.Error()},
			err:      invalid.Error(),
			ready:    "False DeploymentRejected (stalled)",
		},
		{
			name:     "exceeded quota",
			foo:      newFoo(),
			answers:  map[string]answer{createDeployment: failing(quota)},
			requests: []string{createDeployment, updateStatus},
			events:   []string{"Warning DeploymentRejected " + quota.Error()},
			err:      "exceeded quota",
			ready:    "False DeploymentRejected (stalled)",
		},
		{
			name:     "denied by a webhook",
			foo:      newFoo(),
			answers:  map[string]answer{createDeployment: failing(webhook)},
			requests: []string{createDeployment, updateStatus},
			events:   []string{"Warning DeploymentRejected admission webhook denied the request"},
			err:      "admission webhook denied the request",
			ready:    "False DeploymentRejected (stalled)",
		},
		{
			name:        "patch denied",
			foo:         newFoo(observed),
			deployments: []*appsv1.Deployment{newDeploymentFor(newFoo(), available, withReplicas(9))},
			answers:     map[string]answer{patchDeployment: failing(webhook)},
			requests:    []string{getFoo, patchDeployment, updateStatus},
			events:      []string{"Warning DeploymentRejected admission webhook denied the request"},
			err:         "admission webhook denied the request",
			ready:       "False DeploymentRejected (stalled)",
			verify: func(t *testing.T, f *fixture) {
				if got := f.foo(t).Status.AvailableReplicas; got != 2 {
					t.Errorf("availableReplicas = %d, want those of the Deployment", got)
				}
			},
		},
		{
			name:     "namespace terminating",
			foo:      newFoo(),
			answers:  map[string]answer{createDeployment: failing(terminating)},
			requests: []string{createDeployment},
			err:      "namespace is being terminated",
		},
		{
			name:     "transient error",
			foo:      newFoo(),
			answers:  map[string]answer{createDeployment: failing(unavailable)},
			requests: []string{createDeployment},
			err:      "etcd has no leader",
		},
		{
			name:     "transient error of the status",
			foo:      newFoo(),
			answers:  map[string]answer{updateStatus: failing(unavailable)},
			requests: []string{createDeployment, updateStatus},
			err:      "etcd has no leader",
		},
		{
			name:        "conflict",
			foo:         newFoo(observed),
			deployments: []*appsv1.Deployment{newDeploymentFor(newFoo(), available, withReplicas(9))},
			answers:     map[string]answer{patchDeployment: failing(conflict)},
			requests:    []string{getFoo, patchDeployment},
			err:         "object has been modified",
			ready:       "True DeploymentAvailable",
		},
		{
			name:        "Foo being deleted",
			foo:         newFoo(observed, deleting),
			deployments: []*appsv1.Deployment{newDeploymentFor(newFoo(), available, withReplicas(9))},
			ready:       "True DeploymentAvailable",
		},
		{
			name:        "Deployment being deleted",
			foo:         newFoo(observed),
			deployments: []*appsv1.Deployment{newDeploymentFor(newFoo(), available, withReplicas(9), deleting)},
			requests:    []string{updateStatus},
			ready:       "False DeploymentProgressing",
		},
		{
			name:        "renamed",
			foo:         newFoo(observed, withGeneration(2), renamed),
			deployments: []*appsv1.Deployment{ours},
			requests:    []string{"create deployments new-deployment", updateStatus},
			events:      []string{syncedEvent},
			ready:       "False DeploymentProgressing",
		},
		{
			name:        "renamed, new Deployment not available",
			foo:         newFoo(renamed, observing(newDeploymentFor(newFoo()))),
			deployments: []*appsv1.Deployment{ours, newDeploymentFor(newFoo(renamed))},
			ready:       "False DeploymentProgressing",
		},
		{
			name:        "renamed, new Deployment being deleted",
			foo:         newFoo(renamed, observedReplacement),
			deployments: []*appsv1.Deployment{ours, newDeploymentFor(newFoo(renamed), available, deleting)},
			requests:    []string{updateStatus},
			ready:       "False DeploymentProgressing",
		},
		{
			name:        "renamed, new Deployment available",
			foo:         newFoo(renamed, observedReplacement),
			deployments: []*appsv1.Deployment{ours, replacement},
			requests:    []string{getFoo, deleteDeployment},
			events:      []string{prunedEvent},
			ready:       "True DeploymentAvailable",
			verify: func(t *testing.T, f *fixture) {
				actions := f.kubeClient.Actions()
				preconditions := actions[len(actions)-1].(clienttesting.DeleteAction).GetDeleteOptions().Preconditions
				if preconditions == nil || *preconditions.UID != "example-deployment-uid" || *preconditions.ResourceVersion != "7" {
					t.Errorf("preconditions = %v", preconditions)
				}
			},
		},
		{
			name:        "renamed, no replicas desired",
			foo:         newFoo(withGeneration(2), renamed, withReplicas(0)),
			deployments: []*appsv1.Deployment{ours},
			requests:    []string{"create deployments new-deployment", getFoo, deleteDeployment, updateStatus},
			events:      []string{prunedEvent, syncedEvent},
			ready:       "True DeploymentAvailable",
		},
		{
			name:        "renamed without replicas",
			foo:         newFoo(observed, withGeneration(2), renamed, withoutReplicas),
			deployments: []*appsv1.Deployment{newDeploymentFor(newFoo(), withReplicas(7), available)},
			requests:    []string{"create deployments new-deployment", updateStatus},
			events:      []string{syncedEvent},
			ready:       "False DeploymentProgressing",
			verify: func(t *testing.T, f *fixture) {
				if got := f.deployment(t, "new-deployment").Spec.Replicas; got == nil || *got != 7 {
					t.Errorf("replicas = %v, want those of the superseded Deployment", got)
				}
			},
		},
		{
			name:        "renamed, name conflict",
			foo:         newFoo(withGeneration(2), renamed),
			deployments: []*appsv1.Deployment{ours, newDeploymentFor(newFoo(renamed), available, notControlled)},
			requests:    []string{updateStatus},
			events:      []string{strings.ReplaceAll(conflictEvent, "example-deployment", "new-deployment")},
			err:         "already exists and is not managed by Foo",
			ready:       "False ErrResourceExists (stalled)",
			verify:      verifySupersededIsReported,
		},
		{
			name:        "renamed, rejected",
			foo:         newFoo(withGeneration(2), renamed),
			deployments: []*appsv1.Deployment{ours},
			answers:     map[string]answer{"create deployments new-deployment": failing(quota)},
			requests:    []string{"create deployments new-deployment", updateStatus},
			events:      []string{"Warning DeploymentRejected " + quota.Error()},
			err:         "exceeded quota",
			ready:       "False DeploymentRejected (stalled)",
			verify:      verifySupersededIsReported,
		},
		{
			name:        "renamed, patch rejected",
			foo:         newFoo(renamed, observedReplacement),
			deployments: []*appsv1.Deployment{ours, newDeploymentFor(newFoo(renamed), available, withReplicas(9))},
			answers:     map[string]answer{"patch deployments new-deployment": failing(quota)},
			requests:    []string{getFoo, "patch deployments new-deployment", updateStatus},
			events:      []string{"Warning DeploymentRejected " + quota.Error()},
			err:         "exceeded quota",
			ready:       "False DeploymentRejected (stalled)",
		},
		{
			name:        "superseded Deployment gone",
			foo:         newFoo(renamed, observedReplacement),
			deployments: []*appsv1.Deployment{ours, replacement},
			answers:     map[string]answer{deleteDeployment: failing(apierrors.NewNotFound(resource, "example-deployment"))},
			requests:    []string{getFoo, deleteDeployment},
			ready:       "True DeploymentAvailable",
		},
		{
			name:        "superseded Deployment being deleted",
			foo:         newFoo(renamed, observedReplacement),
			deployments: []*appsv1.Deployment{newDeploymentFor(newFoo(), available, deleting), replacement},
			ready:       "True DeploymentAvailable",
		},
		{
			name:        "superseded Deployment not controlled",
			foo:         newFoo(renamed, observedReplacement),
			deployments: []*appsv1.Deployment{newDeploymentFor(newFoo(), available, notControlled), replacement},
			ready:       "True DeploymentAvailable",
		},
		{
			name:        "prune rejected",
			foo:         newFoo(renamed, observedReplacement),
			deployments: []*appsv1.Deployment{ours, replacement},
			answers:     map[string]answer{deleteDeployment: failing(webhook)},
			requests:    []string{getFoo, deleteDeployment, updateStatus},
			events:      []string{"Warning DeploymentRejected admission webhook denied the request"},
			err:         "admission webhook denied the request",
			ready:       "False DeploymentRejected (stalled)",
		},
		{
			name:        "prune fails",
			foo:         newFoo(renamed, observing(newDeploymentFor(newFoo()))),
			deployments: []*appsv1.Deployment{ours, replacement},
			answers:     map[string]answer{deleteDeployment: failing(unavailable)},
			requests:    []string{getFoo, deleteDeployment, updateStatus},
			err:         "etcd has no leader",
			ready:       "True DeploymentAvailable",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var objects []runtime.Object
			if test.foo != nil {
				objects = append(objects, test.foo)
			}
			for _, deployment := range test.deployments {
				objects = append(objects, deployment)
			}
			f := newFixture(t, objects...)
			f.answers = test.answers

			err := f.syncHandler(t.Context(), objectRef)
			verifyError(t, err, test.err)
			f.verifyRequests(t, test.requests...)
			f.verifyEvents(t, test.events...)
			if test.foo != nil {
				f.verifyReady(t, test.ready)
			}
			if test.verify != nil {
				test.verify(t, f)
			}
			if test.answers == nil {
				f.fillCaches(t)
				verifyError(t, f.syncHandler(t.Context(), objectRef), test.err)
				f.verifyRequests(t)
				f.verifyEvents(t)
			}
		})
	}
}

func verifySupersededIsReported(t *testing.T, f *fixture) {
	t.Helper()
	if status := f.foo(t).Status; status.Replicas != 2 || status.AvailableReplicas != 2 || status.Selector != "app=nginx,controller=example-foo" {
		t.Errorf("status = %+v, want that of the superseded Deployment", status)
	}
}

func TestImage(t *testing.T) {
	f := newFixtureWithoutController(t, newFoo())
	f.newController(t, Config{Image: "nginx:1.27"})
	f.fillCaches(t)
	for range 2 { // The second sync finds no drift.
		if err := f.syncHandler(t.Context(), objectRef); err != nil {
			t.Fatal(err)
		}
		if got := f.deployment(t, "example-deployment").Spec.Template.Spec.Containers[0].Image; got != "nginx:1.27" {
			t.Errorf("image = %q", got)
		}
		f.fillCaches(t)
	}
	if err := f.syncHandler(t.Context(), objectRef); err != nil {
		t.Fatal(err)
	}
	f.verifyRequests(t)
}

// What is destructive, or is done because the cached Foo has not changed, is preceded by a live read of the Foo.
func TestLiveFooHasChanged(t *testing.T) {
	renamed := withDeploymentName("new-deployment")
	current, superseded := newDeploymentFor(newFoo(renamed), available), newDeploymentFor(newFoo(), available)
	for change, option := range map[string]option{"spec": withGeneration(2), "UID": withUID("new-uid"), "deletion": deleting} {
		for write, deployments := range map[string][]*appsv1.Deployment{
			"prune":           {superseded, current},
			"correction":      {newDeploymentFor(newFoo(renamed), available, withReplicas(9))},
			"second creation": nil,
		} {
			t.Run(change+" before "+write, func(t *testing.T) {
				cached := newFoo(renamed, observing(current))
				objects := []runtime.Object{newFoo(renamed, observing(current), option)}
				for _, deployment := range deployments {
					objects = append(objects, deployment)
				}
				f := newFixture(t, objects...)
				if err := f.foosIndexer.Update(cached); err != nil {
					t.Fatal(err)
				}
				if err := f.syncHandler(t.Context(), objectRef); !errors.Is(err, consistency.ErrStale) {
					t.Errorf("error = %v, want %v", err, consistency.ErrStale)
				}
				f.verifyRequests(t, getFoo)
			})
		}
	}
}

func TestPruneSeveral(t *testing.T) {
	replacement := newDeploymentFor(newFoo(withDeploymentName("new-deployment")), available)
	f := newFixture(t, newFoo(withDeploymentName("new-deployment"), observing(replacement)), replacement,
		newDeploymentFor(newFoo(), available), newDeploymentFor(newFoo(), available, withName("other-deployment")))
	if err := f.syncHandler(t.Context(), objectRef); err != nil {
		t.Fatal(err)
	}
	deletions := []string{deleteDeployment, "delete deployments other-deployment"}
	got := f.takeRequests()
	if len(got) == 4 && got[1] != deletions[0] {
		slices.Reverse(deletions) // An index has no order.
	}
	if want := []string{getFoo, deletions[0], getFoo, deletions[1]}; !slices.Equal(got, want) {
		t.Errorf("requests = %q, want %q", got, want)
	}
}

func TestLostDeploymentBeforeFirstStatus(t *testing.T) {
	f := newFixture(t, newFoo())
	f.answers = map[string]answer{updateStatus: failing(apierrors.NewServiceUnavailable("etcd has no leader"))}
	verifyError(t, f.syncHandler(t.Context(), objectRef), "etcd has no leader")
	f.verifyRequests(t, createDeployment, updateStatus)
	if err := f.kubeClient.Tracker().Delete(deploymentsGVR, "default", "example-deployment"); err != nil {
		t.Fatal(err)
	}
	f.fillCaches(t)
	verifyError(t, f.syncHandler(t.Context(), objectRef), "etcd has no leader")
	f.verifyRequests(t, getFoo, createDeployment, updateStatus)

	if err := f.foosTracker.Delete(foosGVR, "default", "example-foo"); err != nil {
		t.Fatal(err)
	}
	f.fillCaches(t)
	if err := f.syncHandler(t.Context(), objectRef); err != nil || f.consistencyStore.HasWritten(objectRef, "foo-uid") {
		t.Errorf("error = %v, HasWritten() = %v after the Foo is gone", err, f.consistencyStore.HasWritten(objectRef, "foo-uid"))
	}
}

func TestStaleCache(t *testing.T) {
	ours := newDeploymentFor(newFoo(), available)
	newer := returning(newDeploymentFor(newFoo(), available, withResourceVersion("11")))
	for name, test := range map[string]struct {
		foo         *samplev1alpha1.Foo
		deployments []runtime.Object
		answers     map[string]answer
		requests    []string
		caughtUp    func(*fixture)
	}{
		"create": {newFoo(), nil, map[string]answer{createDeployment: newer},
			[]string{createDeployment, updateStatus}, func(f *fixture) { f.deploymentsIndexer.Bookmark("11") }},
		"patch": {newFoo(observing(ours), withGeneration(2), withReplicas(5)), []runtime.Object{ours}, map[string]answer{patchDeployment: newer},
			[]string{patchDeployment, updateStatus}, func(f *fixture) { f.deploymentsIndexer.Bookmark("11") }},
		"status": {newFoo(), []runtime.Object{ours}, map[string]answer{updateStatus: returning(newFoo(withResourceVersion("11")))},
			[]string{updateStatus}, func(f *fixture) { f.foosIndexer.Bookmark("11") }},
		"live read": {newFoo(), nil, map[string]answer{getDeployment: newer,
			createDeployment: failing(apierrors.NewAlreadyExists(appsv1.Resource("deployments"), "example-deployment"))},
			[]string{createDeployment, getDeployment}, func(f *fixture) { f.deploymentsIndexer.Bookmark("11") }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, append(test.deployments, test.foo)...)
			f.answers = test.answers
			f.deploymentsIndexer.Bookmark("10")
			f.foosIndexer.Bookmark("10")
			_ = f.syncHandler(t.Context(), objectRef) // Not all of them succeed.
			f.verifyRequests(t, test.requests...)
			if err := f.syncHandler(t.Context(), objectRef); !errors.Is(err, consistency.ErrStale) {
				t.Errorf("error = %v, want %v", err, consistency.ErrStale)
			}
			f.verifyRequests(t)
			test.caughtUp(f)
			if _ = f.syncHandler(t.Context(), objectRef); len(f.takeRequests()) == 0 {
				t.Error("there was no request after the cache had caught up")
			}
		})
	}
}

// racingLister is a lister whose cache catches up just after a read.
type racingLister struct {
	listers.FooLister
	listers.FooNamespaceLister
	catchUp func()
}

func (l racingLister) Foos(namespace string) listers.FooNamespaceLister {
	l.FooNamespaceLister = l.FooLister.Foos(namespace)
	return l
}

func (l racingLister) List(selector labels.Selector) ([]*samplev1alpha1.Foo, error) {
	return l.FooLister.List(selector)
}

func (l racingLister) Get(name string) (*samplev1alpha1.Foo, error) {
	defer l.catchUp()
	return l.FooNamespaceLister.Get(name)
}

func TestCacheCatchesUpDuringRead(t *testing.T) {
	f := newFixture(t, newFoo(), newDeploymentFor(newFoo(), available))
	f.foosIndexer.Bookmark("10")
	f.consistencyStore.WroteAt(objectRef, "foo-uid", fooResource, "11")
	f.foosLister = racingLister{FooLister: f.foosLister, catchUp: func() { f.foosIndexer.Bookmark("11") }}
	if err := f.syncHandler(t.Context(), objectRef); !errors.Is(err, consistency.ErrStale) {
		t.Errorf("error = %v, want %v", err, consistency.ErrStale)
	}
	f.verifyRequests(t)
}

func TestOverriddenByAdmission(t *testing.T) {
	ours := newDeploymentFor(newFoo(), available)
	drifted := newDeploymentFor(newFoo(), available, withReplicas(9))
	withoutLabels := func(object metav1.Object) { object.SetLabels(nil) }
	scaled := func(foo *samplev1alpha1.Foo) *samplev1alpha1.Foo { foo.Generation = 2; return foo }
	for name, test := range map[string]struct {
		foo         *samplev1alpha1.Foo
		deployments []runtime.Object
		answers     map[string]answer
		requests    []string
		message     string
	}{
		"image": {newFoo(), nil, map[string]answer{createDeployment: mutating(withImage("mirror/nginx"))},
			[]string{createDeployment, updateStatus},
			`spec.template.spec.containers[nginx].image: desired "nginx:latest", found "mirror/nginx"`},
		"labels": {newFoo(), nil, map[string]answer{createDeployment: mutating(withoutLabels)}, []string{createDeployment, updateStatus},
			`metadata.labels.app: desired "nginx", found nothing; metadata.labels.controller: desired "example-foo", found nothing`},
		"patch of a new generation": {scaled(newFoo(observing(ours))), []runtime.Object{drifted}, map[string]answer{patchDeployment: returning(drifted)},
			[]string{patchDeployment, updateStatus}, "spec.replicas: desired 2, found 9"},
		"correction": {newFoo(observing(ours)), []runtime.Object{drifted}, map[string]answer{patchDeployment: returning(drifted)},
			[]string{getFoo, patchDeployment, updateStatus}, "spec.replicas: desired 2, found 9"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // The bubble's clock is fake, and stands still.
				f := newFixture(t, append(test.deployments, test.foo)...)
				f.answers = test.answers
				verifyError(t, f.syncHandler(t.Context(), objectRef), test.message)
				f.verifyRequests(t, test.requests...)
				f.verifyEvents(t, "Warning DeploymentOverridden "+test.message)
				f.verifyReady(t, "False DeploymentOverridden (stalled)")
				f.fillCaches(t)
				verifyError(t, f.syncHandler(t.Context(), objectRef), test.message)
				f.verifyRequests(t)
				f.verifyEvents(t)
			})
		})
	}
}

func TestOverriddenByAnotherController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // The bubble's clock is fake: a sleep advances it, and takes no time.
		ours := newDeploymentFor(newFoo(), available)
		f := newFixture(t, newFoo(observing(ours)), ours)
		const message = "spec.replicas: desired 2, found 9"
		for _, step := range []struct {
			name     string
			after    time.Duration
			override bool
			requests []string
			events   []string
			err      string
			ready    string
		}{
			{"first drift", 0, true, []string{getFoo, patchDeployment}, []string{syncedEvent}, "", "True DeploymentAvailable"},
			{"restored", 0, true, []string{updateStatus}, []string{"Warning DeploymentOverridden " + message}, message, "False DeploymentOverridden (stalled)"},
			{"end of backoff", time.Second - 1, false, nil, nil, message, "False DeploymentOverridden (stalled)"},
			{"after backoff", 1, false, []string{getFoo, patchDeployment}, nil, message, "False DeploymentOverridden (stalled)"},
			{"restored again", 0, true, nil, nil, message, "False DeploymentOverridden (stalled)"},
			{"end of second backoff", 2*time.Second - 1, false, nil, nil, message, "False DeploymentOverridden (stalled)"},
			{"after second backoff", 1, false, []string{getFoo, patchDeployment}, nil, message, "False DeploymentOverridden (stalled)"},
			{"not restored", 4*time.Second - 1, false, nil, nil, message, "False DeploymentOverridden (stalled)"},
			{"held for the backoff", 1, false, []string{updateStatus}, nil, "", "True DeploymentAvailable"},
			{"drift much later", time.Hour, true, []string{getFoo, patchDeployment}, []string{syncedEvent}, "", "True DeploymentAvailable"},
		} {
			time.Sleep(step.after)
			if step.override {
				f.edit(t, ours, withReplicas(9))
			}
			t.Log(step.name)
			verifyError(t, f.syncHandler(t.Context(), objectRef), step.err)
			f.verifyRequests(t, step.requests...)
			f.verifyEvents(t, step.events...)
			f.verifyReady(t, step.ready)
			f.fillCaches(t)
		}
	})
}

func TestStalledIsLoggedOnce(t *testing.T) {
	f := newFixture(t, newFoo(), newDeploymentFor(newFoo(), notControlled))
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	for range 3 {
		verifyError(t, f.syncHandler(klog.NewContext(t.Context(), logger), objectRef), "already exists")
		f.fillCaches(t)
	}
	if log := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); strings.Count(log, "Foo is stalled") != 1 {
		t.Errorf("log = %q, want one line", log)
	}
}

func TestHandlers(t *testing.T) {
	// Both Foos desire the same Deployment.
	waiting := newFoo(withName("waiting-foo"), withUID("waiting-uid"))
	v8 := withResourceVersion("8")
	ours, ours8 := newDeploymentFor(newFoo()), newDeploymentFor(newFoo(), v8, func(object metav1.Object) { object.SetLabels(nil) })
	another, another8 := newDeploymentFor(newFoo(), notControlled), newDeploymentFor(newFoo(), notControlled, v8)
	withRef := func(change func(*metav1.OwnerReference)) *appsv1.Deployment {
		return newDeploymentFor(newFoo(), func(object metav1.Object) { change(&object.GetOwnerReferences()[0]) })
	}
	const foo, both = "example-foo", "example-foo waiting-foo"
	updateFoo := func(options ...option) func(f *fixture) {
		return func(f *fixture) { f.updateFoo(newFoo(), newFoo(options...)) }
	}
	updateDeployment := func(from, to *appsv1.Deployment) func(f *fixture) {
		return func(f *fixture) { f.updateDeployment(from, to) }
	}
	addDeployment := func(deployment *appsv1.Deployment) func(f *fixture) {
		return func(f *fixture) { f.addDeployment(deployment, false) }
	}
	for _, test := range []struct {
		name    string
		handle  func(f *fixture)
		stalled bool
		high    string
		low     string
		forgets string // The Foos whose backoff is reset.
	}{
		{name: "Foo added", handle: func(f *fixture) { f.addFoo(newFoo(), false) }, high: foo},
		{name: "Foo of the initial list", handle: func(f *fixture) { f.addFoo(newFoo(), true) }, low: foo},
		{name: "Foo resynced", handle: updateFoo(), low: foo},
		{name: "spec changed", handle: updateFoo(v8, withGeneration(2)), high: foo, forgets: foo},
		{name: "Foo replaced", handle: updateFoo(v8, withUID("new-uid")), high: foo, forgets: foo},
		{name: "Foo being deleted", handle: updateFoo(v8, deleting), high: foo, forgets: foo},
		{name: "status changed", handle: updateFoo(v8, observing(ours)), high: foo},
		{name: "stalled Foo resynced", stalled: true, handle: updateFoo(observing(ours))},
		{name: "status of stalled Foo changed", stalled: true, handle: updateFoo(v8, observing(ours))},
		{name: "spec of stalled Foo changed", stalled: true, handle: updateFoo(v8, withGeneration(2)), high: foo, forgets: foo},
		{name: "Foo deleted", handle: func(f *fixture) { f.deleteFoo(newFoo()) }, high: foo},
		{name: "tombstone of a Foo", handle: func(f *fixture) { f.deleteFoo(cache.DeletedFinalStateUnknown{Key: "default/example-foo"}) }, high: foo},

		{name: "Deployment added", handle: addDeployment(ours), high: foo},
		{name: "Deployment of the initial list", handle: func(f *fixture) { f.addDeployment(ours, true) }},
		{name: "not controlled", handle: addDeployment(another)},
		{name: "controlled by earlier Foo", handle: addDeployment(withRef(func(ref *metav1.OwnerReference) { ref.UID = "earlier-uid" }))},
		{name: "controlled by another kind", handle: addDeployment(withRef(func(ref *metav1.OwnerReference) { ref.Kind = "ReplicaSet" }))},
		{name: "controlled by another group", handle: addDeployment(withRef(func(ref *metav1.OwnerReference) { ref.APIVersion = "example.com/v1" }))},
		{name: "controlled by another version", handle: addDeployment(withRef(func(ref *metav1.OwnerReference) { ref.APIVersion = "samplecontroller.k8s.io/v1" })), high: foo},
		{name: "owned, not controlled", handle: addDeployment(withRef(func(ref *metav1.OwnerReference) { ref.Controller = nil }))},
		{name: "Deployment changed", handle: updateDeployment(ours, ours8), high: foo},
		{name: "Deployment of stalled Foo changed", stalled: true, handle: updateDeployment(ours, ours8), high: foo},
		{name: "Deployment resynced", handle: updateDeployment(ours, ours)},
		{name: "not controlled, changed", handle: updateDeployment(another, another8)},
		{name: "released", stalled: true, handle: updateDeployment(ours, another8), high: both, forgets: both},
		{name: "adopted", stalled: true, handle: updateDeployment(another, ours8), high: both, forgets: both},
		{name: "Deployment deleted", stalled: true, handle: func(f *fixture) { f.deleteDeployment(ours) }, high: both, forgets: both},
		{name: "not controlled, deleted", stalled: true, handle: func(f *fixture) { f.deleteDeployment(another) }, high: both, forgets: both},
		{name: "superseded Deployment deleted", stalled: true, handle: func(f *fixture) {
			f.deleteDeployment(newDeploymentFor(newFoo(), withName("superseded")))
		}, high: foo},
		{name: "tombstone of a Deployment", stalled: true, handle: func(f *fixture) {
			f.deleteDeployment(cache.DeletedFinalStateUnknown{Key: "default/example-deployment", Obj: ours})
		}, high: both, forgets: both},
		{name: "Deployment of another namespace deleted", handle: func(f *fixture) {
			f.deleteDeployment(newDeploymentFor(newFoo(), func(object metav1.Object) { object.SetNamespace("other") }))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // The clock stands still, so that no retry is due.
				f := newFixture(t, newFoo(), waiting)
				names := []string{"example-foo", "waiting-foo"}
				for _, name := range names {
					f.workqueue.AddRateLimited(cache.NewObjectName("default", name))
					if test.stalled {
						f.stalledBackoff.When(cache.NewObjectName("default", name))
					}
				}
				f.workqueue.AddLowPriority(cache.NewObjectName("default", "low")) // What is handed out before it has high priority.
				test.handle(f)

				var high, low, forgotten []string
				for f.workqueue.Len() > 0 {
					key, _ := f.workqueue.Get()
					low = append(low, key.Name)
					if key.Name == "low" {
						high, low = low[:len(low)-1], nil
					}
				}
				for _, name := range names {
					if key := cache.NewObjectName("default", name); f.workqueue.NumRequeues(key)+f.stalledBackoff.NumRequeues(key) == 0 {
						forgotten = append(forgotten, name)
					}
				}
				slices.Sort(high) // An index has no order.
				for what, lists := range map[string][2][]string{
					"high": {high, strings.Fields(test.high)}, "low": {low, strings.Fields(test.low)}, "forgotten": {forgotten, strings.Fields(test.forgets)},
				} {
					if !slices.Equal(lists[0], lists[1]) {
						t.Errorf("%s = %q, want %q", what, lists[0], lists[1])
					}
				}
			})
		})
	}
}

func TestRolloutStatusDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // The bubble's clock is fake: a sleep advances it, and takes no time.
		f := newFixture(t, newFoo())
		rollout := []*appsv1.Deployment{newDeploymentFor(newFoo()), newDeploymentFor(newFoo(), available, withResourceVersion("8"))}
		rollout = append(rollout, newDeploymentFor(newFoo(), withResourceVersion("9")))
		f.updateDeployment(rollout[0], rollout[1])
		time.Sleep(rolloutStatusDelay / 2)
		f.updateDeployment(rollout[1], rollout[2])
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{rolloutStatusDelay/2 - 1, 0}, {1, 1}, {time.Hour, 1}} {
			time.Sleep(step.after)
			synctest.Wait()
			if got := f.workqueue.Len(); got != step.want {
				t.Errorf("%d keys are queued, want %d", got, step.want)
			}
		}
	})
}

func TestProcessNextWorkItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // The bubble's clock is fake: a sleep advances it, and takes no time.
		f := newFixture(t, newFoo())
		resource := appsv1.Resource("deployments")
		stalled := failing(apierrors.NewForbidden(resource, "example-deployment", errors.New("exceeded quota")))
		transient := failing(apierrors.NewServiceUnavailable("etcd has no leader"))
		conflict := failing(apierrors.NewConflict(resource, "example-deployment", errors.New("modified")))
		for i, step := range []struct {
			create  answer
			result  string
			delay   time.Duration
			log     string
			retries int // of the workqueue
		}{
			{transient, "error", 5 * time.Millisecond, "etcd has no leader", 1},
			{conflict, "conflict", 10 * time.Millisecond, "", 2},
			{stalled, "stalled", 5 * time.Millisecond, "", 0},
			{stalled, "stalled", 10 * time.Millisecond, "", 0},
			{stalled, "stalled", 20 * time.Millisecond, "", 0},
			{transient, "error", 5 * time.Millisecond, "etcd has no leader", 1},
			{func(clienttesting.Action) (runtime.Object, error) { panic("a bug") }, "error", 10 * time.Millisecond, "a bug", 2},
			{nil, "stale", staleCacheDelay, "", 2},
			{nil, "success", 0, "", 0},
			{stalled, "stalled", 5 * time.Millisecond, "", 0},
		} {
			f.answers[createDeployment] = step.create
			f.foosIndexer.Bookmark("10")
			f.consistencyStore.Clear(objectRef)
			if step.result == "stale" {
				f.consistencyStore.WroteAt(objectRef, "foo-uid", fooResource, "11")
			}
			f.workqueue.Add(objectRef)
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(4)))
			if !f.processNextWorkItem(klog.NewContext(t.Context(), logger)) {
				t.Fatal("processNextWorkItem() = false")
			}
			log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			if !strings.Contains(log, fmt.Sprintf("result=%q", step.result)) {
				t.Errorf("step %d: log = %s, want the result %q", i, log, step.result)
			}
			if isError := strings.Contains(log, "Error syncing Foo"); isError != (step.log != "") || !strings.Contains(log, step.log) {
				t.Errorf("step %d: log = %s, want the error %q", i, log, step.log)
			}
			if got := f.workqueue.NumRequeues(objectRef); got != step.retries {
				t.Errorf("step %d: NumRequeues() = %d, want %d", i, got, step.retries)
			}
			if step.delay > 0 {
				time.Sleep(step.delay - 1)
				synctest.Wait()
				if f.workqueue.Len() != 0 {
					t.Errorf("step %d: queued again before %s", i, step.delay)
				}
				time.Sleep(1)
			} else {
				time.Sleep(time.Hour)
			}
			synctest.Wait()
			if got := f.workqueue.Len() == 1; got != (step.delay > 0) {
				t.Errorf("step %d: queued again %v after %s", i, got, step.delay)
			}
		}
		f.workqueue.ShutDown()
		f.workqueue.Get()
		if f.processNextWorkItem(t.Context()) {
			t.Error("processNextWorkItem() = true after the shutdown")
		}
	})
}

func TestRunDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newFoo(), newFoo(withName("second-foo")), newFoo(withName("third-foo")))
		creating, proceed := make(chan struct{}, 3), make(chan struct{})
		f.answers[createDeployment] = func(clienttesting.Action) (runtime.Object, error) {
			creating <- struct{}{}
			<-proceed
			return nil, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		f.startInformers(ctx, t)
		returned := make(chan error, 1)
		go func() { returned <- f.Run(ctx, 1) }()
		<-creating
		cancel()
		synctest.Wait()
		if len(returned) > 0 {
			t.Fatalf("Run() = %v while a sync is running", <-returned)
		}
		close(proceed)
		if err := <-returned; err != nil {
			t.Errorf("Run() = %v", err)
		}
		if got := f.takeRequests(); !slices.Contains(got, createDeployment) || got[len(got)-1] != updateStatus && !strings.HasPrefix(got[len(got)-1], "update foos/status") {
			t.Errorf("requests = %q, want the running sync to finish", got)
		}
		if len(creating) > 0 {
			t.Error("another sync was started after ctx was done")
		}
	})
}

// hangingClient is a clientset whose creations of Deployments last until their context is done.
type hangingClient struct {
	kubernetes.Interface
	typedappsv1.AppsV1Interface
	typedappsv1.DeploymentInterface
}

func (c hangingClient) AppsV1() typedappsv1.AppsV1Interface                { return c }
func (c hangingClient) Deployments(string) typedappsv1.DeploymentInterface { return c }
func (hangingClient) Create(ctx context.Context, _ *appsv1.Deployment, _ metav1.CreateOptions) (*appsv1.Deployment, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestRunShutdownTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // The bubble's clock is fake: it advances when all wait.
		f := newFixtureWithoutController(t, newFoo())
		f.newController(t, Config{ShutdownTimeout: time.Minute})
		f.kubeclientset = hangingClient{Interface: f.kubeClient}
		ctx, cancel := context.WithCancel(t.Context())
		f.startInformers(ctx, t)
		returned := make(chan error, 1)
		go func() { returned <- f.Run(ctx, 1) }()
		time.Sleep(time.Hour)
		start := time.Now()
		cancel()
		err := <-returned
		verifyError(t, err, "1m0s")
		if got := time.Since(start); got != time.Minute {
			t.Errorf("Run() returned after %s, want the timeout", got)
		}
	})
}

func TestRunWithoutSyncedCaches(t *testing.T) {
	f := newFixture(t, newFoo())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Run(ctx, 1); err != nil {
		t.Errorf("Run() = %v", err)
	}
	f.verifyRequests(t)
}

func TestRunWithRunningInformers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		foo := newFoo()
		f := newFixtureWithoutController(t, foo, newFoo(withName("panicking-foo"), withDeploymentName("panicking")))
		ctx, cancel := context.WithCancel(t.Context())
		f.kubeInformers.Apps().V1().Deployments().Informer()
		f.sampleInformers.Samplecontroller().V1alpha1().Foos().Informer()
		f.startInformers(ctx, t)
		synctest.Wait() // The caches have synced.
		f.newController(t)
		f.answers["create deployments panicking"] = func(clienttesting.Action) (runtime.Object, error) { panic("a bug") }
		returned := make(chan error, 1)
		go func() { returned <- f.Run(ctx, 1) }()
		time.Sleep(time.Minute)
		f.deployment(t, "example-deployment") // It was created: the worker has survived the panics.
		f.verifyReady(t, "False DeploymentProgressing")

		deployment := f.deployment(t, "example-deployment").DeepCopy()
		deployment.ResourceVersion = "8"
		available(deployment)
		if err := f.kubeClient.Tracker().Update(deploymentsGVR, deployment, "default"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		f.verifyReady(t, "True DeploymentAvailable")
		cancel()
		if err := <-returned; err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
}

// TestClassicAPI uses what tests of the classic sample-controller use.
func TestClassicAPI(t *testing.T) {
	f := newFixtureWithoutController(t, newFoo())
	_, ctx := ktesting.NewTestContext(t)
	fooInformer := f.sampleInformers.Samplecontroller().V1alpha1().Foos()
	var c *Controller = NewController(ctx, f.kubeClient, f.sampleClient, f.kubeInformers.Apps().V1().Deployments(), fooInformer)
	c.foosSynced = func() bool { return true }
	c.deploymentsSynced = func() bool { return true }
	c.recorder = record.NewFakeRecorder(10)
	t.Cleanup(c.eventBroadcaster.Shutdown)
	foo := newFoo()
	if err := fooInformer.Informer().GetIndexer().Add(foo); err != nil {
		t.Fatal(err)
	}
	c.enqueueFoo(foo, "test")
	key, _ := c.workqueue.Get()
	if err := c.syncHandler(ctx, key); err != nil {
		t.Fatal(err)
	}
	c.workqueue.Forget(key)
	c.workqueue.Done(key)
	c.handleObject(newDeployment(foo))
	c.workqueue.ShutDown()
	if !c.processNextWorkItem(ctx) || c.processNextWorkItem(ctx) {
		t.Error("processNextWorkItem() does not return whether there was an item")
	}
	if got, want := f.deployment(t, "example-deployment"), newDeployment(foo); !equality.Semantic.DeepEqual(got.Spec, want.Spec) {
		t.Errorf("created %v, want %v", got.Spec, want.Spec)
	}
}

func TestTrim(t *testing.T) {
	managed := func(object metav1.Object) { object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}}) }
	annotated := func(object metav1.Object) { object.SetAnnotations(map[string]string{"note": "value"}) }
	ours := newDeploymentFor(newFoo(), available, annotated)
	metadata := &appsv1.Deployment{ObjectMeta: ours.ObjectMeta}
	metadata.Labels, metadata.Annotations, metadata.OwnerReferences = nil, nil, nil
	another := *metadata
	another.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(newFoo(), corev1.SchemeGroupVersion.WithKind("Bar"))}
	tombstone := cache.DeletedFinalStateUnknown{Key: "default/example-deployment", Obj: ours}
	for _, test := range []struct {
		name      string
		obj, want any
	}{
		{"Deployment of a Foo", newDeploymentFor(newFoo(), available, annotated, managed), ours},
		{"not controlled", newDeploymentFor(newFoo(), available, annotated, managed, notControlled), metadata},
		{"another controller", newDeploymentFor(newFoo(), available, annotated, managed, func(object metav1.Object) {
			object.SetOwnerReferences(another.OwnerReferences)
		}), &another},
		{"Foo", newFoo(annotated, managed, observing(ours)), newFoo(annotated, observing(ours))},
		{"tombstone", tombstone, tombstone},
	} {
		if foo, ok := test.want.(*samplev1alpha1.Foo); ok {
			foo.Status = test.obj.(*samplev1alpha1.Foo).Status // Which has the time.
		}
		if got := trimmed(t, test.obj); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: trim() = %v, want %v", test.name, got, test.want)
		}
	}
}

// choices makes choices of the bytes of a fuzzer, and the first of each when there are no more.
type choices []byte

func (c *choices) of(count int) int {
	if len(*c) == 0 {
		return 0
	}
	first := int((*c)[0])
	*c = (*c)[1:]
	return first % count
}

func pick[T any](c *choices, from ...T) T { return from[c.of(len(from))] }

// anyFoo returns a Foo with any spec, valid or not, and any status.
func anyFoo(c *choices) *samplev1alpha1.Foo {
	foo := newFoo(withGeneration(int64(1+c.of(3))), withDeploymentName(pick(c, "a", "b", "c", "")))
	foo.Spec.Replicas = pick(c, nil, new(int32(1)), new(int32(0)), new(int32(3)), new(int32(-1)))
	foo.Status.ObservedGeneration = int64(c.of(4))
	foo.Status.AvailableReplicas = int32(c.of(3))
	none := func(metav1.Object) {}
	pick(c, none, observing(newDeploymentFor(newFoo(), available)))(foo)
	if reason := pick(c, "", "", foostatus.DeploymentRejected, foostatus.DeploymentOverridden); reason != "" {
		foo.Status = foostatus.New(foo, nil, &foostatus.StalledError{Reason: reason, Message: "message"})
	}
	pick(c, none, none, none, deleting)(foo)
	return foo
}

// anyDeployment returns a Deployment with any controller, in any state.
func anyDeployment(c *choices, name string) *appsv1.Deployment {
	d := newDeploymentFor(newFoo(), withName(name))
	none := func() {}
	pick(c, none, func() { d.OwnerReferences = nil }, func() { d.OwnerReferences[0].UID = "another-uid" },
		func() { d.OwnerReferences[0].Kind = "Bar" }, func() { d.OwnerReferences[0].Controller = nil })()
	pick(c, none, func() { d.Labels = nil }, func() { d.Labels = map[string]string{"app": "other", "team": "a"} })()
	pick(c, none, func() { d.Spec.Template.Spec.Containers = nil }, func() { withImage("apache")(d) },
		func() { d.Spec.Template.Spec.Containers[0].Name = "renamed" })()
	pick(c, none, func() { d.Spec.Selector = nil }, func() { d.Spec.Template.Labels = nil })()
	d.Generation = int64(c.of(3))
	d.Spec.Replicas = pick(c, nil, new(int32(0)), new(int32(1)), new(int32(3)))
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: int64(c.of(3)), Replicas: int32(c.of(4)), UpdatedReplicas: int32(c.of(4)), AvailableReplicas: int32(c.of(4)),
	}
	pick(c, none, none, none, func() { deleting(d) })()
	return d
}

// FuzzSyncHandler syncs any Foo among any Deployments. A Deployment that the Foo does not control is never changed, and after a few
// syncs there is nothing left to do.
func FuzzSyncHandler(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a Foo among Deployments of all kinds, and all of them in some state"))
	f.Add([]byte{1, 1, 3, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 3, 1, 3, 3, 3, 0, 1, 0, 0, 0, 0, 2, 1, 1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		c := choices(data)
		foo := anyFoo(&c)
		objects := []runtime.Object{foo}
		for _, name := range []string{"a", "b", "c"} {
			if pick(&c, true, false) {
				objects = append(objects, anyDeployment(&c, name))
			}
		}
		f := newFixture(t, objects...)
		var err error
		for range 3 { // Create or correct, prune, and report.
			err = f.syncHandler(t.Context(), objectRef)
			f.fillCaches(t)
		}
		if again := f.syncHandler(t.Context(), objectRef); (again == nil) != (err == nil) {
			t.Errorf("error = %v, and then %v of the same state", err, again)
		}
		if requests := f.takeRequests(); err == nil && len(requests) > 0 {
			t.Errorf("requests = %q although nothing is left to do", requests)
		}
		for _, object := range objects[1:] {
			before := object.(*appsv1.Deployment)
			if foo.Controls(before) {
				continue
			}
			if after := f.deployment(t, before.Name); !equality.Semantic.DeepEqual(before, after) {
				t.Errorf("a Deployment that the Foo does not control was changed from %v to %v", before, after)
			}
		}
	})
}

// BenchmarkNoOpSync measures what a resync costs for each Foo in its steady state.
func BenchmarkNoOpSync(b *testing.B) {
	deployment := newDeploymentFor(newFoo(), available)
	f := newFixture(b, newFoo(observing(deployment)), deployment)
	b.ReportAllocs()
	for b.Loop() {
		if err := f.syncHandler(b.Context(), objectRef); err != nil {
			b.Fatal(err)
		}
	}
	if requests := f.takeRequests(); len(requests) > 0 {
		b.Fatalf("requests = %q", requests)
	}
}

// BenchmarkHandlers measures what an event costs until its Foo is enqueued or not.
func BenchmarkHandlers(b *testing.B) {
	ours, another := newDeploymentFor(newFoo(), available), newDeploymentFor(newFoo(), notControlled)
	changed := newDeploymentFor(newFoo(), available, withResourceVersion("8"), withName("example-deployment"), withReplicas(3))
	foo := newFoo(observing(ours))
	for name, handle := range map[string]func(f *fixture){
		"Foo added":                 func(f *fixture) { f.addFoo(foo, false) },
		"Foo resynced":              func(f *fixture) { f.updateFoo(foo, foo) },
		"Deployment added":          func(f *fixture) { f.addDeployment(ours, false) },
		"Deployment not controlled": func(f *fixture) { f.addDeployment(another, false) },
		"Deployment resynced":       func(f *fixture) { f.updateDeployment(ours, ours) },
		"Deployment changed":        func(f *fixture) { f.updateDeployment(ours, changed) },
		"Deployment deleted":        func(f *fixture) { f.deleteDeployment(ours) },
	} {
		b.Run(name, func(b *testing.B) {
			f := newFixture(b, foo, ours)
			b.ReportAllocs()
			for b.Loop() {
				handle(f)
			}
		})
	}
}

// BenchmarkCache measures the memory of the caches for a Foo with its Deployment, and for a Deployment that no Foo controls.
func BenchmarkCache(b *testing.B) {
	const count = 10000
	for name, controlled := range map[string]bool{"Foo with its Deployment": true, "Deployment not controlled": false} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f := newFixture(b)
				before := heap()
				for i := range count {
					name, uid := fmt.Sprintf("foo-%06d", i), types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i))
					foo := newFoo(withName(name), withUID(uid), withDeploymentName(name))
					deployment := newDeploymentFor(foo, withUID(uid), available)
					observing(deployment)(foo)
					if !controlled {
						notControlled(deployment)
					} else if err := f.foosIndexer.Add(trimmed(b, decoded(b, foo, &samplev1alpha1.Foo{}))); err != nil {
						b.Fatal(err)
					}
					if err := f.deploymentsIndexer.Add(trimmed(b, decoded(b, deployment, &appsv1.Deployment{}))); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(heap()-before)/count, "B/object")
				goruntime.KeepAlive(f)
			}
		})
	}
}

// decoded returns an object as it comes from the API server, which shares no memory with others.
func decoded(b *testing.B, object, into any) any {
	encoded, err := json.Marshal(object)
	if err := errors.Join(err, json.Unmarshal(encoded, into)); err != nil {
		b.Fatal(err)
	}
	return into
}

// heap returns how many bytes of the heap are in use.
func heap() int64 {
	goruntime.GC()
	var stats goruntime.MemStats
	goruntime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
