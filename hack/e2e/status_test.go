// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestADeploymentThatCannotCreatePodsStallsTheFoo(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	kubectl(t, "create", "quota", "-n", namespace, "few", "--hard=pods=1")
	createFoo(t, namespace, "crowded", "crowded", 3)
	wantReason(t, namespace, "crowded", "DeploymentStalled")
	wantKstatus(t, namespace, "crowded", status.FailedStatus)
	eventually(t, convergence, func() error {
		if foo := getFoo(t, namespace, "crowded"); foo.Status.AvailableReplicas != 1 || foo.Status.Replicas != 1 {
			return fmt.Errorf("status = %+v, want one replica", foo.Status)
		}
		return nil
	})
	kubectl(t, "delete", "quota", "-n", namespace, "few")
	kubectl(t, "rollout", "restart", "-n", namespace, "deployment/crowded") // The ReplicaSet's own backoff may be minutes.
	wantReplicas(t, namespace, "crowded", 3)
}

func TestARefusedDeploymentIsToldOnTheFooAndRetried(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	kubectl(t, "create", "quota", "-n", namespace, "none", "--hard=count/deployments.apps=0")
	startController(t, namespace, "-resync-period=1s")
	foo := createFoo(t, namespace, "refused", "refused", 1)
	message := wantReason(t, namespace, "refused", "DeploymentRejected").Message
	if !strings.Contains(message, "exceeded quota") {
		t.Errorf("message = %q", message)
	}
	wantEvent(t, foo, corev1.EventTypeWarning, "DeploymentRejected", message)
	wantKstatus(t, namespace, "refused", status.FailedStatus)

	// Backoff, not a hot loop, and not the resync: the n-th retry comes 5 ms * 2^n after the one before, which
	// makes 11 in 10 s.
	started := getFoo(t, namespace, "refused").CreationTimestamp
	eventually(t, convergence, func() error {
		if time.Since(started.Time) < 6*time.Second {
			return errors.New("waiting for resyncs to come")
		}
		return nil
	})
	if attempts := countPrefix(settledRequestsOf(t, namespace), "create deployments"); attempts > 16 {
		t.Errorf("%d attempts to create the Deployment in 6 s", attempts)
	}

	kubectl(t, "delete", "quota", "-n", namespace, "none")
	wantReplicas(t, namespace, "refused", 1)
	wantKstatus(t, namespace, "refused", status.CurrentStatus)
}

func TestKstatusAgreesWithTheConditions(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	foo := createFoo(t, namespace, "judged", "judged", 2)
	startController(t, namespace)
	kubectl(t, "wait", "-n", namespace, "--for=condition=Ready", "foo/judged", "--timeout=30s")
	wantKstatus(t, namespace, "judged", status.CurrentStatus)
	kubectl(t, "create", "deployment", "-n", namespace, "taken", "--image=other")
	rename(t, namespace, "judged", "taken")
	wantKstatus(t, namespace, "judged", status.FailedStatus)
	rename(t, namespace, "judged", "judged")
	wantKstatus(t, namespace, "judged", status.CurrentStatus)

	description := kubectl(t, "describe", "-n", namespace, "foo/judged")
	for _, want := range []string{"Deployment Name:", "Available Replicas:", "ErrResourceExists", "Foo synced successfully", "sample-controller"} {
		if !strings.Contains(description, want) {
			t.Errorf("kubectl describe %s does not show %q:\n%s", foo.Name, want, description)
		}
	}
}

func TestOneEventTellsOfEachChange(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	foo := createFoo(t, namespace, "chatty", "chatty", 1)
	wantReplicas(t, namespace, "chatty", 1)
	wantEventCount(t, foo, "Synced", 1)
	// More changes than the default limits of client-go's recorder let through for one object.
	changes := int32(40)
	for i := range changes {
		kubectl(t, "scale", "-n", namespace, "foo/chatty", fmt.Sprintf("--replicas=%d", 2+i%2))
		eventually(t, convergence, func() error {
			if got := getFoo(t, namespace, "chatty"); got.Status.ObservedGeneration != got.Generation {
				return errors.New("the newest generation has not been observed")
			}
			return nil
		})
	}
	wantEventCount(t, foo, "Synced", 1+changes)
}

func TestTheScaleSubresourceServesAnAutoscaler(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "scalable", "scalable", 2)
	wantReplicas(t, namespace, "scalable", 2)
	scale := kubectl(t, "get", "--raw", "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/"+namespace+"/foos/scalable/scale")
	var read struct {
		Spec, Status struct {
			Replicas int
			Selector string
		}
	}
	if err := json.Unmarshal([]byte(scale), &read); err != nil {
		t.Fatal(err)
	}
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
		return fmt.Errorf("the autoscaler cannot read the scale: %v", autoscaler.Status.Conditions)
	})
}
