// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Clients of the API server beside the instances of the controller.
const (
	deploymentController = "deployment-controller"
	garbageCollector     = "garbage-collector"
	user                 = "user"
	storage              = "an older CRD" // What it stores is not validated.
)

const (
	// rolloutDelay is how long the Deployment controller takes to observe a change, or to change the number of replicas by one.
	rolloutDelay = 80 * time.Millisecond
	// collectDelay is how long the garbage collector takes to notice a change.
	collectDelay = 200 * time.Millisecond
)

// Cluster is a simulated cluster for any clients, without faults.
type Cluster struct{ server *server }

// NewCluster returns a cluster that runs in the bubble of its caller. The watches of its clients must end before the bubble does.
func NewCluster() Cluster {
	s := newServer()
	s.runControllers()
	return Cluster{s}
}

// Config returns the configuration of a client's connection.
func (c Cluster) Config(client string) *rest.Config {
	return newConnection(c.server, client, unobserved{}).config()
}

// runControllers makes the Deployment controller and the garbage collector notice each change.
func (s *server) runControllers() {
	s.committed = append(s.committed, func(c change) {
		key := types.NamespacedName{Namespace: c.new.GetNamespace(), Name: c.new.GetName()}
		if c.request.Resource == deployments && c.eventType != watch.Deleted {
			time.AfterFunc(rolloutDelay, func() { s.rollOut(key) })
		}
		if !isStatus(c) && c.request.Resource != leases && c.request.Resource != events {
			time.AfterFunc(collectDelay, s.collectGarbage)
		}
	})
}

func isStatus(c change) bool { return c.request.Subresource == "status" }

// get returns an object, or nil if there is none.
func (s *server) get(resource string, key types.NamespacedName) *object {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.objects[resource][key]
}

// rollOut is a step of a rollout: one available replica more or less, and the observed generation.
func (s *server) rollOut(key types.NamespacedName) {
	found := s.get(deployments, key)
	if found == nil || found.GetDeletionTimestamp() != nil {
		return
	}
	desired, available := number(found, "spec", "replicas"), number(found, "status", "availableReplicas")
	status := map[string]any{"observedGeneration": found.GetGeneration()}
	if err := s.podRejection(key); err != nil {
		status["conditions"] = []any{map[string]any{
			"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": err.Error(),
		}}
		time.AfterFunc(time.Second, func() { s.rollOut(key) })
	} else {
		available += min(max(desired-available, -1), 1)
	}
	for _, field := range []string{"replicas", "updatedReplicas", "readyReplicas", "availableReplicas"} {
		status[field] = available
	}
	updated := found.DeepCopy()
	updated.Object["status"] = status
	_ = s.write(deploymentController, "update", deployments+"/status", updated, updated) // A conflict is followed by another change.
}

// podRejection returns what a rule responds to the creation of a Pod of a Deployment with, or nil.
func (s *server) podRejection(key types.NamespacedName) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.rejection(&Request{client: deploymentController, Verb: "create", Resource: "pods", Namespace: key.Namespace, Name: key.Name})
}

// write makes a request for an object, or for its subresource, and returns its error.
func (s *server) write(client, verb, resource string, o metav1.Object, body any) error {
	resource, subresource, _ := strings.Cut(resource, "/")
	_, err := s.do(&Request{
		client: client, sent: time.Now(), Verb: verb, Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName(),
		Subresource: subresource, Body: encode(body),
	})
	return err
}

// stored is an object with its resource.
type stored struct {
	resource string
	*object
}

// collectGarbage deletes objects whose owners are absent or wait for that, orphans those whose owners are deleted with the propagation
// policy Orphan, and releases owners that wait for dependents if there are none.
func (s *server) collectGarbage() {
	var all []stored
	s.lock.Lock()
	for _, resource := range slices.Sorted(maps.Keys(s.objects)) {
		for _, o := range sorted(s.objects[resource], "") {
			all = append(all, stored{resource, o})
		}
	}
	s.lock.Unlock()
	objects, dependents := map[types.UID]*object{}, map[types.UID]int{}
	for _, o := range all {
		objects[o.GetUID()] = o.object
		for _, ref := range o.GetOwnerReferences() {
			dependents[ref.UID]++
		}
	}
	failed := false
	for _, o := range all {
		var owners []*object
		for _, ref := range o.GetOwnerReferences() {
			owners = append(owners, objects[ref.UID]) // It is nil if the owner is absent.
		}
		failed = s.collect(o, owners, dependents[o.GetUID()]) != nil || failed
	}
	if failed {
		time.AfterFunc(time.Second, s.collectGarbage)
	}
}

// collect does what the garbage collector has to do about an object, if anything.
func (s *server) collect(o stored, owners []*object, dependents int) error {
	isPresent := func(owner *object) bool { return owner != nil }
	waits := func(finalizer string) func(*object) bool {
		return func(owner *object) bool { return owner != nil && slices.Contains(owner.GetFinalizers(), finalizer) }
	}
	finalizers := slices.DeleteFunc(o.GetFinalizers(), func(finalizer string) bool {
		return finalizer == metav1.FinalizerDeleteDependents || finalizer == metav1.FinalizerOrphanDependents
	})
	switch {
	case o.GetDeletionTimestamp() != nil && dependents == 0 && len(finalizers) < len(o.GetFinalizers()): // There are no ReplicaSets.
		released := o.DeepCopy()
		released.SetFinalizers(finalizers)
		return s.write(garbageCollector, "update", o.resource, released, released)
	case slices.Contains(owners, nil), slices.ContainsFunc(owners, waits(metav1.FinalizerDeleteDependents)):
		options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(o.GetUID()))}
		if slices.ContainsFunc(owners, isPresent) {
			options.PropagationPolicy = new(metav1.DeletePropagationForeground) // The owner waits for the ReplicaSets, too.
		}
		return s.write(garbageCollector, "delete", o.resource, o.object, options)
	case slices.ContainsFunc(owners, waits(metav1.FinalizerOrphanDependents)):
		orphan := o.DeepCopy()
		orphan.SetOwnerReferences(nil)
		return s.write(garbageCollector, "update", o.resource, orphan, orphan)
	}
	return nil
}
