// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// delete deletes an object at once, or marks it if it has finalizers or is a Pod that ends gracefully. The lock is held, as in all of this
// file.
func (s *Server) delete(r *Request, resource *Resource, found *Object) (*Object, error) {
	options, err := r.deleteOptions()
	if err != nil {
		return nil, err
	}
	if p := options.Preconditions; p != nil {
		of := schema.GroupResource{Group: r.Resource.Group, Resource: resource.Kind.Kind} // This is how it is.
		if uid := found.GetUID(); p.UID != nil && *p.UID != uid {
			return nil, apierrors.NewConflict(of, r.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). "+
				"The object might have been deleted and then recreated", *p.UID, uid))
		}
		if version := found.GetResourceVersion(); p.ResourceVersion != nil && *p.ResourceVersion != version {
			return nil, apierrors.NewConflict(of, r.Name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the "+
				"ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, version))
		}
	}
	deleted := found.DeepCopy()
	deleted.SetFinalizers(resource.finalizersOf(found, options.PropagationPolicy))
	grace := gracePeriod(resource, found, options.GracePeriodSeconds)
	if isReleased(deleted) && grace == 0 {
		if r.Resource == pods {
			found = s.endPod(r, found)
			deleted = found.DeepCopy()
		}
		return success(resource, s.commit(Change{Type: watch.Deleted, Request: r, Old: found, New: deleted})), nil
	}
	if before := found.GetDeletionGracePeriodSeconds(); found.GetDeletionTimestamp() != nil && (before == nil || *before <= grace) {
		if slices.Equal(deleted.GetFinalizers(), found.GetFinalizers()) {
			return found, nil
		}
		return s.commit(Change{Type: watch.Modified, Request: r, Old: found, New: deleted}), nil
	}
	deleted.SetDeletionTimestamp(&metav1.Time{Time: time.Now().Add(time.Duration(grace) * time.Second)})
	deleted.SetDeletionGracePeriodSeconds(&grace)
	if found.GetGeneration() > 0 {
		deleted.SetGeneration(found.GetGeneration() + 1)
	}
	if r.Resource == namespaces {
		set(deleted, "Terminating", "status", "phase")
	}
	return s.commit(Change{Type: watch.Modified, Request: r, Old: found, New: deleted}), nil
}

// endPod gives a Pod that is deleted no time any more, as watches see before it is gone.
func (s *Server) endPod(r *Request, found *Object) *Object {
	ended := found.DeepCopy()
	if found.GetDeletionTimestamp() == nil {
		ended.SetGeneration(found.GetGeneration() + 1)
	}
	ended.SetDeletionTimestamp(new(metav1.Now()))
	ended.SetDeletionGracePeriodSeconds(new(int64))
	return s.commit(Change{Type: watch.Modified, Request: r, Old: found, New: ended})
}

// deleteOptions returns the options of a deletion.
func (r *Request) deleteOptions() (options metav1.DeleteOptions, err error) {
	if len(r.Body) > 0 {
		err = json.Unmarshal(r.Body, &options)
	} else {
		err = metav1.Convert_url_Values_To_v1_DeleteOptions(&r.Query, &options, nil)
	}
	if err != nil {
		return options, apierrors.NewBadRequest(err.Error())
	}
	//lint:ignore SA1019 It is refused.
	if len(options.DryRun) > 0 || options.OrphanDependents != nil || options.IgnoreStoreReadErrorWithClusterBreakingPotential != nil {
		return options, notSimulated("one of these options of a deletion: %s", encode(options))
	}
	return options, invalidOptions("DeleteOptions", metav1validation.ValidateDeleteOptions(&options))
}

// finalizersOf returns the finalizers of an object that is deleted, with that of its propagation policy for the garbage collector.
func (resource *Resource) finalizersOf(o *Object, policy *metav1.DeletionPropagation) []string {
	var finalizers []string
	for _, finalizer := range o.GetFinalizers() {
		switch isGC := finalizer == metav1.FinalizerOrphanDependents || finalizer == metav1.FinalizerDeleteDependents; {
		case !isGC:
			finalizers = append(finalizers, finalizer)
		case policy == nil && finalizer == metav1.FinalizerOrphanDependents:
			policy = new(metav1.DeletePropagationOrphan)
		case policy == nil:
			policy = new(metav1.DeletePropagationForeground)
		}
	}
	orphansByDefault := resource.goType != nil && (resource.Kind.Kind == "Job" || resource.Kind.Kind == "ReplicationController")
	switch {
	case policy == nil && orphansByDefault, policy != nil && *policy == metav1.DeletePropagationOrphan:
		finalizers = append(finalizers, metav1.FinalizerOrphanDependents)
	case policy != nil && *policy == metav1.DeletePropagationForeground:
		finalizers = append(finalizers, metav1.FinalizerDeleteDependents)
	}
	return finalizers
}

// gracePeriod returns how many seconds an object has to end: only Pods that run have any.
func gracePeriod(resource *Resource, o *Object, asked *int64) int64 {
	phase := text(o, "status", "phase")
	if resource.GroupResource() != pods || text(o, "spec", "nodeName") == "" || phase == "Succeeded" || phase == "Failed" {
		return 0
	}
	if asked != nil {
		return *asked
	}
	return number(o, "spec", "terminationGracePeriodSeconds")
}

// isReleased reports whether an object has no finalizers. A namespace has some in its spec.
func isReleased(o *Object) bool {
	finalizers, _ := value(o, "spec", "finalizers").([]any)
	return len(o.GetFinalizers()) == 0 && (o.GetKind() != "Namespace" || len(finalizers) == 0)
}

// isGraceful reports whether an object that is deleted has some time left.
func isGraceful(o *Object) bool {
	grace := o.GetDeletionGracePeriodSeconds()
	return grace != nil && *grace > 0
}

// success is the response to a deletion.
func success(resource *Resource, deleted *Object) *Object {
	details := map[string]any{"name": deleted.GetName(), "kind": resource.Resource, "uid": string(deleted.GetUID())}
	if resource.Group != "" {
		details["group"] = resource.Group
	}
	if resource.returnsDeleted {
		return deleted
	}
	return &Object{Object: map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": metav1.StatusSuccess, "details": details,
	}}
}

// deleteCollection deletes what a list would have, and returns that list.
func (s *Server) deleteCollection(r *Request, resource *Resource) (*Object, error) {
	list, err := s.list(r, resource, 0)
	if err != nil {
		return nil, err
	}
	return list, list.EachListItem(func(item runtime.Object) error {
		one := *r
		one.Namespace, one.Name = item.(*unstructured.Unstructured).GetNamespace(), item.(*unstructured.Unstructured).GetName()
		_, err := s.delete(&one, resource, s.objects[r.Resource][one.Key()])
		return err
	})
}
