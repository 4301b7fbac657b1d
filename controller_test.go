// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/diff"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"k8s.io/sample-controller/hack/simulation"
	"k8s.io/sample-controller/hack/simulation/foos"
	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/control"
	"k8s.io/sample-controller/pkg/election"
	"k8s.io/sample-controller/pkg/foostatus"
	"k8s.io/sample-controller/pkg/generated/clientset/versioned/fake"
	informers "k8s.io/sample-controller/pkg/generated/informers/externalversions"
	informersv1alpha1 "k8s.io/sample-controller/pkg/generated/informers/externalversions/samplecontroller/v1alpha1"
	listers "k8s.io/sample-controller/pkg/generated/listers/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/metrics"
	"k8s.io/sample-controller/pkg/options"
)

// Requests, errors, events and Ready conditions, as verifyReady has them, of most tests.
const (
	createDeployment = "create deployments example-deployment"
	getDeployment    = "get deployments example-deployment"
	patchDeployment  = "patch deployments example-deployment"
	patchReplicas    = patchDeployment + ` {"metadata":{"resourceVersion":"7"},"spec":{"replicas":2}}`
	deleteDeployment = "delete deployments example-deployment"
	pruneDeployment  = deleteDeployment + " example-deployment-uid 7"
	patchNew         = "patch deployments new-deployment"
	getFoo           = "get foos example-foo"
	updateStatus     = "update foos/status example-foo"

	defaultImage = options.DefaultImage
	denied       = `admission webhook "policy.example.com" denied the request`
	notManaged   = "already exists and is not managed by Foo"
	noLeader     = "etcd has no leader"
	modified     = "has been modified"
	tooSoon      = "not written again so soon after the last write"
	replicas9    = "spec.replicas: desired 2, found 9"

	syncedEvent     = "Normal Synced Foo synced successfully"
	conflictEvent   = `Warning ErrResourceExists Resource "example-deployment" ` + notManaged
	deniedEvent     = "Warning DeploymentRejected " + denied
	overriddenEvent = "Warning DeploymentOverridden "
	failedEvent     = "Warning DeploymentFailed "
	prunedEvent     = `Normal Pruned Deployment "example-deployment" deleted: it is superseded by "new-deployment"`

	isAvailable   = "True DeploymentAvailable"
	isFailed      = "False DeploymentFailed"
	isProgressing = "False DeploymentProgressing"
	isConflicting = "False ErrResourceExists (stalled)"
	isRejected    = "False DeploymentRejected (stalled)"
	isOverridden  = "False DeploymentOverridden (stalled)"
)

var (
	objectRef          = cache.NewObjectName("default", "example-foo")
	deploymentResource = appsv1.Resource("deployments")
	foosGVR            = schema.GroupVersion(samplev1alpha1.GroupVersion).WithResource("foos")
	deploymentsGVR     = appsv1.SchemeGroupVersion.WithResource("deployments")
)

// outcome is what a sync reports.
type outcome struct {
	ready  string // the Ready condition, as verifyReady has it
	events string
	err    string // a part of it
}

// What most syncs report.
var (
	unchanged   = outcome{isAvailable, "", ""}
	synced      = outcome{isAvailable, syncedEvent, ""}
	rollingOut  = outcome{isProgressing, syncedEvent, ""}
	waiting     = outcome{isProgressing, "", ""}
	failed      = outcome{isFailed, failedEvent + noLeader, noLeader}
	rejected    = outcome{isRejected, deniedEvent, denied}
	conflicting = outcome{isConflicting, conflictEvent, notManaged}
)

// overridden returns the outcome of a sync that finds differences which it may not correct yet.
func overridden(differences string) outcome {
	return outcome{isOverridden, overriddenEvent + differences, differences}
}

func TestSyncHandler(t *testing.T) {
	ours, drifted := newDeploymentFor(newFoo(), available), newDeploymentFor(newFoo(), available, withReplicas(9))
	scaled := newDeploymentFor(newFoo(), withReplicas(7), available)
	observed, progressing := observing(ours), observing(newDeploymentFor(newFoo()))
	replacement := newDeploymentFor(newFoo(renamed), available)
	replacement9 := newDeploymentFor(newFoo(renamed), withReplicas(9), available)
	replaced, replacing := observing(replacement), observing(newDeploymentFor(newFoo(renamed)))
	other := newDeploymentFor(newFoo(withDeploymentName("other-deployment")), available)
	ofAnother := newDeploymentFor(newFoo(withUID("earlier-uid")), available)
	const (
		createNew        = "create deployments new-deployment"
		getNew           = "get deployments new-deployment"
		patchNewReplicas = patchNew + ` {"metadata":{"resourceVersion":"7"},"spec":{"replicas":2}}`
		pruneOther       = "delete deployments other-deployment other-deployment-uid 7"
		prunedOther      = `Normal Pruned Deployment "other-deployment" deleted: it is superseded by "new-deployment"`
		imageOverridden  = `spec.template.spec.containers[nginx].image: desired "nginx:latest", found "mirror/nginx"`
	)
	createAndReport, prune := []string{createDeployment, updateStatus}, []string{getFoo, getNew, pruneDeployment}
	superseding := objects{newFoo(renamed, replaced), ours, replacement}
	tampered := newDeploymentFor(newFoo(), available, withImage("apache"))
	tampered.Labels = map[string]string{"app": "other", "controller": "example-foo", "team": "a"}
	delete(tampered.Spec.Template.Labels, "app")
	otherContainer := newDeploymentFor(newFoo(), available)
	otherContainer.Spec.Template.Spec.Containers[0].Name = "other"
	twoReplicas := samplev1alpha1.FooStatus{
		ObservedGeneration: 1, Replicas: 2, AvailableReplicas: 2, Selector: "app=nginx,controller=example-foo",
	}

	for _, test := range []struct {
		name      string
		given     objects
		responses responses
		requests  []string
		want      outcome
		// If they are given, the status, without conditions, and the Deployment afterwards.
		status     samplev1alpha1.FooStatus
		deployment *appsv1.Deployment
	}{
		// A Foo that is gone or being deleted.
		{name: "Foo gone"},
		{name: "Foo being deleted", given: objects{newFoo(observed, deleting), drifted}, want: unchanged},

		// No Deployment of the name.
		{name: "new Foo", given: objects{newFoo()}, requests: createAndReport, want: rollingOut,
			deployment: newDeployment(newFoo(), defaultImage)},
		{name: "Deployment deleted, Foo too", given: objects{newFoo(observed)}, responses: responses{getFoo: notFound},
			requests: []string{getFoo}, want: outcome{ready: isAvailable, err: consistency.ErrStale.Error()}},
		{name: "Deployment deleted, creation fails", given: objects{newFoo(observed)},
			responses: responses{createDeployment: unavailable}, requests: []string{getFoo, createDeployment, updateStatus},
			want: failed, status: samplev1alpha1.FooStatus{ObservedGeneration: 1}},
		{name: "lost Lease", given: objects{newFoo()}, responses: responses{createDeployment: failing(election.ErrNotLeading)},
			requests: []string{createDeployment}, want: outcome{err: election.ErrNotLeading.Error()}},
		{name: "exists but is not in the cache", given: objects{newFoo()}, responses: responses{createDeployment: exists, getDeployment: returning(ours)},
			requests: []string{createDeployment, getDeployment}, want: outcome{err: consistency.ErrStale.Error()}},
		{name: "another exists but is not in the cache", given: objects{newFoo()},
			responses: responses{createDeployment: exists, getDeployment: returning(ofAnother)},
			requests:  []string{createDeployment, getDeployment, updateStatus}, want: conflicting},
		{name: "exists, gone by the live read", given: objects{newFoo()}, responses: responses{createDeployment: exists, getDeployment: notFound},
			requests: []string{createDeployment, getDeployment, updateStatus}, want: outcome{ready: isProgressing, err: "not found"}},
		{name: "rejected with a long message", given: objects{newFoo()}, requests: createAndReport,
			responses: responses{createDeployment: failing(apierrors.NewBadRequest(strings.Repeat("x", 40000)))},
			want:      outcome{isRejected, "Warning DeploymentRejected " + strings.Repeat("x", 1024), "xxx"}},

		// A Deployment that the Foo does not control.
		{name: "name conflict", given: objects{newFoo(), newDeploymentFor(newFoo(), notControlled)},
			requests: []string{updateStatus}, want: conflicting},
		{name: "name conflict, UID of the Foo, but another kind", given: objects{newFoo(), newDeploymentFor(newFoo(), ofAnotherKind)},
			requests: []string{updateStatus}, want: conflicting},
		{name: "earlier Foo of the name", given: objects{newFoo(), ofAnother}, requests: []string{updateStatus}, want: conflicting},

		// Drift.
		{name: "steady state", given: objects{newFoo(observed), ours}, want: unchanged},
		{name: "scaled by others", given: objects{newFoo(withoutReplicas, observing(scaled)), scaled}, want: unchanged},
		{name: "Foo scaled", given: objects{newFoo(observed, withGeneration(2), withReplicas(5)), ours},
			requests: []string{strings.ReplaceAll(patchReplicas, "2", "5"), updateStatus}, want: rollingOut},
		{name: "drift of replicas", given: objects{newFoo(observed), drifted}, requests: []string{patchReplicas}, want: synced},
		{name: "drift of image and labels", given: objects{newFoo(observed), tampered},
			requests: []string{patchDeployment + ` {"metadata":{"labels":{"app":"nginx"},"resourceVersion":"7"},"spec":{"template":{` +
				`"metadata":{"labels":{"app":"nginx"}},"spec":{"$setElementOrder/containers":[{"name":"nginx"}],` +
				`"containers":[{"image":"nginx:latest","name":"nginx"}]}}}}`},
			want: synced},
		{name: "container missing", given: objects{newFoo(observed), otherContainer},
			requests: []string{patchDeployment + ` {"metadata":{"resourceVersion":"7"},"spec":{"template":{"spec":{` +
				`"$setElementOrder/containers":[{"name":"other"},{"name":"nginx"}],` +
				`"containers":[{"image":"nginx:latest","name":"nginx","resources":{}}]}}}}`},
			want: synced},
		{name: "stale cache", given: objects{newFoo(observed), drifted}, responses: responses{patchDeployment: conflict},
			requests: []string{patchReplicas}, want: outcome{ready: isAvailable, err: modified}},
		{name: "patch rejected", given: objects{newFoo(observed), drifted}, responses: responses{patchDeployment: webhook},
			requests: []string{patchReplicas, updateStatus}, want: rejected},
		{name: "Deployment being deleted", given: objects{newFoo(observed), newDeploymentFor(newFoo(), withReplicas(9), deleting)},
			requests: []string{updateStatus}, want: waiting},
		{name: "admission changes the image", given: objects{newFoo()},
			responses: responses{createDeployment: mutating(withImage("mirror/nginx"))}, requests: createAndReport,
			want: overridden(imageOverridden)},

		// Renames.
		{name: "renamed", given: objects{newFoo(observed, withGeneration(2), renamed), ours},
			requests: []string{getFoo, createNew, updateStatus}, want: rollingOut},
		{name: "renamed, replacement not available",
			given: objects{newFoo(renamed, replacing), ours, newDeploymentFor(newFoo(renamed))}, want: waiting},
		{name: "renamed, replacement available", given: superseding, requests: prune, want: outcome{isAvailable, prunedEvent, ""}},
		{name: "renamed, no replicas desired", given: objects{newFoo(withGeneration(2), renamed, withReplicas(0)), ours},
			requests: []string{createNew, getFoo, getNew, pruneDeployment, updateStatus},
			want:     outcome{ready: isAvailable, events: prunedEvent + ", " + syncedEvent}},
		{name: "renamed without replicas", given: objects{newFoo(renamed, withoutReplicas), scaled},
			requests: []string{createNew, updateStatus}, want: rollingOut,
			deployment: newDeploymentFor(newFoo(renamed), withReplicas(7))},
		{name: "renamed twice, name conflict", // The status reports the one that serves.
			given: objects{newFoo(renamed), ours, newDeploymentFor(newFoo(withDeploymentName("between"))),
				newDeploymentFor(newFoo(renamed), notControlled)},
			requests: []string{updateStatus}, status: twoReplicas,
			want: outcome{isConflicting, strings.ReplaceAll(conflictEvent, "example", "new"), notManaged}},
		{name: "renamed, rejected", given: objects{newFoo(renamed), ours}, responses: responses{createNew: webhook},
			requests: []string{createNew, updateStatus}, want: rejected, status: twoReplicas},
		{name: "renamed, replacement released by the live read", given: objects{newFoo(renamed), ours, replacement},
			responses: responses{getNew: returning(newDeploymentFor(newFoo(renamed), notControlled))},
			requests:  []string{getFoo, getNew}, want: outcome{err: consistency.ErrStale.Error()}},
		{name: "superseded gone", given: superseding, responses: responses{deleteDeployment: notFound}, requests: prune,
			want: outcome{ready: isAvailable, err: `deployments.apps "example-deployment" not found`}},
		{name: "prune of one of two rejected", given: objects{newFoo(renamed, replaced), ours, other, replacement},
			responses: responses{deleteDeployment: webhook}, // It comes first.
			requests:  []string{getFoo, getNew, pruneDeployment, getFoo, getNew, pruneOther, updateStatus},
			want:      outcome{isRejected, prunedOther + ", " + deniedEvent, denied}, status: twoReplicas},
		{name: "prune while the new one is overridden", given: objects{newFoo(renamed, replaced), ours, replacement9},
			responses: responses{patchNew: returning(replacement9)},
			requests:  []string{patchNewReplicas, getFoo, getNew, pruneDeployment, updateStatus},
			want:      outcome{isOverridden, prunedEvent + ", " + overriddenEvent + replicas9, replicas9}},
		{name: "prune while patches of the new one fail", given: objects{newFoo(renamed, replaced), ours, replacement9},
			responses: responses{patchNew: unavailable},
			requests:  []string{patchNewReplicas, getFoo, getNew, pruneDeployment, updateStatus},
			want:      outcome{isFailed, prunedEvent + ", " + failedEvent + noLeader, noLeader}},
		{name: "prune of one of two fails", given: objects{newFoo(renamed, replaced), ours, other, replacement},
			responses: responses{deleteDeployment: unavailable}, // It comes first.
			requests:  []string{getFoo, getNew, pruneDeployment, getFoo, getNew, pruneOther, updateStatus},
			want:      outcome{isFailed, prunedOther + ", " + failedEvent + noLeader, noLeader}},

		// The status.
		{name: "rolled out", given: objects{newFoo(progressing), ours}, requests: []string{updateStatus}, want: unchanged},
		{name: "generation without a change", given: objects{newFoo(observed, withGeneration(2), withoutReplicas), ours},
			requests: []string{updateStatus}, want: synced},
	} {
		// In a bubble the clock stands still, and a write pause does not end.
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, test.given...)
				f.responses = test.responses
				f.verifySync(t, test.requests, test.want)
				if want := test.status; want.ObservedGeneration > 0 {
					got := f.foo(t).Status
					got.Conditions = nil
					verifyEqual(t, "status", got, want)
				}
				if want := test.deployment; want != nil {
					verifyEqual(t, "spec of the Deployment", f.deployment(t, want.Name).Spec, want.Spec)
				}
				// Nothing is left to do for now.
				if test.responses == nil || test.want.err == "" || test.want.ready == isOverridden {
					f.fillCaches(t)
					f.verifySync(t, nil, outcome{test.want.ready, "", test.want.err})
				}
			})
		})
	}
}

// What syncs do while write pauses begin and end.
func TestSuccessiveSyncs(t *testing.T) {
	const heldAfter = 2 * time.Second // as in package control
	const isMissing = `Deployment "example-deployment": desired, found nothing`
	patch5, ours := strings.ReplaceAll(patchReplicas, "2", "5"), newDeploymentFor(newFoo(), available)
	scale, scaleMore := edit(ours, withReplicas(9)), edit(ours, withReplicas(10))
	deniedAgain := failing(apierrors.NewBadRequest("denied again"))
	stillOverridden, stillMissing := outcome{isOverridden, "", replicas9}, outcome{isOverridden, "", isMissing}
	type step struct {
		name     string
		after    time.Duration
		change   change // by others, before the sync
		requests []string
		want     outcome
	}
	for name, test := range map[string]struct {
		given     objects
		responses responses
		steps     []step
	}{
		"another controller sets replicas": {objects{newFoo(observing(ours)), ours}, nil, []step{
			{"drift", 0, scale, []string{patchReplicas}, synced},
			{"overridden", 0, scale, []string{updateStatus}, overridden(replicas9)},
			{"overridden with another value", 0, scaleMore, nil, stillOverridden},
			{"end of the pause", time.Second - 1, nobody, nil, stillOverridden},
			{"after the pause", 1, nobody, []string{patchReplicas}, stillOverridden},
			{"overridden again", 0, scale, nil, stillOverridden},
			{"end of the second pause", 2*time.Second - 1, nobody, nil, stillOverridden},
			{"after the second pause", 1, nobody, []string{patchReplicas}, stillOverridden},
			{"overridden soon after the third pause", 4*time.Second + heldAfter - 1, scale, []string{patchReplicas}, stillOverridden},
			{"not overridden", 8*time.Second + heldAfter - 1, nobody, nil, stillOverridden},
			{"held for longer than the pause", 1, nobody, []string{updateStatus}, unchanged},
			{"drift later", time.Minute, scale, []string{patchReplicas}, synced},
			{"overridden later", 0, scale, []string{updateStatus}, overridden(replicas9)},
			{"after the first pause", time.Second, nobody, []string{patchReplicas}, stillOverridden},
			{"being deleted", 0, edit(ours, deleting), nil, stillOverridden},
		}},
		"others delete the Deployment": {objects{newFoo(observing(ours))}, nil, []step{
			{"created", 0, nobody, []string{getFoo, createDeployment, updateStatus}, rollingOut},
			{"deleted", 500 * time.Millisecond, remove, []string{updateStatus}, overridden(isMissing)},
			{"end of the pause", 500*time.Millisecond - 1, nobody, nil, stillMissing},
			{"after the pause", 1, nobody, []string{getFoo, createDeployment, updateStatus}, stillMissing},
			{"deleted again", 2*time.Second - 1, remove, []string{updateStatus}, stillMissing},
			{"after the second pause", 1, nobody, []string{getFoo, createDeployment}, outcome{isOverridden, "", tooSoon}},
		}},
		"rejected": {objects{newFoo(observing(ours), withGeneration(2), withReplicas(5)), ours},
			responses{patchDeployment: webhook, updateStatus: unavailable}, []step{
				{"status cannot be written", 0, nobody, []string{patch5, updateStatus}, outcome{isAvailable, "", noLeader}},
				{"status can be written", 500 * time.Millisecond, responding(updateStatus, nil), []string{updateStatus}, rejected},
				{"rejected with another message", 500 * time.Millisecond, responding(patchDeployment, deniedAgain),
					[]string{patch5, updateStatus}, outcome{isRejected, "", "denied again"}}, // There is one event for a reason.
				{"deleted by others", 0, remove, // The successor has a pause of its own. Its event does not wait for the status.
					[]string{getFoo, createDeployment}, outcome{isRejected, syncedEvent, tooSoon}},
			}},
		"new Foo": {objects{newFoo()}, responses{updateStatus: conflict}, []step{
			{"status cannot be written", 0, nobody, []string{createDeployment, updateStatus, getFoo}, outcome{"", "", modified}},
			{"status can be written", time.Second, responding(updateStatus, nil), []string{updateStatus}, rollingOut},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, test.given...)
				f.responses = test.responses
				for _, step := range test.steps {
					advance(step.after)
					step.change(t, f)
					f.fillCaches(t)
					t.Log(step.name) // It precedes what the next line prints.
					f.verifySync(t, step.requests, step.want)
				}
			})
		})
	}
}

// What others do costs a bounded number of requests, however often and for how long they do it.
func TestRequestsInAnHour(t *testing.T) {
	ours := newDeploymentFor(newFoo(), withGeneration(math.MaxInt64), available, withGeneration(1)) // Each change is observed at once.
	drifted := newDeploymentFor(newFoo(), available, withReplicas(9))
	superseding := objects{newFoo(renamed, observing(ours)), ours, newDeploymentFor(newFoo(renamed), available)}
	resync := func(t *testing.T, f *fixture) { f.updateFoo(f.foo(t), f.foo(t)) }
	removeLabels := func(t *testing.T, f *fixture) {
		edit(ours, withoutLabels, withResourceVersion(time.Now().String()))(t, f)
	}
	// The first change is corrected at once, the second has to wait, and the third takes it back.
	changeAndRestore := func(t *testing.T, f *fixture) {
		for _, replicas := range []int32{9, 9, 2} {
			edit(ours, withReplicas(replicas), withGeneration(time.Now().UnixNano()), withResourceVersion(time.Now().String()))(t, f)
			advance(200 * time.Millisecond)
		}
	}
	overrides, rejects := responses{patchDeployment: returning(drifted)}, responses{patchDeployment: webhook}
	bothFail := responses{patchDeployment: returning(drifted), updateStatus: unavailable}
	for name, test := range map[string]struct {
		given     objects
		responses responses
		change    change // every 30 s
		want      map[string]int
	}{
		"overridden by admission": {objects{newFoo(observing(ours)), drifted}, overrides, resync,
			map[string]int{"patch deployments": 13, "update foos/status": 1}},
		"overridden by admission, status cannot be written": {objects{newFoo(), drifted}, bothFail, resync,
			map[string]int{"patch deployments": 13, "update foos/status": 117}},
		"creation rejected": {objects{newFoo()}, responses{createDeployment: webhook}, resync,
			map[string]int{"get foos": 12, "create deployments": 13, "update foos/status": 1}},
		"patch rejected, with many events": {objects{newFoo(observing(ours)), drifted}, rejects, removeLabels,
			map[string]int{"patch deployments": 13, "update foos/status": 1}},
		"prune rejected": {superseding, responses{deleteDeployment: webhook}, resync,
			map[string]int{"get foos": 13, "get deployments": 13, "delete deployments": 13, "update foos/status": 1}},
		"name conflict": {objects{newFoo(), newDeploymentFor(newFoo(), notControlled)}, nil, resync,
			map[string]int{"update foos/status": 1}},
		"corrections half a minute apart, no resync": {objects{newFoo(observing(ours)), ours}, nil, removeLabels,
			map[string]int{"patch deployments": 120}},
		"changed and restored by others": {objects{newFoo(observing(ours)), ours}, nil, changeAndRestore,
			map[string]int{"patch deployments": 120, "update foos/status": 240}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, test.given...)
			f.responses = test.responses
			f.run(t)
			for range 120 {
				synctest.Wait() // The caches have what was written.
				test.change(t, f)
				advance(30 * time.Second)
			}
			got := map[string]int{}
			for _, request := range f.takeRequests() {
				got[strings.Join(strings.Fields(request)[:2], " ")]++
			}
			verifyEqual(t, name, got, test.want)
		})
	}
}

// The end of a write pause is not lost if something else fails, whose retries have become rare.
func TestEndOfPauseAmongErrors(t *testing.T) {
	ours, replacement := newDeploymentFor(newFoo(), available), newDeploymentFor(newFoo(renamed), available)
	for fails, given := range map[string]objects{
		deleteDeployment: {newFoo(renamed, observing(ours)), ours, replacement},
		updateStatus:     {newFoo(renamed), replacement},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, given...)
			f.responses[fails] = unavailable
			f.run(t)
			advance(time.Hour)
			f.takeRequests()
			for i := range 2 { // The second correction has to wait until the pause after the first one is over.
				edit(replacement, withoutLabels, withResourceVersion(strconv.Itoa(100+i)))(t, f)
				synctest.Wait()
			}
			advance(time.Second)
			synctest.Wait()
			if got := f.countRequests(patchNew); got != 2 {
				t.Errorf("%s fails: %d corrections within the first pause, want 2", fails, got)
			}
		})
	}
}

// A deletion that was rejected is retried after its own pause, though the one of the current Deployment is longer.
func TestEarlierOfTwoPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := newDeploymentFor(newFoo(), available)
		mirrored := newDeploymentFor(newFoo(renamed), withImage("mirror/nginx"))
		f := newFixture(t, newFoo(renamed, observing(ours)), ours, mirrored)
		f.responses[patchNew], f.responses[deleteDeployment] = returning(mirrored), webhook
		f.workqueue.Add(objectRef)
		f.processNextWorkItem(t.Context()) // The pause of the current Deployment is 1 s.
		f.fillCaches(t)
		f.processNextWorkItem(t.Context()) // It is 2 s.
		edit(mirrored, available)(t, f)    // The rollout is over: it can take over.
		f.fillCaches(t)
		f.workqueue.Add(objectRef)
		f.processNextWorkItem(t.Context())
		rejectedAt := time.Now()
		f.processNextWorkItem(t.Context())
		f.verifyReady(t, isOverridden)
		if after, got := time.Since(rejectedAt), f.countRequests(deleteDeployment); after != time.Second || got != 2 {
			t.Errorf("%d deletions after %s, want one more after 1s", got, after)
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
	f.consistencyStore.WroteAt(objectRef, samplev1alpha1.Resource("foos"), "11")
	f.foosLister = listers.NewFooLister(racingIndexer{f.foosIndexer, func() { f.foosIndexer.Bookmark("11") }})
	f.verifySync(t, nil, outcome{err: consistency.ErrStale.Error()})
}

func TestHandlers(t *testing.T) {
	waiting := newFoo(withName("waiting-foo"), withUID("waiting-uid")) // Its spec.deploymentName is the same.
	v8, superseded := withResourceVersion("8"), withName("superseded")
	ours, ours8, changed8 := newDeploymentFor(newFoo()), newDeploymentFor(newFoo(), v8, withoutLabels), newDeploymentFor(newFoo(), v8, withGeneration(2))
	old8, anotherOld := newDeploymentFor(newFoo(), superseded, v8), newDeploymentFor(newFoo(), superseded, notControlled)
	available8, elsewhere := newDeploymentFor(newFoo(), available, v8), newDeploymentFor(newFoo(), withNamespace("other"))
	foo, another, another8 := newFoo(), newDeploymentFor(newFoo(), notControlled), newDeploymentFor(newFoo(), notControlled, v8)
	simple, simple8 := newDeploymentFor(newFoo(), withGeneration(0)), newDeploymentFor(newFoo(), v8, withGeneration(0))
	type deleted = cache.DeletedObject[*appsv1.Deployment]
	unknown := &cache.DeletedFinalStateUnknown{Key: "default/example-deployment"}
	fooTombstone := informersv1alpha1.DeletedFoo{FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: "default/example-foo"}}

	// What is enqueued, by priority, and the Foos whose retry delay is reset.
	const (
		kind      = "Deployment"
		low       = "low: example-foo"
		high      = "high: example-foo"
		highReset = "high: example-foo, reset: example-foo"
		both      = "high: example-foo, high: waiting-foo"
	)
	for _, test := range []struct {
		name   string
		handle func(*Controller)
		want   string
	}{
		{"Foo added", func(c *Controller) { c.addFoo(foo, false) }, high},
		{"Foo of the initial list", func(c *Controller) { c.addFoo(foo, true) }, low},
		{"Foo resynced", func(c *Controller) { c.updateFoo(foo, foo) }, low},
		{"spec changed", func(c *Controller) { c.updateFoo(foo, newFoo(v8, withGeneration(2))) }, highReset},
		{"spec changed, the generation came back", func(c *Controller) { c.updateFoo(foo, newFoo(v8, withReplicas(5))) }, highReset},
		{"status changed", func(c *Controller) { c.updateFoo(foo, newFoo(v8, observing(ours))) }, ""},
		{"Foo replaced", func(c *Controller) { c.updateFoo(foo, newFoo(v8, withUID("new-uid"))) }, highReset},
		{"Foo being deleted", func(c *Controller) { c.updateFoo(foo, newFoo(v8, withGeneration(2), deleting)) }, highReset},
		{"Foo deleted", func(c *Controller) { c.enqueueFoo(informersv1alpha1.DeletedFoo{OptionalObj: foo}, "deleted") }, high},
		{"tombstone of a Foo", func(c *Controller) { c.enqueueFoo(fooTombstone, "deleted") }, high},
		{"Deployment added", func(c *Controller) { c.addOwned(kind, ours, false) }, both},
		{"Deployment of the initial list", func(c *Controller) { c.addOwned(kind, ours, true) }, ""},
		// A Foo may have created it, and lost it before it was seen.
		{"not controlled", func(c *Controller) { c.addOwned(kind, another, false) }, both},
		{"earlier Foo", func(c *Controller) { c.addOwned(kind, newDeploymentFor(newFoo(withUID("earlier-uid"))), false) }, both},
		{"not controlled, of another name", func(c *Controller) { c.addOwned(kind, anotherOld, false) }, ""},
		{"labels changed", func(c *Controller) { c.updateOwned(kind, ours, ours8) }, high},
		{"Deployment changed", func(c *Controller) { c.updateOwned(kind, ours, changed8) }, high},
		{"object without generation changed", func(c *Controller) { c.updateOwned("ConfigMap", simple, simple8) }, high},
		{"rollout", func(c *Controller) { c.updateOwned(kind, ours, available8) }, ""}, // See TestStatusDelay.
		{"Deployment resynced", func(c *Controller) { c.updateOwned(kind, ours, ours) }, ""},
		{"not controlled, changed", func(c *Controller) { c.updateOwned(kind, another, another8) }, ""},
		{"released", func(c *Controller) { c.updateOwned(kind, ours, another8) }, both},
		{"adopted", func(c *Controller) { c.updateOwned(kind, another, ours8) }, both},
		{"adopted under another name", func(c *Controller) { c.updateOwned(kind, anotherOld, old8) }, high},
		{"released under another name", func(c *Controller) { c.updateOwned(kind, old8, anotherOld) }, high},
		{"deleted", func(c *Controller) { deleteOwned(c, kind, deleted{OptionalObj: ours}) }, both},
		{"not controlled, deleted", func(c *Controller) { deleteOwned(c, kind, deleted{OptionalObj: another}) }, both},
		{"superseded deleted", func(c *Controller) { deleteOwned(c, kind, deleted{OptionalObj: old8}) }, high},
		{"tombstone", func(c *Controller) { deleteOwned(c, kind, deleted{OptionalObj: ours, FinalStateUnknown: unknown}) }, both},
		{"tombstone without object", func(c *Controller) { deleteOwned(c, kind, deleted{FinalStateUnknown: unknown}) }, both},
		{"in another namespace", func(c *Controller) { deleteOwned(c, kind, deleted{OptionalObj: elsewhere}) }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // The clock stands still, so that no retry is due.
				f := newFixture(t, newFoo(), waiting)
				f.workqueue.AddRateLimited(objectRef)
				f.workqueue.AddLowPriority(cache.ObjectName{}) // What is handed out before it has high priority.
				f.logger, _ = newLogger(t)
				test.handle(f.Controller)
				var got []string
				for priority := "high: "; f.workqueue.Len() > 0; {
					key, _ := f.workqueue.Get()
					if key == (cache.ObjectName{}) {
						priority = "low: "
						continue
					}
					got = append(got, priority+key.Name)
				}
				if f.workqueue.NumRequeues(objectRef) == 0 {
					got = append(got, "reset: "+objectRef.Name)
				}
				slices.Sort(got) // An index has no order.
				if got := strings.Join(got, ", "); got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
			})
		})
	}
}

// A change does not wait until an initial list and a resync of many Foos have been synced.
func TestChangeAmongMany(t *testing.T) {
	f := newFixture(t)
	for i := range 5_000 {
		f.addFoo(newFoo(withName(fmt.Sprintf("foo-%d", i))), true)
		f.updateFoo(newFoo(withName(fmt.Sprintf("other-%d", i))), newFoo(withName(fmt.Sprintf("other-%d", i))))
	}
	f.updateFoo(newFoo(), newFoo(withGeneration(2)))
	if next, _ := f.workqueue.Get(); next != objectRef {
		t.Errorf("the first of %d keys is %s, want the Foo that has changed", f.workqueue.Len()+1, next)
	}
}

// However often the status of a Deployment changes, there is one sync per statusDelay.
func TestStatusDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newFoo())
		before, after := newDeploymentFor(newFoo()), newDeploymentFor(newFoo(), available, withResourceVersion("8"))
		f.updateOwned("Deployment", before, after)
		advance(statusDelay - 1)
		f.updateOwned("Deployment", before, after)
		synctest.Wait()
		verifyEqual(t, "keys before the delay is over", f.workqueue.Len(), 0)
		advance(1)
		synctest.Wait()
		verifyEqual(t, "keys after it", f.workqueue.Len(), 1)
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
			{"name conflict", exists, "stalled", time.Minute, "", 0},
			{"conflict", conflict, "conflict", 5 * time.Millisecond, "", 1},
			{"gone", notFound, "conflict", 10 * time.Millisecond, "", 2},
			{"namespace being deleted", terminating, "conflict", 20 * time.Millisecond, "", 3},
			{"panic", func(clienttesting.Action) (runtime.Object, error) { panic("a bug") }, "error", 40 * time.Millisecond, "a bug", 4},
			{"eleventh conflict in a row", conflict, "error", 5120 * time.Millisecond, modified, 11},
			{"stale cache", nil, "stale", time.Second, "", 11},
			{"lost Lease", failing(fmt.Errorf("request not sent: %w", election.ErrNotLeading)), "not_leading", time.Second, "", 11},
			// The status is retried next, and the error is not counted.
			{"status was just updated", unavailable, "paused", time.Second, "", 11},
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
			switch step.name {
			case "eleventh conflict in a row":
				for f.workqueue.NumRequeues(objectRef) < 10 {
					f.workqueue.AddRateLimited(objectRef)
				}
				advance(time.Minute)
			case "stale cache":
				f.consistencyStore.WroteAt(objectRef, samplev1alpha1.Resource("foos"), strconv.Itoa(i+1))
			case "status was just updated":
				_, _ = f.control.UpdateFooStatus(t.Context(), newFoo(), samplev1alpha1.FooStatus{Replicas: 1}) // Its pause begins.
			}
			f.workqueue.Add(objectRef)
			syncs := metrics.Syncs.WithLabelValues(step.result)
			before, _ := testutil.GetCounterMetricValue(syncs)
			logger, buffer := newLogger(t)
			if !f.processNextWorkItem(klog.NewContext(t.Context(), logger)) {
				t.Fatal("processNextWorkItem() = false")
			}
			log := buffer.String()
			after, err := testutil.GetCounterMetricValue(syncs)
			if err != nil || after != before+1 || !strings.Contains(log, fmt.Sprintf("result=%q", step.result)) {
				t.Errorf("%s: log = %s, want the result %q, counted once, not %v times (%v)", step.name, log, step.result, after-before, err)
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

// slowClient is a client whose creations take some time, unless they are cancelled.
type slowClient struct {
	control.Client[*appsv1.Deployment]
	takes time.Duration
}

func (c slowClient) Create(ctx context.Context, d *appsv1.Deployment, _ metav1.CreateOptions) (*appsv1.Deployment, error) {
	select {
	case <-time.After(c.takes):
		return d, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Run returns when the running sync has finished, or is cancelled after shutdownTimeout. No other sync is started.
func TestRunDrains(t *testing.T) {
	for _, test := range []struct {
		takes, want time.Duration
		err         string
	}{{59 * time.Second, 59 * time.Second, ""}, {time.Hour, time.Minute, "1m0s"}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, newFoo(), newFoo(withName("second-foo"), withUID("second-uid")))
			f.shutdownTimeout = time.Minute
			f.deployments = control.NewOwned(f.control, "Deployment", appsv1.Resource("deployments"),
				f.kubeInformers.Apps().V1().Deployments().Informer().GetStore(), func(string) slowClient { return slowClient{takes: test.takes} })
			stop := f.run(t)
			synctest.Wait() // One of the Foos is being synced.
			start := time.Now()
			verifyError(t, stop(), test.err)
			if got := time.Since(start); got != test.want {
				t.Errorf("Run() returned after %s, want %s", got, test.want)
			}
			if got := f.countRequests("update foos/status"); got != 1 {
				t.Errorf("%d Foos were synced, want 1", got)
			}
		})
	}
}

// A Foo that is created again does not inherit the retry delay of the deleted one.
func TestDeletedFooIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newFoo())
		f.run(t)
		synctest.Wait() // The Foo has been synced.
		f.workqueue.AddRateLimited(objectRef)
		must(t, f.sampleClient.Tracker().Delete(foosGVR, "default", "example-foo"))
		synctest.Wait()
		verifyEqual(t, "number of failures", f.workqueue.NumRequeues(objectRef), 0)
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
		f := newFixture(t, newFoo(), newFoo(withName("panicking-foo"), withUID("panicking-uid"), withDeploymentName("panicking")))
		f.startInformers(t)
		f.fakeRecorder = nil // Events go to the API server.
		f.newController(t)
		f.image = "nginx:1.27"
		f.responses["create deployments panicking"] = func(clienttesting.Action) (runtime.Object, error) { panic("a bug") }
		f.run(t)
		advance(time.Minute)
		f.verifyReady(t, isProgressing) // The only worker has survived the panics.
		if f.countRequests("create events ") == 0 {
			t.Error("no event was sent to the API server")
		}
		created := f.deployment(t, "example-deployment")
		verifyEqual(t, "spec of the Deployment", created.Spec, newDeploymentFor(newFoo(), withImage("nginx:1.27")).Spec)
		edit(created, available, withResourceVersion("8"))(t, f)
		advance(time.Minute)
		f.verifyReady(t, isAvailable)
		// It is synced soon even if no event shows what becomes of a write.
		deployments := f.kubeInformers.Apps().V1().Deployments().Informer().GetIndexer()
		must(t, deployments.Delete(created))
		deployments.Bookmark("9") // It has reached the write.
		f.consistencyStore.WroteAt(objectRef, deploymentResource, "9")
		advance(10 * time.Second)
		if f.countRequests(getFoo) == 0 {
			t.Error("no sync has found that the Deployment is gone")
		}
	})
}

// TestClassicAPI uses what tests of the classic sample-controller use.
func TestClassicAPI(t *testing.T) {
	foo := newFoo()
	f := newFixture(t, foo)
	_, ctx := ktesting.NewTestContext(t)
	fooInformer := f.sampleInformers.Samplecontroller().V1alpha1().Foos()
	c := NewController(ctx, f.kubeClient, f.sampleClient, f.kubeInformers.Apps().V1().Deployments(), fooInformer)
	t.Cleanup(c.eventBroadcaster.Shutdown)
	c.recorder = record.NewFakeRecorder(10)
	must(t, fooInformer.Informer().GetIndexer().Add(foo))
	must(t, c.syncHandler(ctx, cache.MetaObjectToName(foo)))
	f.verifyRequests(t, createDeployment, updateStatus)
	c.handleObject(newDeployment(foo, defaultImage))
	c.workqueue.ShutDown()
	if !c.processNextWorkItem(ctx) || c.processNextWorkItem(ctx) {
		t.Error("processNextWorkItem() does not return whether there was an item")
	}
}

func TestTrim(t *testing.T) {
	managed := func(object metav1.Object) { object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}}) }
	annotated := func(object metav1.Object) { object.SetAnnotations(map[string]string{"note": "value"}) }
	onlyMetadata := func(object metav1.Object) {
		deployment := object.(*appsv1.Deployment)
		deployment.Labels, deployment.Spec, deployment.Status = nil, appsv1.DeploymentSpec{}, appsv1.DeploymentStatus{}
	}
	for name, test := range map[string]struct{ obj, want any }{
		"Deployment of a Foo": {newDeploymentFor(newFoo(), annotated, managed), newDeploymentFor(newFoo(), annotated)},
		"not controlled": {newDeploymentFor(newFoo(), available, annotated, managed, notControlled),
			newDeploymentFor(newFoo(), notControlled, onlyMetadata)},
		"Foo": {newFoo(annotated, managed), newFoo(annotated)},
	} {
		got, err := trim(test.obj)
		must(t, err)
		verifyEqual(t, name, got, test.want)
	}
}

func init() { simulation.Flags() }

// TestSimulation runs the program in simulated clusters, with faults: see docs/reference/testing.md.
func TestSimulation(t *testing.T) {
	simulation.Test(t, simulation.Config{
		Program: runSimulated, Resync: foos.ResyncPeriod,
		CRDs: []string{"artifacts/examples/crd.yaml"}, Examples: []string{"artifacts/examples/example-foo.yaml"},
		Strict: []simulation.Promise{simulation.OwnWrites, simulation.FreshWrites, simulation.FreshOwners, simulation.FreshSpec,
			simulation.Unseen, simulation.FreeWorkers, simulation.Forward},
		Own: foos.Promises, ByDesign: foos.DependsOnPath, Trials: foos.Trials,
		// new: leave out
		Viewer: `"open…" in make lab`,
		// new: end
	})
}

func runSimulated(ctx context.Context, config *rest.Config) error {
	o, err := options.Parse([]string{"-leader-elect", "-leader-elect-lease-duration=1m", "-leader-elect-renew-deadline=40s", // Few renewals.
		"-leader-elect-resource-namespace=default", "-resync-period=" + foos.ResyncPeriod.String()}, os.Stderr)
	if err != nil {
		return err
	}
	return run(ctx, config, o)
}

// BenchmarkNoOpSync measures what a resync costs for each Foo in its steady state.
func BenchmarkNoOpSync(b *testing.B) {
	deployment := newDeploymentFor(newFoo(), available)
	f := newFixture(b, newFoo(observing(deployment)), deployment)
	b.ReportAllocs()
	for b.Loop() {
		must(b, f.syncHandler(b.Context(), objectRef))
	}
}

type (
	objects   = []runtime.Object
	responses = map[string]response

	// option changes a Foo or a Deployment.
	option func(metav1.Object)
	// response is the API server's to a request. Without an object or an error, the fake client responds.
	response func(clienttesting.Action) (runtime.Object, error)
	// change is what others do between two syncs.
	change func(*testing.T, *fixture)
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
func ofAnotherKind(o metav1.Object)       { o.GetOwnerReferences()[0].Kind = "Bar" }

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

func renamed(object metav1.Object) { withDeploymentName("new-deployment")(object) }

func deleting(object metav1.Object) {
	object.SetDeletionTimestamp(new(metav1.Now()))
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
		foo.Status = foostatus.New(foo, foostatus.RolloutOf(deployment), "", "")
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
	conflict    = failing(apierrors.NewConflict(deploymentResource, "example-deployment", errors.New(modified)))
	webhook     = failing(&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusConflict, Message: denied}})
	// terminating is the response to a creation in a namespace that is being deleted.
	terminating = failing(&apierrors.StatusError{ErrStatus: metav1.Status{
		Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: "namespace is being terminated",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
	}})
)

// mutating is an admission webhook that changes what is created.
func mutating(options ...option) response {
	return func(action clienttesting.Action) (runtime.Object, error) {
		for _, option := range options {
			option(action.(clienttesting.CreateAction).GetObject().(metav1.Object))
		}
		return nil, nil
	}
}

func nobody(*testing.T, *fixture) {}

// edit changes a Deployment as another client does.
func edit(deployment *appsv1.Deployment, options ...option) change {
	return func(t *testing.T, f *fixture) {
		t.Helper()
		edited := f.deployment(t, deployment.Name).DeepCopy()
		for _, option := range options {
			option(edited)
		}
		must(t, f.kubeClient.Tracker().Update(deploymentsGVR, edited, edited.Namespace))
	}
}

func responding(request string, response response) change {
	return func(_ *testing.T, f *fixture) { f.responses[request] = response }
}

func remove(_ *testing.T, f *fixture) {
	_ = f.kubeClient.Tracker().Delete(deploymentsGVR, "default", "example-deployment") // If it exists.
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
	// requests to both clients, in order, are "verb resource[/subresource] name", with the patch or the preconditions.
	requests  []string
	responses responses
}

func newFixture(t testing.TB, objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{
		kubeClient:   kubefake.NewClientset(),
		sampleClient: fake.NewSimpleClientset(), // NewClientset does not guess the plurals of all kinds right.
		fakeRecorder: record.NewFakeRecorder(1000),
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
	f.newController(t)
	f.fillCaches(t)
	return f
}

func (f *fixture) newController(t testing.TB) {
	ctx := klog.NewContext(t.Context(), klog.Logger{}) // A benchmark must not measure the log.
	f.Controller = NewController(ctx, f.kubeClient, f.sampleClient,
		f.kubeInformers.Apps().V1().Deployments(), f.sampleInformers.Samplecontroller().V1alpha1().Foos())
	f.foosIndexer = f.sampleInformers.Samplecontroller().V1alpha1().Foos().Informer().GetIndexer()
	t.Cleanup(f.eventBroadcaster.Shutdown)
	t.Cleanup(f.workqueue.ShutDown)
	// In a bubble, a test that waits for a key that never comes ends after a day of its fake clock.
	timer := time.AfterFunc(24*time.Hour, f.workqueue.ShutDown)
	t.Cleanup(func() { timer.Stop() })
	if f.fakeRecorder != nil {
		f.recorder = f.fakeRecorder
	}
}

// startInformers replaces what the caches have by what the fake clients have, and goes on to do so.
func (f *fixture) startInformers(t *testing.T) {
	t.Cleanup(f.kubeInformers.Shutdown)
	t.Cleanup(f.sampleInformers.Shutdown)
	f.kubeInformers.StartWithContext(t.Context())
	f.sampleInformers.StartWithContext(t.Context())
	synctest.Wait() // The caches have synced.
	f.takeRequests()
}

// run starts the informers and the controller, until the end of the test or stop is called. It returns what Run returns.
func (f *fixture) run(t *testing.T) (stop func() error) {
	f.startInformers(t)
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan error, 1)
	go func() { returned <- f.Run(ctx, 1) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-returned
	})
	t.Cleanup(func() { _ = stop() })
	return stop
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

// fillCaches makes the caches have what the fake clients have.
func (f *fixture) fillCaches(t testing.TB) {
	t.Helper()
	deployments, err := f.kubeClient.AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	foos, err := f.sampleClient.SamplecontrollerV1alpha1().Foos("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	deploymentsIndexer := f.kubeInformers.Apps().V1().Deployments().Informer().GetIndexer()
	for indexer, list := range map[cache.Indexer]runtime.Object{deploymentsIndexer: deployments, f.foosIndexer: foos} {
		var cached []any
		must(t, meta.EachListItem(list, func(object runtime.Object) error {
			trimmed, err := trim(object)
			cached = append(cached, trimmed)
			return err
		}))
		must(t, indexer.Replace(cached, "8")) // Not older than any object.
	}
	f.takeRequests()
}

// newLogger returns a logger of each step of a key, and what it logs. Foos and Deployments have to be logged in the form of
// Kubernetes, so that a key can be followed as JSON, too.
func newLogger(t *testing.T) (klog.Logger, ktesting.Buffer) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(4)))
	log := logger.GetSink().(ktesting.Underlier).GetBuffer()
	t.Cleanup(func() {
		for _, line := range log.Data() {
			values := slices.Concat(line.WithKVList, line.ParameterKVList)
			for i := 0; i < len(values); i += 2 {
				name := slices.Contains([]any{"foo", "deployment", "object", "current"}, values[i])
				if _, ok := values[i+1].(klog.ObjectRef); name && !ok {
					t.Errorf("%q has %s = %T, want a klog.ObjectRef", line.Message, values[i], values[i+1])
				}
			}
		}
	})
	return logger, log
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// takeRequests returns the requests since it was last called.
func (f *fixture) takeRequests() []string {
	f.lock.Lock()
	defer f.lock.Unlock()
	requests := f.requests
	f.requests = nil
	return requests
}

// countRequests counts those that begin with a text, since takeRequests or countRequests was last called.
func (f *fixture) countRequests(prefix string) (count int) {
	for _, request := range f.takeRequests() {
		if strings.HasPrefix(request, prefix) {
			count++
		}
	}
	return count
}

// verifySync syncs the Foo, and compares what that requests and reports.
func (f *fixture) verifySync(t *testing.T, requests []string, want outcome) {
	t.Helper()
	logger, log := newLogger(t)
	verifyError(t, f.syncHandler(klog.NewContext(t.Context(), logger), objectRef), want.err)
	f.verifyRequests(t, requests...)
	f.verifyEvents(t, want.events)
	if want != (outcome{}) { // Otherwise the Foo is gone.
		f.verifyReady(t, want.ready)
	}
	if got, want := strings.Count(log.String(), "Foo is not ready"), strings.Count(want.events, "Warning"); got != want {
		t.Errorf("%d lines of the log say that the Foo is not ready, want %d, as there are events", got, want)
	}
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
	events := make([]string, len(f.fakeRecorder.Events))
	for i := range events {
		events[i] = <-f.fakeRecorder.Events
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
