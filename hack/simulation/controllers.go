// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	return newTransport(c.server, client, network{}).config()
}

// runControllers makes the Deployment controller and the garbage collector notice each change.
func (s *server) runControllers() {
	s.committed = append(s.committed, func(c change) {
		key := types.NamespacedName{Namespace: c.new.GetNamespace(), Name: c.new.GetName()}
		if c.request.resource == deployments && c.eventType != watch.Deleted {
			time.AfterFunc(rolloutDelay, func() { s.rollOut(key) })
		}
		if !isStatus(c) && c.request.resource != leases && c.request.resource != events {
			time.AfterFunc(collectDelay, s.collectGarbage)
		}
	})
}

func isStatus(c change) bool { return c.request.subresource == "status" }

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
	desired, _, _ := unstructured.NestedInt64(found.Object, "spec", "replicas")
	available, _, _ := unstructured.NestedInt64(found.Object, "status", "availableReplicas")
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
	_ = s.write(deploymentController, "update", deployments, updated, "status") // A conflict is followed by another change.
}

// podRejection returns what a rule responds to the creation of a Pod of a Deployment with, or nil.
func (s *server) podRejection(key types.NamespacedName) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.rejection(&request{client: deploymentController, verb: "create", resource: "pods", namespace: key.Namespace, name: key.Name})
}

// write makes a request for an object, and returns its error.
func (s *server) write(client, verb, resource string, o *object, subresource string) error {
	_, err := s.do(&request{
		client: client, sent: time.Now(), verb: verb, resource: resource, namespace: o.GetNamespace(), name: o.GetName(),
		subresource: subresource, body: encode(o.Object),
	})
	return err
}

// remove makes a request to delete an object.
func (s *server) remove(client, resource string, o *object, options metav1.DeleteOptions) error {
	_, err := s.do(&request{
		client: client, sent: time.Now(), verb: "delete", resource: resource, namespace: o.GetNamespace(), name: o.GetName(),
		body: encode(options),
	})
	return err
}

// dependent is an object with owner references.
type dependent struct {
	resource string
	*object
}

// collectGarbage deletes objects whose owners are absent or wait for that, and orphans those of Foos that are deleted with the
// propagation policy Orphan.
func (s *server) collectGarbage() {
	s.lock.Lock()
	owners := map[types.UID]*object{}
	for _, foo := range s.sorted(foos, "") {
		owners[foo.GetUID()] = foo
	}
	dependents := map[types.UID]int{}
	var garbage, orphans []dependent
	for _, resource := range slices.Sorted(maps.Keys(s.objects)) {
		for _, o := range s.sorted(resource, "") {
			for _, ref := range o.GetOwnerReferences() {
				owner := owners[ref.UID]
				dependents[ref.UID]++
				switch {
				case owner == nil, slices.Contains(owner.GetFinalizers(), metav1.FinalizerDeleteDependents):
					garbage = append(garbage, dependent{resource, o})
				case slices.Contains(owner.GetFinalizers(), metav1.FinalizerOrphanDependents):
					orphans = append(orphans, dependent{resource, o})
				}
			}
		}
	}
	stored := s.sorted(deployments, "")
	s.lock.Unlock()
	for _, d := range garbage {
		options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(d.GetUID()))}
		if slices.ContainsFunc(d.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return owners[ref.UID] != nil }) {
			options.PropagationPolicy = new(metav1.DeletePropagationForeground) // The owner waits for the ReplicaSets, too.
		}
		s.collected(s.remove(garbageCollector, d.resource, d.object, options))
	}
	for _, d := range orphans {
		orphan := d.DeepCopy()
		orphan.SetOwnerReferences(nil)
		s.collected(s.write(garbageCollector, "update", d.resource, orphan, ""))
	}
	for uid, owner := range owners {
		if owner.GetDeletionTimestamp() != nil && dependents[uid] == 0 {
			s.finalize(foos, owner)
		}
	}
	for _, deployment := range stored {
		if deployment.GetDeletionTimestamp() != nil {
			s.finalize(deployments, deployment) // There are no ReplicaSets.
		}
	}
}

// finalize removes the finalizers of the garbage collector from an object without dependents.
func (s *server) finalize(resource string, o *object) {
	finalizers := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(finalizer string) bool {
		return finalizer == metav1.FinalizerDeleteDependents || finalizer == metav1.FinalizerOrphanDependents
	})
	if len(finalizers) == len(o.GetFinalizers()) {
		return
	}
	released := o.DeepCopy()
	released.SetFinalizers(finalizers)
	s.collected(s.write(garbageCollector, "update", resource, released, ""))
}

// collected makes the garbage collector try again later if a request of it has failed.
func (s *server) collected(err error) {
	if err != nil {
		time.AfterFunc(time.Second, s.collectGarbage)
	}
}
