// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/foostatus"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
	samplescheme "k8s.io/sample-controller/pkg/generated/clientset/versioned/scheme"
	informers "k8s.io/sample-controller/pkg/generated/informers/externalversions/samplecontroller/v1alpha1"
	listers "k8s.io/sample-controller/pkg/generated/listers/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/kubeconfig"
	"k8s.io/sample-controller/pkg/metrics"
	"k8s.io/sample-controller/pkg/ownership"
	"k8s.io/sample-controller/pkg/priorityqueue"
	"k8s.io/sample-controller/pkg/writer"
)

const controllerAgentName = "sample-controller"

// Reasons and messages of events. ErrResourceExists is also the reason of a condition.
const (
	SuccessSynced         = "Synced"
	MessageResourceSynced = "Foo synced successfully"
	SuccessPruned         = "Pruned"
	MessageResourcePruned = "Deployment %q deleted: it is superseded by %q"
	ErrResourceExists     = foostatus.ErrResourceExists
	MessageResourceExists = foostatus.MessageResourceExists
)

const (
	// FieldManager is the manager in the managed fields of what this controller writes.
	FieldManager = controllerAgentName
	// DefaultImage is the image of the nginx container unless Config says otherwise.
	DefaultImage  = "nginx:latest"
	containerName = "nginx"
	// statusDelay batches the status changes of a Deployment, of which a rollout makes many.
	statusDelay = 500 * time.Millisecond
	// staleCacheDelay is the delay after which a Foo is requeued if a cache is stale. A watch event may requeue it earlier.
	staleCacheDelay = time.Second
	// overrideDelay is how long after the backoff what was overridden is still reported: another instance may be about to write.
	overrideDelay = 2 * time.Second
)

// Config configures a Controller. A zero value means the default.
type Config struct {
	// Image is the image of the nginx container of all Foos. The default is DefaultImage.
	Image string
	// ShutdownTimeout is how long running syncs may take once the context of Run is done. The default is 30 s.
	ShutdownTimeout time.Duration
}

// Controller creates one Deployment for each Foo and keeps it in the state that the Foo desires.
type Controller struct {
	kubeclientset      kubernetes.Interface
	sampleclientset    clientset.Interface
	deploymentsLister  appslisters.DeploymentLister
	deploymentsIndexer cache.Indexer
	deploymentsSynced  cache.InformerSynced
	foosLister         listers.FooLister
	foosIndexer        cache.Indexer
	foosSynced         cache.InformerSynced

	// workqueue holds the namespace/name of each Foo that has to be synced, once. A key is processed by one worker at a time.
	workqueue        *priorityqueue.Queue[cache.ObjectName]
	consistencyStore *consistency.Store
	writer           *writer.Writer
	// backoff paces the writes for each generation of a Foo, however often others change or delete its Deployment: the first one is made
	// at once, and each one that the API server accepts starts a backoff.
	backoff          *flowcontrol.Backoff
	olderCRD         sync.Once // It is logged once that the CRD is older than this controller.
	eventBroadcaster record.EventBroadcaster
	recorder         record.EventRecorder
	logger           klog.Logger
	config           Config
}

// NewController returns a controller and adds its event handlers to the informers, running or not. Of several configs, the last one wins.
func NewController(
	ctx context.Context,
	kubeclientset kubernetes.Interface,
	sampleclientset clientset.Interface,
	deploymentInformer appsinformers.DeploymentInformer,
	fooInformer informers.FooInformer,
	configs ...Config,
) *Controller {
	config := Config{Image: DefaultImage, ShutdownTimeout: 30 * time.Second}
	for _, c := range configs {
		config.Image = cmp.Or(c.Image, config.Image)
		config.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, config.ShutdownTimeout)
	}

	eventBroadcaster := record.NewBroadcaster()
	controller := &Controller{
		kubeclientset:      kubeclientset,
		sampleclientset:    sampleclientset,
		deploymentsLister:  deploymentInformer.Lister(),
		deploymentsIndexer: deploymentInformer.Informer().GetIndexer(),
		deploymentsSynced:  deploymentInformer.Informer().HasSynced,
		foosLister:         fooInformer.Lister(),
		foosIndexer:        fooInformer.Informer().GetIndexer(),
		foosSynced:         fooInformer.Informer().HasSynced,
		workqueue:          priorityqueue.New("foos", priorityqueue.NewRateLimiter[cache.ObjectName]()),
		consistencyStore: consistency.NewStore(map[schema.GroupResource]consistency.LastSyncRVGetter{
			appsv1.Resource("deployments"):  deploymentInformer.Informer().GetStore(),
			samplev1alpha1.Resource("foos"): fooInformer.Informer().GetStore(),
		}),
		backoff:          flowcontrol.NewBackOff(time.Second, 1000*time.Second),
		eventBroadcaster: eventBroadcaster,
		recorder:         eventBroadcaster.NewRecorder(samplescheme.Scheme, corev1.EventSource{Component: controllerAgentName}),
		logger:           klog.FromContext(ctx),
		config:           config,
	}
	controller.writer = writer.New(kubeclientset, sampleclientset, controller.consistencyStore, FieldManager)
	utilruntime.Must(deploymentInformer.Informer().AddIndexers(ownership.DeploymentIndexers))
	utilruntime.Must(fooInformer.Informer().AddIndexers(ownership.FooIndexers))

	controller.logger.Info("Setting up event handlers")
	_, err := fooInformer.Informer().AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    controller.addFoo,
		UpdateFunc: controller.updateFoo,
		DeleteFunc: func(obj any) { controller.enqueueFoo(obj, "deleted") },
	})
	utilruntime.Must(err)
	_, err = deploymentInformer.Informer().AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    controller.addDeployment,
		UpdateFunc: controller.updateDeployment,
		DeleteFunc: controller.deleteDeployment,
	}, 0) // A resync of the Foos is enough.
	utilruntime.Must(err)
	return controller
}

// Run waits for the caches to sync and starts the workers. Once ctx is done it waits for the syncs that are running, at most for
// Config.ShutdownTimeout: if they take longer their requests are cancelled, and Run returns an error. Run may be called once.
func (c *Controller) Run(ctx context.Context, workers int) error {
	defer utilruntime.HandleCrashWithContext(ctx)
	defer c.workqueue.ShutDown()
	logger := klog.FromContext(ctx)

	c.eventBroadcaster.StartStructuredLogging(4)
	c.eventBroadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.kubeclientset.CoreV1().Events("")})
	defer c.eventBroadcaster.Shutdown()

	logger.Info("Starting Foo controller")
	logger.Info("Waiting for informer caches to sync")
	if !cache.WaitForCacheSync(ctx.Done(), c.deploymentsSynced, c.foosSynced) {
		return nil
	}

	syncCtx, cancelSyncs := context.WithCancelCause(context.WithoutCancel(ctx)) // Running syncs outlive ctx.
	defer cancelSyncs(nil)
	go wait.Until(c.backoff.GC, time.Minute, ctx.Done())
	logger.Info("Starting workers", "count", workers)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() { c.runWorker(ctx, syncCtx) })
	}
	logger.Info("Started workers")

	<-ctx.Done()
	logger.Info("Shutting down workers")
	c.workqueue.ShutDown()
	timer := time.AfterFunc(c.config.ShutdownTimeout, func() {
		cancelSyncs(fmt.Errorf("syncs that were still running %s after the shutdown had begun were cancelled", c.config.ShutdownTimeout))
	})
	defer timer.Stop()
	running.Wait()
	return context.Cause(syncCtx)
}

func (c *Controller) addFoo(obj any, isInInitialList bool) {
	foo := obj.(*samplev1alpha1.Foo)
	c.logger.V(4).Info("Adding Foo", "foo", klog.KObj(foo), "resourceVersion", foo.ResourceVersion, "isInInitialList", isInInitialList)
	if isInInitialList {
		c.enqueueLowPriority(foo, "initial list")
		return
	}
	c.enqueueFoo(foo, "added")
}

// updateFoo enqueues a Foo whose spec has changed and, with low priority, one that is resynced. Other changes, such as those that this
// controller makes, are no reason to sync: a status that another client writes is restored at the next resync.
func (c *Controller) updateFoo(oldObj, newObj any) {
	oldFoo, foo := oldObj.(*samplev1alpha1.Foo), newObj.(*samplev1alpha1.Foo)
	isResync := oldFoo.ResourceVersion == foo.ResourceVersion
	c.logger.V(4).Info("Updating Foo", "foo", klog.KObj(foo), "resourceVersion", foo.ResourceVersion, "isResync", isResync)
	switch {
	case oldFoo.UID != foo.UID, oldFoo.Generation != foo.Generation: // A deletion with finalizers changes the generation, too.
		c.workqueue.Forget(cache.MetaObjectToName(foo)) // What has failed may succeed with the new spec.
		c.enqueueFoo(foo, "spec, UID or deletionTimestamp changed")
	case isResync:
		c.enqueueLowPriority(foo, "resync")
	default:
		c.logger.V(4).Info("Foo not enqueued", "foo", klog.KObj(foo), "reason", "only status or metadata changed")
	}
}

// addDeployment enqueues the Foo of a new Deployment. Those of the initial list are enqueued with the initial list of Foos.
func (c *Controller) addDeployment(obj any, isInInitialList bool) {
	deployment := obj.(*appsv1.Deployment)
	c.logger.V(4).Info("Adding Deployment", "deployment", klog.KObj(deployment), "resourceVersion", deployment.ResourceVersion,
		"isInInitialList", isInInitialList)
	if !isInInitialList {
		c.handleObject(deployment)
	}
}

// updateDeployment enqueues the Foo of a Deployment that has changed, and if it has another controller now the former one too. Status
// changes, of which a rollout makes many, are batched.
func (c *Controller) updateDeployment(oldObj, newObj any) {
	oldDeployment, deployment := oldObj.(*appsv1.Deployment), newObj.(*appsv1.Deployment)
	logger := klog.LoggerWithValues(c.logger, "deployment", klog.KObj(deployment), "resourceVersion", deployment.ResourceVersion)
	logger.V(4).Info("Updating Deployment")
	foo := ownership.ResolveControllerRef(c.foosLister, deployment)
	switch {
	case oldDeployment.ResourceVersion == deployment.ResourceVersion:
		logger.V(4).Info("Foo not enqueued", "reason", "nothing changed")
	case !equality.Semantic.DeepEqual(ownership.ControllerRef(oldDeployment), ownership.ControllerRef(deployment)):
		c.handleObject(oldDeployment)
		c.handleObject(deployment)
		c.enqueueWaiting(cache.MetaObjectToName(deployment))
	case foo != nil && !equality.Semantic.DeepEqual(oldDeployment.Status, deployment.Status):
		logger.V(4).Info("Enqueuing Foo", "foo", klog.KObj(foo), "reason", "rollout of "+deployment.Name, "after", statusDelay)
		c.workqueue.AddAfter(cache.MetaObjectToName(foo), statusDelay)
	default:
		c.handleObject(deployment)
	}
}

// deleteDeployment enqueues the Foo that controlled a Deployment, and those that wait for its name.
func (c *Controller) deleteDeployment(obj any) {
	objectRef, err := cache.DeletionHandlingObjectToName(obj)
	utilruntime.Must(err) // What an informer caches has a name.
	c.logger.V(4).Info("Deleting Deployment", "deployment", objectRef)
	c.handleObject(obj)
	c.enqueueWaiting(objectRef)
}

// enqueueWaiting enqueues the Foos whose spec.deploymentName is the name of a Deployment that was deleted, or has another controller now.
func (c *Controller) enqueueWaiting(deployment cache.ObjectName) {
	for _, foo := range ownership.FoosByDeploymentName(c.foosIndexer, deployment) {
		c.workqueue.Forget(cache.MetaObjectToName(foo))
		c.enqueueFoo(foo, "Deployment of the desired name was deleted or has another controller")
	}
}

// handleObject enqueues the Foo that controls an object. If the watch missed the deletion of the object, obj is a tombstone with the
// last state that the cache had.
func (c *Controller) handleObject(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		c.logger.V(4).Info("Recovered deleted object from tombstone", "object", tombstone.Key)
		obj = tombstone.Obj
	}
	object, ok := obj.(metav1.Object)
	if !ok {
		utilruntime.HandleErrorWithLogger(c.logger, nil, "Object of unexpected type", "type", fmt.Sprintf("%T", obj))
		return
	}
	if foo := ownership.ResolveControllerRef(c.foosLister, object); foo != nil {
		c.enqueueFoo(foo, "controller of "+object.GetName())
		return
	}
	c.logger.V(4).Info("Foo not enqueued", "object", klog.KObj(object), "reason", "not controlled by a Foo that exists")
}

// enqueueFoo adds the namespace/name of a Foo, or of its tombstone, to the workqueue.
func (c *Controller) enqueueFoo(obj any, reason string) {
	objectRef, err := cache.DeletionHandlingObjectToName(obj)
	utilruntime.Must(err) // What an informer caches has a name.
	c.logger.V(4).Info("Enqueuing Foo", "foo", objectRef, "reason", reason, "priority", "high")
	c.workqueue.Add(objectRef)
}

// enqueueLowPriority is enqueueFoo for a Foo that has not changed, and so waits until those that have changed are synced.
func (c *Controller) enqueueLowPriority(foo *samplev1alpha1.Foo, reason string) {
	c.logger.V(4).Info("Enqueuing Foo", "foo", klog.KObj(foo), "reason", reason, "priority", "low")
	c.workqueue.AddLowPriority(cache.MetaObjectToName(foo))
}

// runWorker processes items of the workqueue until ctx is done. syncCtx is that of the syncs, and is done later.
func (c *Controller) runWorker(ctx, syncCtx context.Context) {
	for ctx.Err() == nil && c.processNextWorkItem(syncCtx) {
	}
}

// processNextWorkItem syncs the next Foo of the workqueue, and requeues it if that failed. It returns false after the shutdown.
func (c *Controller) processNextWorkItem(ctx context.Context) bool {
	objectRef, shutdown := c.workqueue.Get()
	if shutdown {
		return false
	}
	// Done marks the key as processed, whether the sync succeeded or not. If it was added meanwhile, it is queued again.
	defer c.workqueue.Done(objectRef)

	logger := klog.LoggerWithValues(klog.FromContext(ctx), "foo", objectRef)
	ctx = klog.NewContext(ctx, logger)
	logger.V(4).Info("Started syncing", "retries", c.workqueue.NumRequeues(objectRef))
	finish := metrics.StartSync()
	err := c.syncHandler(ctx, objectRef)

	result, delay := metrics.Success, time.Duration(0)
	switch _, isStalled := errors.AsType[*foostatus.StalledError](err); {
	case err == nil:
		c.workqueue.Forget(objectRef) // This resets the backoff.
	case errors.Is(err, consistency.ErrStale):
		result, delay = metrics.Stale, staleCacheDelay
		c.workqueue.AddAfter(objectRef, delay)
	case isStalled:
		result, delay = metrics.Stalled, c.workqueue.AddRateLimited(objectRef)
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// Another client has just changed or deleted an object, which is not a failure.
		result, delay = metrics.Conflict, c.workqueue.AddRateLimited(objectRef)
	default:
		result, delay = metrics.Error, c.workqueue.AddRateLimited(objectRef)
		utilruntime.HandleErrorWithContext(ctx, err, "Error syncing Foo; requeuing with backoff")
	}
	logger.V(4).Info("Finished syncing", "duration", finish(result), "result", result, "err", err, "requeueAfter", delay)
	return true
}

// syncHandler reconciles the Deployment of a Foo with the desired state, and then reports the result in the Foo's status and in events. It
// reads from the caches and writes only what differs. After an error the caller has to retry. A panic is returned as an error.
func (c *Controller) syncHandler(ctx context.Context, objectRef cache.ObjectName) (err error) {
	defer metrics.RecoverPanic(&err)

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
	logger.V(4).Info("Read Foo from the cache", "resourceVersion", foo.ResourceVersion, "generation", foo.Generation)
	if foo.DeletionTimestamp != nil {
		logger.V(4).Info("Foo is being deleted; leaving its Deployments to the garbage collector")
		return nil
	}

	deployment, written, err := c.syncDeployment(ctx, foo)
	if err == nil {
		err = c.pruneDeployments(ctx, foo, deployment)
	} else if _, isStalled := errors.AsType[*foostatus.StalledError](err); !isStalled {
		return err
	}
	return c.report(ctx, foo, deployment, written, err)
}

// syncDeployment creates the Deployment of a Foo, or corrects what differs from the desired state, unless it is backing off. It returns the
// Deployment, if the Foo has one, and whether it was written.
func (c *Controller) syncDeployment(ctx context.Context, foo *samplev1alpha1.Foo) (*appsv1.Deployment, bool, error) {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "deployment", klog.KRef(foo.Namespace, foo.Spec.DeploymentName))
	deployment, err := c.findDeployment(klog.NewContext(ctx, logger), foo)
	if err != nil {
		return nil, false, err
	}
	id, now := backoffID(foo), time.Now()
	desired := c.desiredDeployment(foo, deployment)
	overridden := foostatus.Reported(foo, foostatus.DeploymentOverridden)
	switch {
	case deployment != nil && deployment.DeletionTimestamp != nil:
		logger.V(4).Info("Deployment is being deleted; waiting until its name is free")
		return deployment, false, nil
	case reflect.DeepEqual(deployment, desired): // A copy has none of the differences that only equality.Semantic ignores.
		logger.V(4).Info("Deployment is in its desired state")
		if c.backoff.IsInBackOffSinceUpdate(id, now.Add(-overrideDelay)) {
			return deployment, false, overridden
		}
		c.backoff.Reset(id)
		return deployment, false, nil
	case c.backoff.IsInBackOffSinceUpdate(id, now): // Somebody has undone the last write, and would undo another one.
		logger.V(4).Info("Not writing Deployment: backing off", "backoff", c.backoff.Get(id))
		return deployment, false, cmp.Or(overridden, error(foostatus.Overridden(deployment, desired)))
	}
	written, err := c.write(klog.NewContext(ctx, logger), foo, deployment, desired)
	if err != nil {
		return deployment, false, err
	}
	c.backoff.Next(id, now)
	if expected := c.desiredDeployment(foo, written); !reflect.DeepEqual(written, expected) { // Admission has changed it.
		overridden = cmp.Or(overridden, error(foostatus.Overridden(written, expected)))
	}
	time.AfterFunc(c.backoff.Get(id), func() { c.enqueueLowPriority(foo, "end of backoff") }) // What differs then is corrected.
	if overridden != nil {
		time.AfterFunc(c.backoff.Get(id)+overrideDelay, func() { c.enqueueLowPriority(foo, "may no longer be overridden") })
	}
	return written, true, overridden
}

func backoffID(foo *samplev1alpha1.Foo) string { return fmt.Sprintf("%s/%d", foo.UID, foo.Generation) }

// findDeployment returns the Deployment of a Foo from the cache, or nil if there is none. It is an error if the Foo does not control it.
func (c *Controller) findDeployment(ctx context.Context, foo *samplev1alpha1.Foo) (*appsv1.Deployment, error) {
	deployment, err := c.deploymentsLister.Deployments(foo.Namespace).Get(foo.Spec.DeploymentName)
	switch {
	case apierrors.IsNotFound(err):
		klog.FromContext(ctx).V(4).Info("Deployment is not in the cache")
		return nil, nil
	case err != nil:
		return nil, err
	case !ownership.Controls(foo, deployment):
		return nil, foostatus.NameConflict(deployment.Name)
	}
	klog.FromContext(ctx).V(4).Info("Read Deployment from the cache", "resourceVersion", deployment.ResourceVersion)
	return deployment, nil
}

// write creates the desired Deployment or, if one was found, patches that. It returns the Deployment as it is stored.
func (c *Controller) write(ctx context.Context, foo *samplev1alpha1.Foo, found, desired *appsv1.Deployment) (*appsv1.Deployment, error) {
	if found != nil {
		klog.FromContext(ctx).V(4).Info("Deployment differs from its desired state", "differences", foostatus.Differences{Found: found, Desired: desired})
		return c.writer.Patch(ctx, foo, found, desired)
	}
	if foo.Status.ObservedGeneration > 0 || c.backoff.Get(backoffID(foo)) > 0 { // Not the first one: the Foo may be gone or renamed.
		if err := c.writer.EnsureCurrent(ctx, foo); err != nil {
			return nil, err
		}
	}
	return c.writer.Create(ctx, foo, desired)
}

// pruneDeployments deletes the Deployments that a Foo controls under earlier names, once the current one can take over.
func (c *Controller) pruneDeployments(ctx context.Context, foo *samplev1alpha1.Foo, current *appsv1.Deployment) error {
	for _, superseded := range ownership.Superseded(c.deploymentsIndexer, foo) {
		if !foostatus.CanTakeOver(current) {
			klog.FromContext(ctx).V(4).Info("Keeping superseded Deployment until the new one is available", "deployment", klog.KObj(superseded))
			continue
		}
		if err := c.writer.Delete(ctx, foo, superseded, current); err != nil {
			return err
		}
		c.recorder.Eventf(foo, corev1.EventTypeNormal, SuccessPruned, MessageResourcePruned, superseded.Name, current.Name)
	}
	return nil
}

// report updates the status of a Foo and records an event, for a Deployment or the error that prevents it, and returns that error.
func (c *Controller) report(ctx context.Context, foo *samplev1alpha1.Foo, deployment *appsv1.Deployment, written bool, syncErr error) error {
	stalled, isStalled := errors.AsType[*foostatus.StalledError](syncErr)
	if superseded := ownership.Superseded(c.deploymentsIndexer, foo); deployment == nil && len(superseded) > 0 {
		deployment = superseded[0] // It keeps serving until it can be replaced.
	}
	updated, err := c.updateFooStatus(ctx, foo, foostatus.New(foo, deployment, stalled))
	if err != nil {
		return err
	}
	switch {
	case isStalled && foostatus.Reported(foo, stalled.Reason) == nil:
		klog.FromContext(ctx).Info("Foo is stalled; retrying with backoff", "reason", stalled.Reason, "message", stalled.Message)
		c.recorder.Event(foo, corev1.EventTypeWarning, stalled.Reason, stalled.Message)
	case !isStalled && (written || !foostatus.IsObserved(foo) && foostatus.IsObserved(updated)):
		c.recorder.Event(foo, corev1.EventTypeNormal, SuccessSynced, MessageResourceSynced)
	}
	return syncErr
}

// updateFooStatus updates the status of a Foo if it differs, and nothing else of the Foo. It returns the Foo as it is stored. That an older
// CRD does not store the status, or parts of it, is no error.
func (c *Controller) updateFooStatus(
	ctx context.Context, foo *samplev1alpha1.Foo, status samplev1alpha1.FooStatus,
) (*samplev1alpha1.Foo, error) {
	logger := klog.FromContext(ctx)
	differs := !equality.Semantic.DeepEqual(foo.Status, status)
	logger.V(4).Info("Computed status", "conditions", status.Conditions, "differs", differs)
	if !differs {
		return foo, nil
	}
	fooCopy := foo.DeepCopy() // What a lister returns belongs to the cache and must not be changed.
	fooCopy.Status = status
	updated, err := c.sampleclientset.SamplecontrollerV1alpha1().Foos(foo.Namespace).UpdateStatus(ctx, fooCopy,
		metav1.UpdateOptions{FieldManager: FieldManager, FieldValidation: metav1.FieldValidationIgnore}) // An older CRD is noticed below.
	if apierrors.IsNotFound(err) && c.writer.EnsureCurrent(ctx, foo) == nil {
		updated, err = foo, nil // The Foo exists, so it is the status subresource that does not.
	}
	if err != nil {
		return nil, err
	}
	logger.V(4).Info("Updated status", "resourceVersion", updated.ResourceVersion)
	c.consistencyStore.WroteAt(cache.MetaObjectToName(foo), samplev1alpha1.Resource("foos"), updated.ResourceVersion)
	if !equality.Semantic.DeepEqual(updated.Status, status) {
		c.olderCRD.Do(func() {
			logger.Error(nil, "The CRD of Foo is older than this controller and does not store its status", "update", kubeconfig.InstallCommand)
		})
	}
	return updated, nil
}

// desiredDeployment returns the Deployment that a Foo desires: a copy of the one that it has, or a new one.
func (c *Controller) desiredDeployment(foo *samplev1alpha1.Foo, deployment *appsv1.Deployment) *appsv1.Deployment {
	desired := deployment.DeepCopy() // What a lister returns belongs to the cache and must not be changed.
	if deployment == nil {
		desired = newDeployment(foo)
		if superseded := ownership.Superseded(c.deploymentsIndexer, foo); foo.Spec.Replicas == nil && len(superseded) > 0 {
			desired.Spec.Replicas = superseded[0].Spec.Replicas // A rename keeps the number of replicas.
		}
	}
	setDesiredState(desired, foo, c.config.Image)
	return desired
}

// newDeployment returns the Deployment of a Foo. Its controller owner reference lets the garbage collector delete it with the Foo, and
// handleObject find the Foo.
func newDeployment(foo *samplev1alpha1.Foo) *appsv1.Deployment {
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name:            foo.Spec.DeploymentName,
			Namespace:       foo.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, ownership.FooKind)},
		},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labelsFor(foo)}},
	}
	setDesiredState(deployment, foo, DefaultImage)
	return deployment
}

// setDesiredState sets the fields that a Foo controls on a new or existing Deployment, and leaves all others unchanged.
func setDesiredState(deployment *appsv1.Deployment, foo *samplev1alpha1.Foo, image string) {
	for key, value := range labelsFor(foo) {
		metav1.SetMetaDataLabel(&deployment.ObjectMeta, key, value)
		metav1.SetMetaDataLabel(&deployment.Spec.Template.ObjectMeta, key, value)
	}
	if foo.Spec.Replicas != nil {
		deployment.Spec.Replicas = foo.Spec.Replicas
	}
	pod := &deployment.Spec.Template.Spec
	if !slices.ContainsFunc(pod.Containers, isNginx) {
		pod.Containers = append(pod.Containers, corev1.Container{Name: containerName})
	}
	pod.Containers[slices.IndexFunc(pod.Containers, isNginx)].Image = image
}

func isNginx(container corev1.Container) bool { return container.Name == containerName }

func labelsFor(foo *samplev1alpha1.Foo) map[string]string {
	return map[string]string{"app": "nginx", "controller": foo.Name}
}
