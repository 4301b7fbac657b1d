// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/consistency"
	"k8s.io/sample-controller/pkg/drift"
	"k8s.io/sample-controller/pkg/events"
	"k8s.io/sample-controller/pkg/foostatus"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
	samplescheme "k8s.io/sample-controller/pkg/generated/clientset/versioned/scheme"
	informers "k8s.io/sample-controller/pkg/generated/informers/externalversions/samplecontroller/v1alpha1"
	listers "k8s.io/sample-controller/pkg/generated/listers/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/ownership"
	"k8s.io/sample-controller/pkg/priority"
	"k8s.io/sample-controller/pkg/readiness"
	"k8s.io/sample-controller/pkg/supervision"
	"k8s.io/sample-controller/pkg/trim"
)

const controllerAgentName = "sample-controller"

// Reasons and messages of events. Those of warnings also stand in conditions, as does foostatus.DeploymentRejected.
const (
	SuccessSynced         = "Synced"
	MessageResourceSynced = "Foo synced successfully"
	SuccessPruned         = "Pruned"
	MessageResourcePruned = "Deployment %q deleted, because the Foo now names %q"
	ErrResourceExists     = "ErrResourceExists"
	MessageResourceExists = "Resource %q already exists and is not managed by Foo"
)

const (
	// FieldManager names this controller in the managed fields of all that it writes.
	FieldManager = controllerAgentName
	// DefaultImage is the image of the nginx container unless an Option says otherwise.
	DefaultImage = "nginx:latest"

	// rolloutPeriod is how long the changes of a Deployment's status, of which a rollout makes many, are gathered before the
	// Foo's status tells of them.
	rolloutPeriod = 500 * time.Millisecond
	// cacheLagCheckPeriod is after what time to look again whether the caches reflect our last write, if no watch event of it
	// leads there sooner.
	cacheLagCheckPeriod = time.Second
)

// ErrCachesNotSynced says that Foos or Deployments could not be listed in time.
var ErrCachesNotSynced = errors.New("the informer caches have not synced in time")

// Controller brings the Deployments of Foos, and the status of Foos, to where the Foos' specs want them.
type Controller struct {
	kubeclientset   kubernetes.Interface
	sampleclientset clientset.Interface

	deploymentsLister  appslisters.DeploymentLister
	deploymentsSynced  cache.InformerSynced
	deploymentsIndexer cache.Indexer
	foosLister         listers.FooLister
	foosSynced         cache.InformerSynced
	foosIndexer        cache.Indexer

	// What was written for each Foo, so that no sync acts on a cache from before that.
	deploymentWrites *consistency.Writes
	fooWrites        *consistency.Writes

	// workqueue holds the namespace/name of each Foo that is to be looked at. It hands a name to one worker at a time.
	workqueue *priority.Queue[cache.ObjectName]

	recorder record.EventRecorder
	// startRecorder sends so many events at the same time, until shutdown, which waits for those recorded so far.
	startRecorder func(ctx context.Context, senders int) (shutdown func(context.Context) error)

	image            string
	cacheSyncTimeout time.Duration
	// shutdownTimeout is how long the syncs that are running when Run's context ends, and their events, may still take.
	shutdownTimeout time.Duration
	// elect calls lead when this instance may work, and returns when lead has. Without an election that is at once.
	elect func(ctx context.Context, lead func(context.Context) error) error
}

// Option changes a default of a Controller: its image, cacheSyncTimeout, shutdownTimeout or elect.
type Option func(*Controller)

// NewController returns a controller whose handlers are registered with the two informers, which must not have been
// started yet.
func NewController(
	ctx context.Context,
	kubeclientset kubernetes.Interface,
	sampleclientset clientset.Interface,
	deploymentInformer appsinformers.DeploymentInformer,
	fooInformer informers.FooInformer,
	options ...Option,
) *Controller {
	logger := klog.FromContext(ctx)

	// Events about Foos can only be recorded if their kind is known to the recorder's scheme.
	utilruntime.Must(samplescheme.AddToScheme(scheme.Scheme))
	recorder := events.NewRecorder(kubeclientset.CoreV1(), scheme.Scheme, controllerAgentName)

	deployments := trim.Whole(deploymentInformer.Informer().GetIndexer())
	controller := &Controller{
		kubeclientset:      kubeclientset,
		sampleclientset:    sampleclientset,
		deploymentsLister:  appslisters.NewDeploymentLister(deployments),
		deploymentsSynced:  deploymentInformer.Informer().HasSynced,
		deploymentsIndexer: deployments,
		foosLister:         fooInformer.Lister(),
		foosSynced:         fooInformer.Informer().HasSynced,
		foosIndexer:        fooInformer.Informer().GetIndexer(),
		deploymentWrites:   consistency.NewWrites(deploymentInformer.Informer().GetStore()),
		fooWrites:          consistency.NewWrites(fooInformer.Informer().GetStore()),
		workqueue:          priority.NewQueue("foos", priority.NewRateLimiter[cache.ObjectName]()),
		recorder:           recorder,
		startRecorder:      recorder.Start,
		elect:              func(ctx context.Context, lead func(context.Context) error) error { return lead(ctx) },
		image:              DefaultImage,
		cacheSyncTimeout:   2 * time.Minute,
		shutdownTimeout:    30 * time.Second,
	}
	for _, option := range options {
		option(controller)
	}

	utilruntime.Must(deploymentInformer.Informer().SetTransform(trim.Transform))
	utilruntime.Must(deploymentInformer.Informer().AddIndexers(ownership.DeploymentIndexers))
	utilruntime.Must(fooInformer.Informer().SetTransform(trim.Transform))
	utilruntime.Must(fooInformer.Informer().AddIndexers(ownership.FooIndexers))

	logger.Info("Setting up event handlers")
	_, err := fooInformer.Informer().AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    controller.handleFooAdd,
		UpdateFunc: controller.handleFooUpdate,
		DeleteFunc: controller.enqueueFoo,
	})
	utilruntime.Must(err)
	_, err = deploymentInformer.Informer().AddEventHandlerWithResyncPeriod(trim.Handler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    controller.handleDeploymentAdd,
		UpdateFunc: controller.handleDeploymentUpdate,
		DeleteFunc: controller.handleDeploymentDelete,
	}), 0) // No resync: Foos have one.
	utilruntime.Must(err)
	return controller
}

// Run waits for the caches and, if there is an election, until this instance leads. Then it keeps the given number of
// workers busy until ctx ends, and returns when every worker has: syncs that are running then are finished, and their events
// sent, but no new ones are begun. The error is ErrCachesNotSynced, one of the election, or says that syncs had to be cut
// short at the shutdown timeout. Run may be called once.
func (c *Controller) Run(ctx context.Context, workers int) error {
	defer utilruntime.HandleCrashWithContext(ctx)
	defer c.workqueue.ShutDown()
	logger := klog.FromContext(ctx)

	logger.Info("Starting Foo controller")
	logger.Info("Waiting for informer caches to sync")
	timeout, cancel := context.WithTimeout(ctx, c.cacheSyncTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(timeout.Done(), c.deploymentsSynced, c.foosSynced) {
		if ctx.Err() != nil {
			return nil
		}
		return ErrCachesNotSynced
	}
	return c.elect(ctx, func(ctx context.Context) error { return c.runWorkers(ctx, workers) })
}

func (c *Controller) runWorkers(ctx context.Context, workers int) error {
	logger := klog.FromContext(ctx)
	syncCtx, end := supervision.Grace(ctx, c.shutdownTimeout)
	defer end()
	free := (workers + 1) / 4 // For news, even if all else hangs: a quarter, and one if there are 3.
	c.workqueue.SetLimit(workers - free)
	stopRecorder := c.startRecorder(ctx, workers-free)

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
	return cmp.Or(context.Cause(syncCtx), stopRecorder(syncCtx)) // In this order.
}

// enqueueFoo puts the namespace/name of a Foo, or of the tombstone of one, into the workqueue.
func (c *Controller) enqueueFoo(obj any) {
	objectRef, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		utilruntime.HandleError(err)
		return
	}
	c.workqueue.Add(objectRef)
}

// handleFooAdd queues a Foo that is new, or that was there before this process and can wait for those that are.
func (c *Controller) handleFooAdd(obj any, isInInitialList bool) {
	if isInInitialList {
		c.workqueue.AddLater(cache.MetaObjectToName(obj.(metav1.Object)))
		return
	}
	c.workqueue.AddUrgent(cache.MetaObjectToName(obj.(metav1.Object)))
}

// handleFooUpdate queues a Foo that was changed, or that is to be looked at again because of a resync. A Foo with a Problem
// is tried again by its backoff alone, unless someone has changed what it wants, or the Problem is new: only from now on does
// it count as waiting for a name, which may have become free.
func (c *Controller) handleFooUpdate(oldObj, newObj any) {
	old, new := oldObj.(*samplev1alpha1.Foo), newObj.(*samplev1alpha1.Foo)
	newWish := old.UID != new.UID || old.Generation != new.Generation || !old.DeletionTimestamp.Equal(new.DeletionTimestamp)
	switch {
	case newWish:
		c.workqueue.AddUrgent(cache.MetaObjectToName(new))
	case foostatus.HasProblem(old) && foostatus.HasProblem(new):
	case old.ResourceVersion == new.ResourceVersion:
		c.workqueue.AddLater(cache.MetaObjectToName(new))
	default:
		c.enqueueFoo(new)
	}
}

// handleDeploymentAdd queues the Foo of a new Deployment. Those of the first list are queued with the first list of Foos.
func (c *Controller) handleDeploymentAdd(obj any, isInInitialList bool) {
	if !isInInitialList {
		c.handleObject(obj)
	}
}

// handleDeploymentUpdate looks at what a change to a Deployment, or its replacement by another of its name, means for Foos.
func (c *Controller) handleDeploymentUpdate(oldObj, newObj any) {
	was, is := ownership.FooOf(oldObj), ownership.FooOf(newObj)
	if !equality.Semantic.DeepEqual(was, is) {
		c.handleObject(newObj)
		c.handleDeploymentDelete(oldObj) // For its former owner, and for all who wait for its name, it is as good as gone.
		return
	}
	if is == nil {
		return // It is and stays someone else's.
	}
	old, new := oldObj.(*appsv1.Deployment), newObj.(*appsv1.Deployment)
	switch {
	case old.ResourceVersion == new.ResourceVersion:
		// Listed anew, or a resync that another handler asked for.
	case equality.Semantic.DeepEqual(old.Status, new.Status):
		c.handleObject(new)
	default:
		if foo := ownership.ControllingFoo(c.foosLister, new); foo != nil {
			c.workqueue.AddAfter(cache.MetaObjectToName(foo), rolloutPeriod)
		}
	}
}

// handleDeploymentDelete queues the Foo that controlled a Deployment, and every Foo that waits for its name.
func (c *Controller) handleDeploymentDelete(obj any) {
	c.handleObject(obj)
	for _, foo := range ownership.WaitingFoos(c.foosIndexer, obj) {
		c.enqueueFoo(foo)
	}
}

// handleObject queues the Foo that controls an object, or the tombstone of one.
func (c *Controller) handleObject(obj any) {
	if foo := ownership.ControllingFoo(c.foosLister, obj); foo != nil {
		c.enqueueFoo(foo)
	}
}

// runWorker syncs one Foo after the other until ctx ends. The syncs themselves run with syncCtx.
func (c *Controller) runWorker(ctx, syncCtx context.Context) {
	for ctx.Err() == nil && c.processNextWorkItem(syncCtx) {
	}
}

// processNextWorkItem syncs the next Foo of the workqueue, and queues it again, with backoff, if that failed. It returns
// false once the workqueue is shut down.
func (c *Controller) processNextWorkItem(ctx context.Context) bool {
	objectRef, shutdown := c.workqueue.Get()
	if shutdown {
		return false
	}
	defer c.workqueue.Done(objectRef)

	switch supervision.Run(ctx, objectRef, c.workqueue.NumRequeues(objectRef), c.syncHandler) {
	case supervision.Success:
		c.workqueue.Forget(objectRef)
	case supervision.Waiting:
		c.workqueue.AddAfter(objectRef, cacheLagCheckPeriod) // Nothing has failed, so this is no retry.
	default:
		c.workqueue.AddRateLimited(objectRef)
	}
	return true
}

// syncHandler brings the Deployment and the status of one Foo to where its spec wants them. It reads from the caches, and
// writes only what differs. An error means that it is to be called again.
func (c *Controller) syncHandler(ctx context.Context, objectRef cache.ObjectName) error {
	// This comes before anything is read, so that what is read is at least as new as our last write.
	if !c.deploymentWrites.Visible(objectRef) || !c.fooWrites.Visible(objectRef) {
		return consistency.ErrBehind
	}
	foo, err := c.foosLister.Foos(objectRef.Namespace).Get(objectRef.Name)
	if err != nil {
		if apierrors.IsNotFound(err) {
			c.deploymentWrites.Forget(objectRef)
			c.fooWrites.Forget(objectRef)
			return nil
		}
		return err
	}
	if foo.DeletionTimestamp != nil {
		return nil // A foreground deletion only ends if nothing creates dependents anew.
	}
	deployment, changed, err := c.syncDeployment(ctx, foo)
	// A new generation gets its event once its status is written, other changes at once. So there is just one of each: if
	// writing the status fails, the retry sees the generation as new again, but no change.
	newGeneration := foo.Status.ObservedGeneration != foo.Generation
	if changed && !newGeneration {
		c.recorder.Event(foo, corev1.EventTypeNormal, SuccessSynced, MessageResourceSynced)
	}
	if err == nil {
		err = c.pruneDeployments(ctx, foo, deployment)
	}
	problem, ok := errors.AsType[*foostatus.Problem](err)
	if err != nil && !ok {
		return err
	}
	written, err := c.updateFooStatus(ctx, foo, foostatus.New(foo, deployment, problem))
	switch {
	case err != nil:
		return err
	case problem != nil:
		if written {
			klog.FromContext(ctx).Info("Foo cannot be served; retrying with backoff", "foo", objectRef, "reason", problem)
			c.recorder.Event(foo, corev1.EventTypeWarning, problem.Reason, problem.Message)
		}
		return problem
	case newGeneration:
		c.recorder.Event(foo, corev1.EventTypeNormal, SuccessSynced, MessageResourceSynced)
	}
	return nil
}

// syncDeployment creates the Deployment of a Foo or puts right what differs from what the Foo wants. It returns the
// Deployment, if the Foo has one, and whether it was written. A Deployment that the Foo does not control is a Problem.
func (c *Controller) syncDeployment(ctx context.Context, foo *samplev1alpha1.Foo) (*appsv1.Deployment, bool, error) {
	deployment, err := c.deploymentsLister.Deployments(foo.Namespace).Get(foo.Spec.DeploymentName)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return c.createDeployment(ctx, foo)
		}
		return nil, false, err
	}
	if !ownership.Controls(foo, deployment) {
		return nil, false, nameTaken(foo)
	}
	wish := drift.Wish{Container: containerName, Image: c.image, Replicas: foo.Spec.Replicas}
	patch, err := drift.Patch(deployment, labelsOf(foo), wish)
	if err != nil || patch == nil || deployment.DeletionTimestamp != nil {
		return deployment, false, err
	}
	if err := consistency.CheckRepair(ctx, c.sampleclientset.SamplecontrollerV1alpha1(), foo); err != nil {
		return deployment, false, err
	}
	repaired, err := c.kubeclientset.AppsV1().Deployments(foo.Namespace).Patch(ctx, deployment.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: FieldManager})
	if err != nil {
		return deployment, false, foostatus.Refusal(err)
	}
	klog.FromContext(ctx).V(2).Info("Put Deployment right", "foo", klog.KObj(foo), "deployment", klog.KObj(repaired))
	c.deploymentWrites.Record(cache.MetaObjectToName(foo), repaired.ResourceVersion)
	return repaired, true, nil
}

// createDeployment creates the Deployment of a Foo, which the cache does not have. If there is one of that name after all, it
// finds out by a live read whose it is.
func (c *Controller) createDeployment(ctx context.Context, foo *samplev1alpha1.Foo) (*appsv1.Deployment, bool, error) {
	if err := consistency.CheckRepair(ctx, c.sampleclientset.SamplecontrollerV1alpha1(), foo); err != nil {
		return nil, false, err
	}
	desired := newDeployment(foo)
	desired.Spec.Template.Spec.Containers[0].Image = c.image
	client := c.kubeclientset.AppsV1().Deployments(foo.Namespace)
	created, err := client.Create(ctx, desired, metav1.CreateOptions{FieldManager: FieldManager})
	if err == nil {
		klog.FromContext(ctx).V(2).Info("Created Deployment", "foo", klog.KObj(foo), "deployment", klog.KObj(created))
		c.deploymentWrites.Record(cache.MetaObjectToName(foo), created.ResourceVersion)
		return created, true, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, false, foostatus.Refusal(err)
	}
	existing, err := client.Get(ctx, foo.Spec.DeploymentName, metav1.GetOptions{})
	if err != nil {
		return nil, false, err
	}
	if !ownership.Controls(foo, existing) {
		return nil, false, nameTaken(foo)
	}
	// It is ours, but newer than the cache, and so may be the Foo's newest wish.
	c.deploymentWrites.Record(cache.MetaObjectToName(foo), existing.ResourceVersion)
	return nil, false, consistency.ErrBehind
}

func nameTaken(foo *samplev1alpha1.Foo) error {
	return &foostatus.Problem{Reason: ErrResourceExists, Message: fmt.Sprintf(MessageResourceExists, foo.Spec.DeploymentName)}
}

// pruneDeployments deletes the Deployments that a Foo controls under names that it gave up, once the one that it names now
// can take over. The Foo is read anew before each deletion, so that a cache that is behind cannot delete the wanted one.
func (c *Controller) pruneDeployments(ctx context.Context, foo *samplev1alpha1.Foo, current *appsv1.Deployment) error {
	if !readiness.CanTakeOver(current) {
		return nil
	}
	for _, old := range ownership.OtherDeployments(c.deploymentsIndexer, foo) {
		if err := consistency.CheckNewest(ctx, c.sampleclientset.SamplecontrollerV1alpha1(), foo); err != nil {
			return err
		}
		err := c.kubeclientset.AppsV1().Deployments(old.Namespace).Delete(ctx, old.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &old.UID, ResourceVersion: &old.ResourceVersion},
		})
		if apierrors.IsNotFound(err) {
			continue // The cache is behind: there is nothing left to do.
		}
		if err != nil {
			return foostatus.Refusal(err)
		}
		klog.FromContext(ctx).V(2).Info("Deleted Deployment", "foo", klog.KObj(foo), "deployment", klog.KObj(old))
		c.recorder.Eventf(foo, corev1.EventTypeNormal, SuccessPruned, MessageResourcePruned, old.Name, current.Name)
	}
	return nil
}

// updateFooStatus writes the status of a Foo, and nothing else of it, if it differs, and returns whether it did.
func (c *Controller) updateFooStatus(ctx context.Context, foo *samplev1alpha1.Foo, status samplev1alpha1.FooStatus) (bool, error) {
	if foostatus.Equal(foo.Status, status) {
		return false, nil
	}
	// What a lister returns belongs to the cache, so the change goes into a copy.
	fooCopy := foo.DeepCopy()
	fooCopy.Status = status
	updated, err := c.sampleclientset.SamplecontrollerV1alpha1().Foos(foo.Namespace).UpdateStatus(ctx, fooCopy,
		metav1.UpdateOptions{FieldManager: FieldManager})
	if err != nil {
		return false, err
	}
	c.fooWrites.Record(cache.MetaObjectToName(foo), updated.ResourceVersion)
	return true, nil
}

// containerName is the name of the container that every Foo wants.
const containerName = "nginx"

// labelsOf returns the labels of the Deployment of a Foo, and of its Pods.
func labelsOf(foo *samplev1alpha1.Foo) map[string]string {
	return map[string]string{
		"app":        "nginx",
		"controller": foo.Name,
	}
}

// newDeployment returns the Deployment that a Foo wants. The owner reference makes garbage collection delete it together
// with the Foo, and leads handleObject from it back to the Foo.
func newDeployment(foo *samplev1alpha1.Foo) *appsv1.Deployment {
	labels := labelsOf(foo)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name:            foo.Spec.DeploymentName,
			Namespace:       foo.Namespace,
			Labels:          labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, ownership.FooKind)},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: foo.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: containerName, Image: DefaultImage}},
				},
			},
		},
	}
}
