// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"net/http"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Request is a request for an object, for a list, or for a watch.
type Request struct {
	Verb, Resource, Subresource, Namespace, Name string
	Query                                        url.Values
	Body                                         []byte
}

// IsWrite reports whether the request changes an object.
func (r Request) IsWrite() bool { return (&request{verb: r.Verb}).isWrite() }

// GroupResource returns the resource with its API group.
func (r Request) GroupResource() schema.GroupResource {
	return (&request{resource: r.Resource}).groupResource()
}

// Fault is what happens to a request. The zero value does nothing.
type Fault struct {
	Response error         // The API server responds with it, and the request is not applied.
	Lost     bool          // The connection breaks after the request was applied.
	Delay    time.Duration // how much longer the request takes
}

// Observer observes a connection. Its methods may wait, so that what they are called for waits.
type Observer interface {
	// Request is called with a request that arrives. responded is called with the response: an object, a list, or nothing for a watch that
	// the API server accepts. An error that is no API status is that of a connection that breaks.
	Request(r Request) (f Fault, responded func(result *unstructured.Unstructured, err error))
	// Event is called before an event of a watch is sent, and Ended when a watch has ended.
	Event(resource string, eventType watch.EventType, o *unstructured.Unstructured)
	Ended(r Request)
}

// Connection is an observed connection of a client. It is a http.RoundTripper.
type Connection struct {
	*transport
	responses sync.Map // the function that is called with the response, by *request
}

// Connect returns a connection of a client.
func (c Cluster) Connect(client string, o Observer) *Connection {
	connection := &Connection{}
	exported := func(r *request) Request {
		return Request{r.verb, r.resource, r.subresource, r.namespace, r.name, r.query, r.body}
	}
	connection.transport = newTransport(c.server, client, network{
		fault: func(_ string, r *request) fault {
			f, responded := o.Request(exported(r))
			connection.responses.Store(r, responded)
			return fault{response: f.Response, lost: f.Lost, before: f.Delay}
		},
		responded: func(r *request, result *object, err error) {
			if responded, ok := connection.responses.LoadAndDelete(r); ok {
				responded.(func(*unstructured.Unstructured, error))(result, err)
			}
		},
		delivered: func(eventType watch.EventType, resource string, o2 *object) { o.Event(resource, eventType, o2) },
		ended:     func(r *request) { o.Ended(exported(r)) },
	})
	return connection
}

var _ http.RoundTripper = &Connection{}

// forever is longer than any cluster lives.
const forever = 1000 * time.Hour

// Break makes all requests of the connection fail from now on.
func (c *Connection) Break() { c.kill() }

// CutWatch ends the watches of a resource, and accepts none until Heal.
func (c *Connection) CutWatch(resource string) { c.cut(resource, forever) }

// HoldWatch holds the events of a resource until Heal.
func (c *Connection) HoldWatch(resource string) { c.hold(resource, forever) }

// Heal ends what CutWatch and HoldWatch have begun.
func (c *Connection) Heal() { c.reconnect() }

// ExpireWatches makes all clients list anew, as if the API server did not have the old events any more.
func (c Cluster) ExpireWatches() { c.server.expireWatches() }

// Observe calls a function for each write that is committed.
func (c Cluster) Observe(committed func(resource string, eventType watch.EventType, o *unstructured.Unstructured)) {
	c.server.lock.Lock()
	defer c.server.lock.Unlock()
	c.server.committed = append(c.server.committed, func(change change) {
		committed(change.request.resource, change.eventType, change.new)
	})
}

// Objects returns the objects of a resource. They must not be changed.
func (c Cluster) Objects(resource string) []*unstructured.Unstructured {
	c.server.lock.Lock()
	defer c.server.lock.Unlock()
	return c.server.sorted(resource, "")
}

// Create creates an object as a user.
func (c Cluster) Create(resource string, o *unstructured.Unstructured) error {
	return c.server.write(user, "create", resource, o, "")
}

// Patch applies a merge patch to a Foo, or a strategic merge patch to another object, as a user.
func (c Cluster) Patch(resource string, name types.NamespacedName, patch string) error {
	_, err := c.server.do(&request{client: user, sent: time.Now(), verb: "patch", resource: resource, namespace: name.Namespace,
		name: name.Name, body: []byte(patch)})
	return err
}

// Delete deletes an object as a user, as kubectl does.
func (c Cluster) Delete(resource string, name types.NamespacedName) error {
	found := c.server.get(resource, name)
	if found == nil {
		return apierrors.NewNotFound((&request{resource: resource}).groupResource(), name.Name)
	}
	return c.server.remove(user, resource, found, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
}

// Clear removes all objects at once.
func (c Cluster) Clear() {
	c.server.lock.Lock()
	defer c.server.lock.Unlock()
	for resource := range resources {
		for _, o := range c.server.sorted(resource, "") {
			r := &request{client: user, verb: "delete", resource: resource, namespace: o.GetNamespace(), name: o.GetName()}
			c.server.commit(watch.Deleted, r, o, o.DeepCopy(), false)
		}
	}
}
