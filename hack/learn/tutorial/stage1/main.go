// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Command stage1 polls: it lists all Foos, creates what is missing, and sleeps.
package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
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
	c := &controller{kubeClient: kubeClient, sampleClient: sampleClient}
	wait.UntilWithContext(ctx, c.poll, 10*time.Second)
	return nil
}

type controller struct {
	kubeClient   kubernetes.Interface
	sampleClient clientset.Interface
}

// poll lists all Foos, and syncs each.
func (c *controller) poll(ctx context.Context) {
	foos, err := c.sampleClient.SamplecontrollerV1alpha1().Foos(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		klog.ErrorS(err, "Listing Foos")
		return
	}
	for _, foo := range foos.Items {
		if err := c.sync(ctx, &foo); err != nil {
			klog.ErrorS(err, "Syncing Foo", "foo", klog.KObj(&foo))
		}
	}
}

// sync creates or scales the Deployment of a Foo.
func (c *controller) sync(ctx context.Context, foo *samplev1alpha1.Foo) error {
	deployments := c.kubeClient.AppsV1().Deployments(foo.Namespace)
	deployment, err := deployments.Get(ctx, foo.Spec.DeploymentName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err := deployments.Create(ctx, newDeployment(foo), metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	if foo.Spec.Replicas != nil && *deployment.Spec.Replicas != *foo.Spec.Replicas {
		deployment.Spec.Replicas = foo.Spec.Replicas
		_, err = deployments.Update(ctx, deployment, metav1.UpdateOptions{})
	}
	return err
}

// newDeployment returns the Deployment that a Foo desires.
func newDeployment(foo *samplev1alpha1.Foo) *appsv1.Deployment {
	podLabels := map[string]string{"app": "nginx", "controller": foo.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: foo.Namespace, Name: foo.Spec.DeploymentName},
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
