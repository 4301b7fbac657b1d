// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/ownership"
)

// Owned writes the objects of one kind that Foos own, such as *appsv1.Deployment. The kind must be built in: custom
// resources do not support strategic merge patches.
type Owned[T Object[T]] struct {
	*Control
	kind     string
	resource schema.GroupResource
	cached   cache.Store
	client   func(namespace string) Client[T]
}

// NewOwned returns the Owned of a kind, which is named in conditions and in the log, from the informer's cache of its
// objects and the method of its typed client, such as Deployments.
func NewOwned[T Object[T], C Client[T]](
	control *Control, kind string, resource schema.GroupResource, cached cache.Store, client func(namespace string) C,
) *Owned[T] {
	control.ConsistencyStore.Add(resource, cached)
	return &Owned[T]{control, kind, resource, cached, func(namespace string) Client[T] { return client(namespace) }}
}

// Object is a pointer to an object of the API.
type Object[T any] interface {
	comparable
	metav1.Object
	DeepCopy() T
}

// Client is what is needed of the typed client of a kind.
type Client[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Patch(ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions,
		subresources ...string) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// Result is what a sync has found of an object, and has done about it.
type Result[T any] struct {
	Object  T            // It is nil if the cache has none that the Foo controls, and none was created.
	Changed bool         // Whether the sync created or patched it.
	Stalled StalledError // What a user has to act on, if its reason is not empty.
	Err     error        // What is retried, or nil.
}

// CreateOrPatch creates the desired object of a Foo unless the cache has it, or patches that if it differs. set sets the
// fields that the Foo controls on a new or existing object, and no others. What desired has besides is set at creation
// only.
func (o *Owned[T]) CreateOrPatch(ctx context.Context, foo *samplev1alpha1.Foo, desired T, set func(T)) Result[T] {
	name := cache.MetaObjectToName(desired)
	logger := klog.LoggerWithValues(klog.FromContext(ctx), strings.ToLower(o.kind), klog.KRef(name.Parts()))
	ctx = klog.NewContext(ctx, logger)
	object, exists, err := o.cached.GetByKey(name.String())
	switch {
	case err != nil:
		return Result[T]{Err: err}
	case !exists:
		logger.V(4).Info(o.kind + " is not in the cache")
		set(desired)
		return o.write(ctx, foo, Differences[T]{Kind: o.kind, Desired: desired}, set, o.create)
	}
	return o.change(ctx, foo, object.(T), set)
}

// change patches the object that was found if it differs from what set makes of it.
func (o *Owned[T]) change(ctx context.Context, foo *samplev1alpha1.Foo, found T, set func(T)) Result[T] {
	logger := klog.FromContext(ctx)
	switch {
	case !ownership.IsControlledBy(found, foo):
		return Result[T]{Stalled: nameConflict(found.GetName())}
	case found.GetDeletionTimestamp() != nil:
		logger.V(4).Info(o.kind + " is being deleted; waiting until its name is free")
		return Result[T]{Object: found, Stalled: o.overridden(foo, Differences[T]{}, 0)}
	}
	logger.V(4).Info("Read "+o.kind+" from cache", "resourceVersion", found.GetResourceVersion())
	differences := o.compare(found, set)
	if !differences.Exist() {
		logger.V(4).Info(o.kind + " is in its desired state")
		return Result[T]{Object: found, Stalled: o.untilHeld(foo, differences)}
	}
	return o.write(ctx, foo, differences, set, o.patch)
}

// write creates or patches an object, unless its last write has started a pause.
func (o *Owned[T]) write(
	ctx context.Context, foo *samplev1alpha1.Foo, differences Differences[T], set func(T),
	send func(context.Context, *samplev1alpha1.Foo, Differences[T]) (T, error),
) (result Result[T]) {
	klog.FromContext(ctx).V(4).Info(o.kind+" differs from its desired state", "differences", differences)
	result.Object = differences.Found
	last, isPaused := o.pacer.when(o.key(foo, differences.Desired))
	switch {
	case isPaused && last.rejection != "":
		result.Stalled = o.rejected(last)
		return result
	case isPaused: // What was written is not there any more, or was not all.
		result.Stalled = o.overridden(foo, differences, last.remaining())
		return result
	}
	stored, err := send(ctx, foo, differences)
	stalled, isStalled := errors.AsType[StalledError](err)
	switch {
	case isStalled:
		result.Stalled = stalled
	case err != nil:
		result.Err = err
	default:
		result.Object, result.Changed = stored, true
		result.Stalled = o.untilHeld(foo, o.compare(stored, set))
	}
	return result
}

// create creates an object. Unless it is certainly the first, a live read of the Foo precedes it. If the name exists,
// a live read shows whether this is a name conflict or the cache is stale.
func (o *Owned[T]) create(ctx context.Context, foo *samplev1alpha1.Foo, d Differences[T]) (T, error) {
	none, desired := d.Found, d.Desired
	created := foo.CreationTimestamp.Time // It is zero with fake clients.
	isOld := !created.IsZero() && time.Since(created) > memoryTime
	if isOld || foo.Status.ObservedGeneration > 0 || o.pacer.hasWritten(foo.UID, o.resource) { // It may not be the first.
		if err := o.ensureCurrent(ctx, foo); err != nil {
			return none, err
		}
	}
	client, name := o.client(foo.Namespace), desired.GetName()
	stored, err := client.Create(ctx, desired, metav1.CreateOptions{FieldManager: o.fieldManager})
	if !apierrors.IsAlreadyExists(err) || IsRejection(err) {
		return stored, o.answered(ctx, foo, "Created ", desired, stored, err)
	}
	existing, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return none, err
	}
	klog.FromContext(ctx).V(4).Info(o.kind+" exists; read it from the API server",
		"resourceVersion", existing.GetResourceVersion())
	o.expect(foo, o.resource, existing)
	if !ownership.IsControlledBy(existing, foo) {
		return none, nameConflict(name)
	}
	return none, fmt.Errorf("%w: %s %q exists", consistency.ErrStale, o.kind, name)
}

// patch sends the differences between found and desired as a strategic merge patch, so that fields which this
// version of the Go types does not have survive. The error is a conflict if the object has changed since it was found.
func (o *Owned[T]) patch(ctx context.Context, foo *samplev1alpha1.Foo, d Differences[T]) (T, error) {
	patch, err := mergePatch(d.Found, d.Desired)
	if err != nil {
		return d.Found, err
	}
	klog.FromContext(ctx).V(4).Info("Patching "+o.kind, "patch", string(patch))
	patched, err := o.client(foo.Namespace).Patch(ctx, d.Found.GetName(), types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: o.fieldManager})
	return patched, o.answered(ctx, foo, "Patched ", d.Found, patched, err)
}

// mergePatch returns the strategic merge patch from found to desired. It carries the resourceVersion of found as a
// precondition. What is equal is left out: a list whose items lack their merge key could not be compared.
func mergePatch[T Object[T]](found, desired T) ([]byte, error) {
	before, after := reflect.New(reflect.TypeFor[T]().Elem()), reflect.New(reflect.TypeFor[T]().Elem())
	setDifferences(before.Elem(), after.Elem(), reflect.ValueOf(found).Elem(), reflect.ValueOf(desired).Elem())
	after.Interface().(T).SetResourceVersion(found.GetResourceVersion())
	from, err := json.Marshal(before.Interface())
	to, toErr := json.Marshal(after.Interface())
	if err := cmp.Or(err, toErr); err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(from, to, found)
}

// setDifferences sets the fields in which two structs differ and, of those that are structs, only what differs. What has a JSON
// form of its own is a value, and so is a union, whose retainKeys strategy needs all of its fields.
func setDifferences(before, after, found, desired reflect.Value) {
	for i := range found.NumField() {
		a, b := found.Field(i), desired.Field(i)
		_, isValue := a.Interface().(json.Marshaler)
		isUnion := strings.Contains(found.Type().Field(i).Tag.Get("patchStrategy"), "retainKeys")
		switch {
		case reflect.DeepEqual(a.Interface(), b.Interface()):
		case a.Kind() == reflect.Struct && !isValue && !isUnion:
			setDifferences(before.Field(i), after.Field(i), a, b)
		default:
			before.Field(i).Set(a)
			after.Field(i).Set(b)
		}
	}
}

// Prune deletes the objects of a Foo that the object of a sync's result supersedes, once that can take over, and returns
// those that it has deleted. Each is deleted by itself: one whose deletion fails holds back no other. What fails, or a
// user has to act on, is added to the result.
func (o *Owned[T]) Prune(
	ctx context.Context, foo *samplev1alpha1.Foo, superseded []T, result *Result[T], canTakeOver func(T) bool,
) (pruned []T) {
	var none T
	for _, old := range superseded {
		logger := klog.LoggerWithValues(klog.FromContext(ctx), strings.ToLower(o.kind), klog.KObj(old))
		if result.Object == none || !canTakeOver(result.Object) {
			logger.V(4).Info("Keeping superseded " + o.kind + " until the new one is available")
			continue
		}
		err := o.Delete(klog.NewContext(ctx, logger), foo, old, result.Object, canTakeOver)
		stalled, isStalled := errors.AsType[StalledError](err)
		switch {
		case err == nil:
			pruned = append(pruned, old)
		case isStalled:
			result.Stalled = result.Stalled.And(stalled)
		case errors.Is(err, ErrPaused): // It was deleted already.
		default:
			result.Err = cmp.Or(result.Err, err)
		}
	}
	return pruned
}

// Delete deletes an object that a Foo does not desire any more after a live read of the Foo, which may need it
// again. If current, which may be nil, supersedes the object, a live read of it follows, since it may be gone. The
// error is a conflict if the object has changed, a StalledError if its deletion is rejected, ErrPaused if it was
// deleted just before, and wraps ErrStale if a live read shows that it must stay.
func (o *Owned[T]) Delete(
	ctx context.Context, foo *samplev1alpha1.Foo, object, current T, canTakeOver func(T) bool,
) error {
	switch last, isPaused := o.pacer.when(o.key(foo, object)); {
	case isPaused && last.rejection != "":
		return o.rejected(last)
	case isPaused:
		return ErrPaused // It is not gone yet, or the cache still has it.
	}
	if err := o.ensureCurrent(ctx, foo); err != nil {
		return err
	}
	client, done := o.client(foo.Namespace), "Deleted "
	var none T
	if current != none {
		live, err := client.Get(ctx, current.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return fmt.Errorf("%w: %s %q is gone", consistency.ErrStale, o.kind, current.GetName())
		case err != nil:
			return err
		case !ownership.IsControlledBy(live, foo), !canTakeOver(live):
			o.expect(foo, o.resource, live)
			return fmt.Errorf("%w: %s %q has changed", consistency.ErrStale, o.kind, current.GetName())
		}
		klog.FromContext(ctx).V(4).Info("Read "+o.kind+" from the API server; it can take over",
			"current", klog.KObj(live))
		done = "Deleted superseded "
	}
	err := client.Delete(ctx, object.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
		UID: new(object.GetUID()), ResourceVersion: new(object.GetResourceVersion()),
	}})
	return o.answered(ctx, foo, done, object, none, err)
}

// answered records a write that the API server has accepted or rejected; for the latter it returns a StalledError.
// Nothing is stored after a deletion.
func (o *Owned[T]) answered(
	ctx context.Context, foo *samplev1alpha1.Foo, done string, written, stored T, err error,
) error {
	var none T
	logger, key := klog.FromContext(ctx), o.key(foo, written)
	switch {
	case IsRejection(err):
		return o.rejected(o.pacer.answered(key, err.Error()))
	case err != nil:
		return err
	case stored != none:
		if stored.GetUID() != written.GetUID() { // What was created has a pause of its own.
			o.pacer.answered(o.key(foo, stored), "")
		}
		o.expect(foo, o.resource, stored)
		logger = klog.LoggerWithValues(logger, "resourceVersion", stored.GetResourceVersion())
	}
	o.pacer.answered(key, "")
	logger.V(2).Info(done + o.kind)
	return nil
}

func (o *Owned[T]) key(foo *samplev1alpha1.Foo, object T) key {
	return key{foo.UID, object.GetUID(), o.resource, object.GetName(), foo.Generation}
}

// compare returns how an object differs from what set makes of it.
func (o *Owned[T]) compare(found T, set func(T)) Differences[T] {
	desired := found.DeepCopy() // What a lister returns belongs to the cache and must not be changed.
	set(desired)
	return Differences[T]{o.kind, found, desired}
}

// untilHeld returns what stalls a Foo because others change what was written: the differences that are left or,
// until the desired state is held, what the status reports already.
func (o *Owned[T]) untilHeld(foo *samplev1alpha1.Foo, left Differences[T]) StalledError {
	key := o.key(foo, left.Found)
	if left.Exist() {
		last, _ := o.pacer.when(key)
		return o.overridden(foo, left, last.remaining())
	}
	if untilHeld := o.pacer.found(key); untilHeld > 0 {
		return o.overridden(foo, Differences[T]{}, untilHeld)
	}
	return StalledError{}
}

// overridden returns the error that names the differences, if there are any. What the status of the Foo reports
// already stays, with its text.
func (o *Owned[T]) overridden(
	foo *samplev1alpha1.Foo, differences Differences[T], retryAfter time.Duration,
) StalledError {
	reason := o.kind + "Overridden"
	if reported := Reported(foo, reason); reported != nil {
		return StalledError{reason, reported.Message, retryAfter}
	}
	if !differences.Exist() {
		return StalledError{}
	}
	return StalledError{reason, differences.String(), retryAfter}
}

// rejected returns the error for what the API server has rejected, with its message.
func (o *Owned[T]) rejected(last pause) StalledError {
	return StalledError{o.kind + "Rejected", last.rejection, last.remaining()}
}
