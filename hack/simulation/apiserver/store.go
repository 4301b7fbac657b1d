// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// store stores an object, after defaults, admission and validation, unless nothing changes. found is what it replaces, or nil. The lock is
// held.
func (s *Server) store(r *Request, resource *Resource, found, stored *Object) (*Object, error) {
	unknown := takeUnknown(stored)
	if found == nil && s.options.UnknownField {
		unknown = "default"
	}
	if err := resource.normalize(r, stored, found); err != nil {
		return nil, err
	}
	before := withoutUnknown(found)
	if !r.IsApply() && r.Subresource != "scale" && isManaged(r.Resource) && !s.options.WithoutManagedFields { // Apply and scale have set them.
		if err := r.manage(resource, before, stored); err != nil {
			return nil, err
		}
	}
	admitted, err := s.admit(r, stored)
	if err != nil {
		return nil, err
	}
	if s.options.Mutate != nil && r.Subresource == "" && !r.unvalidated {
		s.options.Mutate(stored, before)
	}
	resource.prepare(stored, found)
	if invalid := resource.validate(before, stored); len(invalid) > 0 && !r.unvalidated {
		return nil, apierrors.NewInvalid(resource.Kind.GroupKind(), r.Name, invalid)
	}
	if s.options.Validate != nil && r.Subresource == "" && !r.unvalidated {
		if err := s.options.Validate(stored, before); err != nil {
			denied := apierrors.NewForbidden(r.Resource, r.Name, err)
			denied.ErrStatus.Message = fmt.Sprintf("admission webhook %q denied the request: %v", "validate.simulated", err)
			return nil, denied
		}
	}
	if found == nil && s.objects[r.Resource][keyOf(stored)] != nil {
		return nil, apierrors.NewAlreadyExists(r.Resource, r.Name)
	}
	putUnknown(stored, unknown)
	if found != nil && resource.isNewGeneration(r, found, stored) {
		stored.SetGeneration(found.GetGeneration() + 1)
	}
	if r.IsDryRun() {
		r.created = found == nil
		return stored, nil
	}
	return s.finish(r, found, stored, admitted), nil
}

// finish commits a write: a creation, an update, the deletion of an object whose last finalizer is gone, or nothing.
func (s *Server) finish(r *Request, found, stored *Object, admitted bool) *Object {
	switch {
	case found == nil:
		r.created = true
		return s.commit(Change{Type: watch.Added, Request: r, New: stored, Admitted: admitted})
	case equality.Semantic.DeepEqual(withoutTimes(stored), withoutTimes(found)):
		return found
	case stored.GetDeletionTimestamp() != nil && isReleased(stored) && !isGraceful(stored):
		s.commit(Change{Type: watch.Deleted, Request: r, Old: found, New: found.DeepCopy(), Admitted: admitted}) // Watches see the state before.
		return stored
	}
	return s.commit(Change{Type: watch.Modified, Request: r, Old: found, New: stored, Admitted: admitted})
}

// isManaged reports whether the managed fields of a resource are kept. Nobody looks at those of Leases and of Events, which are written most
// often.
func isManaged(resource schema.GroupResource) bool {
	return resource.Resource != "leases" && resource.Resource != "events"
}

// isNewGeneration reports whether an update changes what the generation of an object counts.
func (resource *Resource) isNewGeneration(r *Request, found, stored *Object) bool {
	isBinding := r.Resource == pods && text(found, "spec", "nodeName") != text(stored, "spec", "nodeName")
	if !resource.hasGeneration || r.Subresource == "status" || isBinding {
		return false
	}
	counted := func(o *Object) map[string]any {
		content := maps.Clone(o.Object)
		delete(content, "metadata")
		if resource.HasStatus {
			delete(content, "status")
		}
		if r.Resource == deployments {
			content["annotations"] = o.GetAnnotations()
		}
		return content
	}
	return !equality.Semantic.DeepEqual(counted(stored), counted(found))
}

// withoutTimes is an object without the times of its managed fields.
func withoutTimes(o *Object) map[string]any {
	metadata, _ := o.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	if len(entries) == 0 {
		return o.Object
	}
	timeless := make([]any, len(entries))
	for i, entry := range entries {
		fields, _ := entry.(map[string]any)
		fields = maps.Clone(fields)
		delete(fields, "time")
		timeless[i] = fields
	}
	metadata = maps.Clone(metadata)
	metadata["managedFields"] = timeless
	content := maps.Clone(o.Object)
	content["metadata"] = metadata
	return content
}

// maxHistory is how many changes are kept for watches.
const maxHistory = 5000

// commit makes a change, and tells it. It returns the new object.
func (s *Server) commit(c Change) *Object {
	s.resourceVersion++
	c.ResourceVersion = s.resourceVersion
	c.New.SetResourceVersion(strconv.FormatInt(c.ResourceVersion, 10))
	c.raw = encode(c.New.Object)
	delete(s.encoded, c.Old)
	if c.Type == watch.Deleted {
		delete(s.objects[c.Request.Resource], keyOf(c.New))
	} else {
		if s.objects[c.Request.Resource] == nil {
			s.objects[c.Request.Resource] = map[types.NamespacedName]*Object{}
		}
		s.objects[c.Request.Resource][keyOf(c.New)] = c.New
		s.encoded[c.New] = c.raw
	}
	s.history = append(s.history, c)
	if len(s.history) >= 2*maxHistory {
		s.history = slices.Clone(s.history[maxHistory:])
		s.compacted = max(s.compacted, s.history[0].ResourceVersion-1)
	}
	if changed := s.changed[c.Request.Resource]; changed != nil {
		close(changed)
		delete(s.changed, c.Request.Resource)
	}
	for _, o := range s.observers {
		o.Committed(&c)
	}
	return c.New
}

// encode returns an object as JSON.
func (s *Server) encode(o *Object) []byte {
	s.lock.Lock()
	raw := s.encoded[o]
	s.lock.Unlock()
	if raw == nil { // It was deleted, or replaced, or is a list.
		raw = encode(o.Object)
	}
	return raw
}

// at returns the objects of a resource as they were at a resourceVersion of the history.
func (s *Server) at(resource schema.GroupResource, resourceVersion int64) map[types.NamespacedName]*Object {
	if resourceVersion == s.resourceVersion {
		return s.objects[resource]
	}
	objects := maps.Clone(s.objects[resource])
	if objects == nil {
		objects = map[types.NamespacedName]*Object{}
	}
	for _, c := range slices.Backward(s.history) {
		if c.ResourceVersion <= resourceVersion {
			break
		}
		switch {
		case c.Request.Resource != resource:
		case c.Old == nil:
			delete(objects, keyOf(c.New))
		default:
			objects[keyOf(c.New)] = c.Old
		}
	}
	return objects
}
