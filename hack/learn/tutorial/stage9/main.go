// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command stage9 renames: it deletes the old Deployment once the new one can take over. And it does not fight whoever undoes what it writes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	kubeinformers "k8s.io/client-go/informers"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
	informers "k8s.io/sample-controller/pkg/generated/informers/externalversions"
	informersv1alpha1 "k8s.io/sample-controller/pkg/generated/informers/externalversions/samplecontroller/v1alpha1"
	listers "k8s.io/sample-controller/pkg/generated/listers/samplecontroller/v1alpha1"
)

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "`path` to a kubeconfig")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		klog.Fatal(err)
	}
	if err := run(ctx, config); err != nil {
		klog.Fatal(err)
	}
}

const leaseDuration, renewDeadline, retryPeriod = 15 * time.Second, 10 * time.Second, 2 * time.Second

// run runs the controller in the cluster of config while this instance holds the Lease, until ctx is done. The Lease is released when the
// work has ended, and not before.
func run(ctx context.Context, config *rest.Config) error {
	identity := resourcelock.ResourceLockConfig{Identity: string(uuid.NewUUID())}
	lock, err := resourcelock.NewFromKubeconfig(
		resourcelock.LeasesResourceLock, "default", "sample-controller", identity, config, renewDeadline)
	if err != nil {
		return err
	}
	leading, stopLeading := context.WithCancel(ctx)
	started, stopped := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(started) },
			OnStoppedLeading: func() { stopLeading(); close(stopped) },
		},
	})
	if err != nil {
		return err
	}
	electing, release := context.WithCancel(context.WithoutCancel(ctx))
	go elector.Run(electing)
	defer func() { release(); <-stopped }()
	select {
	case <-ctx.Done():
		return nil
	case <-started:
	}
	guarded := rest.CopyConfig(config)
	guarded.Wrap(func(next http.RoundTripper) http.RoundTripper { return &guard{next, elector} })
	if err := work(leading, guarded); err != nil || ctx.Err() != nil {
		return err
	}
	return errors.New("the Lease is lost")
}

// guard rejects writes of an instance that may lead no more.
type guard struct {
	next    http.RoundTripper
	elector *leaderelection.LeaderElector
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && (!g.elector.IsLeader() || g.elector.Check(renewDeadline-leaseDuration) != nil) {
		return nil, errors.New("this instance may not lead any more")
	}
	return g.next.RoundTrip(r)
}

// work runs the controller in the cluster of config until ctx is done. A sync that has begun may end.
func work(ctx context.Context, config *rest.Config) error {
	kubeClient, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	sampleClient, err := clientset.NewForConfig(config)
	if err != nil {
		return err
	}
	kubeFactory := kubeinformers.NewSharedInformerFactory(kubeClient, 0)
	deployments := kubeFactory.Apps().V1().Deployments()
	factory := informers.NewSharedInformerFactory(sampleClient, 0)
	foos := factory.Samplecontroller().V1alpha1().Foos()
	c := &controller{
		kubeClient:        kubeClient,
		sampleClient:      sampleClient,
		foosLister:        foos.Lister(),
		deploymentsLister: deployments.Lister(),
		queue:             workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
		pauses:            flowcontrol.NewBackOff(time.Second, 15*time.Minute),

		lastStoreSyncResourceVersion: deployments.TypedInformer().GetStore().LastStoreSyncResourceVersion,
	}
	if _, err := foos.TypedInformer().AddTypedEventHandler(informersv1alpha1.FooHandlerFuncs{
		AddFunc:    func(foo *samplev1alpha1.Foo) { c.queue.Add(cache.MetaObjectToName(foo)) },
		UpdateFunc: func(_, foo *samplev1alpha1.Foo) { c.queue.Add(cache.MetaObjectToName(foo)) },
		DeleteFunc: func(deleted informersv1alpha1.DeletedFoo) { c.queue.Add(deleted.GetObjectName()) },
	}); err != nil {
		return err
	}
	if _, err := deployments.TypedInformer().AddTypedEventHandler(appsinformers.DeploymentHandlerFuncs{
		AddFunc:    func(deployment *appsv1.Deployment) { c.handleObject(deployment) },
		UpdateFunc: func(_, deployment *appsv1.Deployment) { c.handleObject(deployment) },
		DeleteFunc: func(deleted appsinformers.DeletedDeployment) {
			if deleted.OptionalObj != nil { // It is nil if the informer could not look up what the cache had.
				c.handleObject(deleted.OptionalObj)
			}
			c.enqueueWaiting(deleted.GetObjectName())
		},
	}); err != nil {
		return err
	}
	go wait.UntilWithContext(ctx, func(context.Context) { c.pauses.GC() }, time.Minute) // Those of Foos that are gone.
	kubeFactory.StartWithContext(ctx)
	factory.StartWithContext(ctx)
	cache.WaitFor(ctx, "", foos.TypedInformer().HasSyncedChecker(), deployments.TypedInformer().HasSyncedChecker())
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for ctx.Err() == nil && c.processNextWorkItem(context.WithoutCancel(ctx)) {
			}
		})
	}
	<-ctx.Done()
	c.queue.ShutDown()
	workers.Wait()
	factory.Shutdown()
	kubeFactory.Shutdown()
	return nil
}

type controller struct {
	kubeClient        kubernetes.Interface
	sampleClient      clientset.Interface
	foosLister        listers.FooLister
	deploymentsLister appslisters.DeploymentLister
	queue             workqueue.TypedRateLimitingInterface[cache.ObjectName]
	pauses            *flowcontrol.Backoff // between two writes, by what pauseOf returns

	written                      sync.Map // the resourceVersion of the Deployment that was last written for a Foo, by its key
	lastStoreSyncResourceVersion func() string
}

// handleObject enqueues the Foo that controls an object.
func (c *controller) handleObject(object metav1.Object) {
	ref := metav1.GetControllerOf(object)
	if ref == nil || ref.Kind != "Foo" {
		return
	}
	foo, err := c.foosLister.Foos(object.GetNamespace()).Get(ref.Name)
	if err == nil && foo.UID == ref.UID { // A Foo that was created again has another UID.
		c.queue.Add(cache.MetaObjectToName(foo))
	}
}

// enqueueWaiting enqueues the Foos that desire a name, which is free now.
func (c *controller) enqueueWaiting(deployment cache.ObjectName) {
	foos, err := c.foosLister.Foos(deployment.Namespace).List(labels.Everything())
	if err != nil {
		klog.ErrorS(err, "Listing Foos")
	}
	for _, foo := range foos {
		if foo.Spec.DeploymentName == deployment.Name {
			c.queue.Forget(cache.MetaObjectToName(foo)) // What has failed may succeed now.
			c.queue.Add(cache.MetaObjectToName(foo))
		}
	}
}

// processNextWorkItem syncs the next Foo of the queue. It returns false once the queue is shut down.
func (c *controller) processNextWorkItem(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	if c.isStale(key) {
		c.queue.AddAfter(key, time.Second)
		return true
	}
	if err := c.sync(ctx, key); err != nil {
		klog.ErrorS(err, "Syncing Foo", "foo", key)
		c.queue.AddRateLimited(key)
	} else {
		c.queue.Forget(key)
	}
	return true
}

// sync brings the Deployment of a Foo to its desired state, and reports what has become of it.
func (c *controller) sync(ctx context.Context, key cache.ObjectName) error {
	foo, err := c.foosLister.Foos(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.written.Delete(key) // This is the last sync of the Foo.
		return nil
	}
	if err != nil {
		return err
	}
	deployment, err := c.syncDeployment(ctx, foo)
	if errors.Is(err, errNotControlled) {
		return errors.Join(err, c.updateStatus(ctx, foo, nil, "NameConflict", err.Error()))
	}
	if errors.Is(err, errOverridden) {
		return c.updateStatus(ctx, foo, deployment, "Overridden", err.Error())
	}
	if err != nil {
		return err
	}
	if err := c.prune(ctx, foo, deployment); err != nil {
		return err
	}
	return c.updateStatus(ctx, foo, deployment, "Deployed", fmt.Sprintf("%d available", deployment.Status.AvailableReplicas))
}

// errNotControlled is the error of a Foo whose name is taken.
var errNotControlled = errors.New("this Foo does not control it")

// errOverridden is the error of a Foo whose Deployment must not be written before the end of a pause.
var errOverridden = errors.New("the last write of the Deployment was undone at once")

// updateStatus writes the status of a Foo if it differs.
func (c *controller) updateStatus(
	ctx context.Context, foo *samplev1alpha1.Foo, deployment *appsv1.Deployment, reason, message string,
) error {
	updated := foo.DeepCopy()
	status, ready := &updated.Status, metav1.ConditionFalse
	status.ObservedGeneration = foo.Generation
	if status.AvailableReplicas = 0; deployment != nil {
		status.AvailableReplicas = deployment.Status.AvailableReplicas
		if reason == "Deployed" && isAvailable(deployment) {
			ready = metav1.ConditionTrue
		}
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: samplev1alpha1.ConditionReady, Status: ready, ObservedGeneration: foo.Generation, Reason: reason, Message: message,
	})
	if equality.Semantic.DeepEqual(foo.Status, *status) {
		return nil
	}
	_, err := c.sampleClient.SamplecontrollerV1alpha1().Foos(foo.Namespace).UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	return err
}

// syncDeployment creates or scales the Deployment of a Foo, and returns it.
func (c *controller) syncDeployment(ctx context.Context, foo *samplev1alpha1.Foo) (*appsv1.Deployment, error) {
	key := cache.MetaObjectToName(foo)
	deployments := c.kubeClient.AppsV1().Deployments(foo.Namespace)
	deployment, err := c.deploymentsLister.Deployments(foo.Namespace).Get(foo.Spec.DeploymentName)
	pause := pauseOf(foo, deployment)
	pauses := []string{pause, pauseOf(foo, nil)}
	for _, pause := range pauses {
		if c.isPaused(pause) {
			c.queue.AddAfter(key, c.pauses.Get(pause))
		}
	}
	if apierrors.IsNotFound(err) {
		if c.isPaused(pause) {
			return nil, errOverridden
		}
		created, err := deployments.Create(ctx, newDeployment(foo), metav1.CreateOptions{})
		return c.wrote(foo, pause, created, err)
	}
	if err != nil {
		return nil, err
	}
	if !metav1.IsControlledBy(deployment, foo) {
		return nil, fmt.Errorf("the Deployment %s exists, and %w", deployment.Name, errNotControlled)
	}
	if foo.Spec.Replicas != nil && *deployment.Spec.Replicas != *foo.Spec.Replicas {
		if c.isPaused(pause) {
			return deployment, errOverridden
		}
		deployment = deployment.DeepCopy() // It belongs to the cache. The copy has the resourceVersion that was read.
		deployment.Spec.Replicas = ptr.To(*foo.Spec.Replicas)
		updated, err := deployments.Update(ctx, deployment, metav1.UpdateOptions{})
		return c.wrote(foo, pause, updated, err)
	}
	for _, pause := range pauses {
		if !c.isPaused(pause) { // Nobody has undone the last write: the next pause is a first one again.
			c.pauses.Reset(pause)
		}
	}
	return deployment, nil
}

// prune deletes the Deployments that a Foo controls under other names than the current one, which has to be available.
func (c *controller) prune(ctx context.Context, foo *samplev1alpha1.Foo, current *appsv1.Deployment) error {
	cached, err := c.deploymentsLister.Deployments(foo.Namespace).List(labels.Everything())
	if err != nil || !isAvailable(current) {
		return err
	}
	deployments := c.kubeClient.AppsV1().Deployments(foo.Namespace)
	for _, old := range cached {
		if old.Name == current.Name || !metav1.IsControlledBy(old, foo) {
			continue
		}
		// The caches may be stale. Nothing brings back what is deleted, so that this is read from the API server.
		live, err := c.sampleClient.SamplecontrollerV1alpha1().Foos(foo.Namespace).Get(ctx, foo.Name, metav1.GetOptions{})
		if err != nil || live.UID != foo.UID || live.Spec.DeploymentName != current.Name {
			return err
		}
		serving, err := deployments.Get(ctx, current.Name, metav1.GetOptions{})
		if err != nil || !metav1.IsControlledBy(serving, foo) || !isAvailable(serving) {
			return err
		}
		preconditions := metav1.Preconditions{UID: &old.UID, ResourceVersion: &old.ResourceVersion}
		if err := deployments.Delete(ctx, old.Name, metav1.DeleteOptions{Preconditions: &preconditions}); err != nil {
			return err
		}
	}
	return nil
}

func isAvailable(deployment *appsv1.Deployment) bool {
	return deployment.Status.ObservedGeneration == deployment.Generation && deployment.Status.AvailableReplicas >= *deployment.Spec.Replicas
}

// wrote records what was written for a Foo and starts a pause, unless that failed, and returns it.
func (c *controller) wrote(
	foo *samplev1alpha1.Foo, pause string, deployment *appsv1.Deployment, err error,
) (*appsv1.Deployment, error) {
	if err == nil {
		c.written.Store(cache.MetaObjectToName(foo), deployment.ResourceVersion)
		c.pauses.Next(pause, time.Now())
	}
	return deployment, err
}

// isPaused reports whether the last write was so recent that another one has to wait.
func (c *controller) isPaused(pause string) bool {
	return c.pauses.IsInBackOffSinceUpdate(pause, time.Now())
}

// pauseOf returns the name of the pause between two writes of a Deployment or, if it is nil, between two creations. A changed spec does not wait
// for one, nor a creation because changes were undone.
func pauseOf(foo *samplev1alpha1.Foo, deployment *appsv1.Deployment) string {
	if deployment == nil {
		deployment = &appsv1.Deployment{}
	}
	return fmt.Sprintf("%s/%d/%s", foo.UID, foo.Generation, deployment.UID)
}

// isStale reports whether the cache of Deployments is older than the last write for a Foo.
func (c *controller) isStale(key cache.ObjectName) bool {
	written, ok := c.written.Load(key)
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(c.lastStoreSyncResourceVersion(), written.(string))
	return err != nil || order < 0
}

var fooKind = schema.GroupVersion(samplev1alpha1.GroupVersion).WithKind("Foo")

// newDeployment returns the Deployment that a Foo desires.
func newDeployment(foo *samplev1alpha1.Foo) *appsv1.Deployment {
	podLabels := map[string]string{"app": "nginx", "controller": foo.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       foo.Namespace,
			Name:            foo.Spec.DeploymentName,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, fooKind)},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: foo.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: podLabels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: podLabels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:latest"}}},
			},
		},
	}
}
