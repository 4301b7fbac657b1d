// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/diff"
	kubeinformers "k8s.io/client-go/informers"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"k8s.io/sample-controller/hack/simulation"
	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/control"
	"k8s.io/sample-controller/pkg/election"
	"k8s.io/sample-controller/pkg/foostatus"
	"k8s.io/sample-controller/pkg/generated/clientset/versioned/fake"
	informers "k8s.io/sample-controller/pkg/generated/informers/externalversions"
	informersv1alpha1 "k8s.io/sample-controller/pkg/generated/informers/externalversions/samplecontroller/v1alpha1"
	listers "k8s.io/sample-controller/pkg/generated/listers/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/metrics"
	"k8s.io/sample-controller/pkg/options"
	"k8s.io/sample-controller/pkg/ownership"
)

// Requests, errors, events and Ready conditions, as verifyReady has them, of most tests.
const (
	createDeployment = "create deployments example-deployment"
	getDeployment    = "get deployments example-deployment"
	patchDeployment  = "patch deployments example-deployment"
	patchReplicas    = patchDeployment + ` {"metadata":{"resourceVersion":"7"},"spec":{"replicas":2}}`
	deleteDeployment = "delete deployments example-deployment"
	pruneDeployment  = deleteDeployment + " example-deployment-uid 7"
	getFoo           = "get foos example-foo"
	updateStatus     = "update foos/status example-foo"

	defaultImage = options.DefaultImage
	denied       = `admission webhook "policy.example.com" denied the request`
	notManaged   = "already exists and is not managed by Foo"
	noLeader     = "etcd has no leader"
	rbac         = `deployments.apps "example-deployment" is forbidden: RBAC: not allowed`

	syncedEvent     = "Normal Synced Foo synced successfully"
	conflictEvent   = `Warning ErrResourceExists Resource "example-deployment" ` + notManaged
	deniedEvent     = "Warning DeploymentRejected " + denied
	overriddenEvent = "Warning DeploymentOverridden "
	prunedEvent     = `Normal Pruned Deployment "example-deployment" deleted: it is superseded by "new-deployment"`

	failedEvent = "Warning DeploymentFailed "

	isAvailable   = "True DeploymentAvailable"
	isFailed      = "False DeploymentFailed"
	isProgressing = "False DeploymentProgressing"
	isConflicting = "False ErrResourceExists (stalled)"
	isRejected    = "False DeploymentRejected (stalled)"
	isOverridden  = "False DeploymentOverridden (stalled)"
)

var (
	objectRef          = cache.NewObjectName("default", "example-foo")
	fooResource        = samplev1alpha1.Resource("foos")
	deploymentResource = appsv1.Resource("deployments")
	foosGVR            = schema.GroupVersion(samplev1alpha1.GroupVersion).WithResource("foos")
	deploymentsGVR     = appsv1.SchemeGroupVersion.WithResource("deployments")
	transitionTime     = metav1.NewTime(time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC))
)

func TestSyncHandler(t *testing.T) {
	ours, drifted := newDeploymentFor(newFoo(), available), newDeploymentFor(newFoo(), available, withReplicas(9))
	scaled := newDeploymentFor(newFoo(), withReplicas(7), available)
	observed, progressing := observing(ours), observing(newDeploymentFor(newFoo()))
	renamed := withDeploymentName("new-deployment")
	replacement := newDeploymentFor(newFoo(renamed), available)
	replacement8 := newDeploymentFor(newFoo(renamed), withReplicas(8), available)
	replaced, replacing := observing(replacement), observing(newDeploymentFor(newFoo(renamed)))
	const (
		createNew          = "create deployments new-deployment"
		getNew             = "get deployments new-deployment"
		patchDeploymentNew = "patch deployments new-deployment"
		patchNew           = patchDeploymentNew + ` {"metadata":{"resourceVersion":"7"},"spec":{"replicas":2}}`
		replicas8          = "spec.replicas: desired 2, found 8"
		imageOverridden    = `spec.template.spec.containers[nginx].image: desired "nginx:latest", found "mirror/nginx"`
		labelsOverridden   = `metadata.labels.app: desired "nginx", found nothing; metadata.labels.controller: desired "example-foo", found nothing`
		replicasOverridden = "spec.replicas: desired 2, found 9"
	)
	overridden := func(object metav1.Object) {
		foo := object.(*samplev1alpha1.Foo)
		foo.Status = foostatus.New(foo, drifted, "DeploymentOverridden", replicasOverridden)
	}
	extended := func(object metav1.Object) {
		object.GetLabels()["team"] = "a"
		template := &object.(*appsv1.Deployment).Spec.Template
		template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2020-01-01T00:00:00Z"}
		template.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
		template.Spec.Containers = append(template.Spec.Containers, corev1.Container{Name: "sidecar", Image: "sidecar"})
	}
	tampered := func(object metav1.Object) {
		object.GetLabels()["app"] = "other"
		delete(object.(*appsv1.Deployment).Spec.Template.Labels, "app")
		withImage("apache")(object)
	}
	noReplicas := samplev1alpha1.FooStatus{ObservedGeneration: 1}
	twoReplicas := samplev1alpha1.FooStatus{
		ObservedGeneration: 1, Replicas: 2, AvailableReplicas: 2, Selector: "app=nginx,controller=example-foo",
	}

	for _, test := range []struct {
		name      string
		given     objects
		image     string // if it is not the default
		responses responses

		requests []string
		err      string // a part of it
		events   string
		ready    string // as verifyReady has it
		// If they are given, the status, without conditions, and the Deployment afterwards.
		status     samplev1alpha1.FooStatus
		deployment *appsv1.Deployment
	}{
		// A Foo that is gone or being deleted.
		{name: "Foo gone"},
		{name: "Foo being deleted", given: objects{newFoo(observed, deleting), drifted}, ready: isAvailable},

		// No Deployment of the name.
		{name: "new Foo", given: objects{newFoo()},
			requests: []string{createDeployment, updateStatus}, events: syncedEvent, ready: isProgressing, deployment: newDeployment(newFoo(), defaultImage)},
		{name: "new Foo without replicas", given: objects{newFoo(withoutReplicas)},
			requests: []string{createDeployment, updateStatus}, events: syncedEvent, ready: isProgressing,
			deployment: newDeployment(newFoo(withoutReplicas), defaultImage)},
		{name: "image of the configuration", given: objects{newFoo()}, image: "nginx:1.27",
			requests: []string{createDeployment, updateStatus}, events: syncedEvent, ready: isProgressing,
			deployment: newDeploymentFor(newFoo(), withImage("nginx:1.27"))},
		{name: "Deployment deleted by others", given: objects{newFoo(observed)},
			requests: []string{getFoo, createDeployment, updateStatus}, events: syncedEvent, ready: isProgressing},
		{name: "Deployment deleted, Foo too", given: objects{newFoo(observed)}, responses: responses{getFoo: notFound},
			requests: []string{getFoo}, err: control.ErrStale.Error(), ready: isAvailable},
		{name: "Deployment deleted, live read forbidden", given: objects{newFoo(observed)}, responses: responses{getFoo: forbidden},
			requests: []string{getFoo, updateStatus}, err: "forbidden", events: failedEvent + rbac, ready: isFailed, status: noReplicas},
		{name: "Deployment deleted, creation fails", given: objects{newFoo(observed)}, responses: responses{createDeployment: unavailable},
			requests: []string{getFoo, createDeployment, updateStatus}, err: noLeader, events: failedEvent + noLeader, ready: isFailed, status: noReplicas},
		{name: "creation fails in a namespace that is being deleted", given: objects{newFoo()}, responses: responses{createDeployment: terminating},
			requests: []string{createDeployment, updateStatus}, err: "terminated", ready: isProgressing, status: noReplicas},
		{name: "exists but is not in the cache", given: objects{newFoo()},
			responses: responses{createDeployment: exists, getDeployment: returning(ours)},
			requests:  []string{createDeployment, getDeployment}, err: control.ErrStale.Error()},
		{name: "another exists but is not in the cache", given: objects{newFoo()},
			responses: responses{createDeployment: exists, getDeployment: returning(newDeploymentFor(newFoo(withUID("another-uid"))))},
			requests:  []string{createDeployment, getDeployment, updateStatus}, err: notManaged, events: conflictEvent, ready: isConflicting},
		{name: "exists, gone by the live read", given: objects{newFoo()}, responses: responses{createDeployment: exists, getDeployment: notFound},
			requests: []string{createDeployment, getDeployment, updateStatus}, err: "not found", ready: isProgressing},

		// A Deployment that the Foo does not control.
		{name: "name conflict", given: objects{newFoo(), newDeploymentFor(newFoo(), notControlled)},
			requests: []string{updateStatus}, err: notManaged, events: conflictEvent, ready: isConflicting},
		{name: "earlier Foo of the name", given: objects{newFoo(), newDeploymentFor(newFoo(withUID("earlier-uid")), available)},
			requests: []string{updateStatus}, err: notManaged, events: conflictEvent, ready: isConflicting},

		// Drift.
		{name: "steady state", given: objects{newFoo(observed), ours}, ready: isAvailable},
		{name: "no replicas, scaled by others", given: objects{newFoo(withoutReplicas, observing(scaled)), scaled}, ready: isAvailable},
		{name: "Foo scaled", given: objects{newFoo(observed, withGeneration(2), withReplicas(5)), ours},
			requests: []string{strings.ReplaceAll(patchReplicas, "2", "5"), updateStatus}, events: syncedEvent, ready: isProgressing},
		{name: "drift of replicas", given: objects{newFoo(observed), drifted},
			requests: []string{patchReplicas}, events: syncedEvent, ready: isAvailable},
		{name: "drift of image and labels", given: objects{newFoo(observed), newDeploymentFor(newFoo(), available, extended, tampered)},
			requests: []string{patchDeployment + ` {"metadata":{"labels":{"app":"nginx"},"resourceVersion":"7"},"spec":{"template":{` +
				`"metadata":{"labels":{"app":"nginx"}},"spec":{"$setElementOrder/containers":[{"name":"nginx"},{"name":"sidecar"}],` +
				`"containers":[{"image":"nginx:latest","name":"nginx"}]}}}}`},
			events: syncedEvent, ready: isAvailable, deployment: newDeploymentFor(newFoo(), extended)},
		{name: "container missing", given: objects{newFoo(observed), newDeploymentFor(newFoo(), available, withContainerName("other"))},
			requests: []string{patchDeployment + ` {"metadata":{"resourceVersion":"7"},"spec":{"template":{"spec":{` +
				`"$setElementOrder/containers":[{"name":"other"},{"name":"nginx"}],` +
				`"containers":[{"image":"nginx:latest","name":"nginx","resources":{}}]}}}}`},
			events: syncedEvent, ready: isAvailable},
		{name: "stale cache", given: objects{newFoo(observed), drifted}, responses: responses{patchDeployment: conflict},
			requests: []string{patchReplicas}, err: "has been modified", ready: isAvailable},
		{name: "Deployment being deleted", given: objects{newFoo(observed), newDeploymentFor(newFoo(), available, withReplicas(9), deleting)},
			requests: []string{updateStatus}, ready: isProgressing},
		{name: "overridden Deployment being deleted", given: objects{newFoo(overridden), newDeploymentFor(newFoo(), available, withReplicas(9), deleting)},
			err: replicasOverridden, ready: isOverridden},
		{name: "admission changes the image", given: objects{newFoo()},
			responses: responses{createDeployment: mutating(withImage("mirror/nginx"))},
			requests:  []string{createDeployment, updateStatus}, err: imageOverridden, events: overriddenEvent + imageOverridden, ready: isOverridden},
		{name: "admission removes labels", given: objects{newFoo()}, responses: responses{createDeployment: mutating(withoutLabels)},
			requests: []string{createDeployment, updateStatus}, err: labelsOverridden, events: overriddenEvent + labelsOverridden, ready: isOverridden},
		{name: "admission overrides a correction", given: objects{newFoo(observed), drifted},
			responses: responses{patchDeployment: returning(drifted)},
			requests:  []string{patchReplicas, updateStatus}, err: replicasOverridden, events: overriddenEvent + replicasOverridden, ready: isOverridden},

		// Renames.
		{name: "renamed", given: objects{newFoo(observed, withGeneration(2), renamed), ours},
			requests: []string{getFoo, createNew, updateStatus}, events: syncedEvent, ready: isProgressing},
		{name: "renamed, replacement not available", given: objects{newFoo(renamed, replacing), ours, newDeploymentFor(newFoo(renamed))},
			ready: isProgressing},
		{name: "renamed, replacement being deleted",
			given:    objects{newFoo(renamed, observed), ours, newDeploymentFor(newFoo(renamed), available, deleting)},
			requests: []string{updateStatus}, ready: isProgressing},
		{name: "renamed, replacement available", given: objects{newFoo(renamed, replaced), ours, replacement},
			requests: []string{getFoo, getNew, pruneDeployment}, events: prunedEvent, ready: isAvailable},
		{name: "renamed, no replicas desired", given: objects{newFoo(withGeneration(2), renamed, withReplicas(0)), ours},
			requests: []string{createNew, getFoo, getNew, pruneDeployment, updateStatus},
			events:   prunedEvent + ", " + syncedEvent, ready: isAvailable},
		{name: "renamed without replicas", given: objects{newFoo(renamed, withoutReplicas), scaled},
			requests: []string{createNew, updateStatus}, events: syncedEvent, ready: isProgressing,
			deployment: newDeploymentFor(newFoo(renamed), withReplicas(7))},
		{name: "renamed twice, name conflict", ready: isConflicting, status: twoReplicas, // It reports the one that serves.
			given:    objects{newFoo(renamed), ours, newDeploymentFor(newFoo(withDeploymentName("between"))), newDeploymentFor(newFoo(renamed), notControlled)},
			requests: []string{updateStatus}, err: notManaged, events: strings.ReplaceAll(conflictEvent, "example", "new")},
		{name: "renamed, rejected", given: objects{newFoo(renamed), ours}, responses: responses{createNew: webhook},
			requests: []string{createNew, updateStatus}, err: denied, events: deniedEvent, ready: isRejected, status: twoReplicas},
		{name: "renamed twice",
			given:    objects{newFoo(renamed, replaced), ours, newDeploymentFor(newFoo(withDeploymentName("other-deployment")), available), replacement},
			requests: []string{getFoo, getNew, pruneDeployment, getFoo, getNew, strings.ReplaceAll(pruneDeployment, "example", "other")},
			events:   prunedEvent + ", " + strings.Replace(prunedEvent, "example", "other", 1), ready: isAvailable},
		{name: "superseded gone", given: objects{newFoo(renamed, replaced), ours, replacement}, responses: responses{deleteDeployment: notFound},
			requests: []string{getFoo, getNew, pruneDeployment}, err: `deployments.apps "example-deployment" not found`, ready: isAvailable},
		{name: "prune rejected", given: objects{newFoo(renamed, replaced), ours, replacement}, responses: responses{deleteDeployment: webhook},
			requests: []string{getFoo, getNew, pruneDeployment, updateStatus}, err: denied, events: deniedEvent, ready: isRejected},
		{name: "prune of one of two rejected", responses: responses{deleteDeployment: webhook}, // It comes first.
			given:    objects{newFoo(renamed, replaced), ours, newDeploymentFor(newFoo(withDeploymentName("other-deployment")), available), replacement},
			requests: []string{getFoo, getNew, pruneDeployment, getFoo, getNew, strings.ReplaceAll(pruneDeployment, "example", "other"), updateStatus},
			err:      denied, events: strings.Replace(prunedEvent, "example", "other", 1) + ", " + deniedEvent, ready: isRejected, status: twoReplicas},
		{name: "prune while the new one is overridden", responses: responses{patchDeploymentNew: returning(replacement8)},
			given:    objects{newFoo(renamed, replaced), ours, replacement8},
			requests: []string{patchNew, getFoo, getNew, pruneDeployment, updateStatus}, err: replicas8,
			events: prunedEvent + ", " + overriddenEvent + replicas8, ready: isOverridden},
		{name: "others set the new one to 0 replicas", responses: responses{patchDeploymentNew: unavailable}, // It cannot take over.
			given:    objects{newFoo(renamed, replaced), ours, newDeploymentFor(newFoo(renamed), withReplicas(0), available)},
			requests: []string{patchNew, updateStatus}, err: noLeader, events: failedEvent + noLeader, ready: isFailed},
		{name: "prune while patches of the new one fail", responses: responses{patchDeploymentNew: unavailable},
			given:    objects{newFoo(renamed, replaced), ours, replacement8},
			requests: []string{patchNew, getFoo, getNew, pruneDeployment, updateStatus}, err: noLeader,
			events: prunedEvent + ", " + failedEvent + noLeader, ready: isFailed},
		{name: "prune, live read forbidden", given: objects{newFoo(renamed, replaced), ours, replacement}, responses: responses{getFoo: forbidden},
			requests: []string{getFoo, updateStatus}, err: "forbidden", events: failedEvent + rbac, ready: isFailed, status: twoReplicas},
		{name: "prune fails", given: objects{newFoo(renamed, replacing), ours, replacement}, responses: responses{deleteDeployment: unavailable},
			requests: []string{getFoo, getNew, pruneDeployment, updateStatus}, err: noLeader, events: failedEvent + noLeader, ready: isFailed, status: twoReplicas},

		// The status.
		{name: "rolled out", given: objects{newFoo(progressing), ours}, requests: []string{updateStatus}, ready: isAvailable, status: twoReplicas},
		{name: "generation without a change", given: objects{newFoo(observed, withGeneration(2), withoutReplicas), ours},
			requests: []string{updateStatus}, events: syncedEvent, ready: isAvailable},
		{name: "transient error of the status", given: objects{newFoo()}, responses: responses{updateStatus: unavailable},
			requests: []string{createDeployment, updateStatus}, err: noLeader},
		{name: "Foo deleted meanwhile", given: objects{newFoo(progressing), ours}, responses: responses{updateStatus: notFound, getFoo: notFound},
			requests: []string{updateStatus, getFoo}, err: "not found", ready: isProgressing},

		// Errors.
		{name: "transient error", given: objects{newFoo()}, responses: responses{createDeployment: unavailable},
			requests: []string{createDeployment, updateStatus}, err: noLeader, events: failedEvent + noLeader, ready: isFailed, status: noReplicas},
		{name: "transient error of a patch", given: objects{newFoo(observed), drifted}, responses: responses{patchDeployment: unavailable},
			requests: []string{patchReplicas, updateStatus}, err: noLeader, events: failedEvent + noLeader, ready: isFailed},
		{name: "denied by a webhook", given: objects{newFoo()}, responses: responses{createDeployment: webhook},
			requests: []string{createDeployment, updateStatus}, err: denied, events: deniedEvent, ready: isRejected},
		{name: "patch denied", given: objects{newFoo(observed), drifted}, responses: responses{patchDeployment: webhook},
			requests: []string{patchReplicas, updateStatus}, err: denied, events: deniedEvent, ready: isRejected, status: twoReplicas},
	} {
		// In a bubble the clock stands still, and a write pause does not end.
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, test.given...)
				f.responses, f.image = test.responses, cmp.Or(test.image, f.image)
				verifyError(t, f.syncHandler(t.Context(), objectRef), test.err)
				f.verifyRequests(t, test.requests...)
				f.verifyEvents(t, test.events)
				if test.given != nil {
					f.verifyReady(t, test.ready)
				}
				if want := test.status; want.ObservedGeneration > 0 {
					got := f.foo(t).Status
					got.Conditions = nil
					verifyEqual(t, "status", got, want)
				}
				if want := test.deployment; want != nil {
					got := f.deployment(t, want.Name)
					verifyEqual(t, "spec of the Deployment", got.Spec, want.Spec)
					verifyEqual(t, "labels of the Deployment", got.Labels, want.Labels)
					verifyEqual(t, "owners of the Deployment", got.OwnerReferences, want.OwnerReferences)
				}
				if test.responses == nil || test.err == "" || test.ready == isOverridden { // Nothing is left to do for now.
					f.fillCaches(t)
					verifyError(t, f.syncHandler(t.Context(), objectRef), test.err)
					f.verifyRequests(t)
					f.verifyEvents(t, "")
				}
			})
		})
	}
}

// However often others cause syncs, there is one accepted write of the Deployment for each write pause, which doubles, and at most two of the
// status: before and after it is overridden.
func TestWritesAreBounded(t *testing.T) {
	ours, drifted := newDeploymentFor(newFoo(), available), newDeploymentFor(newFoo(), available, withReplicas(9))
	statusFails, replicas := responses{updateStatus: unavailable}, int32(9)
	nobody := func(*testing.T, *fixture) {}
	scale := func(t *testing.T, f *fixture) { f.edit(t, ours, withReplicas(replicas)) }
	remove := func(_ *testing.T, f *fixture) {
		_ = f.kubeClient.Tracker().Delete(deploymentsGVR, "default", "example-deployment") // If it exists.
	}
	for name, test := range map[string]struct {
		given     objects
		responses responses
		interfere func(*testing.T, *fixture)
		write     string
	}{
		"restored at once":                           {objects{newFoo(observing(ours)), drifted}, nil, scale, patchDeployment},
		"restored at once, status cannot be written": {objects{newFoo(), drifted}, statusFails, scale, patchDeployment},
		"another value at once": {objects{newFoo(observing(ours)), ours}, nil, func(t *testing.T, f *fixture) {
			replicas++
			scale(t, f)
		}, patchDeployment},
		"deleted at once": {objects{newFoo(observing(ours)), ours}, nil, remove, createDeployment},
		"deleted at once, status cannot be written": {objects{newFoo()}, statusFails, remove, createDeployment},
		"overridden by admission":                   {objects{newFoo(), drifted}, responses{patchDeployment: returning(drifted)}, nobody, patchDeployment},
		"overridden by admission, status cannot be written": {objects{newFoo(), drifted},
			responses{patchDeployment: returning(drifted), updateStatus: unavailable}, nobody, patchDeployment},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, test.given...)
				f.responses = test.responses
				for i := range 3 {
					writes, statuses := 0, 0
					for range 10 {
						test.interfere(t, f)
						f.fillCaches(t)
						before := f.foo(t).Status
						_ = f.syncHandler(t.Context(), objectRef) // It may fail.
						writes += strings.Count(strings.Join(f.takeRequests(), ";"), test.write)
						if !equality.Semantic.DeepEqual(before, f.foo(t).Status) {
							statuses++
						}
					}
					pause := time.Second << i
					if writes != 1 || statuses > 2 {
						t.Errorf("round %d: %d writes and %d statuses within a write pause of %s, want 1 and 2", i, writes, statuses, pause)
					}
					advance(pause)
				}
			})
		})
	}
}

// What others do costs a bounded number of requests, however often and for how long they do it.
func TestRequestsInAnHour(t *testing.T) {
	ours, drifted := newDeploymentFor(newFoo(), available), newDeploymentFor(newFoo(), available, withReplicas(9))
	renamed := withDeploymentName("new-deployment")
	replacement := newDeploymentFor(newFoo(renamed), available)
	resync := func(t *testing.T, f *fixture) { f.updateFoo(f.foo(t), f.foo(t)) }
	annotate := func(t *testing.T, f *fixture) {
		note := map[string]string{"seen": time.Now().String()}
		f.edit(t, ours, func(object metav1.Object) { object.SetAnnotations(note) })
	}
	for name, test := range map[string]struct {
		given     objects
		responses responses
		interfere func(*testing.T, *fixture)
		every     time.Duration
		want      map[string]int
	}{
		"overridden by admission": {objects{newFoo(observing(ours)), drifted}, responses{patchDeployment: returning(drifted)}, resync, 30 * time.Second,
			map[string]int{"patch deployments": 13, "update foos/status": 1}},
		"creation rejected": {objects{newFoo()}, responses{createDeployment: webhook}, resync, 30 * time.Second,
			map[string]int{"get foos": 12, "create deployments": 13, "update foos/status": 1}},
		"patch rejected, with many events": {objects{newFoo(observing(ours)), drifted}, responses{patchDeployment: webhook}, annotate, 30 * time.Second,
			map[string]int{"patch deployments": 13, "update foos/status": 1}},
		"prune rejected": {objects{newFoo(renamed, observing(ours)), ours, replacement}, responses{deleteDeployment: webhook}, resync, 30 * time.Second,
			map[string]int{"get foos": 13, "get deployments": 13, "delete deployments": 13, "update foos/status": 1}},
		"name conflict": {objects{newFoo(), newDeploymentFor(newFoo(), notControlled)}, nil, resync, 30 * time.Second,
			map[string]int{"update foos/status": 1}},
		"corrections a minute apart, no resync": {objects{newFoo(observing(ours)), ours}, nil,
			func(t *testing.T, f *fixture) {
				f.edit(t, ours, withoutLabels, withResourceVersion(time.Now().String()))
			}, time.Minute,
			map[string]int{"patch deployments": 60}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, test.given...)
				f.responses = test.responses
				stop, returned := f.run(t)
				for range time.Hour / test.every {
					synctest.Wait() // The caches have what was written.
					test.interfere(t, f)
					advance(test.every)
				}
				stop()
				must(t, <-returned)
				got := map[string]int{}
				for _, request := range f.takeRequests() {
					got[strings.Join(strings.Fields(request)[:2], " ")]++
				}
				verifyEqual(t, "requests", got, test.want)
			})
		})
	}
}

// What was rejected is reported as long as the write pause lasts, whether or not the status could be written at first.
func TestRejectionIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := newDeploymentFor(newFoo(), available)
		f := newFixture(t, newFoo(observing(ours), withGeneration(2), withReplicas(5)), ours)
		f.responses[patchDeployment], f.responses[updateStatus] = webhook, unavailable
		verifyError(t, f.syncHandler(t.Context(), objectRef), noLeader)
		delete(f.responses, updateStatus)
		f.fillCaches(t)
		advance(500 * time.Millisecond) // The status may be updated again, and the Deployment not yet.
		verifyError(t, f.syncHandler(t.Context(), objectRef), denied)
		f.verifyRequests(t, updateStatus)
		f.verifyReady(t, isRejected)
		f.verifyEvents(t, deniedEvent)
	})
}

// A write pause is about an object: what was rejected for one does not hold back its successor.
func TestPauseEndsWithItsObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := newDeploymentFor(newFoo(), available)
		f := newFixture(t, newFoo(observing(ours), withGeneration(2), withReplicas(5)), ours)
		f.responses[patchDeployment] = webhook
		verifyError(t, f.syncHandler(t.Context(), objectRef), denied)
		must(t, f.kubeClient.Tracker().Delete(deploymentsGVR, "default", "example-deployment"))
		f.fillCaches(t)
		verifyError(t, f.syncHandler(t.Context(), objectRef), "so soon after the last write") // The status is updated later.
		f.verifyRequests(t, getFoo, createDeployment)
	})
}

// However often a Deployment changes hands, the status is updated twice a second, whether or not that succeeds.
func TestStatusPause(t *testing.T) {
	ours := newDeploymentFor(newFoo(), available)
	for name, response := range map[string]response{"accepted": nil, "fails": unavailable, "denied": webhook, "not found": notFound} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, newFoo(observing(ours)), ours)
			f.responses[updateStatus] = response
			stop, returned := f.run(t)
			for i := range 300 {
				owners := []metav1.OwnerReference{*metav1.NewControllerRef(newFoo(), ownership.FooKind)}[i%2:]
				f.edit(t, ours, func(d metav1.Object) { d.SetOwnerReferences(owners) }, withResourceVersion(strconv.Itoa(100+i)))
				advance(100 * time.Millisecond)
			}
			if got := strings.Count(strings.Join(f.takeRequests(), ";"), updateStatus); got > 62 || got < 30 {
				t.Errorf("%s: %d updates of the status in half a minute, want about two a second", name, got)
			}
			stop()
			must(t, <-returned)
		})
	}
}

// The end of a write pause is not lost if something else fails, whose retries have become rare.
func TestEndOfPauseAmongErrors(t *testing.T) {
	renamed := withDeploymentName("new-deployment")
	ours, replacement := newDeploymentFor(newFoo(), available), newDeploymentFor(newFoo(renamed), available)
	for fails, given := range map[string]objects{
		deleteDeployment: {newFoo(renamed, observing(ours)), ours, replacement},
		updateStatus:     {newFoo(renamed), replacement},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, given...)
			f.responses[fails] = unavailable
			stop, returned := f.run(t)
			advance(time.Hour)
			f.takeRequests()
			for i := range 2 { // The second correction has to wait until the pause after the first one is over.
				f.edit(t, replacement, withoutLabels, withResourceVersion(strconv.Itoa(100+i)))
				synctest.Wait()
			}
			advance(time.Second)
			synctest.Wait()
			if got := strings.Count(strings.Join(f.takeRequests(), ";"), "patch deployments"); got != 2 {
				t.Errorf("%s fails: %d corrections within the first pause, want 2", fails, got)
			}
			stop()
			must(t, <-returned)
		})
	}
}

// A deletion that was rejected is retried after its own pause, though the one of the current Deployment is longer.
func TestEarlierOfTwoPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		renamed := withDeploymentName("new-deployment")
		ours := newDeploymentFor(newFoo(), available)
		mirrored := newDeploymentFor(newFoo(renamed), withImage("mirror/nginx"))
		f := newFixture(t, newFoo(renamed, observing(ours)), ours, mirrored)
		overrides := func() {
			f.respond("patch deployments new-deployment", returning(f.deployment(t, "new-deployment")))
		}
		overrides()
		stop, returned := f.run(t)
		advance(10 * time.Minute)
		f.respond(deleteDeployment, webhook)
		f.edit(t, mirrored, available, withResourceVersion("200")) // The rollout is over: it can take over.
		overrides()
		advance(time.Second)
		f.respond(deleteDeployment, nil)
		f.takeRequests()
		advance(time.Second)
		if got := strings.Join(f.takeRequests(), ";"); !strings.Contains(got, deleteDeployment) {
			t.Errorf("requests in the second after a rejection = %s, want the deletion again", got)
		}
		stop()
		must(t, <-returned)
	})
}

// Whoever undoes a correction during the pause, and takes that back, does not prolong later pauses.
func TestCorrectionOfOthersResetsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := newDeploymentFor(newFoo(), available)
		f := newFixture(t, newFoo(observing(ours)), ours)
		stop, returned := f.run(t)
		for i := range 10 {
			for _, replicas := range []int32{9, 9, 2} { // The first is corrected at once, and the second has to wait.
				f.edit(t, ours, withReplicas(replicas), withResourceVersion(time.Now().String()))
				advance(200 * time.Millisecond)
			}
			if got := strings.Count(strings.Join(f.takeRequests(), ";"), patchDeployment); got != 1 {
				t.Errorf("round %d: %d corrections at once, want 1", i, got)
			}
			advance(time.Minute)
		}
		stop()
		must(t, <-returned)
	})
}

// That a status cannot be written yet neither costs the event about what was written nor adds another one.
func TestSyncedWithoutStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := newDeploymentFor(newFoo(), available)
		f := newFixture(t, newFoo(observing(ours), withGeneration(2), withReplicas(5)), ours)
		f.responses[patchDeployment] = webhook
		verifyError(t, f.syncHandler(t.Context(), objectRef), denied)
		f.verifyEvents(t, deniedEvent)
		must(t, f.kubeClient.Tracker().Delete(deploymentsGVR, "default", "example-deployment"))
		f.fillCaches(t)
		verifyError(t, f.syncHandler(t.Context(), objectRef), "so soon after the last write")
		f.verifyEvents(t, syncedEvent)
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newFoo())
		f.responses[updateStatus] = conflict
		verifyError(t, f.syncHandler(t.Context(), objectRef), "has been modified")
		f.fillCaches(t)
		verifyError(t, f.syncHandler(t.Context(), objectRef), "so soon after the last write")
		delete(f.responses, updateStatus)
		advance(time.Second)
		must(t, f.syncHandler(t.Context(), objectRef))
		f.verifyEvents(t, syncedEvent)
	})
}

// A Foo is synced soon if no event has shown what was written for it.
func TestMissedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := newDeploymentFor(newFoo(), available)
		f := newFixture(t, newFoo(observing(ours)), ours)
		stop, returned := f.run(t)
		advance(time.Second)
		f.takeRequests()
		deployments := f.kubeInformers.Apps().V1().Deployments().Informer().GetIndexer()
		must(t, deployments.Delete(ours)) // Without an event.
		deployments.Bookmark("9")         // It has reached the write.
		f.consistencyStore.WroteAt(objectRef, deploymentResource, "8")
		advance(10 * time.Second)
		if got := f.takeRequests(); !slices.Contains(got, getFoo) {
			t.Errorf("requests = %q, want those of a sync that finds no Deployment", got)
		}
		stop()
		must(t, <-returned)
	})
}

// Ten conflicts in a row are a failure.
func TestConflictsWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := newDeploymentFor(newFoo(), available, withReplicas(9))
		f := newFixture(t, newFoo(observing(ours)), ours)
		f.responses[patchDeployment] = conflict
		stop, returned := f.run(t)
		advance(5 * time.Second) // 5 ms, doubled nine times
		f.verifyReady(t, isProgressing)
		advance(time.Minute)
		f.verifyReady(t, isFailed)
		stop()
		must(t, <-returned)
	})
}

func TestStalledIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newFoo(observing(newDeploymentFor(newFoo()))), newDeploymentFor(newFoo(), withReplicas(9)))
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
		for _, message := range []string{"denied", "denied again"} {
			f.responses[patchDeployment] = failing(apierrors.NewBadRequest(message))
			verifyError(t, f.syncHandler(klog.NewContext(t.Context(), logger), objectRef), message)
			f.verifyRequests(t, patchReplicas, updateStatus)
			f.fillCaches(t)
			advance(time.Second)
		}
		log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
		if events, lines := len(f.fakeRecorder.Events), strings.Count(log, "Foo is not ready"); events != 1 || lines != 1 {
			t.Errorf("got %d events and %d log lines for one reason, want 1 of each", events, lines)
		}
	})
}

func TestOverriddenByAnotherController(t *testing.T) {
	const message, heldAfter = "spec.replicas: desired 2, found 9", 2 * time.Second // the delay of package pacing
	synctest.Test(t, func(t *testing.T) {
		ours := newDeploymentFor(newFoo(), available)
		f := newFixture(t, newFoo(observing(ours)), ours)
		for _, step := range []struct {
			name      string
			after     time.Duration
			overrides bool // Does the other controller set its replicas before the sync?
			patches   bool
			err       string
			events    string
		}{
			{"first drift", 0, true, true, "", syncedEvent},
			{"overridden", 0, true, false, message, overriddenEvent + message},
			{"end of pause", time.Second - 1, false, false, message, ""},
			{"after pause", 1, false, true, message, ""},
			{"overridden again", 0, true, false, message, ""},
			{"end of second pause", 2*time.Second - 1, false, false, message, ""},
			{"after second pause", 1, false, true, message, ""},
			{"overridden soon after third pause", 4*time.Second + heldAfter - 1, true, true, message, ""},
			{"not overridden", 8*time.Second + heldAfter - 1, false, false, message, ""},
			{"held for longer than the pause", 1, false, false, "", ""},
			{"drift later", time.Minute, true, true, "", syncedEvent},
			{"overridden later", 0, true, false, message, overriddenEvent + message},
			{"after first pause", time.Second, false, true, message, ""},
		} {
			advance(step.after)
			if step.overrides {
				f.edit(t, ours, withReplicas(9))
				f.fillCaches(t)
			}
			before := f.foo(t).Status
			if err := f.syncHandler(t.Context(), objectRef); fmt.Sprint(err) != cmp.Or(step.err, "<nil>") {
				t.Errorf("%s: error = %v, want %q", step.name, err, step.err)
			}
			var want []string
			if step.patches {
				want = append(want, patchReplicas)
			}
			if !equality.Semantic.DeepEqual(before, f.foo(t).Status) {
				want = append(want, updateStatus)
			}
			t.Log(step.name) // It precedes what the next lines print.
			f.verifyRequests(t, want...)
			f.verifyEvents(t, step.events)
			f.verifyReady(t, map[bool]string{true: isAvailable, false: isOverridden}[step.err == ""])
			f.fillCaches(t)
		}
	})
}

// racingIndexer is a cache that catches up just after a read.
type racingIndexer struct {
	cache.Indexer
	catchUp func()
}

func (i racingIndexer) GetByKey(key string) (any, bool, error) {
	defer i.catchUp()
	return i.Indexer.GetByKey(key)
}

func TestCacheCatchesUpDuringRead(t *testing.T) {
	f := newFixture(t, newFoo(), newDeploymentFor(newFoo(), available))
	f.foosIndexer.Bookmark("10")
	f.consistencyStore.WroteAt(objectRef, fooResource, "11")
	f.foosLister = listers.NewFooLister(racingIndexer{f.foosIndexer, func() { f.foosIndexer.Bookmark("11") }})
	verifyError(t, f.syncHandler(t.Context(), objectRef), control.ErrStale.Error())
	f.verifyRequests(t)
}

func TestHandlers(t *testing.T) {
	waiting := newFoo(withName("waiting-foo"), withUID("waiting-uid")) // Its spec.deploymentName is the same.
	v8, superseded := withResourceVersion("8"), withName("superseded")
	ours, ours8 := newDeploymentFor(newFoo()), newDeploymentFor(newFoo(), v8, withoutLabels)
	another, another8 := newDeploymentFor(newFoo(), notControlled), newDeploymentFor(newFoo(), notControlled, v8)

	type handle func(f *fixture)
	addFoo := func(isInInitialList bool) handle { return func(f *fixture) { f.addFoo(newFoo(), isInInitialList) } }
	updateFoo := func(options ...option) handle { return func(f *fixture) { f.updateFoo(newFoo(), newFoo(options...)) } }
	deleteFoo := func(foo informersv1alpha1.DeletedFoo) handle {
		return func(f *fixture) { f.enqueueFoo(foo, "deleted") }
	}
	add := func(deployment *appsv1.Deployment) handle {
		return func(f *fixture) { f.addDeployment(deployment, false) }
	}
	update := func(from, to *appsv1.Deployment) handle { return func(f *fixture) { f.updateDeployment(from, to) } }
	remove := func(deployment *appsv1.Deployment) handle {
		return func(f *fixture) { f.deleteDeployment(appsinformers.DeletedDeployment{OptionalObj: deployment}) }
	}
	tombstone := cache.DeletedFinalStateUnknown{Key: "default/example-deployment"}
	removeTombstone := func(deployment *appsv1.Deployment) handle {
		return func(f *fixture) {
			f.deleteDeployment(appsinformers.DeletedDeployment{OptionalObj: deployment, FinalStateUnknown: &tombstone})
		}
	}

	// What is enqueued, by priority, and the Foos whose retry delay is reset.
	const (
		none      = ""
		low       = "low: example-foo"
		high      = "high: example-foo"
		highReset = "high: example-foo, reset: example-foo"
		both      = "high: example-foo waiting-foo"
	)
	for _, test := range []struct {
		name   string
		handle handle
		want   string
	}{
		{"Foo added", addFoo(false), high},
		{"Foo of the initial list", addFoo(true), low},
		{"Foo resynced", updateFoo(), low},
		{"spec changed", updateFoo(v8, withGeneration(2)), highReset},
		{"spec changed, the generation came back", updateFoo(v8, withReplicas(5)), highReset},
		{"status changed", updateFoo(v8, observing(ours)), none},
		{"Foo replaced", updateFoo(v8, withUID("new-uid")), highReset},
		{"Foo being deleted", updateFoo(v8, withGeneration(2), deleting), highReset},
		{"Foo deleted", deleteFoo(informersv1alpha1.DeletedFoo{OptionalObj: newFoo()}), high},
		{"tombstone of a Foo", deleteFoo(informersv1alpha1.DeletedFoo{FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: "default/example-foo"}}), high},

		{"Deployment added", add(ours), both},
		{"Deployment of the initial list", func(f *fixture) { f.addDeployment(ours, true) }, none},
		{"not controlled", add(another), both}, // A Foo may have created it, and lost it before it was seen.
		{"earlier Foo", add(newDeploymentFor(newFoo(withUID("earlier-uid")))), both},
		{"not controlled, of another name", add(newDeploymentFor(newFoo(), superseded, notControlled)), none},
		{"Deployment changed", update(ours, ours8), high},
		{"status of the Deployment changed", update(ours, newDeploymentFor(newFoo(), available, v8)), none}, // It is enqueued later.
		{"Deployment resynced", update(ours, ours), none},
		{"not controlled, changed", update(another, another8), none},
		{"released", update(ours, another8), both},
		{"adopted", update(another, ours8), both},
		{"adopted under another name", update(newDeploymentFor(newFoo(), superseded, notControlled), newDeploymentFor(newFoo(), superseded, v8)),
			high},
		{"released under another name", update(newDeploymentFor(newFoo(), superseded), newDeploymentFor(newFoo(), superseded, notControlled, v8)),
			high},
		{"deleted", remove(ours), both},
		{"not controlled, deleted", remove(another), both},
		{"superseded deleted", remove(newDeploymentFor(newFoo(), superseded)), high},
		{"tombstone", removeTombstone(ours), both},
		{"tombstone without object", removeTombstone(nil), both},
		{"deleted in another namespace", remove(newDeploymentFor(newFoo(), withNamespace("other"))), none},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // The clock stands still, so that no retry is due.
				f := newFixture(t, newFoo(), waiting)
				keys := []cache.ObjectName{objectRef, cache.MetaObjectToName(waiting)}
				for _, key := range keys {
					f.workqueue.AddRateLimited(key)
				}
				f.workqueue.AddLowPriority(cache.ObjectName{}) // What is handed out before it has high priority.
				f.logger = ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(4)))
				test.handle(f)
				verifyLoggedNames(t, f.logger)

				names := map[string][]string{}
				for priority := "high"; f.workqueue.Len() > 0; {
					key, _ := f.workqueue.Get()
					if key == (cache.ObjectName{}) {
						priority = "low"
						continue
					}
					names[priority] = append(names[priority], key.Name)
				}
				for _, key := range keys {
					if f.workqueue.NumRequeues(key) == 0 {
						names["reset"] = append(names["reset"], key.Name)
					}
				}
				var got []string
				for list, names := range names {
					slices.Sort(names) // An index has no order, nor has a map.
					got = append(got, list+": "+strings.Join(names, " "))
				}
				slices.Sort(got)
				if got := strings.Join(got, ", "); got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
			})
		})
	}
}

// verifyLoggedNames verifies that each Foo and Deployment is logged in the form of Kubernetes, so that a key can be followed as JSON, too.
func verifyLoggedNames(t *testing.T, logger klog.Logger) {
	t.Helper()
	for _, line := range logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
		values := slices.Concat(line.WithKVList, line.ParameterKVList)
		for i := 0; i < len(values); i += 2 {
			name := slices.Contains([]any{"foo", "deployment", "object", "current"}, values[i])
			if _, ok := values[i+1].(klog.ObjectRef); name && !ok {
				t.Errorf("%q has %s = %T, want a klog.ObjectRef", line.Message, values[i], values[i+1])
			}
		}
	}
}

// A change does not wait until an initial list or a resync of many Foos has been synced.
func TestChangeAmongMany(t *testing.T) {
	for name, handle := range map[string]func(*fixture, *samplev1alpha1.Foo){
		"initial list": func(f *fixture, foo *samplev1alpha1.Foo) { f.addFoo(foo, true) },
		"resync":       func(f *fixture, foo *samplev1alpha1.Foo) { f.updateFoo(foo, foo) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			for i := range 10_000 {
				handle(f, newFoo(withName(fmt.Sprintf("foo-%d", i))))
			}
			f.updateFoo(newFoo(), newFoo(withGeneration(2)))
			if next, _ := f.workqueue.Get(); next != objectRef {
				t.Errorf("the first of %d keys is %s, want the Foo that has changed", f.workqueue.Len()+1, next)
			}
		})
	}
}

// However often the status of a Deployment changes, there is one sync per statusDelay.
func TestStatusDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newFoo())
		update := func() {
			f.updateDeployment(newDeploymentFor(newFoo()), newDeploymentFor(newFoo(), available, withResourceVersion("8")))
		}
		update()
		advance(statusDelay - 1)
		update()
		for i, after := range []time.Duration{0, 1, time.Hour} {
			advance(after)
			synctest.Wait()
			if got, want := f.workqueue.Len(), min(i, 1); got != want {
				t.Errorf("%d keys are queued, want %d", got, want)
			}
		}
	})
}

func TestProcessNextWorkItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newFoo())
		f.responses[getDeployment] = returning(newDeploymentFor(newFoo(), notControlled))
		panics, _ := testutil.GetCounterMetricValue(metrics.SyncPanics)
		for i, step := range []struct {
			name    string
			create  response
			result  string
			delay   time.Duration
			log     string
			retries int // of the workqueue
		}{
			{"transient error", unavailable, "error", 5 * time.Millisecond, noLeader, 1},
			{"name conflict", exists, "stalled", takenNameDelay, "", 0},
			{"conflict", conflict, "conflict", 5 * time.Millisecond, "", 1},
			{"gone", notFound, "conflict", 10 * time.Millisecond, "", 2},
			{"namespace being deleted", terminating, "conflict", 20 * time.Millisecond, "", 3},
			{"panic", func(clienttesting.Action) (runtime.Object, error) { panic("a bug") }, "error", 40 * time.Millisecond, "a bug", 4},
			{"stale cache", nil, "stale", retryDelay, "", 4},
			{"lost Lease", failing(fmt.Errorf("request not sent: %w", election.ErrNotLeading)), "not_leading", retryDelay, "", 4},
			// If the write is rejected or undone, the Foo is queued again at the end of the write pause, which doubles.
			{"rejected", webhook, "stalled", time.Second, "", 0},
			{"transient error once it is rejected", unavailable, "error", 5 * time.Millisecond, noLeader, 1},
			{"success", nil, "success", 0, "", 0},
			{"undone 1 s later", nil, "stalled", time.Second, "", 0},
		} {
			advance(time.Second) // The last update of the status was longer ago than the pause after it.
			synctest.Wait()
			f.responses[createDeployment] = step.create
			f.foosIndexer.Bookmark(strconv.Itoa(i))
			if step.name == "stale cache" {
				f.consistencyStore.WroteAt(objectRef, fooResource, strconv.Itoa(i+1))
			}
			f.workqueue.Add(objectRef)
			syncs, _ := testutil.GetCounterMetricValue(metrics.Syncs.WithLabelValues(step.result))
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(4)))
			if !f.processNextWorkItem(klog.NewContext(t.Context(), logger)) {
				t.Fatal("processNextWorkItem() = false")
			}
			verifyLoggedNames(t, logger)
			log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			counted, err := testutil.GetCounterMetricValue(metrics.Syncs.WithLabelValues(step.result))
			if err != nil || counted-syncs != 1 || !strings.Contains(log, fmt.Sprintf("result=%q", step.result)) {
				t.Errorf("%s: log = %s, want the result %q, counted once, not %v times (%v)", step.name, log, step.result, counted-syncs, err)
			}
			if isError := strings.Contains(log, "Error syncing Foo"); isError != (step.log != "") || !strings.Contains(log, step.log) {
				t.Errorf("%s: log = %s, want the error %q", step.name, log, step.log)
			}
			if got := f.workqueue.NumRequeues(objectRef); got != step.retries {
				t.Errorf("%s: NumRequeues() = %d, want %d", step.name, got, step.retries)
			}
			if step.delay == 0 {
				continue
			}
			advance(step.delay - time.Nanosecond)
			synctest.Wait()
			if f.workqueue.Len() != 0 {
				t.Errorf("%s: queued again before %s", step.name, step.delay)
			}
			advance(time.Nanosecond)
			synctest.Wait()
			if f.workqueue.Len() != 1 { // The next step would wait for it forever.
				t.Fatalf("%s: not queued again after %s", step.name, step.delay)
			}
		}
		if got, err := testutil.GetCounterMetricValue(metrics.SyncPanics); err != nil || got-panics != 1 {
			t.Errorf("%v panics were counted (%v), want 1", got-panics, err)
		}
	})
}

func TestRunDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newFoo(), newFoo(withName("second-foo"), withUID("second-uid")), newFoo(withName("third-foo"), withUID("third-uid")))
		creating, proceed := make(chan struct{}, 3), make(chan struct{})
		f.responses[createDeployment] = func(clienttesting.Action) (runtime.Object, error) {
			creating <- struct{}{}
			<-proceed
			return nil, nil
		}
		stop, returned := f.run(t)
		<-creating
		stop()
		synctest.Wait()
		if len(returned) > 0 {
			t.Fatalf("Run() = %v while a sync is running", <-returned)
		}
		close(proceed)
		must(t, <-returned)
		if got := f.takeRequests(); !strings.HasPrefix(got[len(got)-1], "update foos/status") {
			t.Errorf("requests = %q, want the running sync to finish", got)
		}
		if len(creating) > 0 {
			t.Error("another sync was started after ctx was done")
		}
	})
}

// hangingClient is a client whose requests hang until they are cancelled.
type hangingClient struct {
	control.Client[*appsv1.Deployment]
}

func (hangingClient) Create(ctx context.Context, _ *appsv1.Deployment, _ metav1.CreateOptions) (*appsv1.Deployment, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestRunShutdownTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // The bubble's clock is fake: it advances when all wait.
		f := newFixtureWithoutController(t, newFoo())
		f.newController(t)
		f.shutdownTimeout = time.Minute
		f.deployments = control.NewOwned(f.control, "Deployment", appsv1.Resource("deployments"),
			f.kubeInformers.Apps().V1().Deployments().Informer().GetStore(), func(string) hangingClient { return hangingClient{} })
		stop, returned := f.run(t)
		advance(time.Hour)
		start := time.Now()
		stop()
		verifyError(t, <-returned, "1m0s")
		if got := time.Since(start); got != time.Minute {
			t.Errorf("Run() returned after %s, want the timeout", got)
		}
	})
}

func TestRunWithoutSyncedCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newFoo())
		f.workqueue.Add(objectRef)
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, stop)
		must(t, f.Run(ctx, 1)) // The informers are not running.
		f.verifyRequests(t)
	})
}

func TestRunWithRunningInformers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixtureWithoutController(t, newFoo(), newFoo(withName("panicking-foo"), withUID("panicking-uid"), withDeploymentName("panicking")))
		f.fakeRecorder = nil // Events go to the API server.
		f.kubeInformers.Apps().V1().Deployments().Informer()
		f.sampleInformers.Samplecontroller().V1alpha1().Foos().Informer()
		f.responses["create deployments panicking"] = func(clienttesting.Action) (runtime.Object, error) { panic("a bug") }
		stop, returned := f.run(t)
		advance(time.Minute)
		f.verifyReady(t, isProgressing) // The only worker has survived the panics.
		if got := f.takeRequests(); !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "create events ") }) {
			t.Errorf("requests = %q, want an event", got)
		}
		f.edit(t, newDeployment(newFoo(), defaultImage), available, withResourceVersion("8"))
		advance(time.Minute)
		f.verifyReady(t, isAvailable)
		stop()
		must(t, <-returned)
	})
}

// TestClassicAPI uses what tests of the classic sample-controller use.
func TestClassicAPI(t *testing.T) {
	foo := newFoo()
	f := newFixtureWithoutController(t, foo)
	_, ctx := ktesting.NewTestContext(t)
	fooInformer := f.sampleInformers.Samplecontroller().V1alpha1().Foos()
	c := NewController(ctx, f.kubeClient, f.sampleClient, f.kubeInformers.Apps().V1().Deployments(), fooInformer)
	t.Cleanup(c.eventBroadcaster.Shutdown)
	c.recorder = record.NewFakeRecorder(10)
	must(t, fooInformer.Informer().GetIndexer().Add(foo))
	must(t, c.syncHandler(ctx, cache.MetaObjectToName(foo)))
	f.verifyRequests(t, createDeployment, updateStatus)
	if got, want := f.deployment(t, "example-deployment"), newDeployment(foo, defaultImage); !equality.Semantic.DeepEqual(got.Spec, want.Spec) {
		t.Errorf("created %v, want %v", got.Spec, want.Spec)
	}
	c.handleObject(newDeployment(foo, defaultImage))
	c.workqueue.ShutDown()
	if !c.processNextWorkItem(ctx) || c.processNextWorkItem(ctx) {
		t.Error("processNextWorkItem() does not return whether there was an item")
	}
}

func TestTrim(t *testing.T) {
	full := func(object metav1.Object) {
		object.SetAnnotations(map[string]string{"note": "value"})
		object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
	}
	withoutManagedFields := func(object metav1.Object) { object.SetManagedFields(nil) }
	anotherKind := func(object metav1.Object) { object.GetOwnerReferences()[0].Kind = "Bar" }
	metadataOf := func(d *appsv1.Deployment) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name, UID: d.UID,
			ResourceVersion: d.ResourceVersion, Generation: d.Generation, OwnerReferences: d.OwnerReferences}}
	}
	for name, test := range map[string]struct{ obj, want any }{
		"Deployment of a Foo": {newDeploymentFor(newFoo(), available, full), newDeploymentFor(newFoo(), available, full, withoutManagedFields)},
		"not controlled":      {newDeploymentFor(newFoo(), available, full, notControlled), metadataOf(newDeploymentFor(newFoo(), notControlled))},
		"another controller":  {newDeploymentFor(newFoo(), available, full, anotherKind), metadataOf(newDeploymentFor(newFoo(), anotherKind))},
		"Foo":                 {newFoo(full), newFoo(full, withoutManagedFields)},
	} {
		if got := trimmed(t, test.obj); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: trim() = %v, want %v", name, got, test.want)
		}
	}
}

func init() { simulation.Flags() }

// TestSimulation runs the program in simulated clusters, with faults: see docs/reference/testing.md.
func TestSimulation(t *testing.T) {
	simulation.Test(t, func(ctx context.Context, config *rest.Config) error {
		o, err := options.Parse([]string{
			"-leader-elect", "-leader-elect-resource-namespace=default", "-resync-period=" + simulation.ResyncPeriod.String(),
		}, os.Stderr)
		if err != nil {
			return err
		}
		return run(ctx, config, o)
	})
}

// BenchmarkNoOpSync measures what a resync costs for each Foo in its steady state.
func BenchmarkNoOpSync(b *testing.B) {
	deployment := newDeploymentFor(newFoo(), available)
	f := newFixture(b, newFoo(observing(deployment)), deployment)
	b.ReportAllocs()
	for b.Loop() {
		must(b, f.syncHandler(b.Context(), objectRef))
	}
	if requests := f.takeRequests(); len(requests) > 0 {
		b.Fatalf("requests = %q", requests)
	}
}

type (
	objects   = []runtime.Object
	responses = map[string]response

	// option changes a Foo or a Deployment.
	option func(metav1.Object)
	// response is the API server's to a request. Without an object or an error, the fake client responds.
	response func(clienttesting.Action) (runtime.Object, error)
)

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
	deployment := newDeployment(foo, defaultImage)
	deployment.UID, deployment.ResourceVersion, deployment.Generation = types.UID(deployment.Name+"-uid"), "7", 1
	for _, option := range options {
		option(deployment)
	}
	return deployment
}

func withNamespace(name string) option    { return func(o metav1.Object) { o.SetNamespace(name) } }
func withName(name string) option         { return func(o metav1.Object) { o.SetName(name) } }
func withUID(uid types.UID) option        { return func(o metav1.Object) { o.SetUID(uid) } }
func withGeneration(i int64) option       { return func(o metav1.Object) { o.SetGeneration(i) } }
func withResourceVersion(v string) option { return func(o metav1.Object) { o.SetResourceVersion(v) } }
func withReplicas(replicas int32) option  { return func(o metav1.Object) { *replicasOf(o) = &replicas } }
func withoutReplicas(o metav1.Object)     { *replicasOf(o) = nil }
func withoutLabels(o metav1.Object)       { o.SetLabels(nil) }
func notControlled(o metav1.Object)       { o.SetOwnerReferences(nil) }

func replicasOf(object metav1.Object) **int32 {
	if foo, ok := object.(*samplev1alpha1.Foo); ok {
		return &foo.Spec.Replicas
	}
	return &object.(*appsv1.Deployment).Spec.Replicas
}

func withDeploymentName(name string) option {
	return func(object metav1.Object) { object.(*samplev1alpha1.Foo).Spec.DeploymentName = name }
}

func withImage(image string) option {
	return func(object metav1.Object) { object.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Image = image }
}

func withContainerName(name string) option {
	return func(object metav1.Object) { object.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Name = name }
}

func deleting(object metav1.Object) {
	object.SetDeletionTimestamp(&transitionTime)
	object.SetFinalizers([]string{metav1.FinalizerDeleteDependents})
}

// available gives a Deployment the status of one whose desired replicas are all available.
func available(object metav1.Object) {
	deployment := object.(*appsv1.Deployment)
	replicas := *deployment.Spec.Replicas
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: replicas, UpdatedReplicas: replicas, AvailableReplicas: replicas,
	}
}

// observing gives a Foo the status that reports a Deployment.
func observing(deployment *appsv1.Deployment) option {
	return func(object metav1.Object) {
		foo := object.(*samplev1alpha1.Foo)
		foo.Status = foostatus.New(foo, deployment, "", "")
	}
}

func failing(err error) response {
	return func(clienttesting.Action) (runtime.Object, error) { return nil, err }
}

func returning(object runtime.Object) response {
	return func(clienttesting.Action) (runtime.Object, error) { return object, nil }
}

var (
	unavailable = failing(apierrors.NewServiceUnavailable(noLeader))
	exists      = failing(apierrors.NewAlreadyExists(deploymentResource, "example-deployment"))
	notFound    = failing(apierrors.NewNotFound(deploymentResource, "example-deployment"))
	conflict    = failing(apierrors.NewConflict(deploymentResource, "example-deployment", errors.New("has been modified")))
	webhook     = failing(&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusConflict, Message: denied}})
	forbidden   = failing(apierrors.NewForbidden(deploymentResource, "example-deployment", errors.New("RBAC: not allowed")))
)

// terminating is the response to a creation in a namespace that is being deleted.
func terminating(clienttesting.Action) (runtime.Object, error) {
	err := apierrors.NewForbidden(deploymentResource, "example-deployment", errors.New("namespace is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return nil, err
}

// mutating is an admission webhook that changes what is created.
func mutating(options ...option) response {
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
	kubeInformers   kubeinformers.SharedInformerFactory
	sampleInformers informers.SharedInformerFactory
	foosIndexer     cache.Indexer
	fakeRecorder    *record.FakeRecorder

	lock sync.Mutex
	// requests are those to both clients in their order, as "verb resource[/subresource] name", with the patch or the preconditions.
	requests  []string
	responses responses
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
		kubeClient:   kubefake.NewClientset(),
		sampleClient: fake.NewSimpleClientset(), // NewClientset guesses the plurals of kinds, and does not guess all of them right.
		fakeRecorder: record.NewFakeRecorder(100),
		responses:    responses{},
	}
	for _, object := range objects {
		if foo, ok := object.(*samplev1alpha1.Foo); ok {
			must(t, f.sampleClient.Tracker().Create(foosGVR, foo, foo.Namespace))
		} else {
			must(t, f.kubeClient.Tracker().Add(object))
		}
	}
	f.kubeClient.PrependReactor("*", "*", f.react)
	f.sampleClient.PrependReactor("*", "*", f.react)
	f.kubeInformers = kubeinformers.NewSharedInformerFactoryWithOptions(f.kubeClient, 0, kubeinformers.WithTransform(trim))
	f.sampleInformers = informers.NewSharedInformerFactoryWithOptions(f.sampleClient, 0, informers.WithTransform(trim))
	return f
}

func (f *fixture) newController(t testing.TB) {
	ctx := klog.NewContext(t.Context(), klog.Logger{}) // A benchmark must not measure the log.
	f.Controller = NewController(ctx, f.kubeClient, f.sampleClient,
		f.kubeInformers.Apps().V1().Deployments(), f.sampleInformers.Samplecontroller().V1alpha1().Foos())
	f.foosIndexer = f.sampleInformers.Samplecontroller().V1alpha1().Foos().Informer().GetIndexer()
	t.Cleanup(f.eventBroadcaster.Shutdown)
	t.Cleanup(f.workqueue.ShutDown)
	if f.fakeRecorder != nil {
		f.recorder = f.fakeRecorder
	}
}

// run runs the informers and the controller until stop is called. What Run returns is in returned.
func (f *fixture) run(t *testing.T) (stop context.CancelFunc, returned chan error) {
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(f.kubeInformers.Shutdown)
	t.Cleanup(f.sampleInformers.Shutdown)
	f.kubeInformers.StartWithContext(ctx)
	f.sampleInformers.StartWithContext(ctx)
	synctest.Wait() // The caches have synced.
	f.takeRequests()
	if f.Controller == nil {
		f.newController(t)
	}
	returned = make(chan error, 1)
	go func() { returned <- f.Run(ctx, 1) }()
	return stop, returned
}

func (f *fixture) react(action clienttesting.Action) (bool, runtime.Object, error) {
	resource := strings.TrimSuffix(action.GetResource().Resource+"/"+action.GetSubresource(), "/")
	request, details := action.GetVerb()+" "+resource+" ", ""
	switch action := action.(type) {
	case clienttesting.CreateAction: // An update is one as well.
		request += action.GetObject().(metav1.Object).GetName()
	case clienttesting.PatchAction:
		request, details = request+action.GetName(), " "+string(action.GetPatch())
	case clienttesting.DeleteAction:
		preconditions := action.GetDeleteOptions().Preconditions
		request, details = request+action.GetName(), fmt.Sprintf(" %s %s", *preconditions.UID, *preconditions.ResourceVersion)
	case clienttesting.GetAction:
		request += action.GetName()
	}
	f.lock.Lock()
	f.requests = append(f.requests, request+details)
	respond := f.responses[request]
	f.lock.Unlock()
	if respond != nil {
		object, err := respond(action)
		return object != nil || err != nil, object, err
	}
	return false, nil, nil
}

// respond sets the response to a request while the controller runs.
func (f *fixture) respond(request string, response response) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.responses[request] = response
}

// fillCaches makes the caches have what the fake clients have.
func (f *fixture) fillCaches(t testing.TB) {
	t.Helper()
	deployments, err := f.kubeClient.AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	foos, err := f.sampleClient.SamplecontrollerV1alpha1().Foos("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	deploymentsIndexer := f.kubeInformers.Apps().V1().Deployments().Informer().GetIndexer()
	for indexer, list := range map[cache.Indexer]runtime.Object{deploymentsIndexer: deployments, f.foosIndexer: foos} {
		items, err := meta.ExtractList(list)
		must(t, err)
		var cached []any
		for _, item := range items {
			cached = append(cached, trimmed(t, item))
		}
		must(t, indexer.Replace(cached, "8")) // Not older than any object.
	}
	f.takeRequests()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func trimmed(t testing.TB, object any) any {
	t.Helper()
	object, err := trim(object)
	must(t, err)
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

// verifyRequests and verifyEvents compare what there was since they were last called.
func (f *fixture) verifyRequests(t *testing.T, want ...string) {
	t.Helper()
	if got := f.takeRequests(); !slices.Equal(got, want) {
		t.Errorf("requests = %q, want %q", got, want)
	}
}

func (f *fixture) verifyEvents(t *testing.T, want string) {
	t.Helper()
	var events []string
	for len(f.fakeRecorder.Events) > 0 {
		events = append(events, <-f.fakeRecorder.Events)
	}
	if got := strings.Join(events, ", "); got != want {
		t.Errorf("events = %q, want %q", got, want)
	}
}

// advance advances the fake clock of a synctest bubble. No test outside of a bubble calls it.
func advance(duration time.Duration) { time.Sleep(duration) } // The clock of the bubble is fake: no time passes.

// verifyEqual compares what the JSON of an object has.
func verifyEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	if difference := diff.Diff(want, got); difference != "" {
		t.Errorf("%s: - want, + got\n%s", what, difference)
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
	must(t, err)
	return object.(*appsv1.Deployment)
}

func (f *fixture) foo(t *testing.T) *samplev1alpha1.Foo {
	t.Helper()
	object, err := f.sampleClient.Tracker().Get(foosGVR, objectRef.Namespace, objectRef.Name)
	must(t, err)
	return object.(*samplev1alpha1.Foo)
}

// edit changes a Deployment as another client does.
func (f *fixture) edit(t *testing.T, deployment *appsv1.Deployment, options ...option) {
	t.Helper()
	edited := f.deployment(t, deployment.Name).DeepCopy()
	for _, option := range options {
		option(edited)
	}
	must(t, f.kubeClient.Tracker().Update(deploymentsGVR, edited, edited.Namespace))
}
