// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
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
	"k8s.io/sample-controller/pkg/ownership"
	"k8s.io/sample-controller/pkg/readiness"
	"k8s.io/sample-controller/pkg/trim"
)

const (
	syncedEvent = "Normal Synced Foo synced successfully"
	fooUID      = types.UID("foo-uid")
)

var foosResource = schema.GroupVersion(samplev1alpha1.GroupVersion).WithResource("foos")

var transitionTime = metav1.NewTime(time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC))

// fixture is a controller on fake clients that hold the given objects. Its caches hold them too, as if just synced.
type fixture struct {
	*Controller
	kubeClient      *kubefake.Clientset
	sampleClient    *fake.Clientset
	foosTracker     clienttesting.ObjectTracker
	kubeInformers   kubeinformers.SharedInformerFactory
	sampleInformers informers.SharedInformerFactory
	events          *record.FakeRecorder
}

func newFixture(t testing.TB, objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{
		sampleClient: &fake.Clientset{},
		foosTracker:  clienttesting.NewObjectTracker(samplescheme.Scheme, samplescheme.Codecs.UniversalDecoder()),
		events:       record.NewFakeRecorder(100),
	}
	// This is what fake.NewClientset does, but that guesses the plurals of kinds, and knows only those that it guesses.
	f.sampleClient.AddReactor("*", "*", clienttesting.ObjectReaction(f.foosTracker))
	f.sampleClient.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		watching, err := f.foosTracker.Watch(action.GetResource(), action.GetNamespace())
		return true, watching, err
	})
	var kubeObjects []runtime.Object
	for _, object := range objects {
		if foo, ok := object.(*samplev1alpha1.Foo); ok {
			f.addFoo(t, foo)
		} else {
			kubeObjects = append(kubeObjects, object)
		}
	}
	f.kubeClient = kubefake.NewClientset(kubeObjects...)
	f.kubeInformers, f.sampleInformers = newInformerFactories(f.kubeClient, f.sampleClient, 0, metav1.NamespaceAll)
	_, ctx := ktesting.NewTestContext(t)
	f.Controller = NewController(ctx, f.kubeClient, f.sampleClient,
		f.kubeInformers.Apps().V1().Deployments(), f.sampleInformers.Samplecontroller().V1alpha1().Foos())
	t.Cleanup(f.workqueue.ShutDown)
	f.recorder = f.events
	f.fillCaches(t)
	return f
}

func (f *fixture) addFoo(t testing.TB, foo *samplev1alpha1.Foo) {
	t.Helper()
	if err := f.foosTracker.Create(foosResource, foo, foo.Namespace); err != nil {
		t.Fatal(err)
	}
}

// fillCaches makes the caches hold what the fake clients hold, trimmed as by informers.
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
	f.kubeClient.ClearActions()
	f.sampleClient.ClearActions()
}

func trimmed(t testing.TB, object any) any {
	t.Helper()
	object, err := trim.Transform(object)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// requests returns what was asked of the fake clients, each as "verb resource/subresource name".
func (f *fixture) requests() []string {
	var requests []string
	for _, action := range slices.Concat(f.kubeClient.Actions(), f.sampleClient.Actions()) {
		resource := action.GetResource().Resource
		if action.GetSubresource() != "" {
			resource += "/" + action.GetSubresource()
		}
		requests = append(requests, fmt.Sprintf("%s %s %s", action.GetVerb(), resource, actionName(action)))
	}
	return requests
}

func actionName(action clienttesting.Action) string {
	switch action := action.(type) {
	case clienttesting.CreateAction:
		return action.GetObject().(metav1.Object).GetName()
	case interface{ GetName() string }:
		return action.GetName()
	}
	return ""
}

func (f *fixture) recordedEvents() []string {
	var events []string
	for len(f.events.Events) > 0 {
		events = append(events, <-f.events.Events)
	}
	return events
}

// The objects of the tables: a Foo, its Deployment as the API server would hold it, and changes to either.

func foo(changes ...func(*samplev1alpha1.Foo)) *samplev1alpha1.Foo {
	foo := &samplev1alpha1.Foo{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "example-foo", UID: fooUID, Generation: 1},
		Spec:       samplev1alpha1.FooSpec{DeploymentName: "example-deployment", Replicas: new(int32(2))},
	}
	for _, change := range changes {
		change(foo)
	}
	return foo
}

// ready gives a Foo the status of one whose two replicas are all available.
func ready(foo *samplev1alpha1.Foo) {
	foo.Status = samplev1alpha1.FooStatus{
		AvailableReplicas:  2,
		Replicas:           2,
		Selector:           "app=nginx,controller=example-foo",
		ObservedGeneration: foo.Generation,
		Conditions: []metav1.Condition{{
			Type: samplev1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: foo.Generation,
			LastTransitionTime: transitionTime, Reason: string(readiness.Available),
			Message: "2 of 2 replicas available",
		}},
	}
}

// refused gives a Foo the status of one whose Deployment the API server refuses.
func refused(foo *samplev1alpha1.Foo) {
	foo.Status = foostatus.New(foo, nil, &foostatus.Problem{Reason: foostatus.DeploymentRejected, Message: "refused"})
}

func deployment(changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	deployment := newDeployment(foo())
	deployment.UID = "deployment-uid"
	deployment.ResourceVersion = "7"
	deployment.Generation = 1
	for _, change := range changes {
		change(deployment)
	}
	return deployment
}

func named(name string) func(*appsv1.Deployment) {
	return func(deployment *appsv1.Deployment) { deployment.Name = name }
}

func foreign(deployment *appsv1.Deployment) { deployment.OwnerReferences = nil }

// available gives a Deployment the status of one whose replicas are all available.
func available(deployment *appsv1.Deployment) {
	replicas := *deployment.Spec.Replicas
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation,
		Replicas:           replicas, UpdatedReplicas: replicas, AvailableReplicas: replicas,
	}
}

func TestSyncHandler(t *testing.T) {
	generation2 := func(foo *samplev1alpha1.Foo) { foo.Generation = 2 }
	renamed := func(foo *samplev1alpha1.Foo) { foo.Spec.DeploymentName = "new-deployment" }
	deleted := func(object metav1.Object) { object.SetDeletionTimestamp(&transitionTime) }
	namespaceGone := apierrors.NewForbidden(appsv1.Resource("deployments"), "example-deployment", errors.New("going away"))
	namespaceGone.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	gone := func(d *appsv1.Deployment) { deleted(d); d.Finalizers = []string{"foregroundDeletion"} }
	quotaExceeded := apierrors.NewForbidden(appsv1.Resource("deployments"), "example-deployment", errors.New("exceeded quota"))
	webhookDenial := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 400, Message: "admission webhook denied the request",
	}}
	rejection := apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "example-deployment", nil)

	tests := map[string]struct {
		objects []runtime.Object
		// fail maps a request, as requests shows it, to what the API server answers instead of serving it.
		fail map[string]error

		wantRequests []string
		wantEvents   []string
		wantError    string
		// wantReady is the Ready condition as "status reason", and " (stalled)" behind it if Stalled is True.
		wantReady string
		check     func(t *testing.T, f *fixture)
	}{
		"a Foo that is gone needs nothing": {},
		"a new Foo gets its Deployment, a status and an event": {
			objects:      []runtime.Object{foo()},
			wantRequests: []string{"create deployments example-deployment", "update foos/status example-foo"},
			wantEvents:   []string{syncedEvent},
			wantReady:    "False DeploymentProgressing",
			check: func(t *testing.T, f *fixture) {
				want := newDeployment(foo())
				if got := f.deployment(t, "example-deployment"); !equality.Semantic.DeepEqual(got.Spec, want.Spec) ||
					!equality.Semantic.DeepEqual(got.OwnerReferences, want.OwnerReferences) {
					t.Errorf("created %v, want %v", got, want)
				}
			},
		},
		"a Foo without replicas leaves the count to the API server": {
			objects:      []runtime.Object{foo(func(foo *samplev1alpha1.Foo) { foo.Spec.Replicas = nil })},
			wantRequests: []string{"create deployments example-deployment", "update foos/status example-foo"},
			wantEvents:   []string{syncedEvent},
			wantReady:    "False DeploymentProgressing",
			check: func(t *testing.T, f *fixture) {
				if got := f.deployment(t, "example-deployment").Spec.Replicas; got != nil {
					t.Errorf("created with replicas %d", *got)
				}
			},
		},
		"a Foo in its desired state needs no request": {
			objects:   []runtime.Object{foo(ready), deployment(available)},
			wantReady: "True DeploymentAvailable",
		},
		"a Foo without replicas lets others scale its Deployment": {
			objects: []runtime.Object{
				foo(ready, func(foo *samplev1alpha1.Foo) { foo.Spec.Replicas = nil }),
				deployment(func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(7)) }, available),
			},
			wantRequests: []string{"update foos/status example-foo"},
			wantReady:    "True DeploymentAvailable",
		},
		"replicas that become available are told in the status, without an event": {
			objects: []runtime.Object{
				foo(ready, func(foo *samplev1alpha1.Foo) { foo.Status.AvailableReplicas, foo.Status.Conditions = 0, nil }),
				deployment(available),
			},
			wantRequests: []string{"update foos/status example-foo"},
			wantReady:    "True DeploymentAvailable",
			check: func(t *testing.T, f *fixture) {
				if got := f.foo(t).Status.AvailableReplicas; got != 2 {
					t.Errorf("availableReplicas = %d, want 2", got)
				}
			},
		},
		"a Foo that is scaled scales its Deployment": {
			objects: []runtime.Object{
				foo(ready, generation2, func(foo *samplev1alpha1.Foo) { foo.Spec.Replicas = new(int32(5)) }), deployment(available),
			},
			wantRequests: []string{"patch deployments example-deployment", "update foos/status example-foo"},
			wantEvents:   []string{syncedEvent},
			wantReady:    "False DeploymentProgressing",
			check: func(t *testing.T, f *fixture) {
				if got := *f.deployment(t, "example-deployment").Spec.Replicas; got != 5 {
					t.Errorf("replicas = %d, want 5", got)
				}
				wantPatch(t, f, `{"metadata":{"resourceVersion":"7"},"spec":{"replicas":5}}`)
			},
		},
		"what was changed by hand is put back, and what we do not set survives": {
			objects: []runtime.Object{foo(ready), deployment(available, func(d *appsv1.Deployment) {
				d.Labels = map[string]string{"app": "other", "team": "a"}
				d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2020-01-01T00:00:00Z"}
				d.Spec.Template.Spec.Containers = []corev1.Container{
					{Name: "sidecar", Image: "sidecar"}, {Name: "nginx", Image: "apache", ImagePullPolicy: corev1.PullAlways},
				}
			})},
			wantRequests: []string{"patch deployments example-deployment", "get foos example-foo"},
			wantEvents:   []string{syncedEvent},
			wantReady:    "True DeploymentAvailable",
			check: func(t *testing.T, f *fixture) {
				got := f.deployment(t, "example-deployment")
				if got.Labels["app"] != "nginx" || got.Labels["controller"] != "example-foo" || got.Labels["team"] != "a" {
					t.Errorf("labels = %v", got.Labels)
				}
				if len(got.Spec.Template.Annotations) != 1 {
					t.Errorf("annotations = %v", got.Spec.Template.Annotations)
				}
				var images []string
				for _, container := range got.Spec.Template.Spec.Containers {
					images = append(images, container.Name+"="+container.Image)
				}
				slices.Sort(images)
				if want := []string{"nginx=nginx:latest", "sidecar=sidecar"}; !slices.Equal(images, want) {
					t.Errorf("containers = %v, want %v", images, want)
				}
			},
		},
		"a Deployment that nobody controls is not touched": {
			objects:      []runtime.Object{foo(), deployment(foreign)},
			wantRequests: []string{"update foos/status example-foo"},
			wantEvents:   []string{`Warning ErrResourceExists Resource "example-deployment" already exists and is not managed by Foo`},
			wantError:    `Resource "example-deployment" already exists and is not managed by Foo`,
			wantReady:    "False ErrResourceExists (stalled)",
		},
		"a Deployment of an earlier Foo of the same name is not touched": {
			objects:      []runtime.Object{foo(func(foo *samplev1alpha1.Foo) { foo.UID = "another-uid" }), deployment(available)},
			wantRequests: []string{"update foos/status example-foo"},
			wantEvents:   []string{`Warning ErrResourceExists Resource "example-deployment" already exists and is not managed by Foo`},
			wantError:    `Resource "example-deployment" already exists and is not managed by Foo`,
			wantReady:    "False ErrResourceExists (stalled)",
		},
		"a Deployment that the cache does not have yet is found by a live read": {
			objects: []runtime.Object{foo()},
			fail: map[string]error{
				"create deployments example-deployment": apierrors.NewAlreadyExists(appsv1.Resource("deployments"), "example-deployment"),
				"get deployments example-deployment":    nil,
			},
			wantRequests: []string{"create deployments example-deployment", "get deployments example-deployment"},
			wantError:    consistency.ErrBehind.Error(), // The Foo may be as old as the cache of Deployments is.
			check: func(t *testing.T, f *fixture) {
				f.deploymentsIndexer.Bookmark("6")
				if f.deploymentWrites.Visible(cache.NewObjectName("default", "example-foo")) {
					t.Error("the next sync does not wait for the cache")
				}
			},
		},
		"a Deployment of someone else that the cache does not have yet is not touched": {
			objects: []runtime.Object{foo(func(foo *samplev1alpha1.Foo) { foo.UID = "another-uid" })},
			fail: map[string]error{
				"create deployments example-deployment": apierrors.NewAlreadyExists(appsv1.Resource("deployments"), "example-deployment"),
				"get deployments example-deployment":    nil,
			},
			wantRequests: []string{
				"create deployments example-deployment", "get deployments example-deployment", "update foos/status example-foo",
			},
			wantEvents: []string{`Warning ErrResourceExists Resource "example-deployment" already exists and is not managed by Foo`},
			wantError:  `Resource "example-deployment" already exists and is not managed by Foo`,
			wantReady:  "False ErrResourceExists (stalled)",
		},
		"a Deployment that the API server refuses is told in condition and event": {
			objects:      []runtime.Object{foo()},
			fail:         map[string]error{"create deployments example-deployment": rejection},
			wantRequests: []string{"create deployments example-deployment", "update foos/status example-foo"},
			wantEvents:   []string{"Warning DeploymentRejected " + rejection.Error()},
			wantError:    rejection.Error(),
			wantReady:    "False DeploymentRejected (stalled)",
		},
		"a namespace that goes away is no problem of the Foo's": {
			objects:      []runtime.Object{foo()},
			fail:         map[string]error{"create deployments example-deployment": namespaceGone},
			wantRequests: []string{"create deployments example-deployment"},
			wantError:    "going away",
			wantReady:    "absent",
		},
		"a webhook that refuses without a reason counts as the API server": {
			objects:      []runtime.Object{foo()},
			fail:         map[string]error{"create deployments example-deployment": webhookDenial},
			wantRequests: []string{"create deployments example-deployment", "update foos/status example-foo"},
			wantEvents:   []string{"Warning DeploymentRejected admission webhook denied the request"},
			wantError:    "denied the request",
			wantReady:    "False DeploymentRejected (stalled)",
		},
		"a quota that forbids the Deployment is told in condition and event": {
			objects:      []runtime.Object{foo()},
			fail:         map[string]error{"create deployments example-deployment": quotaExceeded},
			wantRequests: []string{"create deployments example-deployment", "update foos/status example-foo"},
			wantEvents:   []string{"Warning DeploymentRejected " + quotaExceeded.Error()},
			wantError:    quotaExceeded.Error(),
			wantReady:    "False DeploymentRejected (stalled)",
		},
		"a repair that is refused leaves the Deployments of earlier names alone": {
			objects: []runtime.Object{
				foo(renamed, ready), deployment(available),
				deployment(named("new-deployment"), available, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(9)) }),
			},
			fail:         map[string]error{"patch deployments new-deployment": quotaExceeded},
			wantRequests: []string{"patch deployments new-deployment", "get foos example-foo", "update foos/status example-foo"},
			wantEvents:   []string{"Warning DeploymentRejected " + quotaExceeded.Error()},
			wantError:    quotaExceeded.Error(),
			wantReady:    "False DeploymentRejected (stalled)",
		},
		"the old Deployment stays while the new one is being deleted": {
			objects: []runtime.Object{
				foo(renamed, ready), deployment(available), deployment(named("new-deployment"), available, gone),
			},
			wantRequests: []string{"update foos/status example-foo"},
			wantReady:    "False DeploymentProgressing",
		},
		"a Deployment that goes already is not deleted a second time": {
			objects:   []runtime.Object{foo(renamed, ready), deployment(available, gone), deployment(named("new-deployment"), available)},
			wantReady: "True DeploymentAvailable",
		},
		"an error that passes is retried without a word in the status": {
			objects:      []runtime.Object{foo()},
			fail:         map[string]error{"create deployments example-deployment": apierrors.NewServiceUnavailable("down")},
			wantRequests: []string{"create deployments example-deployment"},
			wantError:    "down",
		},
		"a write that lost to another is retried": {
			objects: []runtime.Object{foo(ready), deployment(available, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(9)) })},
			fail: map[string]error{
				"patch deployments example-deployment": apierrors.NewConflict(appsv1.Resource("deployments"), "example-deployment", errors.New("stale")),
			},
			wantRequests: []string{"patch deployments example-deployment", "get foos example-foo"},
			wantError:    "stale",
			wantReady:    "True DeploymentAvailable",
		},
		"a Foo that is being deleted is left alone": {
			objects: []runtime.Object{foo(func(foo *samplev1alpha1.Foo) { deleted(foo); foo.Finalizers = []string{"foregroundDeletion"} })},
		},
		"a Deployment that is being deleted is left alone until it is gone": {
			objects:      []runtime.Object{foo(ready), deployment(available, gone, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(9)) })},
			wantRequests: []string{"update foos/status example-foo"},
			wantReady:    "False DeploymentProgressing",
		},
		"a Foo that is renamed gets a new Deployment and keeps the old one for now": {
			objects:      []runtime.Object{foo(ready, generation2, renamed), deployment(available)},
			wantRequests: []string{"create deployments new-deployment", "update foos/status example-foo"},
			wantEvents:   []string{syncedEvent},
			wantReady:    "False DeploymentProgressing",
		},
		"the old Deployment goes once the new one is available": {
			objects: []runtime.Object{foo(renamed, ready), deployment(available), deployment(named("new-deployment"), available)},
			wantRequests: []string{
				"delete deployments example-deployment", "get foos example-foo",
			},
			wantEvents: []string{`Normal Pruned Deployment "example-deployment" deleted, because the Foo now names "new-deployment"`},
			wantReady:  "True DeploymentAvailable",
			check: func(t *testing.T, f *fixture) {
				options := f.kubeClient.Actions()[0].(clienttesting.DeleteAction).GetDeleteOptions()
				if options.Preconditions == nil || *options.Preconditions.UID != "deployment-uid" || *options.Preconditions.ResourceVersion != "7" {
					t.Errorf("deleted with preconditions %v", options.Preconditions)
				}
			},
		},
		"the old Deployment goes at once if no replicas are wanted": {
			objects: []runtime.Object{
				foo(renamed, generation2, func(foo *samplev1alpha1.Foo) { foo.Spec.Replicas = new(int32(0)) }), deployment(available),
			},
			wantRequests: []string{
				"create deployments new-deployment", "delete deployments example-deployment",
				"get foos example-foo", "update foos/status example-foo",
			},
			wantEvents: []string{
				`Normal Pruned Deployment "example-deployment" deleted, because the Foo now names "new-deployment"`, syncedEvent,
			},
			wantReady: "True DeploymentAvailable",
		},
		"an old Deployment that may not be deleted is told of": {
			objects:      []runtime.Object{foo(renamed, ready), deployment(available), deployment(named("new-deployment"), available)},
			fail:         map[string]error{"delete deployments example-deployment": webhookDenial},
			wantRequests: []string{"delete deployments example-deployment", "get foos example-foo", "update foos/status example-foo"},
			wantEvents:   []string{"Warning DeploymentRejected admission webhook denied the request"},
			wantError:    "denied",
			wantReady:    "False DeploymentRejected (stalled)",
		},
		"a generation that changes nothing for the Deployment is observed with an event": {
			objects: []runtime.Object{
				foo(ready, generation2, func(foo *samplev1alpha1.Foo) { foo.Spec.Replicas = nil }), deployment(available),
			},
			wantRequests: []string{"update foos/status example-foo"},
			wantEvents:   []string{syncedEvent},
			wantReady:    "True DeploymentAvailable",
		},
		"a Deployment of the old name that the Foo does not control is not pruned": {
			objects:   []runtime.Object{foo(renamed, ready), deployment(foreign), deployment(named("new-deployment"), available)},
			wantReady: "True DeploymentAvailable",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, test.objects...)
			f.failWith(t, test.fail)

			err := f.syncHandler(t.Context(), cache.NewObjectName("default", "example-foo"))
			if test.wantError == "" && err != nil || test.wantError != "" && (err == nil || !strings.Contains(err.Error(), test.wantError)) {
				t.Errorf("error = %v, want %q", err, test.wantError)
			}
			if got := f.requests(); !slices.Equal(got, test.wantRequests) {
				t.Errorf("requests = %q, want %q", got, test.wantRequests)
			}
			if got := f.recordedEvents(); !slices.Equal(got, test.wantEvents) {
				t.Errorf("events = %q, want %q", got, test.wantEvents)
			}
			if test.check != nil {
				test.check(t, f)
			}
			if test.wantReady == "" {
				return
			}
			if got := readyOf(f.foo(t)); got != test.wantReady {
				t.Errorf("Ready = %q, want %q", got, test.wantReady)
			}
			if test.fail == nil {
				f.fillCaches(t)
				again := f.syncHandler(t.Context(), cache.NewObjectName("default", "example-foo"))
				if got := f.requests(); len(got) > 0 || (again == nil) != (err == nil) {
					t.Errorf("a second sync asked for %q and returned %v", got, again)
				}
			}
		})
	}
}

func (f *fixture) deployment(t *testing.T, name string) *appsv1.Deployment {
	t.Helper()
	object, err := f.kubeClient.Tracker().Get(appsv1.SchemeGroupVersion.WithResource("deployments"), "default", name)
	if err != nil {
		t.Fatal(err)
	}
	return object.(*appsv1.Deployment)
}

func (f *fixture) foo(t *testing.T) *samplev1alpha1.Foo {
	t.Helper()
	object, err := f.foosTracker.Get(foosResource, "default", "example-foo")
	if err != nil {
		t.Fatal(err)
	}
	return object.(*samplev1alpha1.Foo)
}

// failWith makes the fake clients answer the requests that are its keys with errors, or, where the error is nil, as if the
// Foo's Deployment existed although the cache does not know.
func (f *fixture) failWith(t *testing.T, errs map[string]error) {
	for request, err := range errs {
		verb, resource, name := strings.Fields(request)[0], strings.Fields(request)[1], strings.Fields(request)[2]
		f.kubeClient.PrependReactor(verb, resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
			if actionName(action) != name {
				return false, nil, nil
			}
			if err == nil {
				return true, deployment(available), nil
			}
			return true, nil, err
		})
	}
}

func readyOf(foo *samplev1alpha1.Foo) string {
	ready := meta.FindStatusCondition(foo.Status.Conditions, samplev1alpha1.ConditionReady)
	if ready == nil {
		return "absent"
	}
	text := fmt.Sprintf("%s %s", ready.Status, ready.Reason)
	if meta.IsStatusConditionTrue(foo.Status.Conditions, samplev1alpha1.ConditionStalled) {
		text += " (stalled)"
	}
	return text
}

func wantPatch(t *testing.T, f *fixture, want string) {
	t.Helper()
	for _, action := range f.kubeClient.Actions() {
		if patch, ok := action.(clienttesting.PatchAction); ok {
			var gotJSON, wantJSON any
			if err := errors.Join(json.Unmarshal(patch.GetPatch(), &gotJSON), json.Unmarshal([]byte(want), &wantJSON)); err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(gotJSON, wantJSON) {
				t.Errorf("patch = %s, want %s", patch.GetPatch(), want)
			}
			return
		}
	}
	t.Error("nothing was patched")
}

func TestWhatTheCachedFooWantsIsCheckedBeforeAnythingIsLostOrDoneAgain(t *testing.T) {
	scaledByHand := func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(9)) }
	for name, live := range map[string]func(*samplev1alpha1.Foo){
		"the live Foo wants something else":   func(foo *samplev1alpha1.Foo) { foo.Generation = 2 },
		"the live Foo is another of its name": func(foo *samplev1alpha1.Foo) { foo.UID = "another-uid" },
		"the live Foo is being deleted":       func(foo *samplev1alpha1.Foo) { foo.DeletionTimestamp = &transitionTime },
	} {
		for write, deployments := range map[string][]runtime.Object{
			"a prune":           {deployment(available), deployment(named("new-deployment"), available)},
			"a repair":          {deployment(named("new-deployment"), available, scaledByHand)},
			"a second creation": nil,
		} {
			t.Run(name+" before "+write, func(t *testing.T) {
				renamed := func(foo *samplev1alpha1.Foo) { foo.Spec.DeploymentName = "new-deployment" }
				f := newFixture(t, append(deployments, foo(renamed, ready, live))...)
				cached := foo(renamed, ready)
				if err := f.foosIndexer.Update(cached); err != nil {
					t.Fatal(err)
				}
				if err := f.syncHandler(t.Context(), cache.MetaObjectToName(cached)); !errors.Is(err, consistency.ErrBehind) {
					t.Errorf("syncHandler returned %v, want %v", err, consistency.ErrBehind)
				}
				if got, want := f.requests(), []string{"get foos example-foo"}; !slices.Equal(got, want) {
					t.Errorf("requests = %q, want %q", got, want)
				}
			})
		}
	}
}

func TestEachPruneReadsTheFooLive(t *testing.T) {
	renamed := func(foo *samplev1alpha1.Foo) { foo.Spec.DeploymentName = "new-deployment" }
	f := newFixture(t, foo(renamed, ready), deployment(named("new-deployment"), available), deployment(available),
		deployment(named("other-deployment"), available))
	if err := f.syncHandler(t.Context(), cache.NewObjectName("default", "example-foo")); err != nil {
		t.Fatal(err)
	}
	got := f.requests()
	slices.Sort(got)
	want := []string{
		"delete deployments example-deployment", "delete deployments other-deployment", "get foos example-foo", "get foos example-foo",
	}
	if !slices.Equal(got, want) {
		t.Errorf("requests = %q, want %q", got, want)
	}
}

func TestAnotherImageIsThereFromTheStart(t *testing.T) {
	f := newFixture(t, foo())
	f.image = "nginx:1.27"
	if err := f.syncHandler(t.Context(), cache.NewObjectName("default", "example-foo")); err != nil {
		t.Fatal(err)
	}
	if got := f.deployment(t, "example-deployment").Spec.Template.Spec.Containers[0].Image; got != f.image {
		t.Errorf("the Deployment was created with %q, want %q", got, f.image)
	}
	f.requests()
	f.fillCaches(t)
	if err := f.syncHandler(t.Context(), cache.NewObjectName("default", "example-foo")); err != nil || len(f.requests()) > 0 {
		t.Errorf("a second sync returned %v and asked for something", err)
	}
}

func TestAProblemIsLoggedWhenItIsNew(t *testing.T) {
	f := newFixture(t, foo(), deployment(foreign))
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	for range 2 {
		if err := f.syncHandler(klog.NewContext(t.Context(), logger), cache.NewObjectName("default", "example-foo")); err == nil {
			t.Fatal("there is no problem")
		}
		f.fillCaches(t)
	}
	if log := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); strings.Count(log, "cannot be served") != 1 {
		t.Errorf("the log says %q, want it to tell of the problem once", log)
	}
}

func TestTheStatusOfADeploymentIsGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // Its clock is fake: a sleep moves it, and takes no time.
		f := newFixture(t, foo())
		old, rolled := deployment(), deployment(available, func(d *appsv1.Deployment) { d.ResourceVersion = "8" })
		f.handleDeploymentUpdate(old, rolled)
		time.Sleep(rolloutPeriod - time.Nanosecond) // Just before the period ends.
		synctest.Wait()
		if got := f.workqueue.Len(); got != 0 {
			t.Errorf("%d are queued at once, want none", got)
		}
		time.Sleep(time.Second) // Past its end.
		synctest.Wait()
		if got := f.workqueue.Len(); got != 1 {
			t.Errorf("%d are queued after a while, want 1", got)
		}
	})
}

func TestADeploymentThatIsGoneAlreadyIsNoReasonToRetry(t *testing.T) {
	renamed := func(foo *samplev1alpha1.Foo) { foo.Spec.DeploymentName = "new-deployment" }
	f := newFixture(t, foo(renamed, ready), deployment(named("new-deployment"), available))
	if err := f.deploymentsIndexer.Add(deployment(available)); err != nil { // It is in the cache alone.
		t.Fatal(err)
	}
	if err := f.syncHandler(t.Context(), cache.NewObjectName("default", "example-foo")); err != nil {
		t.Errorf("syncHandler returned %v", err)
	}
	if got := f.requests(); !slices.Contains(got, "delete deployments example-deployment") {
		t.Errorf("requests = %q, without the deletion", got)
	}
}

func TestNoSyncActsOnACacheFromBeforeItsOwnWrite(t *testing.T) {
	scaled := func(foo *samplev1alpha1.Foo) { foo.Generation, foo.Spec.Replicas = 2, new(int32(5)) }
	key := cache.NewObjectName("default", "example-foo")
	for name, test := range map[string]struct {
		objects []runtime.Object
		written string // The request whose answer has resource version 11.
	}{
		"a creation": {[]runtime.Object{foo()}, "create deployments"},
		"a repair":   {[]runtime.Object{foo(ready, scaled), deployment(available)}, "patch deployments"},
		"a status":   {[]runtime.Object{foo(), deployment(available)}, "update foos"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, test.objects...)
			f.deploymentsIndexer.Bookmark("10")
			f.foosIndexer.Bookmark("10")
			verb, resource, _ := strings.Cut(test.written, " ")
			answer := func(action clienttesting.Action) (bool, runtime.Object, error) {
				if resource == "foos" {
					return true, foo(func(foo *samplev1alpha1.Foo) { foo.ResourceVersion = "11" }), nil
				}
				return true, deployment(available, func(d *appsv1.Deployment) { d.ResourceVersion = "11" }), nil
			}
			f.kubeClient.PrependReactor(verb, resource, answer)
			f.sampleClient.PrependReactor(verb, resource, answer)
			f.workqueue.Add(key)
			f.processNextWorkItem(t.Context())
			first := len(f.requests())
			if first == 0 {
				t.Fatal("nothing was written")
			}

			f.workqueue.Add(key)
			f.processNextWorkItem(t.Context())
			if got := f.requests(); len(got) > first {
				t.Errorf("requests = %q although the cache is behind", got[first:])
			}
			f.deploymentsIndexer.Bookmark("11")
			f.foosIndexer.Bookmark("11")
			if err := f.syncHandler(t.Context(), key); errors.Is(err, consistency.ErrBehind) {
				t.Error("it waits although the cache has caught up")
			}
		})
	}
}

func TestWaitingForTheCacheKeepsTheBackoff(t *testing.T) {
	f := newFixture(t, foo())
	key := cache.NewObjectName("default", "example-foo")
	f.workqueue.AddRateLimited(key)
	f.foosIndexer.Bookmark("10")
	f.fooWrites.Record(key, "11")
	f.processNextWorkItem(t.Context())
	if got := f.workqueue.NumRequeues(key); got != 1 {
		t.Errorf("it was queued again %d times, want 1", got)
	}
	f.foosIndexer.Bookmark("11")
	f.workqueue.Add(key)
	f.processNextWorkItem(t.Context())
	if got := f.workqueue.NumRequeues(key); got != 0 {
		t.Errorf("after a success it counts as queued again %d times", got)
	}
}

func TestAFooThatIsGoneLeavesNothingBehind(t *testing.T) {
	f := newFixture(t)
	key := cache.NewObjectName("default", "example-foo")
	f.foosIndexer.Bookmark("11")
	f.deploymentsIndexer.Bookmark("11")
	f.fooWrites.Record(key, "11")
	f.deploymentWrites.Record(key, "11")
	if err := f.syncHandler(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	f.foosIndexer.Bookmark("10")
	f.deploymentsIndexer.Bookmark("10")
	if !f.fooWrites.Visible(key) || !f.deploymentWrites.Visible(key) {
		t.Error("writes for it are still remembered")
	}
}

// racingLister is a lister whose cache catches up just after an object was read from it.
type racingLister struct {
	listers.FooLister
	catchUp func()
}

func (l racingLister) Foos(namespace string) listers.FooNamespaceLister {
	return racingNamespaceLister{l.FooLister.Foos(namespace), l.catchUp}
}

type racingNamespaceLister struct {
	listers.FooNamespaceLister
	catchUp func()
}

func (l racingNamespaceLister) Get(name string) (*samplev1alpha1.Foo, error) {
	defer l.catchUp()
	return l.FooNamespaceLister.Get(name)
}

func TestACacheThatCatchesUpDuringTheReadIsNotTrusted(t *testing.T) {
	f := newFixture(t, foo(), deployment(available))
	key := cache.NewObjectName("default", "example-foo")
	f.foosIndexer.Bookmark("10")
	f.fooWrites.Record(key, "11")
	f.foosLister = racingLister{f.foosLister, func() { f.foosIndexer.Bookmark("11") }}
	if err := f.syncHandler(t.Context(), key); !errors.Is(err, consistency.ErrBehind) {
		t.Errorf("syncHandler returned %v, want %v", err, consistency.ErrBehind)
	}
	if got := f.requests(); len(got) > 0 {
		t.Errorf("requests = %q on the grounds of what was read before the cache had caught up", got)
	}
}

func TestHandlersQueueTheFoosThatAChangeConcerns(t *testing.T) {
	waiting := foo(refused, func(foo *samplev1alpha1.Foo) { foo.Name, foo.UID = "waiting-foo", "waiting-uid" })
	owned := deployment()
	newVersion := func(d *appsv1.Deployment) { d.ResourceVersion = "8" }
	newer, alien := deployment(newVersion), deployment(foreign, newVersion)
	ownerChanged := func(change func(*metav1.OwnerReference)) *appsv1.Deployment {
		return deployment(func(d *appsv1.Deployment) { change(&d.OwnerReferences[0]) })
	}
	for name, test := range map[string]struct {
		handle func(f *fixture)
		want   []string
	}{
		"a Foo of the first list is queued":         {func(f *fixture) { f.handleFooAdd(foo(), true) }, []string{"example-foo"}},
		"a Foo that is added is queued":             {func(f *fixture) { f.handleFooAdd(foo(), false) }, []string{"example-foo"}},
		"a Deployment that is added queues its Foo": {func(f *fixture) { f.handleDeploymentAdd(owned, false) }, []string{"example-foo"}},
		"a Deployment of the first list queues nothing, for its Foo is queued too": {func(f *fixture) {
			f.handleDeploymentAdd(owned, true)
		}, nil},
		"a Deployment that is changed queues its Foo": {func(f *fixture) { f.handleDeploymentUpdate(owned, newer) }, []string{"example-foo"}},
		"a resync of a Deployment queues nothing":     {func(f *fixture) { f.handleDeploymentUpdate(owned, owned) }, nil},
		"a resync of a Foo queues it":                 {func(f *fixture) { f.handleFooUpdate(foo(), foo()) }, []string{"example-foo"}},
		"a resync of a Foo that waits for help leaves it to its backoff": {func(f *fixture) {
			f.handleFooUpdate(foo(refused), foo(refused))
		}, nil},
		"the status that tells of a new problem queues the Foo, whose name may have become free before it counted as waiting": {func(f *fixture) {
			f.handleFooUpdate(foo(), foo(refused, func(foo *samplev1alpha1.Foo) { foo.ResourceVersion = "8" }))
		}, []string{"example-foo"}},
		"a change of the status of a Foo that waits for help leaves it to its backoff": {func(f *fixture) {
			f.handleFooUpdate(foo(refused), foo(refused, func(foo *samplev1alpha1.Foo) { foo.ResourceVersion = "8" }))
		}, nil},
		"a change of a Foo that waits for help queues it": {func(f *fixture) {
			f.handleFooUpdate(foo(refused), foo(refused, func(foo *samplev1alpha1.Foo) { foo.Generation = 2 }))
		}, []string{"example-foo"}},
		"a Foo that replaces one that waits for help is queued": {func(f *fixture) {
			f.handleFooUpdate(foo(refused), foo(refused, func(foo *samplev1alpha1.Foo) { foo.UID = "another-uid" }))
		}, []string{"example-foo"}},
		"a Deployment that goes queues its Foo and all who wait for its name": {func(f *fixture) {
			f.handleDeploymentDelete(owned)
		}, []string{"example-foo", "waiting-foo"}},
		"a foreign Deployment that goes queues all who wait for its name": {func(f *fixture) {
			f.handleDeploymentDelete(alien)
		}, []string{"waiting-foo"}},
		"a Deployment that changes hands queues its former Foo and all who wait for its name": {func(f *fixture) {
			f.handleDeploymentUpdate(owned, alien)
		}, []string{"example-foo", "waiting-foo"}},
		"a foreign Deployment that is given to a Foo queues that and all who wait for its name": {func(f *fixture) {
			f.handleDeploymentUpdate(alien, owned)
		}, []string{"example-foo", "waiting-foo"}},
		"a foreign Deployment that is changed queues nothing": {func(f *fixture) {
			f.handleDeploymentUpdate(deployment(foreign), alien)
		}, nil},
		"a tombstone counts as what it stands for": {func(f *fixture) {
			f.handleDeploymentDelete(cache.DeletedFinalStateUnknown{Key: "default/example-deployment", Obj: owned})
		}, []string{"example-foo", "waiting-foo"}},
		"a tombstone leads to its Foo, whatever that wants now": {func(f *fixture) {
			f.handleDeploymentDelete(cache.DeletedFinalStateUnknown{Key: "default/earlier", Obj: deployment(named("earlier"))})
		}, []string{"example-foo"}},
		"a tombstone of a Foo queues its name": {func(f *fixture) {
			f.enqueueFoo(cache.DeletedFinalStateUnknown{Key: "default/gone-foo"})
		}, []string{"gone-foo"}},
		"a Deployment of an earlier Foo of the same name queues nothing": {func(f *fixture) {
			f.handleObject(ownerChanged(func(owner *metav1.OwnerReference) { owner.UID = "earlier-uid" }))
		}, nil},
		"a Deployment of another kind's object of the same name queues nothing": {func(f *fixture) {
			f.handleObject(ownerChanged(func(owner *metav1.OwnerReference) { owner.Kind = "Bar" }))
		}, nil},
		"a Deployment of a Foo of another group queues nothing": {func(f *fixture) {
			f.handleObject(ownerChanged(func(owner *metav1.OwnerReference) { owner.APIVersion = "example.com/v1alpha1" }))
		}, nil},
		"a Deployment whose Foo is of a newer version of the API queues it": {func(f *fixture) {
			f.handleObject(ownerChanged(func(owner *metav1.OwnerReference) { owner.APIVersion = "samplecontroller.k8s.io/v1" }))
		}, []string{"example-foo"}},
		"a Deployment that a Foo merely owns, without controlling it, queues nothing": {func(f *fixture) {
			f.handleObject(ownerChanged(func(owner *metav1.OwnerReference) { owner.Controller = nil }))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, foo(), waiting)
			test.handle(f)
			var got []string
			for f.workqueue.Len() > 0 {
				objectRef, _ := f.workqueue.Get()
				f.workqueue.Done(objectRef)
				got = append(got, objectRef.Name)
			}
			slices.Sort(got)
			if !slices.Equal(got, test.want) {
				t.Errorf("queued %q, want %q", got, test.want)
			}
		})
	}
}

func TestAnEditGoesBeforeTheFirstListAndResyncs(t *testing.T) {
	named := func(name string) func(*samplev1alpha1.Foo) { return func(foo *samplev1alpha1.Foo) { foo.Name = name } }
	f := newFixture(t)
	f.handleFooAdd(foo(named("first")), true)
	f.handleFooAdd(foo(named("listed")), true)
	f.handleFooUpdate(foo(named("resynced")), foo(named("resynced")))
	f.handleFooUpdate(foo(named("edited")), foo(named("edited"), func(foo *samplev1alpha1.Foo) { foo.ResourceVersion = "8" }))
	for _, want := range []string{"first", "edited", "listed", "resynced"} {
		got, _ := f.workqueue.Get()
		if got.Name != want {
			t.Errorf("handed out %q, want %q", got.Name, want)
		}
		f.workqueue.Done(got)
	}
}

func TestTheFirstListGivesWayToUsers(t *testing.T) {
	update := func(change func(*samplev1alpha1.Foo)) func(*fixture) {
		return func(f *fixture) {
			f.handleFooUpdate(foo(), foo(change, func(foo *samplev1alpha1.Foo) { foo.ResourceVersion = "8" }))
		}
	}
	for name, test := range map[string]struct {
		handle   func(*fixture)
		givesWay bool
	}{
		"a new Foo":                    {func(f *fixture) { f.handleFooAdd(foo(), false) }, true},
		"another spec":                 {update(func(foo *samplev1alpha1.Foo) { foo.Generation++ }), true},
		"another Foo of the name":      {update(func(foo *samplev1alpha1.Foo) { foo.UID = "another-uid" }), true},
		"a deletion":                   {update(func(foo *samplev1alpha1.Foo) { foo.DeletionTimestamp = &metav1.Time{Time: time.Now()} }), true},
		"another status":               {update(refused), false},
		"another Foo of the list":      {func(f *fixture) { f.handleFooAdd(foo(), true) }, false},
		"a resync":                     {func(f *fixture) { f.handleFooUpdate(foo(), foo()) }, false},
		"a Deployment that is changed": {func(f *fixture) { f.handleObject(deployment()) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, foo())
			f.workqueue.SetLimit(2)
			for _, name := range []string{"first", "second", "third"} {
				f.handleFooAdd(foo(func(foo *samplev1alpha1.Foo) { foo.Name = name }), true)
			}
			first, _ := f.workqueue.Get()
			test.handle(f)
			f.workqueue.Done(first)
			var got []string
			for f.workqueue.Len() > 0 {
				objectRef, _ := f.workqueue.Get()
				got = append(got, objectRef.Name)
			}
			if givesWay := !slices.Contains(got, "third"); givesWay != test.givesWay {
				t.Errorf("handed out %q", got)
			}
		})
	}
}

func TestTheCachesAreTrimmed(t *testing.T) {
	f := newFixture(t)
	managed := []metav1.ManagedFieldsEntry{{Manager: "someone"}}
	other := deployment(available, foreign, func(d *appsv1.Deployment) { d.ManagedFields = managed })
	if err := f.kubeClient.Tracker().Add(other); err != nil {
		t.Fatal(err)
	}
	f.addFoo(t, foo(func(foo *samplev1alpha1.Foo) { foo.ManagedFields = managed }))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.kubeInformers.StartWithContext(ctx)
	f.sampleInformers.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), f.deploymentsSynced, f.foosSynced) {
		t.Fatal("the caches have not synced")
	}
	cachedDeployment, err := f.deploymentsLister.Deployments("default").Get(other.Name)
	if err != nil {
		t.Fatal(err)
	}
	cachedFoo, err := f.foosLister.Foos("default").Get("example-foo")
	if err != nil {
		t.Fatal(err)
	}
	if cachedDeployment.Spec.Replicas != nil || cachedDeployment.ManagedFields != nil || cachedFoo.ManagedFields != nil {
		t.Errorf("the caches hold %v and %v", cachedDeployment, cachedFoo)
	}
}

func TestRunServesFoosAndDrains(t *testing.T) {
	f := newFixture(t)
	creating, proceed := make(chan string, 10), make(chan struct{})
	f.kubeClient.PrependReactor("create", "deployments", func(action clienttesting.Action) (bool, runtime.Object, error) {
		creating <- actionName(action)
		<-proceed
		return false, nil, nil
	})
	for i := range 3 {
		f.addFoo(t, foo(func(foo *samplev1alpha1.Foo) {
			foo.Name = fmt.Sprintf("foo-%d", i)
			foo.Spec.DeploymentName = foo.Name
		}))
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.kubeInformers.StartWithContext(ctx)
	f.sampleInformers.StartWithContext(ctx)
	returned := make(chan error)
	go func() { returned <- f.Run(ctx, 1) }()

	first := <-creating
	cancel()
	select {
	case err := <-returned:
		t.Fatalf("Run returned %v while a sync was running", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(proceed)
	if err := <-returned; err != nil {
		t.Fatal(err)
	}
	f.deployment(t, first)
	if len(creating) > 0 {
		t.Errorf("a sync of %s was begun after the end of the context", <-creating)
	}
}

func TestRunSendsTheEventsBeforeItGivesUpTheLead(t *testing.T) {
	f := newFixture(t)
	f.deploymentsSynced = func() bool { return true }
	f.foosSynced = func() bool { return true }
	ctx, cancel := context.WithCancel(t.Context())
	var leads, sent bool
	f.elect = func(ctx context.Context, lead func(context.Context) error) error {
		leads = true
		cancel()
		err := lead(ctx)
		leads = false
		return err
	}
	lost := errors.New("an event is lost")
	f.startRecorder = func(context.Context, int) func(context.Context) error {
		return func(ctx context.Context) error {
			sent = leads && ctx.Err() == nil
			return lost
		}
	}
	if err := f.Run(ctx, 1); !errors.Is(err, lost) {
		t.Errorf("Run returned %v, want %v", err, lost)
	}
	if !sent {
		t.Error("the events were not waited for while this instance led")
	}
}

func TestRunDividesTheWork(t *testing.T) {
	for workers, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 16: 12} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			f := newFixture(t)
			f.deploymentsSynced = func() bool { return true }
			f.foosSynced = func() bool { return true }
			for i := range 20 {
				f.handleFooAdd(foo(func(foo *samplev1alpha1.Foo) { foo.Name = fmt.Sprint(i) }), true)
			}
			ctx, cancel := context.WithCancel(t.Context())
			f.startRecorder = func(_ context.Context, senders int) func(context.Context) error {
				if got := f.workqueue.Len(); got != want || senders != want {
					t.Errorf("%d Foos of the first list are worked on, and %d send events, want %d", got, senders, want)
				}
				cancel()
				return func(context.Context) error { return nil }
			}
			if err := f.Run(ctx, workers); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRunCutsSyncsShortAtTheShutdownTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // Its clock is fake: a sleep moves it, and takes no time.
		f := newFixture(t, foo())
		f.deploymentsSynced = func() bool { return true }
		f.foosSynced = func() bool { return true }
		syncing := make(chan struct{})
		f.kubeClient.PrependReactor("create", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
			close(syncing)
			time.Sleep(f.shutdownTimeout + time.Second) // A request that hangs, and ends when its context does.
			return true, nil, context.Canceled
		})
		f.enqueueFoo(foo())
		ctx, cancel := context.WithCancel(t.Context())
		returned := make(chan error)
		go func() { returned <- f.Run(ctx, 1) }()
		<-syncing
		cancel()
		if err := <-returned; err == nil || !strings.Contains(err.Error(), "cut short") {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestRunGivesUpWithoutCaches(t *testing.T) {
	f := newFixture(t)
	f.cacheSyncTimeout = time.Millisecond
	if err := f.Run(t.Context(), 1); !errors.Is(err, ErrCachesNotSynced) {
		t.Errorf("Run returned %v, want %v", err, ErrCachesNotSynced)
	}
}

func TestAPanicIsRetriedAndStopsNothingElse(t *testing.T) {
	f := newFixture(t, foo())
	key := cache.NewObjectName("default", "example-foo")
	f.kubeClient.PrependReactor("create", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		panic("a bug")
	})
	f.workqueue.Add(key)
	if !f.processNextWorkItem(t.Context()) {
		t.Error("the worker stops")
	}
	if got := f.workqueue.NumRequeues(key); got != 1 {
		t.Errorf("queued again %d times, want 1", got)
	}
}

// choices turns the bytes of a fuzzer into choices; when they run out, the first of each is chosen.
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

// anyFoo returns a Foo with any spec, possible or not, and any status.
func anyFoo(c *choices) *samplev1alpha1.Foo {
	return foo(func(foo *samplev1alpha1.Foo) {
		foo.Generation = int64(1 + c.of(3))
		foo.Spec.DeploymentName = pick(c, "a", "b", "c", "")
		foo.Spec.Replicas = pick(c, nil, new(int32(1)), new(int32(0)), new(int32(3)), new(int32(-1)))
		foo.Status.ObservedGeneration = int64(c.of(4))
		foo.Status.AvailableReplicas = int32(c.of(3))
		if pick(c, false, true) {
			ready(foo)
		}
		if pick(c, false, false, true) {
			refused(foo)
		}
		if pick(c, false, false, false, true) {
			foo.DeletionTimestamp, foo.Finalizers = &transitionTime, []string{"foregroundDeletion"}
		}
	})
}

// anyDeployment returns a Deployment that may be ours, someone else's, or nobody's, in any state.
func anyDeployment(c *choices, name string) *appsv1.Deployment {
	return deployment(named(name), func(d *appsv1.Deployment) {
		pick(c, func() {}, func() { d.OwnerReferences = nil }, func() { d.OwnerReferences[0].UID = "another-uid" },
			func() { d.OwnerReferences[0].Kind = "Bar" }, func() { d.OwnerReferences[0].Controller = nil })()
		pick(c, func() {}, func() { d.Labels = nil }, func() { d.Labels = map[string]string{"app": "other", "team": "a"} })()
		pick(c, func() {}, func() { d.Spec.Template.Spec.Containers = nil }, func() { d.Spec.Template.Spec.Containers[0].Image = "apache" },
			func() { d.Spec.Template.Spec.Containers[0].Name = "renamed" })()
		pick(c, func() {}, func() { d.Spec.Selector = nil }, func() { d.Spec.Template.Labels = nil })()
		d.Generation = int64(c.of(3))
		d.Spec.Replicas = pick(c, nil, new(int32(0)), new(int32(1)), new(int32(3)))
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: int64(c.of(3)), Replicas: int32(c.of(4)), UpdatedReplicas: int32(c.of(4)), AvailableReplicas: int32(c.of(4)),
		}
		if pick(c, false, false, false, true) {
			d.DeletionTimestamp, d.Finalizers = &transitionTime, []string{"foregroundDeletion"}
		}
	})
}

// FuzzSyncHandler syncs any Foo among any Deployments. Whatever they are like, nothing of anyone else may be touched, and once
// a sync is through, another one may find nothing left to do.
func FuzzSyncHandler(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a Foo among Deployments of all kinds, and all of them in some state"))
	f.Add([]byte{1, 1, 3, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 3, 1, 3, 3, 3, 0, 1, 0, 0, 0, 0, 2, 1, 1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		c := choices(data)
		subject := anyFoo(&c)
		objects := []runtime.Object{subject}
		for _, name := range []string{"a", "b", "c"} {
			if pick(&c, true, false) {
				objects = append(objects, anyDeployment(&c, name))
			}
		}
		fixture := newFixture(t, objects...)
		key := cache.MetaObjectToName(subject)
		var err error
		for range 3 { // Create or repair, prune, and look again.
			err = fixture.syncHandler(t.Context(), key)
			fixture.fillCaches(t)
		}
		if again := fixture.syncHandler(t.Context(), key); (again == nil) != (err == nil) {
			t.Errorf("the same state is answered with %v and with %v", err, again)
		}
		for _, request := range fixture.requests() {
			if err == nil {
				t.Errorf("request %q although nothing was left to do", request)
			}
		}
		for _, object := range objects[1:] {
			before := object.(*appsv1.Deployment)
			if ownership.Controls(subject, before) {
				continue
			}
			if after := fixture.deployment(t, before.Name); !equality.Semantic.DeepEqual(before, after) {
				t.Errorf("a Deployment of someone else was changed from %v to %v", before, after)
			}
		}
	})
}

// served returns a fixture with a Foo that is as it should be, and a Deployment of that name.
func served(t testing.TB, deploymentName string) *fixture {
	t.Helper()
	return newFixture(t, foo(ready, func(foo *samplev1alpha1.Foo) { foo.Spec.DeploymentName = deploymentName }),
		deployment(available, named(deploymentName)))
}

func TestASyncWithoutAChangeAllocatesLittle(t *testing.T) {
	for deploymentName, most := range map[string]float64{"example-foo": 8, "example-deployment": 10} {
		f := served(t, deploymentName)
		allocations := testing.AllocsPerRun(100, func() {
			if err := f.syncHandler(t.Context(), cache.NewObjectName("default", "example-foo")); err != nil {
				t.Fatal(err)
			}
		})
		if allocations > most || len(f.requests()) > 0 {
			t.Errorf("with the Deployment %s: %v allocations, want at most %v; requests %v, want none", deploymentName, allocations, most, f.requests())
		}
	}
}

// BenchmarkNoOpSync is the sync of a Foo that is as it should be: what a resync costs for each Foo.
func BenchmarkNoOpSync(b *testing.B) {
	for name, deploymentName := range map[string]string{"a Deployment of the Foo's name": "example-foo", "a Deployment of another name": "example-deployment"} {
		b.Run(name, func(b *testing.B) {
			f := served(b, deploymentName)
			objectRef := cache.NewObjectName("default", "example-foo")
			b.ReportAllocs()
			for b.Loop() {
				if err := f.syncHandler(b.Context(), objectRef); err != nil {
					b.Fatal(err)
				}
			}
			if requests := f.requests(); len(requests) > 0 {
				b.Fatalf("this was not a sync without a change: %v", requests)
			}
		})
	}
}

// BenchmarkHandlers is what a notification costs before its Foo is in the workqueue, or is found not to have to be.
func BenchmarkHandlers(b *testing.B) {
	cachedFoo, owned, alien := foo(ready), deployment(available), deployment(foreign)
	waiting := foo(refused, func(foo *samplev1alpha1.Foo) { foo.Name, foo.UID = "waiting-foo", "waiting-uid" })
	changed := owned.DeepCopy()
	changed.ResourceVersion = "8"
	changed.Labels["team"] = "a"
	rolled := owned.DeepCopy()
	rolled.ResourceVersion = "9"
	rolled.Status.AvailableReplicas--
	for name, handle := range map[string]func(f *fixture){
		"a Foo is added":                         func(f *fixture) { f.handleFooAdd(cachedFoo, false) },
		"a Foo is updated":                       func(f *fixture) { f.handleFooUpdate(cachedFoo, cachedFoo) },
		"a Deployment is added":                  func(f *fixture) { f.handleDeploymentAdd(owned, false) },
		"a foreign Deployment is added":          func(f *fixture) { f.handleDeploymentAdd(alien, false) },
		"a Deployment is resynced":               func(f *fixture) { f.handleDeploymentUpdate(owned, owned) },
		"the spec of a Deployment is updated":    func(f *fixture) { f.handleDeploymentUpdate(owned, changed) },
		"the status of a Deployment is updated":  func(f *fixture) { f.handleDeploymentUpdate(owned, rolled) },
		"a Deployment is deleted":                func(f *fixture) { f.handleDeploymentDelete(owned) },
		"a Deployment that a Foo waits for goes": func(f *fixture) { f.handleDeploymentDelete(alien) },
	} {
		b.Run(name, func(b *testing.B) {
			f := newFixture(b, cachedFoo, waiting, owned)
			b.ReportAllocs()
			for b.Loop() {
				handle(f)
			}
		})
	}
}

// BenchmarkCache is what the caches keep for a Foo with its Deployment, and for a Deployment that no Foo controls.
func BenchmarkCache(b *testing.B) {
	const count = 10000
	fill := func(b *testing.B, f *fixture, i int, alien bool) {
		name := fmt.Sprintf("foo-%06d", i)
		rename := func(object metav1.Object) {
			object.SetName(name)
			object.SetUID(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)))
			object.SetResourceVersion(fmt.Sprint(i))
		}
		cachedFoo := foo(ready, func(foo *samplev1alpha1.Foo) { rename(foo); foo.Spec.DeploymentName = name })
		cachedDeployment := newDeployment(cachedFoo)
		rename(cachedDeployment)
		if alien {
			foreign(cachedDeployment)
		}
		if err := f.deploymentsIndexer.Add(trimmed(b, decoded(b, cachedDeployment, &appsv1.Deployment{}))); err != nil {
			b.Fatal(err)
		}
		if alien {
			return
		}
		if err := f.foosIndexer.Add(trimmed(b, decoded(b, cachedFoo, &samplev1alpha1.Foo{}))); err != nil {
			b.Fatal(err)
		}
	}
	for name, alien := range map[string]bool{"a Foo": false, "a foreign Deployment": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f := newFixture(b)
				before := heap()
				for i := range count {
					fill(b, f, i, alien)
				}
				b.ReportMetric(float64(heap()-before)/count, "B/object")
				goruntime.KeepAlive(f)
			}
		})
	}
}

// decoded returns an object as it comes from the API server, with no memory in common with others.
func decoded(b *testing.B, object, into any) any {
	encoded, err := json.Marshal(object)
	if err != nil {
		b.Fatal(err)
	}
	if err := json.Unmarshal(encoded, into); err != nil {
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
