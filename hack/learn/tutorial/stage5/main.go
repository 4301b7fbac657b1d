// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command stage5 knows what is its own: the Deployment whose controller has the UID of the Foo. It waits for a name that is taken.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeinformers "k8s.io/client-go/informers"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

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

// run runs the controller in the cluster of config until ctx is done.
func run(ctx context.Context, config *rest.Config) error {
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
		foosLister:        foos.Lister(),
		deploymentsLister: deployments.Lister(),
		queue:             workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
	}
	if _, err := foos.TypedInformer().AddTypedEventHandler(informersv1alpha1.FooHandlerFuncs{
		AddFunc:    func(foo *samplev1alpha1.Foo) { c.queue.Add(cache.MetaObjectToName(foo)) },
		UpdateFunc: func(_, foo *samplev1alpha1.Foo) { c.queue.Add(cache.MetaObjectToName(foo)) },
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
	kubeFactory.StartWithContext(ctx)
	factory.StartWithContext(ctx)
	cache.WaitFor(ctx, "", foos.TypedInformer().HasSyncedChecker(), deployments.TypedInformer().HasSyncedChecker())
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for c.processNextWorkItem(ctx) {
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
	foosLister        listers.FooLister
	deploymentsLister appslisters.DeploymentLister
	queue             workqueue.TypedRateLimitingInterface[cache.ObjectName]
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
	if err := c.sync(ctx, key); err != nil {
		klog.ErrorS(err, "Syncing Foo", "foo", key)
		c.queue.AddRateLimited(key)
	} else {
		c.queue.Forget(key)
	}
	return true
}

// sync creates or scales the Deployment of a Foo.
func (c *controller) sync(ctx context.Context, key cache.ObjectName) error {
	foo, err := c.foosLister.Foos(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	deployments := c.kubeClient.AppsV1().Deployments(foo.Namespace)
	deployment, err := c.deploymentsLister.Deployments(foo.Namespace).Get(foo.Spec.DeploymentName)
	if apierrors.IsNotFound(err) {
		_, err := deployments.Create(ctx, newDeployment(foo), metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	if !metav1.IsControlledBy(deployment, foo) {
		return fmt.Errorf("the Deployment %s exists, and this Foo does not control it", deployment.Name)
	}
	if foo.Spec.Replicas != nil && *deployment.Spec.Replicas != *foo.Spec.Replicas {
		deployment.Spec.Replicas = foo.Spec.Replicas
		_, err = deployments.Update(ctx, deployment, metav1.UpdateOptions{})
	}
	return err
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
