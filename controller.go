// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/control"
	"k8s.io/sample-controller/pkg/election"
	"k8s.io/sample-controller/pkg/foostatus"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
	samplescheme "k8s.io/sample-controller/pkg/generated/clientset/versioned/scheme"
	informers "k8s.io/sample-controller/pkg/generated/informers/externalversions/samplecontroller/v1alpha1"
	listers "k8s.io/sample-controller/pkg/generated/listers/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/metrics"
	"k8s.io/sample-controller/pkg/options"
	"k8s.io/sample-controller/pkg/ownership"
	"k8s.io/sample-controller/pkg/priorityqueue"
)

// Reasons and messages of events. ErrResourceExists is also the reason of a condition.
const (
	SuccessSynced         = "Synced"
	MessageResourceSynced = "Foo synced successfully"
	SuccessPruned         = "Pruned"
	MessageResourcePruned = "Deployment %q deleted: it is superseded by %q"
	ErrResourceExists     = control.ErrResourceExists
	MessageResourceExists = control.MessageResourceExists
)

const (
	controllerAgentName = "sample-controller"
	// FieldManager is the manager in the managed fields of what this controller writes.
	FieldManager  = controllerAgentName
	containerName = "nginx"
	// statusDelay batches the status changes of a Deployment, of which a rollout makes many.
	statusDelay = 500 * time.Millisecond
	// How long a Foo waits after a stale cache, a lost Lease or a paused write, and for a taken name, if no event
	// is earlier.
	retryDelay     = time.Second
	takenNameDelay = time.Minute
)

// Controller creates one Deployment for each Foo and keeps it in the state that the Foo desires.
type Controller struct {
	kubeclientset     kubernetes.Interface
	sampleclientset   clientset.Interface
	deploymentsSynced cache.DoneChecker
	foosLister        listers.FooLister
	foosSynced        cache.DoneChecker
	deploymentsByFoo  *ownership.Index[*appsv1.Deployment]  // by the UID of the Foo that controls them
	foosByDeployment  *ownership.Index[*samplev1alpha1.Foo] // by the name of the Deployment that they desire

	// workqueue holds the namespace/name of each Foo that has to be synced, once.
	workqueue        *priorityqueue.Queue[cache.ObjectName]
	consistencyStore *consistency.ConsistencyStore
	control          *control.Control
	deployments      *control.Owned[*appsv1.Deployment]
	eventBroadcaster record.EventBroadcaster
	recorder         record.EventRecorder
	logger           klog.Logger

	// These may be changed before Run.
	image           string        // of the nginx container of all Foos
	shutdownTimeout time.Duration // how long running syncs may take once the context of Run is done
}

// NewController returns a controller and adds its event handlers to the informers, running or not.
func NewController(
	ctx context.Context,
	kubeclientset kubernetes.Interface,
	sampleclientset clientset.Interface,
	deploymentInformer appsinformers.DeploymentInformer,
	fooInformer informers.FooInformer,
) *Controller {
	deployments := appsinformers.ToTypedDeploymentInformer(deploymentInformer).TypedInformer()
	foos := informers.ToTypedFooInformer(fooInformer).TypedInformer()
	requests := control.New(klog.FromContext(ctx), sampleclientset, foos.GetStore(), FieldManager)
	eventBroadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)))
	eventSource := corev1.EventSource{Component: controllerAgentName}
	controller := &Controller{
		kubeclientset:    kubeclientset,
		sampleclientset:  sampleclientset,
		foosLister:       fooInformer.Lister(),
		deploymentsByFoo: ownership.NewControllerIndex(deployments),
		foosByDeployment: ownership.NewIndex(foos, "deploymentName", func(foo *samplev1alpha1.Foo) string {
			return cache.NewObjectName(foo.Namespace, foo.Spec.DeploymentName).String()
		}),
		workqueue:        priorityqueue.New[cache.ObjectName]("foos"),
		consistencyStore: requests.ConsistencyStore,
		control:          requests,
		deployments: control.NewOwned(requests, "Deployment", appsv1.Resource("deployments"),
			deployments.GetStore(), kubeclientset.AppsV1().Deployments),
		eventBroadcaster: eventBroadcaster,
		recorder:         eventBroadcaster.NewRecorder(samplescheme.Scheme, eventSource),
		logger:           klog.FromContext(ctx),
		image:            options.DefaultImage,
		shutdownTimeout:  options.DefaultShutdownTimeout,
	}

	controller.logger.Info("Setting up event handlers")
	fooHandlers, err := foos.AddTypedEventHandler(informers.FooDetailedHandlerFuncs{
		AddFunc:    controller.addFoo,
		UpdateFunc: controller.updateFoo,
		DeleteFunc: func(foo informers.DeletedFoo) { controller.enqueueFoo(foo, "deleted") },
	}, cache.HandlerOptions{Logger: &controller.logger})
	utilruntime.Must(err)
	controller.foosSynced = fooHandlers.HasSyncedChecker()
	controller.deploymentsSynced = handleOwned(controller, "Deployment", deployments)
	return controller
}

// handleOwned adds the event handlers for a kind of objects that Foos own, and returns what knows when they have
// seen the initial list.
func handleOwned[T ownedObject](
	c *Controller, kind string, informer cache.TypedSharedIndexInformer[T],
) cache.DoneChecker {
	handlers, err := informer.AddTypedEventHandler(cache.TypedResourceEventHandlerDetailedFuncs[T]{
		AddFunc:    func(object T, isInInitialList bool) { c.addOwned(kind, object, isInInitialList) },
		UpdateFunc: func(oldObject, object T) { c.updateOwned(kind, oldObject, object) },
		DeleteFunc: func(deleted cache.DeletedObject[T]) { deleteOwned(c, kind, deleted) },
	}, cache.HandlerOptions{Logger: &c.logger, ResyncPeriod: new(time.Duration)}) // Foos are resynced.
	utilruntime.Must(err)
	return handlers.HasSyncedChecker()
}

// ownedObject is a pointer to an object of a kind that Foos own.
type ownedObject interface {
	comparable
	metav1.Object
}

// Run starts the workers once the event handlers have seen the initial lists. Once ctx is done, it waits for
// running syncs, and returns an error if they take longer than shutdownTimeout. Run may be called once.
func (c *Controller) Run(ctx context.Context, workers int) error {
	defer utilruntime.HandleCrashWithContext(ctx)
	defer c.workqueue.ShutDown()
	logger := klog.FromContext(ctx)

	c.eventBroadcaster.StartStructuredLogging(4)
	events := c.kubeclientset.CoreV1().Events("")
	c.eventBroadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: events})
	defer c.eventBroadcaster.Shutdown()
	logger.Info("Starting Foo controller")
	logger.Info("Waiting for informer caches to sync")
	if !cache.WaitFor(ctx, "", c.deploymentsSynced, c.foosSynced) {
		return nil
	}

	syncCtx, cancelSyncs := context.WithCancelCause(context.WithoutCancel(ctx)) // Running syncs outlive ctx.
	defer cancelSyncs(nil)
	go c.control.Run(ctx)
	go wait.UntilWithContext(ctx, c.enqueueMissed, time.Second)
	logger.Info("Starting workers", "count", workers)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() { c.runWorker(ctx, syncCtx) })
	}
	logger.Info("Started workers")

	<-ctx.Done()
	logger.Info("Shutting down workers")
	c.workqueue.ShutDown()
	defer time.AfterFunc(c.shutdownTimeout, func() {
		cancelSyncs(fmt.Errorf("syncs that were still running after %s were cancelled", c.shutdownTimeout))
	}).Stop()
	running.Wait()
	return context.Cause(syncCtx) // It is nil unless syncs were cancelled.
}

// addFoo enqueues a new Foo and, with low priority, one of the initial list.
func (c *Controller) addFoo(foo *samplev1alpha1.Foo, isInInitialList bool) {
	c.logger.V(4).Info("Adding Foo", "foo", klog.KObj(foo), "resourceVersion", foo.ResourceVersion,
		"isInInitialList", isInInitialList)
	if isInInitialList {
		c.enqueueLowPriority(foo, "initial list")
		return
	}
	c.enqueueFoo(foo, "added")
}

// updateFoo enqueues a Foo whose spec has changed and, with low priority, one that is resynced.
func (c *Controller) updateFoo(oldFoo, foo *samplev1alpha1.Foo) {
	isResync := oldFoo.ResourceVersion == foo.ResourceVersion
	c.logger.V(4).Info("Updating Foo", "foo", klog.KObj(foo), "resourceVersion", foo.ResourceVersion,
		"isResync", isResync)
	switch {
	case oldFoo.UID != foo.UID, oldFoo.Generation != foo.Generation, // The deletionTimestamp changes it, too.
		!equality.Semantic.DeepEqual(oldFoo.Spec, foo.Spec): // After a restore of etcd a generation comes back.
		c.workqueue.Forget(cache.MetaObjectToName(foo)) // What has failed may succeed with the new spec.
		c.enqueueFoo(foo, "spec, UID or deletionTimestamp changed")
	case isResync:
		c.enqueueLowPriority(foo, "resync")
	default:
		c.logger.V(4).Info("Foo not enqueued", "foo", klog.KObj(foo), "reason", "only status or metadata changed")
	}
}

// addOwned enqueues the Foo of a new object, and those that desire its name. For the initial list, addFoo enqueues
// all Foos.
func (c *Controller) addOwned(kind string, object metav1.Object, isInInitialList bool) {
	c.logger.V(4).Info("Adding "+kind, strings.ToLower(kind), klog.KObj(object),
		"resourceVersion", object.GetResourceVersion(), "isInInitialList", isInInitialList)
	if !isInInitialList {
		c.handleObject(object)
		// A relist may show an object for the first time after its Foo has lost it.
		c.enqueueWaiting(kind, cache.MetaObjectToName(object))
	}
}

// updateOwned enqueues the Foo of an object that has changed, and the Foo that controlled it before.
func (c *Controller) updateOwned(kind string, oldObject, object metav1.Object) {
	logger := klog.LoggerWithValues(c.logger, strings.ToLower(kind), klog.KObj(object))
	logger.V(4).Info("Updating "+kind, "resourceVersion", object.GetResourceVersion())
	oldRef, ref := ownership.ControllerRef(oldObject), ownership.ControllerRef(object)
	foo := ownership.ResolveControllerRef(c.foosLister, object)
	switch {
	case oldObject.GetResourceVersion() == object.GetResourceVersion():
		logger.V(4).Info("Foo not enqueued", "reason", "nothing changed")
	case !equality.Semantic.DeepEqual(oldRef, ref):
		c.handleObject(oldObject)
		c.handleObject(object)
		c.enqueueWaiting(kind, cache.MetaObjectToName(object))
	case foo != nil && onlyStatusDiffers(oldObject, object):
		logger.V(4).Info("Enqueuing Foo", "foo", klog.KObj(foo), "reason", "rollout of "+object.GetName(),
			"after", statusDelay)
		c.workqueue.AddAfter(cache.MetaObjectToName(foo), statusDelay)
	default:
		c.handleObject(object)
	}
}

// onlyStatusDiffers reports whether two states of an object differ in nothing that a Foo controls. Without a
// generation, as of a Service, that is not known.
func onlyStatusDiffers(oldObject, object metav1.Object) bool {
	return object.GetGeneration() > 0 && oldObject.GetGeneration() == object.GetGeneration() &&
		maps.Equal(oldObject.GetLabels(), object.GetLabels())
}

// deleteOwned enqueues the Foo that controlled an object, and those that wait for its name. If the watch missed the
// deletion, only a tombstone with the last state in the cache, if any, is known.
func deleteOwned[T ownedObject](c *Controller, kind string, deleted cache.DeletedObject[T]) {
	objectRef, isTombstone := deleted.GetObjectName(), deleted.FinalStateUnknown != nil
	c.logger.V(4).Info("Deleting "+kind, strings.ToLower(kind), klog.KObj(deleted), "isTombstone", isTombstone)
	var none T
	if deleted.OptionalObj != none {
		c.handleObject(deleted.OptionalObj)
	}
	c.enqueueWaiting(kind, objectRef)
}

// enqueueWaiting enqueues the Foos that desire the name of an object, which may be free or taken now.
func (c *Controller) enqueueWaiting(kind string, object cache.ObjectName) {
	for _, foo := range c.foosByDeployment.Get(object.String()) {
		c.enqueueFoo(foo, kind+" of the desired name was added or deleted, or has another controller")
	}
}

// enqueueMissed enqueues the Foos of which something was created and deleted without an event that shows it.
func (c *Controller) enqueueMissed(context.Context) {
	for _, objectRef := range c.consistencyStore.Missed(samplev1alpha1.Resource("foos")) {
		foo := &metav1.ObjectMeta{Namespace: objectRef.Namespace, Name: objectRef.Name}
		c.enqueueFoo(foo, "no event of a write has led to a sync")
	}
}

// handleObject enqueues the Foo that controls an object.
func (c *Controller) handleObject(object metav1.Object) {
	if foo := ownership.ResolveControllerRef(c.foosLister, object); foo != nil {
		c.enqueueFoo(foo, "controller of "+object.GetName())
		return
	}
	c.logger.V(4).Info("Foo not enqueued", "object", klog.KObj(object), "reason", "no Foo controls it")
}

// enqueueFoo adds the namespace/name of a Foo, deleted or not, to the workqueue.
func (c *Controller) enqueueFoo(foo klog.KMetadata, reason string) {
	objectRef := cache.NewObjectName(foo.GetNamespace(), foo.GetName())
	c.logger.V(4).Info("Enqueuing Foo", "foo", klog.KObj(foo), "reason", reason, "priority", "high")
	c.workqueue.Add(objectRef)
}

// enqueueLowPriority enqueues a Foo that has not changed. Its key waits for those of Foos that have.
func (c *Controller) enqueueLowPriority(foo *samplev1alpha1.Foo, reason string) {
	c.logger.V(4).Info("Enqueuing Foo", "foo", klog.KObj(foo), "reason", reason, "priority", "low")
	c.workqueue.AddLowPriority(cache.MetaObjectToName(foo))
}

// runWorker processes items of the workqueue until ctx is done. Their syncs use syncCtx, which outlives it.
func (c *Controller) runWorker(ctx, syncCtx context.Context) {
	for ctx.Err() == nil && c.processNextWorkItem(syncCtx) {
	}
}

// processNextWorkItem syncs the next Foo of the workqueue. It returns false after the shutdown.
func (c *Controller) processNextWorkItem(ctx context.Context) bool {
	objectRef, shutdown := c.workqueue.Get()
	if shutdown {
		return false
	}
	// Done marks the key as processed, even if its sync failed. If it was added meanwhile, it is queued again.
	defer c.workqueue.Done(objectRef)

	logger := klog.LoggerWithValues(klog.FromContext(ctx), "foo", klog.KRef(objectRef.Parts()))
	ctx = klog.NewContext(ctx, logger)
	logger.V(4).Info("Started syncing", "retries", c.workqueue.NumRequeues(objectRef))
	start := time.Now()
	metrics.ActiveWorkers.Inc()
	err := c.syncHandler(ctx, objectRef)
	result := c.handleErr(ctx, err, objectRef)
	metrics.ActiveWorkers.Dec()
	metrics.SyncDuration.Observe(time.Since(start).Seconds())
	metrics.Syncs.WithLabelValues(result).Inc()
	logger.V(4).Info("Finished syncing", "duration", time.Since(start), "result", result, "err", err)
	return true
}

// handleErr decides whether and when a Foo is synced again after a sync that returned err.
func (c *Controller) handleErr(ctx context.Context, err error, objectRef cache.ObjectName) string {
	result := c.resultOf(err, objectRef)
	switch result {
	case metrics.Success, metrics.Stalled: // What is stalled is retried when report has said.
		c.workqueue.Forget(objectRef) // This resets the retry delay.
	case metrics.Stale, metrics.NotLeading, metrics.Paused:
		c.workqueue.RetryAfter(objectRef, retryDelay)
	case metrics.Conflict:
		c.workqueue.AddRateLimited(objectRef)
	default:
		c.workqueue.AddRateLimited(objectRef)
		utilruntime.HandleErrorWithContext(ctx, err, "Error syncing Foo; requeuing with backoff")
	}
	return result
}

// resultOf returns the result of a sync, as the metrics have it, that returned err.
func (c *Controller) resultOf(err error, objectRef cache.ObjectName) string {
	_, isStalled := errors.AsType[control.StalledError](err)
	switch {
	case err == nil:
		return metrics.Success
	case errors.Is(err, consistency.ErrStale):
		return metrics.Stale
	case errors.Is(err, election.ErrNotLeading):
		return metrics.NotLeading
	case errors.Is(err, control.ErrPaused):
		return metrics.Paused
	case isStalled:
		return metrics.Stalled
	case control.IsConflict(err, c.workqueue.NumRequeues(objectRef)):
		return metrics.Conflict
	default:
		return metrics.Error
	}
}

// syncHandler reconciles the Deployment of a Foo with the desired state, and reports the result in the Foo's
// status and in events. It reads from the caches and writes only what differs. See handleErr for its error.
func (c *Controller) syncHandler(ctx context.Context, objectRef cache.ObjectName) (err error) {
	defer func() {
		if r := recover(); r != nil {
			metrics.SyncPanics.Inc()
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	// This comes first, so that what is read below is at least as new as the last write.
	if err := c.consistencyStore.EnsureReady(objectRef); err != nil {
		return err
	}
	logger := klog.FromContext(ctx)
	foo, err := c.foosLister.Foos(objectRef.Namespace).Get(objectRef.Name)
	switch {
	case apierrors.IsNotFound(err):
		logger.V(4).Info("Foo does not exist")
		return nil
	case err != nil:
		return err
	}
	logger.V(4).Info("Read Foo from cache", "resourceVersion", foo.ResourceVersion, "generation", foo.Generation)
	if foo.DeletionTimestamp != nil {
		logger.V(4).Info("Foo is being deleted; leaving its Deployments to the garbage collector")
		return nil
	}

	superseded := c.deploymentsByFoo.Superseded(foo, foo.Spec.DeploymentName)
	result := c.syncDeployment(ctx, foo, superseded)
	switch kind := c.resultOf(result.Err, objectRef); {
	case kind == metrics.Stale, kind == metrics.NotLeading, kind == metrics.Conflict && result.Object != nil:
		return result.Err // The caches are stale, or this instance must not act.
	}
	canTakeOver := func(d *appsv1.Deployment) bool { return foostatus.RolloutOf(d).CanTakeOver(foo) }
	for _, old := range c.deployments.Prune(ctx, foo, superseded, &result, canTakeOver) {
		c.recorder.Eventf(foo, corev1.EventTypeNormal, SuccessPruned, MessageResourcePruned, old.Name, result.Object.Name)
	}
	if errors.Is(result.Err, consistency.ErrStale) {
		return result.Err // A live read has shown that what would be reported is not so.
	}
	return c.report(ctx, foo, result, superseded)
}

// syncDeployment creates or patches the Deployment of a Foo if it differs from the desired state.
func (c *Controller) syncDeployment(
	ctx context.Context, foo *samplev1alpha1.Foo, superseded []*appsv1.Deployment,
) control.Result[*appsv1.Deployment] {
	desired := newDeployment(foo, c.image)
	if foo.Spec.Replicas == nil && len(superseded) > 0 { // A rename keeps the number of replicas.
		desired.Spec.Replicas = new(foostatus.RolloutOf(superseded[0]).Desired)
	}
	return c.deployments.CreateOrPatch(ctx, foo, desired, func(deployment *appsv1.Deployment) {
		setDesiredState(deployment, foo, c.image)
	})
}

// report updates the status of a Foo with what a sync found, whether or not its writes have succeeded, and records
// an event about what has changed. It returns the error of the sync.
func (c *Controller) report(
	ctx context.Context, foo *samplev1alpha1.Foo, result control.Result[*appsv1.Deployment],
	superseded []*appsv1.Deployment,
) error {
	objectRef, rollout := cache.MetaObjectToName(foo), foostatus.RolloutOf(result.Object)
	if rollout == nil && len(superseded) > 0 { // One keeps serving until it can be replaced.
		isAvailable := func(d *appsv1.Deployment) bool { return foostatus.RolloutOf(d).IsAvailable() }
		rollout = foostatus.RolloutOf(superseded[max(0, slices.IndexFunc(superseded, isAvailable))])
	}
	var stalled error
	reason, message := result.Stalled.Reason, result.Stalled.Message
	switch {
	case reason != "":
		stalled = result.Stalled
		after := cmp.Or(result.Stalled.RetryAfter, takenNameDelay)
		klog.FromContext(ctx).V(4).Info("Enqueuing Foo", "reason", reason, "after", after)
		c.workqueue.RetryAfter(objectRef, after)
	case c.resultOf(result.Err, objectRef) == metrics.Error:
		reason, message = foostatus.Failed, result.Err.Error()
	}
	stored, err := c.control.UpdateFooStatus(ctx, foo, foostatus.New(foo, rollout, reason, message))
	isObserved, isWritten := foo.Status.ObservedGeneration == foo.Generation, err == nil
	switch { // A new generation counts as synced once its status is written, so that there is no second event.
	case reason == "" && result.Err == nil && (result.Changed && (isObserved || isWritten) ||
		isWritten && stored.Status.ObservedGeneration != foo.Status.ObservedGeneration):
		c.recorder.Event(foo, corev1.EventTypeNormal, SuccessSynced, MessageResourceSynced)
	case reason != "" && isWritten && control.Reported(foo, reason) == nil:
		message = foostatus.Shorten(message, 1024) // The limit of events.k8s.io.
		klog.FromContext(ctx).Info("Foo is not ready", "reason", reason, "message", message)
		c.recorder.Event(foo, corev1.EventTypeWarning, reason, message)
	}
	if errors.Is(err, control.ErrPaused) {
		return err // The status is what is retried next, and no further failure is counted.
	}
	return cmp.Or(result.Err, err, stalled) // What is retried comes before what stalls the Foo.
}

// newDeployment returns a Foo's Deployment. The garbage collector and handleObject need its owner reference.
func newDeployment(foo *samplev1alpha1.Foo, image string) *appsv1.Deployment {
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name:            foo.Spec.DeploymentName,
			Namespace:       foo.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, ownership.FooKind)},
		},
		Spec: appsv1.DeploymentSpec{Selector: metav1.SetAsLabelSelector(labelsFor(foo))},
	}
	setDesiredState(deployment, foo, image)
	return deployment
}

// setDesiredState sets the fields that a Foo controls on a new or existing Deployment, and no others.
func setDesiredState(deployment *appsv1.Deployment, foo *samplev1alpha1.Foo, image string) {
	for key, value := range labelsFor(foo) {
		metav1.SetMetaDataLabel(&deployment.ObjectMeta, key, value)
		metav1.SetMetaDataLabel(&deployment.Spec.Template.ObjectMeta, key, value)
	}
	if foo.Spec.Replicas != nil {
		deployment.Spec.Replicas = new(*foo.Spec.Replicas) // A pointer into the cache must not leave it.
	}
	pod := &deployment.Spec.Template.Spec
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == containerName })
	if i < 0 {
		i, pod.Containers = len(pod.Containers), append(pod.Containers, corev1.Container{Name: containerName})
	}
	pod.Containers[i].Image = image
}

func labelsFor(foo *samplev1alpha1.Foo) map[string]string {
	return map[string]string{"app": "nginx", "controller": foo.Name}
}
