// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver simulates the API server of a cluster, what is around it, and the network before it, for objects of any kinds. All of
// it is in memory, and runs in the bubble of testing/synctest in which New was called. What it cannot do, it refuses with an error that says
// "not simulated".
//
// Some of a cluster is absent without an error, as nothing asks for it: permissions and quotas (everybody may do everything, unless a Rule
// says otherwise), the rules of CRDs in CEL, but for those that make fields immutable (Registry.Notes says where), most of the validation of
// built-in kinds, the managed fields of Leases and Events, ReplicaSets of Deployments (they control their Pods), the strategies of rollouts, endpoints,
// volumes, tokens and load balancers. The two resources of events are independent.
package apiserver

import (
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Options are those of a cluster.
type Options struct {
	// Without are the built-in controllers that do not run. The program under test may be one of them.
	Without []Controller
	// UnknownField makes the API server a newer one: the spec of each object that is created has a field, UnknownField, that the Go types of
	// clients do not have. Its value is "default".
	UnknownField bool
	// WithoutManagedFields saves what managed fields take: at the start, for each write, and in each object. There is no server-side apply
	// then.
	WithoutManagedFields bool
	// Mutate is what mutating webhooks do with an object that is to be written instead of what was found, or nil. It may be nil itself.
	Mutate func(o, found *Object)
	// Validate is what validating webhooks, and rules of CRDs in CEL, do with an object that is to be written instead of what was found, or
	// nil: it returns an error that denies it. It must not change anything. It may be nil.
	Validate func(o, found *Object) error
}

// UnknownField is the name of the field that Options.UnknownField adds.
const UnknownField = "unknownField"

// Change is a write that was committed. The objects must not be changed.
type Change struct {
	Type            watch.EventType
	Request         *Request
	Old, New        *Object // Old is nil after a creation, and New is the last state after a deletion.
	ResourceVersion int64
	Admitted        bool // A Rule has looked at, and may have changed, what was to be written.

	raw []byte // New, as JSON
}

// Observer is told what happens at the API server, in its order. The methods are called while the API server is locked: they must not call
// it, nor wait.
type Observer interface {
	// Committed is called with each write that changes an object.
	Committed(c *Change)
	// Failed is called with each request that the API server rejects, with the object that it is about, or nil if there is none.
	Failed(r *Request, found *Object, err error)
}

// Rule applies to requests, of all clients, until it expires. Its functions must not call the API server, nor wait.
type Rule struct {
	Until   time.Time
	Matches func(r *Request) bool
	// Reject returns what is responded, or nil. It may be nil itself.
	Reject func(r *Request) error
	// Admit is what admission does with an object that is to be written. It changes the object, or returns an error that denies it. It may
	// be nil.
	Admit func(r *Request, o *Object) error
}

// Server is an API server.
type Server struct {
	*Registry
	options Options

	lock            sync.Mutex
	observers       []Observer
	rules           []Rule
	resourceVersion int64
	uids            int64
	controllers     *builtInControllers
	templates       map[types.UID]uint32 // the Pod template, as a hash, of the newest rollout of each workload
	hasPods         bool                 // Workloads have Pods.
	objects         map[schema.GroupResource]map[types.NamespacedName]*Object
	encoded         map[*Object][]byte // the objects, as JSON
	history         []Change
	compacted       int64                                  // The history begins after this resourceVersion.
	changed         map[schema.GroupResource]chan struct{} // what the next commit of a resource closes, if a watch waits for that
}

// New returns an API server with the namespaces that each cluster has, and starts the built-in controllers. They need no end: they only
// react.
func New(registry *Registry, options Options) *Server {
	s := &Server{
		Registry: registry, options: options,
		resourceVersion: 1000, compacted: 1000, // Other objects were written before.
		objects: map[schema.GroupResource]map[types.NamespacedName]*Object{}, encoded: map[*Object][]byte{},
		changed: map[schema.GroupResource]chan struct{}{}, templates: map[types.UID]uint32{},
	}
	s.startControllers()
	return s
}

// Observe adds an observer. It is told what happens from now on.
func (s *Server) Observe(o Observer) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.observers = append(s.observers, o)
}

// AddRule adds a rule, and forgets those that have expired.
func (s *Server) AddRule(r Rule) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.rules = append(slices.DeleteFunc(s.rules, func(r Rule) bool { return !r.Until.After(time.Now()) }), r)
}

// ClearRules removes all rules.
func (s *Server) ClearRules() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.rules = nil
}

// Compact forgets the history: watches that begin from now on at an older resourceVersion fail with 410 Gone, and so do lists.
func (s *Server) Compact() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.compacted = s.resourceVersion
}

// do executes a request. A list has the state of the resourceVersion stale, if that is not 0. What it returns must not be changed.
func (s *Server) do(r *Request, stale int64) (*Object, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	found := s.objects[r.Resource][r.Key()]
	result, err := s.execute(r, found, stale)
	if err != nil {
		s.failed(r, found, err)
	}
	return result, err
}

// refused tells the observers of a request that could not be parsed. r is nil if it is for no resource.
func (s *Server) refused(r *Request, err error) {
	if r == nil {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.failed(r, nil, err)
}

// failed tells the observers. The lock is held.
func (s *Server) failed(r *Request, found *Object, err error) {
	for _, o := range s.observers {
		o.Failed(r, found, err)
	}
}

// execute executes a request, for the object that was found, or nil. The lock is held.
func (s *Server) execute(r *Request, found *Object, stale int64) (*Object, error) {
	if err := s.rejection(r); err != nil {
		return nil, err
	}
	resource := s.Resource(r.Resource)
	if resource == nil {
		return nil, notSimulated("resource %s", r.Resource)
	}
	if err := resource.check(r); err != nil {
		return nil, err
	}
	creates := r.Verb == "create" || r.Subresource == "" && (r.IsApply() || r.Verb == "update" && resource.createOnUpdate)
	if found == nil && !creates && r.Verb != "list" && r.Verb != "deletecollection" {
		return nil, apierrors.NewNotFound(r.Resource, r.Name)
	}
	if r.Subresource == "scale" {
		return s.scale(r, resource, found)
	}
	switch r.Verb {
	case "get":
		return found, nil
	case "list":
		return s.list(r, resource, stale)
	case "create":
		return s.create(r, resource)
	case "update":
		return s.replace(r, resource, found)
	case "patch":
		return s.patch(r, resource, found)
	case "delete":
		return s.delete(r, resource, found)
	case "deletecollection":
		return s.deleteCollection(r, resource)
	}
	return nil, apierrors.NewMethodNotSupported(r.Resource, r.Verb)
}

// rejection returns what a rule responds to a request with, or nil. The lock is held.
func (s *Server) rejection(r *Request) error {
	for _, rule := range s.rules {
		if rule.Reject != nil && rule.Until.After(time.Now()) && rule.Matches(r) {
			if err := rule.Reject(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// admit lets the rules change an object or deny it, and reports whether one has looked at it. The lock is held.
func (s *Server) admit(r *Request, o *Object) (admitted bool, err error) {
	for _, rule := range s.rules {
		if rule.Admit != nil && rule.Until.After(time.Now()) && rule.Matches(r) {
			admitted = true
			if err := rule.Admit(r, o); err != nil {
				return admitted, err
			}
		}
	}
	return admitted, nil
}
