// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command floor makes only the write requests that every controller of Foos has to make: it has no caches, does not compare
// anything and does not retry. It is the baseline for the throughput of a controller.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
)

var fooKind = schema.GroupVersion(samplev1alpha1.GroupVersion).WithKind("Foo")

func main() {
	kubeconfig := flag.String("kubeconfig", "", "`path` of a kubeconfig")
	workers := flag.Int("workers", 2, "`number` of Foos to process concurrently")
	flag.Parse()
	if err := run(context.Background(), *kubeconfig, *workers); err != nil {
		log.Fatal(err)
	}
}

type clients struct {
	kube   kubernetes.Interface
	sample clientset.Interface
}

// run processes each generation of each Foo once.
func run(ctx context.Context, kubeconfig string, workers int) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	kubeConfig := rest.CopyConfig(config)
	kubeConfig.ContentType = runtime.ContentTypeProtobuf
	kubeConfig.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	c := clients{kube: kubernetes.NewForConfigOrDie(kubeConfig), sample: clientset.NewForConfigOrDie(config)}
	list, err := c.sample.SamplecontrollerV1alpha1().Foos("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	changes, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion,
		&cache.ListWatch{WatchFuncWithContext: c.sample.SamplecontrollerV1alpha1().Foos("").Watch})
	if err != nil {
		return err
	}

	queue := make(chan *samplev1alpha1.Foo, 1_000_000) // Large enough never to block the watch.
	for i := range list.Items {
		queue <- &list.Items[i]
	}
	failed := make(chan error)
	for range workers {
		go func() {
			for foo := range queue {
				if err := c.sync(ctx, foo); err != nil {
					failed <- err
				}
			}
		}()
	}
	for {
		select {
		case event, ok := <-changes.ResultChan():
			if !ok {
				return errors.New("the watch of Foos ended")
			}
			if foo, ok := event.Object.(*samplev1alpha1.Foo); ok && foo.Generation != foo.Status.ObservedGeneration {
				queue <- foo
			}
		case err := <-failed:
			return err
		}
	}
}

// sync writes the Deployment, the status and the event of a Foo that is new or has been scaled.
func (c clients) sync(ctx context.Context, foo *samplev1alpha1.Foo) error {
	deployments := c.kube.AppsV1().Deployments(foo.Namespace)
	events := c.kube.CoreV1().Events(foo.Namespace)
	event := newEvent(foo)
	if foo.Generation == 1 {
		if _, err := deployments.Create(ctx, newDeployment(foo), metav1.CreateOptions{}); err != nil {
			return err
		}
	} else {
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, *foo.Spec.Replicas)
		if _, err := deployments.Patch(ctx, foo.Spec.DeploymentName, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	foo.Status.ObservedGeneration = foo.Generation
	foo.Status.Selector = "app=nginx,controller=" + foo.Name
	foo.Status.Conditions = []metav1.Condition{{
		Type: samplev1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: foo.Generation,
		LastTransitionTime: metav1.Now(), Reason: "DeploymentProgressing",
		Message: fmt.Sprintf("0 of %d replicas available", *foo.Spec.Replicas),
	}}
	if _, err := c.sample.SamplecontrollerV1alpha1().Foos(foo.Namespace).UpdateStatus(ctx, foo, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if foo.Generation == 1 {
		_, err := events.Create(ctx, event, metav1.CreateOptions{})
		return err
	}
	patch := fmt.Appendf(nil, `{"count":%d,"lastTimestamp":%q}`, foo.Generation, time.Now().UTC().Format(time.RFC3339))
	_, err := events.Patch(ctx, event.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}

func newDeployment(foo *samplev1alpha1.Foo) *appsv1.Deployment {
	labels := map[string]string{"app": "nginx", "controller": foo.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: foo.Spec.DeploymentName, Namespace: foo.Namespace, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, fooKind)},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: foo.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:latest"}}},
			},
		},
	}
}

// newEvent returns the only event of a Foo, whose count is incremented for each generation.
func newEvent(foo *samplev1alpha1.Foo) *corev1.Event {
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: foo.Name + ".floor", Namespace: foo.Namespace},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: fooKind.GroupVersion().String(), Kind: fooKind.Kind,
			Namespace: foo.Namespace, Name: foo.Name, UID: foo.UID, ResourceVersion: foo.ResourceVersion,
		},
		Type: corev1.EventTypeNormal, Reason: "Synced", Message: "Foo synced successfully",
		Source: corev1.EventSource{Component: "floor"}, ReportingController: "floor",
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}
