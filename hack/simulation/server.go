// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulation runs a controller in a simulated cluster in virtual time: an API server in memory, the controllers around it, users,
// faults, and judges that look at every write. It knows the API, and not the controller.
package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// object is any object, with numbers as int64 or float64.
type object = unstructured.Unstructured

// resource is what the API server knows of a resource.
type resource struct {
	kind      schema.GroupVersionKind
	hasStatus bool // It has a status subresource, and its generation is counted.
	patchedAs any  // the Go type that strategic merge patches need, or nil if there are only merge patches
}

// The plural names of the resources.
const (
	foos        = "foos"
	deployments = "deployments"
	leases      = "leases"
	events      = "events"
)

var resources = map[string]resource{
	foos:        {schema.GroupVersion(samplev1alpha1.GroupVersion).WithKind("Foo"), true, nil},
	deployments: {appsv1.SchemeGroupVersion.WithKind("Deployment"), true, appsv1.Deployment{}},
	leases:      {schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}, false, nil},
	events:      {corev1.SchemeGroupVersion.WithKind("Event"), false, corev1.Event{}},
}

// The other built-in resources are nothing but stored.
func init() {
	for kind, goType := range scheme.Scheme.AllKnownTypes() {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		if _, ok := resources[plural.Resource]; !ok && kind.Version == "v1" {
			resources[plural.Resource] = resource{kind, false, reflect.Zero(goType).Interface()}
		}
	}
}

// Request is a request for an object, for a list, or for a watch.
type Request struct {
	Verb, Resource, Subresource, Namespace, Name string
	Query                                        url.Values
	Body                                         []byte
	client                                       string
	sent                                         time.Time
	decoded                                      *object // the body, if it has been looked at
}

// object returns the object in the body. The API server stores it.
func (r *Request) object() *object {
	if r.decoded == nil {
		r.decoded = decode(r.Body)
	}
	return r.decoded
}

// IsWrite reports whether the request changes an object.
func (r *Request) IsWrite() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb)
}

// GroupResource returns the resource with its API group.
func (r *Request) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: resources[r.Resource].kind.Group, Resource: r.Resource}
}

// target is the resource and the name of the object.
func (r *Request) target() string { return strings.TrimSpace(r.Resource + " " + r.Name) }

func (r *Request) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Verb, strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/"), r.Name))
}

// change is a write that was committed. A watch sees it as an event.
type change struct {
	eventType       watch.EventType
	request         *Request
	old, new        *object // old is nil after a creation, and new is the last state after a deletion
	resourceVersion int64
	raw             []byte // new, as JSON
	admitted        bool   // A rule has changed what was to be written.
}

// rule applies to the requests that match it until it expires.
type rule struct {
	until   time.Time
	matches func(r *Request) bool
	reject  func(r *Request) error // what the API server responds with, or nil
	admit   func(o *object)        // what mutating admission does to an object that is written, or nil
}

// server is an API server that has its objects in memory.
type server struct {
	lock            sync.Mutex
	resourceVersion int64
	uids            int64
	objects         map[string]map[types.NamespacedName]*object // by resource
	history         []change
	compacted       int64         // The history begins after this resourceVersion.
	changed         chan struct{} // It is closed, and replaced, by each commit.
	rules           []rule
	// These are called with the lock held: for each commit, and for each request that fails, with the object that it found, if any.
	committed []func(change)
	failed    func(r *Request, found *object, err error)
}

func newServer() *server {
	return &server{
		resourceVersion: 1000, compacted: 1000, // Other objects were written before.
		objects: map[string]map[types.NamespacedName]*object{}, changed: make(chan struct{}), failed: func(*Request, *object, error) {},
	}
}

// do executes a request. The object or the list that it returns must not be changed.
func (s *server) do(r *Request) (*object, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	found := s.objects[r.Resource][types.NamespacedName{Namespace: r.Namespace, Name: r.Name}]
	result, err := s.execute(r, found)
	if err != nil {
		s.failed(r, found, err)
	}
	return result, err
}

func (s *server) execute(r *Request, found *object) (*object, error) {
	if err := s.rejection(r); err != nil {
		return nil, err
	}
	if found == nil && r.Resource == leases && r.Verb == "update" {
		return nil, apierrors.NewConflict(r.GroupResource(), r.Name, errors.New("the precondition failed")) // It would create a new one.
	}
	if found == nil && r.Verb != "list" && r.Verb != "create" {
		return nil, apierrors.NewNotFound(r.GroupResource(), r.Name)
	}
	switch r.Verb {
	case "get":
		return found, nil
	case "list":
		return s.list(r), nil
	case "create":
		return s.create(r, found)
	case "update":
		return s.update(r, found, r.object())
	case "patch":
		patched, err := patch(r, found)
		if err != nil {
			return nil, err
		}
		return s.update(r, found, patched)
	case "delete":
		return s.delete(r, found)
	}
	return nil, apierrors.NewMethodNotSupported(r.GroupResource(), r.Verb)
}

// rejection returns what a rule responds to a request with, or nil.
func (s *server) rejection(r *Request) error {
	for _, rule := range s.rules {
		if rule.reject != nil && rule.until.After(time.Now()) && rule.matches(r) {
			return rule.reject(r)
		}
	}
	return nil
}

func (s *server) list(r *Request) *object {
	list := unstructured.UnstructuredList{Object: map[string]any{}}
	kind := resources[r.Resource].kind
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	list.SetResourceVersion(strconv.FormatInt(s.resourceVersion, 10))
	for _, item := range sorted(s.objects[r.Resource], r.Namespace) {
		list.Items = append(list.Items, *item)
	}
	return &object{Object: list.UnstructuredContent()}
}

// snapshot returns the objects of a resource, with the lock not held.
func (s *server) snapshot(resource string) []*object {
	s.lock.Lock()
	defer s.lock.Unlock()
	return sorted(s.objects[resource], "")
}

// sorted returns the objects in a namespace, or in all if it is empty, in the order of their names.
func sorted(objects map[types.NamespacedName]*object, namespace string) (sorted []*object) {
	for key, object := range objects {
		if namespace == "" || key.Namespace == namespace {
			sorted = append(sorted, object)
		}
	}
	slices.SortFunc(sorted, func(a, b *object) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return sorted
}

func (s *server) create(r *Request, found *object) (*object, error) {
	created := r.object()
	if created.GetResourceVersion() != "" {
		return nil, statusError(http.StatusInternalServerError, "resourceVersion should not be set")
	}
	if found != nil {
		return nil, apierrors.NewAlreadyExists(r.GroupResource(), r.Name)
	}
	s.uids++
	created.SetUID(types.UID(fmt.Sprintf("uid-%d", s.uids)))
	created.SetNamespace(r.Namespace)
	created.SetCreationTimestamp(metav1.Now())
	if resources[r.Resource].hasStatus {
		created.SetGeneration(1)
		delete(created.Object, "status")
	}
	return s.store(watch.Added, r, nil, created)
}

// update stores an object or, with the subresource status, nothing but its status.
func (s *server) update(r *Request, found, updated *object) (*object, error) {
	if updated.GetResourceVersion() == "" && (r.Resource == foos || r.Resource == leases) {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: r.GroupResource().Group, Kind: r.Resource}, r.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), "", "must be specified for an update"),
		})
	}
	if v := updated.GetResourceVersion(); v != "" && v != found.GetResourceVersion() {
		return nil, apierrors.NewConflict(r.GroupResource(), r.Name, errors.New("the object has been modified"))
	}
	if uid := updated.GetUID(); uid != "" && uid != found.GetUID() {
		return nil, apierrors.NewConflict(r.GroupResource(), r.Name, errors.New("the UID is another one"))
	}
	isNew := func(finalizer string) bool { return !slices.Contains(found.GetFinalizers(), finalizer) }
	if found.GetDeletionTimestamp() != nil && slices.ContainsFunc(updated.GetFinalizers(), isNew) {
		return nil, apierrors.NewInvalid(resources[r.Resource].kind.GroupKind(), r.Name, field.ErrorList{
			field.Forbidden(field.NewPath("metadata", "finalizers"), "no new finalizers can be added if the object is being deleted"),
		})
	}
	hasStatus := resources[r.Resource].hasStatus
	switch {
	case r.Subresource == "status":
		status := updated.Object["status"]
		updated = found.DeepCopy()
		updated.Object["status"] = status
	case hasStatus && found.Object["status"] != nil:
		updated.Object["status"] = found.Object["status"]
	case hasStatus:
		delete(updated.Object, "status")
	}
	updated.SetUID(found.GetUID())
	updated.SetCreationTimestamp(found.GetCreationTimestamp())
	updated.SetDeletionTimestamp(found.GetDeletionTimestamp())
	updated.SetDeletionGracePeriodSeconds(found.GetDeletionGracePeriodSeconds())
	updated.SetResourceVersion(found.GetResourceVersion())
	if hasStatus {
		updated.SetGeneration(found.GetGeneration())
	}
	return s.store(watch.Modified, r, found, updated)
}

// store applies defaults, admission and validation, and commits what is new.
func (s *server) store(eventType watch.EventType, r *Request, found, stored *object) (*object, error) {
	admitted := false
	for _, rule := range s.rules {
		if rule.admit != nil && rule.until.After(time.Now()) && rule.matches(r) {
			rule.admit(stored)
			admitted = true
		}
	}
	setDefaults(r.Resource, stored)
	if err := validate(r.Resource, stored); err != nil && r.client != storage {
		return nil, err
	}
	if found == nil {
		return s.commit(eventType, r, nil, stored, admitted), nil
	}
	if resources[r.Resource].hasStatus && (!equality.Semantic.DeepEqual(stored.Object["spec"], found.Object["spec"]) ||
		r.Resource == deployments && !equality.Semantic.DeepEqual(stored.GetAnnotations(), found.GetAnnotations())) {
		stored.SetGeneration(found.GetGeneration() + 1)
	}
	if equality.Semantic.DeepEqual(stored.Object, found.Object) {
		return found, nil
	}
	if stored.GetDeletionTimestamp() != nil && len(stored.GetFinalizers()) == 0 {
		s.commit(watch.Deleted, r, found, found.DeepCopy(), admitted) // Watches see the state before.
		return stored, nil
	}
	return s.commit(eventType, r, found, stored, admitted), nil
}

func (s *server) delete(r *Request, found *object) (*object, error) {
	var options metav1.DeleteOptions
	if len(r.Body) > 0 {
		if err := json.Unmarshal(r.Body, &options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != found.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != found.GetResourceVersion() {
			kind := schema.GroupResource{Group: r.GroupResource().Group, Resource: resources[r.Resource].kind.Kind} // This is how it is.
			return nil, apierrors.NewConflict(kind, r.Name, errors.New("the precondition failed"))
		}
	}
	deleted := found.DeepCopy()
	if policy := options.PropagationPolicy; policy != nil {
		finalizer := map[metav1.DeletionPropagation]string{
			metav1.DeletePropagationForeground: metav1.FinalizerDeleteDependents,
			metav1.DeletePropagationOrphan:     metav1.FinalizerOrphanDependents,
		}[*policy]
		if finalizer != "" && !slices.Contains(deleted.GetFinalizers(), finalizer) {
			deleted.SetFinalizers(append(deleted.GetFinalizers(), finalizer))
		}
	}
	if len(deleted.GetFinalizers()) == 0 {
		s.commit(watch.Deleted, r, found, deleted, false)
		return &object{Object: map[string]any{"kind": "Status", "apiVersion": "v1", "status": metav1.StatusSuccess, "details": map[string]any{
			"name": r.Name, "group": r.GroupResource().Group, "kind": r.Resource, "uid": string(found.GetUID()),
		}}}, nil
	}
	if deleted.GetDeletionTimestamp() != nil {
		return found, nil
	}
	deleted.SetDeletionTimestamp(new(metav1.Now()))
	deleted.SetDeletionGracePeriodSeconds(new(int64))
	if resources[r.Resource].hasStatus {
		deleted.SetGeneration(found.GetGeneration() + 1)
	}
	return s.commit(watch.Modified, r, found, deleted, false), nil
}

// maxHistory is how many changes are kept for watches.
const maxHistory = 5000

func (s *server) commit(eventType watch.EventType, r *Request, old, new *object, admitted bool) *object {
	s.resourceVersion++
	new.SetResourceVersion(strconv.FormatInt(s.resourceVersion, 10))
	key := types.NamespacedName{Namespace: new.GetNamespace(), Name: new.GetName()}
	if eventType == watch.Deleted {
		delete(s.objects[r.Resource], key)
	} else {
		if s.objects[r.Resource] == nil {
			s.objects[r.Resource] = map[types.NamespacedName]*object{}
		}
		s.objects[r.Resource][key] = new
	}
	c := change{eventType, r, old, new, s.resourceVersion, encode(new.Object), admitted}
	s.history = append(s.history, c)
	if len(s.history) >= 2*maxHistory {
		s.history = slices.Clone(s.history[maxHistory:])
		s.compacted = s.history[0].resourceVersion - 1
	}
	close(s.changed)
	s.changed = make(chan struct{})
	for _, observe := range s.committed {
		observe(c)
	}
	return new
}

// at returns the objects of a resource as they were at a resourceVersion of the history.
func (s *server) at(resource string, resourceVersion int64) map[types.NamespacedName]*object {
	objects := map[types.NamespacedName]*object{}
	for key, object := range s.objects[resource] {
		objects[key] = object
	}
	for _, c := range slices.Backward(s.history) {
		if c.resourceVersion <= resourceVersion {
			break
		}
		key := types.NamespacedName{Namespace: c.new.GetNamespace(), Name: c.new.GetName()}
		switch {
		case c.request.Resource != resource:
		case c.old == nil:
			delete(objects, key)
		default:
			objects[key] = c.old
		}
	}
	return objects
}

// patch returns an object with a patch applied: a strategic merge patch or, for custom resources, a merge patch.
func patch(r *Request, found *object) (*object, error) {
	applyPatch := jsonpatch.MergePatch
	if patchedAs := resources[r.Resource].patchedAs; patchedAs != nil {
		applyPatch = func(original, patch []byte) ([]byte, error) {
			return strategicpatch.StrategicMergePatch(original, patch, patchedAs)
		}
	}
	patched, err := applyPatch(encode(found.Object), r.Body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return decode(patched), nil
}

// unknownField is a field of a Deployment that the Go types of the clients do not have.
const unknownField = "unknownField"

func setDefaults(resource string, o *object) {
	if resource == foos && o.Object["status"] == nil {
		o.Object["status"] = map[string]any{"observedGeneration": int64(-1)}
	}
	if resource != deployments {
		return
	}
	if _, ok, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "replicas"); !ok {
		set(o, int64(1), "spec", "replicas")
	}
	if o.GetResourceVersion() == "" {
		set(o, "default", "spec", unknownField)
	}
}

// validate is the validation of the CRD, and what of the validation of Deployments a Foo can break.
func validate(resource string, o *object) error {
	var invalid field.ErrorList
	checkName := func(name string, path *field.Path) {
		for _, message := range validation.IsDNS1123Subdomain(name) {
			invalid = append(invalid, field.Invalid(path, name, message))
		}
	}
	replicas, hasReplicas, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
	deploymentName, _, _ := unstructured.NestedString(o.Object, "spec", "deploymentName")
	path := field.NewPath("spec", "replicas")
	switch {
	case resource == foos:
		checkName(o.GetName(), field.NewPath("metadata", "name"))
		checkName(deploymentName, field.NewPath("spec", "deploymentName"))
		if err != nil || hasReplicas && (replicas < 1 || replicas > 10) {
			invalid = append(invalid, field.Invalid(path, replicas, "must be from 1 to 10"))
		}
	case resource == deployments:
		checkName(o.GetName(), field.NewPath("metadata", "name"))
		if err != nil || replicas < 0 {
			invalid = append(invalid, field.Invalid(path, replicas, "must be 0 or more"))
		}
	}
	if len(invalid) == 0 {
		return nil
	}
	return apierrors.NewInvalid(resources[resource].kind.GroupKind(), o.GetName(), invalid)
}

func statusError(code int32, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
}

// decode and encode panic: the clients send and get JSON.

func decode(raw []byte) *object {
	o := &object{}
	if err := utiljson.Unmarshal(raw, &o.Object); err != nil {
		panic(err)
	}
	return o
}

func encode(value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return raw
}

func number(o *object, path ...string) int64 {
	number, _, _ := unstructured.NestedInt64(o.Object, path...)
	return number
}

func set(o *object, value any, path ...string) {
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		panic(err)
	}
}
