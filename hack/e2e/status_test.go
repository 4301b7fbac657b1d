// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestStalledDeployment(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	kubectl(t, "create", "quota", "-n", namespace, "pods", "--hard=pods=1")
	createFoo(t, namespace, "stalled", "stalled", 3)
	waitForStalled(t, namespace, "stalled", "DeploymentStalled")
	waitForKstatus(t, namespace, "stalled", status.FailedStatus)
	eventually(t, convergence, func() error {
		if foo := getFoo(t, namespace, "stalled"); foo.Status.AvailableReplicas != 1 || foo.Status.Replicas != 1 {
			return fmt.Errorf("status = %+v, want one replica", foo.Status)
		}
		return nil
	})
	kubectl(t, "delete", "quota", "-n", namespace, "pods")
	kubectl(t, "rollout", "restart", "-n", namespace, "deployment/stalled") // The backoff of the ReplicaSet controller can be minutes.
	waitForReplicas(t, namespace, "stalled", 3)
}

func TestRejectedDeployment(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	kubectl(t, "create", "quota", "-n", namespace, "deployments", "--hard=count/deployments.apps=0")
	startController(t, namespace, "-resync-period=1s")
	foo := createFoo(t, namespace, "rejected", "rejected", 1)
	message := waitForStalled(t, namespace, "rejected", "DeploymentRejected").Message
	if !strings.Contains(message, "exceeded quota") {
		t.Errorf("message = %q", message)
	}
	waitForEvent(t, foo, corev1.EventTypeWarning, "DeploymentRejected", message)
	waitForKstatus(t, namespace, "rejected", status.FailedStatus)

	// Only the rate limiter, whose delay doubles from 5 ms, and the resyncs retry.
	sleep(t, time.Until(foo.CreationTimestamp.Add(6*time.Second)))
	attempts := countPrefix(requestsIn(t, namespace), "create deployments")
	took := time.Since(foo.CreationTimestamp.Time)
	if limit := 2 + math.Log2(took.Seconds()/0.005+1) + took.Seconds(); float64(attempts) > limit {
		t.Errorf("got %d attempts to create the Deployment in %s, want at most %.0f", attempts, took, limit)
	}

	kubectl(t, "delete", "quota", "-n", namespace, "deployments")
	waitForReplicas(t, namespace, "rejected", 1)
	waitForKstatus(t, namespace, "rejected", status.CurrentStatus)
}

func TestKstatus(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createFoo(t, namespace, "example", "example", 2)
	startController(t, namespace)
	kubectl(t, "wait", "-n", namespace, "--for=condition=Ready", "foo/example", "--timeout=30s")
	waitForKstatus(t, namespace, "example", status.CurrentStatus)
	kubectl(t, "create", "deployment", "-n", namespace, "taken", "--image=other")
	rename(t, namespace, "example", "taken")
	waitForKstatus(t, namespace, "example", status.FailedStatus)
	rename(t, namespace, "example", "example")
	waitForKstatus(t, namespace, "example", status.CurrentStatus)

	description := kubectl(t, "describe", "-n", namespace, "foo/example")
	for _, want := range []string{"Deployment Name:", "Available Replicas:", "ErrResourceExists", "Foo synced successfully", "sample-controller"} {
		if !strings.Contains(description, want) {
			t.Errorf("the output of kubectl describe lacks %q:\n%s", want, description)
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	foo := createReadyFoo(t, namespace, "scaled", "scaled", 1)
	waitForEventCount(t, foo, "Synced", 1)
	// Fewer than the recorder of client-go drops.
	changes := int32(5)
	for i := range changes {
		kubectl(t, "scale", "-n", namespace, "foo/scaled", fmt.Sprintf("--replicas=%d", 2+i%2))
		eventually(t, convergence, func() error {
			if got := getFoo(t, namespace, "scaled"); got.Status.ObservedGeneration != got.Generation {
				return errors.New("the latest generation has not been observed")
			}
			return nil
		})
	}
	waitForEventCount(t, foo, "Synced", 1+changes)
}

func TestScaleSubresource(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createReadyFoo(t, namespace, "scalable", "scalable", 2)
	scale := kubectl(t, "get", "--raw", "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/"+namespace+"/foos/scalable/scale")
	var read struct {
		Spec, Status struct {
			Replicas int
			Selector string
		}
	}
	requireNoError(t, json.Unmarshal([]byte(scale), &read))
	if read.Spec.Replicas != 2 || read.Status.Replicas != 2 || read.Status.Selector != "app=nginx,controller=scalable" {
		t.Errorf("scale = %s", scale)
	}

	manifest := `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"scalable"},"spec":{"maxReplicas":5,
		"scaleTargetRef":{"apiVersion":"samplecontroller.k8s.io/v1alpha1","kind":"Foo","name":"scalable"}}}`
	if output, err := tryKubectl(t, manifest, "apply", "-n", namespace, "-f", "-"); err != nil {
		t.Fatal(output)
	}
	eventually(t, 2*convergence, func() error {
		autoscaler, err := kubeClient.AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(t.Context(), "scalable", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range autoscaler.Status.Conditions {
			if condition.Type == "AbleToScale" && condition.Status == corev1.ConditionTrue && condition.Reason == "SucceededGetScale" {
				return nil
			}
		}
		return fmt.Errorf("the HorizontalPodAutoscaler cannot get the scale: %v", autoscaler.Status.Conditions)
	})
}
