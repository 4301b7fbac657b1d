// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Client makes requests without a network: at once, and without faults but those of rules. Users and the built-in controllers do.
type Client struct {
	server *Server
	name   string
}

// Client returns the client of that name, which is its field manager as well.
func (s *Server) Client(name string) Client { return Client{s, name} }

// Get returns a copy of an object, or nil if there is none. No rule rejects it.
func (c Client) Get(resource schema.GroupResource, namespace, name string) *Object {
	c.server.lock.Lock()
	defer c.server.lock.Unlock()
	if found := c.server.objects[resource][types.NamespacedName{Namespace: namespace, Name: name}]; found != nil {
		return found.DeepCopy()
	}
	return nil
}

// Create creates an object, which is not changed, in the namespace that it says, and returns a copy of what was created.
func (c Client) Create(o *Object) (*Object, error) { return c.write("create", "", o, o.Object) }

// Update replaces an object, or its subresource. It returns a copy of what is there then.
func (c Client) Update(o *Object, subresource string) (*Object, error) {
	return c.write("update", subresource, o, o.Object)
}

// Delete deletes an object.
func (c Client) Delete(o *Object, options metav1.DeleteOptions) error {
	_, err := c.write("delete", "", o, options)
	return err
}

// Clear deletes all objects but the namespaces at once, whatever finalizers they have.
func (c Client) Clear() {
	c.server.lock.Lock()
	defer c.server.lock.Unlock()
	for _, resource := range c.server.Resources() {
		if resource.GroupResource() == namespaces {
			continue
		}
		for _, o := range sorted(c.server.objects[resource.GroupResource()], "") {
			c.server.commit(Change{Type: watch.Deleted, Old: o, New: o.DeepCopy(), Request: &Request{
				Client: c.name, Manager: c.name, Verb: "delete", Resource: resource.GroupResource(), Namespace: o.GetNamespace(), Name: o.GetName(),
				Query: url.Values{}, Sent: time.Now(),
			}})
		}
	}
}

// Store creates an object, or replaces it if it has a resourceVersion, without validation, as if an older API server had stored it.
func (c Client) Store(o *Object) error {
	r := &Request{Verb: "create", unvalidated: true}
	if o.GetResourceVersion() != "" {
		r.Verb = "update"
	}
	_, err := c.send(r, o, o.Object)
	return err
}

// Do executes a request. Its client, and what else is empty, are set. The object or the list that it returns must not be changed.
func (c Client) Do(r *Request) (*Object, error) {
	r.Client, r.Sent = c.name, time.Now()
	if r.Manager == "" {
		r.Manager = c.name
	}
	if r.Query == nil {
		r.Query = url.Values{}
	}
	return c.server.do(r, 0)
}

func (c Client) write(verb, subresource string, o *Object, body any) (*Object, error) {
	result, err := c.send(&Request{Verb: verb, Subresource: subresource}, o, body)
	if err != nil {
		return nil, err
	}
	return result.DeepCopy(), nil
}

func (c Client) send(r *Request, o *Object, body any) (*Object, error) {
	resource, err := c.server.of(o)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	r.Resource, r.Namespace, r.Name, r.Body = resource.GroupResource(), o.GetNamespace(), o.GetName(), encode(body)
	return c.Do(r)
}

// List returns the objects of a resource in a namespace, or in all if it is empty, in the order of their namespaces and names. They must
// not be changed.
func (s *Server) List(resource schema.GroupResource, namespace string) []*Object {
	s.lock.Lock()
	defer s.lock.Unlock()
	return sorted(s.objects[resource], namespace)
}

// All returns all objects in the order of their resources, namespaces and names. They must not be changed.
func (s *Server) All() (all []*Object) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, resource := range s.Resources() {
		all = append(all, sorted(s.objects[resource.GroupResource()], "")...)
	}
	return all
}

// ResourceVersion returns that of the last commit.
func (s *Server) ResourceVersion() int64 {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.resourceVersion
}
