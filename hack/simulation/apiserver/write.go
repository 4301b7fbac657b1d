// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"path"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// create creates the object in the body. The lock is held, as in all of this file.
func (s *Server) create(r *Request, resource *Resource) (*Object, error) {
	created, err := r.Object()
	if err != nil {
		return nil, err
	}
	if r.Name = created.GetName(); r.Name == "" && created.GetGenerateName() != "" {
		s.uids++
		r.Name = created.GetGenerateName() + utilrand.SafeEncodeString(fmt.Sprintf("%05d", s.uids))
		created.SetName(r.Name)
	}
	return s.insert(r, resource, created)
}

// insert creates an object.
func (s *Server) insert(r *Request, resource *Resource, created *Object) (*Object, error) {
	if err := checkIdentity(r, resource, created); err != nil {
		return nil, err
	}
	if err := s.checkNamespace(r, resource); err != nil {
		return nil, err
	}
	if created.GetResourceVersion() != "" {
		return nil, StatusError(http.StatusInternalServerError, "resourceVersion should not be set on objects to be created")
	}
	s.uids++
	created.SetUID(types.UID(fmt.Sprintf(uidFormat, s.uids)))
	created.SetNamespace(r.Namespace)
	created.SetCreationTimestamp(metav1.Now())
	created.SetDeletionTimestamp(nil)
	created.SetDeletionGracePeriodSeconds(nil)
	if resource.hasGeneration {
		created.SetGeneration(1)
	}
	if resource.HasStatus {
		delete(created.Object, "status")
	}
	return s.store(r, resource, nil, created)
}

// uidFormat is that of UIDs. None is part of another, as with real ones.
const uidFormat = "uid-%06d"

// checkIdentity checks that the object of a request is of the kind, and has the name and the namespace, that the URL says.
func checkIdentity(r *Request, resource *Resource, o *Object) error {
	switch kind := o.GroupVersionKind(); {
	case kind != resource.Kind:
		return apierrors.NewBadRequest(fmt.Sprintf("%s in the body does not match the expected %s", kind, resource.Kind))
	case o.GetName() != r.Name:
		return checkName(r, o)
	case o.GetNamespace() != "" && o.GetNamespace() != r.Namespace:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// checkName checks that the object of a request has the name that the URL says.
func checkName(r *Request, o *Object) error {
	if o.GetName() == r.Name {
		return nil
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", o.GetName(), r.Name))
}

// replace replaces an object with that in the body or, for some resources, creates it.
func (s *Server) replace(r *Request, resource *Resource, found *Object) (*Object, error) {
	updated, err := r.Object()
	if err != nil {
		return nil, err
	}
	if found == nil {
		if uid := updated.GetUID(); uid != "" {
			return nil, resource.wrongUID(r, uid, "")
		}
		updated.SetResourceVersion("")
		return s.insert(r, resource, updated)
	}
	return s.update(r, resource, found, updated)
}

// wrongUID is the error of an update that says another UID than the object has, which has none if it does not exist.
func (resource *Resource) wrongUID(r *Request, uid, found types.UID) error {
	key := path.Join("/registry", resource.Resource, r.Namespace, r.Name)
	if resource.IsCustom {
		key = path.Join("/registry", resource.Group, resource.Resource, r.Namespace, r.Name)
	}
	return apierrors.NewConflict(r.Resource, r.Name, fmt.Errorf("StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, "+
		"AdditionalErrorMsg: Precondition failed: UID in precondition: %s, UID in object meta: %s", key, uid, found))
}

// update stores an object or, with a subresource, nothing but that.
func (s *Server) update(r *Request, resource *Resource, found, updated *Object) (*Object, error) {
	if err := checkIdentity(r, resource, updated); err != nil {
		return nil, err
	}
	if resource.conditional && updated.GetResourceVersion() == "" {
		of := schema.GroupKind{Group: resource.Group, Kind: resource.Resource} // This is how it is.
		return nil, apierrors.NewInvalid(of, r.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	}
	if err := resource.preconditions(r, updated, found); err != nil {
		return nil, err
	}
	updated.SetNamespace(found.GetNamespace())
	if updated.GetUID() == "" {
		updated.SetUID(found.GetUID())
	}
	updated.SetResourceVersion(found.GetResourceVersion())
	updated.SetGeneration(found.GetGeneration())
	updated.SetCreationTimestamp(found.GetCreationTimestamp())
	if found.GetDeletionTimestamp() != nil {
		updated.SetDeletionTimestamp(found.GetDeletionTimestamp())
		updated.SetDeletionGracePeriodSeconds(found.GetDeletionGracePeriodSeconds())
	}
	return s.store(r, resource, found, resource.strategy(r, found, updated))
}

// strategy returns what of an update its subresource is about, and the rest as it was found. The subresource status of a built-in object is
// about its metadata as well, but for the labels of Deployments.
func (resource *Resource) strategy(r *Request, found, updated *Object) *Object {
	switch {
	case !resource.HasStatus:
		return updated
	case r.Subresource != "status":
		copyField(updated, found, "status")
		return updated
	}
	kept := found.DeepCopy()
	switch {
	case resource.IsCustom:
		copyField(kept, updated, "status")
		kept.SetManagedFields(updated.GetManagedFields())
	default:
		copyField(kept, updated, "status")
		copyField(kept, updated, "metadata")
		if resource.GroupResource() == deployments {
			kept.SetLabels(found.GetLabels())
		}
	}
	return kept
}

// copyField copies a field from another object, which may not have it. The value is shared.
func copyField(to, from *Object, name string) {
	if v, ok := from.Object[name]; ok {
		to.Object[name] = v
	} else {
		delete(to.Object, name)
	}
}

// preconditions checks the resourceVersion and the UID that an object has, if any, against what was found, or nil.
func (resource *Resource) preconditions(r *Request, o, found *Object) error {
	version, uid := o.GetResourceVersion(), o.GetUID()
	if found == nil && version+string(uid) == "" {
		return nil
	}
	if found != nil && r.Verb == "update" && uid != "" && uid != found.GetUID() { // Validation rejects what a patch changes.
		return resource.wrongUID(r, uid, found.GetUID())
	}
	if found == nil || version != "" && version != found.GetResourceVersion() {
		return apierrors.NewConflict(r.Resource, r.Name, errors.New(
			"the object has been modified; please apply your changes to the latest version and try again"))
	}
	return nil
}

// checkNamespace is the admission of objects to namespaces: one that is absent or terminating has no new objects.
func (s *Server) checkNamespace(r *Request, resource *Resource) error {
	if !resource.Namespaced {
		return nil
	}
	namespace := s.objects[namespaces][types.NamespacedName{Name: r.Namespace}]
	if namespace == nil {
		return apierrors.NewNotFound(namespaces, r.Namespace)
	}
	if namespace.GetDeletionTimestamp() == nil {
		return nil
	}
	err := apierrors.NewForbidden(r.Resource, r.Name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", r.Namespace))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", r.Namespace), Field: "metadata.namespace",
	})
	return err
}
