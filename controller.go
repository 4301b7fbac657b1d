// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/foostatus"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
	samplescheme "k8s.io/sample-controller/pkg/generated/clientset/versioned/scheme"
	informers "k8s.io/sample-controller/pkg/generated/informers/externalversions/samplecontroller/v1alpha1"
	listers "k8s.io/sample-controller/pkg/generated/listers/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/metrics"
	"k8s.io/sample-controller/pkg/ownership"
	"k8s.io/sample-controller/pkg/priorityqueue"
	"k8s.io/sample-controller/pkg/signals"
)

const controllerAgentName = "sample-controller"

// Reasons and messages of events. ErrResourceExists is also the reason of a condition.
const (
	SuccessSynced         = "Synced"
	MessageResourceSynced = "Foo synced successfully"
	SuccessPruned         = "Pruned"
	MessageResourcePruned = "Deployment %q deleted: it is superseded by %q"
	ErrResourceExists     = "ErrResourceExists"
	MessageResourceExists = "Resource %q already exists and is not managed by Foo"
)

const (
	// FieldManager is the manager in the managed fields of what this controller writes.
	FieldManager = controllerAgentName
	// DefaultImage is the image of the nginx container unless Config says otherwise.
	DefaultImage = "nginx:latest"

	// containerName is the name of the container whose image the controller sets.
	containerName = "nginx"
	// statusDelay is how long changes of a status are collected before the Foo is synced. A rollout makes many of the Deployment's, and
	// someone else who writes the Foo's must not make this controller write as fast.
	statusDelay = 500 * time.Millisecond
	// staleCacheDelay is how long a sync waits for a stale cache unless a watch event comes earlier.
	staleCacheDelay = time.Second
)

var (
	fooResource        = samplev1alpha1.Resource("foos")
	deploymentResource = appsv1.Resource("deployments")
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
	kubeclientset   kubernetes.Interface
	sampleclientset clientset.Interface

	deploymentsLister  appslisters.DeploymentLister
	deploymentsIndexer cache.Indexer
	deploymentsSynced  cache.InformerSynced
	foosLister         listers.FooLister
	foosIndexer        cache.Indexer
	foosSynced         cache.InformerSynced

	// workqueue holds the namespace/name of each Foo that has to be synced. A key is in it once, however often it is added, and
	// is processed by one worker at a time.
	workqueue *priorityqueue.Queue[cache.ObjectName]
	// stalledBackoff is the backoff of Foos that are stalled. The workqueue's own is for all other errors.
	stalledBackoff workqueue.TypedRateLimiter[cache.ObjectName]
	// correctionBackoff limits how often a Deployment is written, for one generation of its Foo, if someone else keeps changing or
	// deleting it, or the API server rejects it.
	correctionBackoff *flowcontrol.Backoff
	// statusWriter writes statuses, and remembers those that a CRD that is older than this program does not store.
	statusWriter *foostatus.Writer
	// consistencyStore keeps a sync from acting on a cache that is older than the last write for the same Foo.
	consistencyStore *consistency.Store

	eventBroadcaster record.EventBroadcaster
	recorder         record.EventRecorder
	logger           klog.Logger
	config           Config
}

// NewController returns a controller and registers its event handlers with the two informers, which may be running already. Of several
// configs the last value that is set counts.
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
	rateLimiter := priorityqueue.NewRateLimiter[cache.ObjectName]
	controller := &Controller{
		kubeclientset:      kubeclientset,
		sampleclientset:    sampleclientset,
		deploymentsLister:  deploymentInformer.Lister(),
		deploymentsIndexer: deploymentInformer.Informer().GetIndexer(),
		deploymentsSynced:  deploymentInformer.Informer().HasSynced,
		foosLister:         fooInformer.Lister(),
		foosIndexer:        fooInformer.Informer().GetIndexer(),
		foosSynced:         fooInformer.Informer().HasSynced,
		workqueue:          priorityqueue.New("foos", rateLimiter()),
		stalledBackoff:     rateLimiter(),
		correctionBackoff:  flowcontrol.NewBackOff(time.Second, 1000*time.Second),
		statusWriter:       foostatus.NewWriter(sampleclientset),
		consistencyStore: consistency.NewStore(map[schema.GroupResource]consistency.Cache{
			deploymentResource: deploymentInformer.Informer().GetStore(),
			fooResource:        fooInformer.Informer().GetStore(),
		}),
		eventBroadcaster: eventBroadcaster,
		recorder:         eventBroadcaster.NewRecorder(samplescheme.Scheme, corev1.EventSource{Component: controllerAgentName}),
		logger:           klog.FromContext(ctx),
		config:           config,
	}
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

	syncCtx, cancel := signals.WithGracePeriod(ctx, c.config.ShutdownTimeout)
	defer cancel()
	go wait.UntilWithContext(ctx, func(context.Context) { c.correctionBackoff.GC() }, time.Minute)
	logger.Info("Starting workers", "count", workers)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() { c.runWorker(ctx, syncCtx) })
	}
	logger.Info("Started workers")

	<-ctx.Done()
	logger.Info("Shutting down workers")
	c.workqueue.ShutDown()
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

// updateFoo enqueues a Foo that has changed and, with low priority, one that is resynced. A stalled Foo is retried with backoff only,
// unless its spec has changed.
func (c *Controller) updateFoo(oldObj, newObj any) {
	oldFoo, foo := oldObj.(*samplev1alpha1.Foo), newObj.(*samplev1alpha1.Foo)
	isResync := oldFoo.ResourceVersion == foo.ResourceVersion
	c.logger.V(4).Info("Updating Foo", "foo", klog.KObj(foo), "resourceVersion", foo.ResourceVersion, "isResync", isResync)
	switch {
	case oldFoo.UID != foo.UID, oldFoo.Generation != foo.Generation, !oldFoo.DeletionTimestamp.Equal(foo.DeletionTimestamp):
		c.forgetRetries(cache.MetaObjectToName(foo))
		c.enqueueFoo(foo, "spec, UID or deletionTimestamp changed")
	case c.stalledBackoff.NumRequeues(cache.MetaObjectToName(foo)) > 0 && foo.IsObserved():
		c.logger.V(4).Info("Foo not enqueued", "foo", klog.KObj(foo), "reason", "stalled: retried with backoff")
	case isResync:
		c.enqueueLowPriority(foo, "resync")
	default:
		c.enqueueFooAfterDelay(foo, "status or metadata changed")
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

// updateDeployment enqueues the Foo of a Deployment that has changed, and if it has another controller now the former one too. Changes of
// the status, of which a rollout makes many, are collected for a while.
func (c *Controller) updateDeployment(oldObj, newObj any) {
	oldDeployment, deployment := oldObj.(*appsv1.Deployment), newObj.(*appsv1.Deployment)
	logger := klog.LoggerWithValues(c.logger, "deployment", klog.KObj(deployment), "resourceVersion", deployment.ResourceVersion)
	logger.V(4).Info("Updating Deployment")
	foo := c.resolveControllerRef(deployment)
	switch {
	case oldDeployment.ResourceVersion == deployment.ResourceVersion:
		logger.V(4).Info("Foo not enqueued", "reason", "nothing changed")
	case !equality.Semantic.DeepEqual(samplev1alpha1.ControllerRef(oldDeployment), samplev1alpha1.ControllerRef(deployment)):
		c.handleObject(oldDeployment)
		c.handleObject(deployment)
		c.enqueueWaiting(cache.MetaObjectToName(deployment))
	case foo != nil && !equality.Semantic.DeepEqual(oldDeployment.Status, deployment.Status):
		c.enqueueFooAfterDelay(foo, "rollout of "+deployment.Name)
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

// enqueueWaiting enqueues all Foos that desire a Deployment of a name that has become free, or has another controller.
func (c *Controller) enqueueWaiting(deployment cache.ObjectName) {
	for _, foo := range ownership.FoosDesiring(c.foosIndexer, deployment) {
		c.forgetRetries(cache.MetaObjectToName(foo))
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
	if foo := c.resolveControllerRef(object); foo != nil {
		c.enqueueFoo(foo, "controller of "+object.GetName())
		return
	}
	c.logger.V(4).Info("Foo not enqueued", "object", klog.KObj(object), "reason", "not controlled by a Foo that exists")
}

// resolveControllerRef returns the Foo that controls an object, or nil if there is none, or it no longer exists: then the garbage
// collector deletes the object.
func (c *Controller) resolveControllerRef(object metav1.Object) *samplev1alpha1.Foo {
	controllerRef := samplev1alpha1.ControllerRef(object)
	if controllerRef == nil {
		return nil
	}
	foo, err := c.foosLister.Foos(object.GetNamespace()).Get(controllerRef.Name)
	if err != nil || foo.UID != controllerRef.UID {
		return nil
	}
	return foo
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

// enqueueFooAfterDelay is enqueueFoo for a Foo of which, or of whose Deployment, only the status has changed.
func (c *Controller) enqueueFooAfterDelay(foo *samplev1alpha1.Foo, reason string) {
	c.logger.V(4).Info("Enqueuing Foo", "foo", klog.KObj(foo), "reason", reason, "after", statusDelay)
	c.workqueue.AddAfter(cache.MetaObjectToName(foo), statusDelay)
}

// forgetRetries resets the backoff of a Foo that has succeeded, or whose failures were due to a situation that is over.
func (c *Controller) forgetRetries(objectRef cache.ObjectName) {
	c.workqueue.Forget(objectRef)
	c.stalledBackoff.Forget(objectRef)
}

// runWorker processes items of the workqueue until ctx is done. syncCtx is that of the syncs, and is done later.
func (c *Controller) runWorker(ctx, syncCtx context.Context) {
	for ctx.Err() == nil && c.processNextWorkItem(syncCtx) {
	}
}

// processNextWorkItem syncs the next Foo of the workqueue, and requeues it if that failed. It returns false once the workqueue is
// shut down.
func (c *Controller) processNextWorkItem(ctx context.Context) bool {
	objectRef, shutdown := c.workqueue.Get()
	if shutdown {
		return false
	}
	// Done marks the key as processed, whether the sync succeeded or not. If it was added meanwhile, it is queued again.
	defer c.workqueue.Done(objectRef)

	logger := klog.LoggerWithValues(klog.FromContext(ctx), "foo", objectRef)
	ctx = klog.NewContext(ctx, logger)
	logger.V(4).Info("Started syncing", "retries", c.workqueue.NumRequeues(objectRef)+c.stalledBackoff.NumRequeues(objectRef))
	timer := metrics.StartSync()
	err := c.syncHandler(ctx, objectRef)

	var result metrics.Result
	var delay time.Duration
	switch stalled, isStalled := errors.AsType[*foostatus.StalledError](err); {
	case err == nil:
		// The next failure is a first one again.
		result = metrics.Success
		c.forgetRetries(objectRef)
	case errors.Is(err, consistency.ErrStale):
		result, delay = metrics.Stale, staleCacheDelay
		c.workqueue.AddAfter(objectRef, delay)
	case isStalled:
		result, delay = metrics.Stalled, cmp.Or(stalled.RetryAfter, c.stalledBackoff.When(objectRef))
		c.workqueue.Forget(objectRef)
		c.workqueue.AddAfter(objectRef, delay)
	default:
		result, delay = metrics.Conflict, c.workqueue.AddRateLimited(objectRef)
		if !isConflict(err) {
			result = metrics.Error
			utilruntime.HandleErrorWithContext(ctx, err, "Error syncing Foo; requeuing with backoff")
		}
	}
	logger.V(4).Info("Finished syncing", "duration", timer.Finish(result), "result", result, "err", err, "requeueAfter", delay)
	return true
}

// isConflict reports whether err says that an object has just been changed or deleted by someone else, which is not a failure.
func isConflict(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// syncHandler reconciles the Deployment of a Foo with the desired state, and then reports the result in the Foo's status and in events. It
// reads from the caches and writes only what differs. After an error it has to be called again; a panic is an error like any other.
func (c *Controller) syncHandler(ctx context.Context, objectRef cache.ObjectName) (err error) {
	defer metrics.RecoverPanic(&err)

	// This comes first, so that what is read below is at least as new as the last write.
	if err := c.consistencyStore.EnsureReady(objectRef); err != nil {
		return err
	}
	logger := klog.FromContext(ctx)
	foo, err := c.foosLister.Foos(objectRef.Namespace).Get(objectRef.Name)
	if apierrors.IsNotFound(err) {
		logger.V(4).Info("Foo does not exist")
		c.consistencyStore.Clear(objectRef)
		c.statusWriter.Delete(objectRef)
		return nil
	}
	if err != nil {
		return err
	}
	logger.V(4).Info("Read Foo from the cache", "resourceVersion", foo.ResourceVersion, "generation", foo.Generation)
	if foo.DeletionTimestamp != nil {
		logger.V(4).Info("Foo is being deleted; leaving its Deployments to the garbage collector")
		return nil
	}

	foo = c.statusWriter.Complete(foo)
	deployment, changed, err := c.syncDeployment(ctx, foo)
	if err == nil {
		err = c.pruneDeployments(ctx, foo, deployment)
	} else if _, isStalled := errors.AsType[*foostatus.StalledError](err); !isStalled {
		return err
	}
	return c.report(ctx, foo, deployment, changed, err)
}

// syncDeployment creates the Deployment of a Foo, or corrects what differs from the desired state. It returns the Deployment, if the
// Foo has one, and whether it was changed to the desired state.
func (c *Controller) syncDeployment(ctx context.Context, foo *samplev1alpha1.Foo) (*appsv1.Deployment, bool, error) {
	logger := klog.FromContext(ctx)
	deployment, err := c.deploymentsLister.Deployments(foo.Namespace).Get(foo.Spec.DeploymentName)
	if apierrors.IsNotFound(err) {
		logger.V(4).Info("Deployment is not in the cache", "deployment", klog.KRef(foo.Namespace, foo.Spec.DeploymentName))
		return c.createDeployment(ctx, foo)
	}
	if err != nil {
		return nil, false, err
	}
	logger.V(4).Info("Read Deployment from the cache", "deployment", klog.KObj(deployment), "resourceVersion", deployment.ResourceVersion)
	if !foo.Controls(deployment) {
		logger.V(4).Info("Deployment is not controlled by this Foo", "deployment", klog.KObj(deployment))
		return nil, false, nameConflict(foo)
	}
	if deployment.DeletionTimestamp != nil {
		logger.V(4).Info("Deployment is being deleted; waiting until its name is free", "deployment", klog.KObj(deployment))
		return deployment, false, nil
	}
	// What a lister returns belongs to the cache and must not be changed.
	desired := deployment.DeepCopy()
	setDesiredState(desired, foo, c.config.Image)
	if !equality.Semantic.DeepEqual(deployment, desired) {
		return c.correctDeployment(ctx, foo, deployment, desired)
	}
	logger.V(4).Info("Deployment is in its desired state", "deployment", klog.KObj(deployment))
	if c.isInCorrectionBackoff(ctx, foo) {
		return deployment, false, foostatus.Reported(foo, foostatus.DeploymentOverridden)
	}
	c.correctionBackoff.Reset(correctionKey(foo))
	return deployment, false, nil
}

// createDeployment creates the Deployment of a Foo, which the cache does not have. If the API server rejects it, or someone else deletes it
// repeatedly, that is done with backoff only. If the API server has one of that name, a live read shows which Foo, if any, controls it.
func (c *Controller) createDeployment(ctx context.Context, foo *samplev1alpha1.Foo) (*appsv1.Deployment, bool, error) {
	objectRef := cache.MetaObjectToName(foo)
	if c.isInCorrectionBackoff(ctx, foo) {
		return nil, false, cmp.Or(foostatus.Reported(foo, foostatus.DeploymentRejected), foostatus.Deleted(foo.Spec.DeploymentName))
	}
	if foo.IsObserved() || c.consistencyStore.HasWritten(objectRef, foo.UID) {
		if err := consistency.EnsureCurrent(ctx, c.sampleclientset, foo); err != nil {
			return nil, false, err
		}
	}
	desired := newDeployment(foo)
	setDesiredState(desired, foo, c.config.Image)
	if superseded := ownership.Superseded(c.deploymentsIndexer, foo); foo.Spec.Replicas == nil && len(superseded) > 0 {
		desired.Spec.Replicas = superseded[0].Spec.Replicas // A rename keeps the number of replicas.
	}
	client := c.kubeclientset.AppsV1().Deployments(foo.Namespace)
	created, err := client.Create(ctx, desired, metav1.CreateOptions{FieldManager: FieldManager})
	if err == nil {
		klog.FromContext(ctx).V(2).Info("Created Deployment", "deployment", klog.KObj(created), "resourceVersion", created.ResourceVersion)
		return c.verifyWrite(foo, created)
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, false, c.rejected(foo, err)
	}
	existing, err := client.Get(ctx, foo.Spec.DeploymentName, metav1.GetOptions{})
	if err != nil {
		return nil, false, err
	}
	klog.FromContext(ctx).V(4).Info("Deployment exists; read it from the API server", "deployment", klog.KObj(existing),
		"resourceVersion", existing.ResourceVersion)
	if !foo.Controls(existing) {
		return nil, false, nameConflict(foo)
	}
	c.consistencyStore.WroteAt(objectRef, foo.UID, deploymentResource, existing.ResourceVersion)
	return nil, false, fmt.Errorf("%w: Deployment %q exists", consistency.ErrStale, existing.Name)
}

// correctDeployment patches a Deployment to its desired state. If the API server rejects that, or someone else changes it back at once, that
// is done with backoff only.
func (c *Controller) correctDeployment(
	ctx context.Context, foo *samplev1alpha1.Foo, deployment, desired *appsv1.Deployment,
) (*appsv1.Deployment, bool, error) {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "deployment", klog.KObj(deployment))
	overridden := foostatus.Overridden(deployment, desired)
	logger.V(4).Info("Deployment differs from its desired state", "differences", overridden.Message)
	if c.isInCorrectionBackoff(ctx, foo) {
		return deployment, false, cmp.Or[error](foostatus.Reported(foo, foostatus.DeploymentRejected), overridden)
	}
	// Unless this is a new spec, and this process has seen the one before, the cached Foo may be the one that is wrong.
	if foo.IsObserved() || !c.consistencyStore.HasWritten(cache.MetaObjectToName(foo), foo.UID) {
		if err := consistency.EnsureCurrent(ctx, c.sampleclientset, foo); err != nil {
			return nil, false, err
		}
	}
	patch, err := consistency.MergePatch(deployment, desired)
	if err != nil {
		return nil, false, err
	}
	patched, err := c.kubeclientset.AppsV1().Deployments(foo.Namespace).Patch(ctx, deployment.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: FieldManager})
	if err != nil {
		return deployment, false, c.rejected(foo, err)
	}
	logger.V(2).Info("Patched Deployment", "resourceVersion", patched.ResourceVersion, "patch", string(patch))
	return c.verifyWrite(foo, patched)
}

// verifyWrite returns a Deployment as the API server has stored it, and whether it is in its desired state: admission may have changed
// it. What another controller has overridden before counts as overridden until it has stayed in its desired state for the backoff.
func (c *Controller) verifyWrite(foo *samplev1alpha1.Foo, written *appsv1.Deployment) (*appsv1.Deployment, bool, error) {
	c.consistencyStore.WroteAt(cache.MetaObjectToName(foo), foo.UID, deploymentResource, written.ResourceVersion)
	desired := written.DeepCopy()
	setDesiredState(desired, foo, c.config.Image)
	isDesired := equality.Semantic.DeepEqual(written, desired)
	if foo.IsObserved() || !isDesired {
		c.correctionBackoff.Next(correctionKey(foo), time.Now())
	}
	if !isDesired {
		return written, false, foostatus.Overridden(written, desired)
	}
	if err := foostatus.Reported(foo, foostatus.DeploymentOverridden); err != nil {
		return written, false, err
	}
	return written, true, nil
}

// rejected returns the error of a write as a StalledError, and starts the backoff, if the API server rejects what was written.
func (c *Controller) rejected(foo *samplev1alpha1.Foo, err error) error {
	err = foostatus.AsStalled(err)
	if _, isStalled := errors.AsType[*foostatus.StalledError](err); isStalled {
		c.correctionBackoff.Next(correctionKey(foo), time.Now())
	}
	return err
}

func (c *Controller) isInCorrectionBackoff(ctx context.Context, foo *samplev1alpha1.Foo) bool {
	isInBackoff := c.correctionBackoff.IsInBackOffSinceUpdate(correctionKey(foo), time.Now())
	if isInBackoff {
		klog.FromContext(ctx).V(4).Info("Deployment is in backoff", "backoff", c.correctionBackoff.Get(correctionKey(foo)))
	}
	return isInBackoff
}

// correctionKey is the key of correctionBackoff: a new spec is written at once.
func correctionKey(foo *samplev1alpha1.Foo) string {
	return fmt.Sprintf("%s/%d", foo.UID, foo.Generation)
}

// pruneDeployments deletes the Deployments that a Foo controls under earlier names, once the current one can take over.
func (c *Controller) pruneDeployments(ctx context.Context, foo *samplev1alpha1.Foo, current *appsv1.Deployment) error {
	for _, superseded := range ownership.Superseded(c.deploymentsIndexer, foo) {
		logger := klog.LoggerWithValues(klog.FromContext(ctx), "deployment", klog.KObj(superseded))
		if !foostatus.CanTakeOver(current) {
			logger.V(4).Info("Keeping superseded Deployment until the new one is available")
			continue
		}
		// The cache of Foos may be stale, and the Foo may desire this Deployment again.
		if err := consistency.EnsureCurrent(ctx, c.sampleclientset, foo); err != nil {
			return err
		}
		err := c.kubeclientset.AppsV1().Deployments(superseded.Namespace).Delete(ctx, superseded.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &superseded.UID, ResourceVersion: &superseded.ResourceVersion},
		})
		if apierrors.IsNotFound(err) {
			logger.V(4).Info("Superseded Deployment is already gone")
			continue
		}
		if err != nil {
			return foostatus.AsStalled(err)
		}
		logger.V(2).Info("Deleted superseded Deployment")
		c.recorder.Eventf(foo, corev1.EventTypeNormal, SuccessPruned, MessageResourcePruned, superseded.Name, current.Name)
	}
	return nil
}

// report writes the status of a Foo and records an event, for a Deployment or the error that prevents it, and returns that error.
func (c *Controller) report(ctx context.Context, foo *samplev1alpha1.Foo, deployment *appsv1.Deployment, changed bool, syncErr error) error {
	stalled, isStalled := errors.AsType[*foostatus.StalledError](syncErr)
	if superseded := ownership.Superseded(c.deploymentsIndexer, foo); deployment == nil && len(superseded) > 0 {
		deployment = superseded[0] // It keeps serving until it can be replaced.
	}
	if isStalled && stalled.Reason != ErrResourceExists {
		stalled.RetryAfter = c.correctionBackoff.Get(correctionKey(foo))
	}
	status := foostatus.New(foo, deployment, stalled)
	differs := !equality.Semantic.DeepEqual(foo.Status, status)
	klog.FromContext(ctx).V(4).Info("Computed status", "conditions", status.Conditions, "differs", differs)
	if differs {
		if err := c.updateFooStatus(ctx, foo, status); err != nil {
			if changed { // The next sync cannot see in the status that this generation has been written.
				c.correctionBackoff.Next(correctionKey(foo), time.Now())
			}
			return err
		}
	}
	switch {
	case isStalled && !foostatus.IsReported(foo, stalled):
		klog.FromContext(ctx).Info("Foo is stalled; retrying with backoff", "reason", stalled.Reason, "message", stalled.Message)
		c.recorder.Event(foo, corev1.EventTypeWarning, stalled.Reason, stalled.Message)
	case !isStalled && (changed || !foo.IsObserved()):
		c.recorder.Event(foo, corev1.EventTypeNormal, SuccessSynced, MessageResourceSynced)
	}
	return syncErr
}

// updateFooStatus writes the status of a Foo, and nothing else of it.
func (c *Controller) updateFooStatus(ctx context.Context, foo *samplev1alpha1.Foo, status samplev1alpha1.FooStatus) error {
	updated, err := c.statusWriter.UpdateStatus(ctx, foo, status, metav1.UpdateOptions{FieldManager: FieldManager})
	if err != nil {
		return err
	}
	klog.FromContext(ctx).V(4).Info("Updated status", "resourceVersion", updated.ResourceVersion)
	c.consistencyStore.WroteAt(cache.MetaObjectToName(foo), foo.UID, fooResource, updated.ResourceVersion)
	return nil
}

func nameConflict(foo *samplev1alpha1.Foo) error {
	return &foostatus.StalledError{Reason: ErrResourceExists, Message: fmt.Sprintf(MessageResourceExists, foo.Spec.DeploymentName)}
}

// newDeployment returns the Deployment of a Foo. Its controller owner reference lets the garbage collector delete it with the Foo, and
// handleObject find the Foo.
func newDeployment(foo *samplev1alpha1.Foo) *appsv1.Deployment {
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name:            foo.Spec.DeploymentName,
			Namespace:       foo.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, samplev1alpha1.FooKind)},
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
