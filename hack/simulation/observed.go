// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Connect returns an observed connection of a client.
func (c Cluster) Connect(client string, o Observer) *Connection {
	return newConnection(c.server, client, o)
}

var _ http.RoundTripper = &Connection{}

// Forever is longer than any cluster lives.
const Forever = 1000 * time.Hour

// ExpireWatches makes all clients list anew, as if the API server did not have the old events any more.
func (c Cluster) ExpireWatches() {
	c.server.lock.Lock()
	defer c.server.lock.Unlock()
	c.server.compacted = c.server.resourceVersion
}

// Observe calls a function for each write that is committed.
func (c Cluster) Observe(committed func(resource string, eventType watch.EventType, o *object)) {
	c.server.lock.Lock()
	defer c.server.lock.Unlock()
	c.server.committed = append(c.server.committed, func(change change) {
		committed(change.request.Resource, change.eventType, change.new)
	})
}

// Objects returns the objects of a resource. They must not be changed.
func (c Cluster) Objects(resource string) []*object { return c.server.snapshot(resource) }

// Create creates an object as a user.
func (c Cluster) Create(resource string, o *object) error {
	return c.server.write(user, "create", resource, o, o)
}

// Patch applies a merge patch to a Foo, or a strategic merge patch to another object, as a user.
func (c Cluster) Patch(resource string, name types.NamespacedName, patch string) error {
	if !json.Valid([]byte(patch)) {
		return apierrors.NewBadRequest("the patch is not JSON")
	}
	return c.server.write(user, "patch", resource, &metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, json.RawMessage(patch))
}

// Delete deletes an object as a user, as kubectl does.
func (c Cluster) Delete(resource string, name types.NamespacedName) error {
	return c.server.write(user, "delete", resource, &metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
}

// Clear removes all objects at once.
func (c Cluster) Clear() {
	c.server.lock.Lock()
	defer c.server.lock.Unlock()
	for resource := range resources {
		for _, o := range sorted(c.server.objects[resource], "") {
			r := &Request{client: user, Verb: "delete", Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()}
			c.server.commit(watch.Deleted, r, o, o.DeepCopy(), false)
		}
	}
}
