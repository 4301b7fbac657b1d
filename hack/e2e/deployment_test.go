// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

func TestExampleFoo(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	kubectl(t, "apply", "-n", namespace, "-f", exampleFile)

	waitForReplicas(t, namespace, "example-foo", 1)
	deployment := getDeployment(t, namespace, "example-foo")
	foo := getFoo(t, namespace, "example-foo")
	if !metav1.IsControlledBy(deployment, foo) {
		t.Errorf("owner references = %v, want a controller reference to the Foo", deployment.OwnerReferences)
	}
	waitForEvent(t, foo, corev1.EventTypeNormal, "Synced", "Foo synced successfully")

	columns := strings.Fields(strings.Split(kubectl(t, "get", "foos", "-n", namespace, "-o", "wide"), "\n")[0])
	if want := []string{"NAME", "DEPLOYMENT", "DESIRED", "AVAILABLE", "READY", "AGE", "REASON", "MESSAGE"}; !slices.Equal(columns, want) {
		t.Errorf("columns = %q, want %q", columns, want)
	}
	if all := kubectl(t, "get", "all", "-n", namespace); !strings.Contains(all, "foo.samplecontroller.k8s.io/example-foo") {
		t.Errorf("kubectl get all does not show the Foo:\n%s", all)
	}
	kubectl(t, "wait", "-n", namespace, "--for=condition=Ready", "foo/example-foo", "--timeout=10s")
}

func TestNamespaceAndImageFlags(t *testing.T) {
	named, namespace := newNamespace(t), newNamespace(t)
	controller := startController(t, named)
	createFoo(t, namespace, "other", "other", 1)
	createReadyFoo(t, named, "named", "named", 1)
	if status := getFoo(t, namespace, "other").Status; status.ObservedGeneration > 0 {
		t.Errorf("the controller of another namespace wrote status %+v", status)
	}
	controller.stop()

	startController(t, "", "-image", "nginx:1.27")
	waitForReplicas(t, namespace, "other", 1)
	if image := getDeployment(t, namespace, "other").Spec.Template.Spec.Containers[0].Image; image != "nginx:1.27" {
		t.Errorf("image = %q, want the value of -image", image)
	}
}

func TestDeletedFoo(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"background", "foreground", "orphan"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			startController(t, namespace)
			createReadyFoo(t, namespace, "deleted", "deleted", 1)
			before := getDeployment(t, namespace, "deleted")
			kubectl(t, "delete", "-n", namespace, "foo/deleted", "--cascade="+policy, "--timeout=60s")
			if policy != "orphan" {
				waitForDeployments(t, namespace)
				return
			}
			if after := getDeployment(t, namespace, "deleted"); after.UID != before.UID || len(after.OwnerReferences) > 0 || after.DeletionTimestamp != nil {
				t.Errorf("the Deployment was not merely orphaned: %+v", after.ObjectMeta)
			}
		})
	}
}

func TestNameConflict(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	kubectl(t, "create", "deployment", "-n", namespace, "taken", "--image=other:latest")
	before := getDeployment(t, namespace, "taken")
	controller := startController(t, namespace)
	foo := createFoo(t, namespace, "waiting", "taken", 1)

	message := `Resource "taken" already exists and is not managed by Foo`
	waitForEvent(t, foo, corev1.EventTypeWarning, "ErrResourceExists", message)
	controller.waitForLog(message[len(`Resource "taken" `):])
	if got := waitForStalled(t, namespace, "waiting", "ErrResourceExists").Message; got != message {
		t.Errorf("message = %q, want %q", got, message)
	}
	waitForKstatus(t, namespace, "waiting", status.FailedStatus)
	checkUnchanged(t, before)

	kubectl(t, "delete", "-n", namespace, "deployment/taken")
	waitForReplicas(t, namespace, "waiting", 1)
	waitForKstatus(t, namespace, "waiting", status.CurrentStatus)
	if deployment := getDeployment(t, namespace, "taken"); !metav1.IsControlledBy(deployment, foo) {
		t.Errorf("owner references = %v, want the waiting Foo", deployment.OwnerReferences)
	}
	if meta.FindStatusCondition(getFoo(t, namespace, "waiting").Status.Conditions, samplev1alpha1.ConditionStalled) != nil {
		t.Error("the Stalled condition was not removed")
	}
	waitForEvent(t, foo, corev1.EventTypeNormal, "Synced", "Foo synced successfully")
	description := kubectl(t, "describe", "-n", namespace, "foo/waiting")
	for _, want := range []string{"Deployment Name:", "Available Replicas:", "ErrResourceExists", "Foo synced successfully", "sample-controller"} {
		if !strings.Contains(description, want) {
			t.Errorf("the output of kubectl describe lacks %q:\n%s", want, description)
		}
	}
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ quota, reason, pods string }{ // pods is how many it allows
		"pods":        {"pods=1", "DeploymentStalled", "1"},
		"replicasets": {"count/replicasets.apps=0", "DeploymentStalled", "0"},
		"deployments": {"count/deployments.apps=0", "DeploymentRejected", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			startController(t, namespace, "-resync-period=1s")
			kubectl(t, "create", "quota", "-n", namespace, "limit", "--hard=count/configmaps=0,"+test.quota)
			eventually(t, convergence, func() error { // The API server notices the quota later.
				output, _ := tryKubectl(t, "", "create", "configmap", "-n", namespace, "probe", "--dry-run=server")
				if !strings.Contains(output, "exceeded quota") {
					return fmt.Errorf("the quota is not enforced: %s", output)
				}
				return nil
			})
			foo := createFoo(t, namespace, "limited", "limited", 3)
			message := waitForStalled(t, namespace, "limited", test.reason).Message
			if !strings.Contains(message, "exceeded quota") {
				t.Errorf("message = %q, want the reason of the quota", message)
			}
			waitForKstatus(t, namespace, "limited", status.FailedStatus)
			for _, field := range []string{"availableReplicas", "replicas"} {
				kubectl(t, "wait", "-n", namespace, "foo/limited", "--for=jsonpath={.status."+field+"}="+test.pods, "--timeout=60s")
			}
			kubectl(t, "delete", "quota", "-n", namespace, "limit")
			if test.reason == "DeploymentRejected" {
				waitForEvent(t, foo, corev1.EventTypeWarning, test.reason, message)
			} else { // Other controllers may back off for minutes.
				kubectl(t, "rollout", "restart", "-n", namespace, "deployment/limited")
			}
			waitForReplicas(t, namespace, "limited", 3)
			waitForKstatus(t, namespace, "limited", status.CurrentStatus)
		})
	}
}

func TestScaleSubresource(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createReadyFoo(t, namespace, "scalable", "scalable", 2)
	scale := kubectl(t, "get", "--raw", "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/"+namespace+"/foos/scalable/scale")
	if want := `"spec":{"replicas":2},"status":{"replicas":2,"selector":"app=nginx,controller=scalable"}`; !strings.Contains(scale, want) {
		t.Errorf("scale = %s, want %s", scale, want)
	}

	manifest := `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"scalable"},"spec":{"maxReplicas":5,
		"scaleTargetRef":{"apiVersion":"samplecontroller.k8s.io/v1alpha1","kind":"Foo","name":"scalable"}}}`
	if output, err := tryKubectl(t, manifest, "apply", "-n", namespace, "-f", "-"); err != nil {
		t.Fatal(output)
	}
	kubectl(t, "wait", "-n", namespace, "--for=condition=AbleToScale", "hpa/scalable", "--timeout=60s") // It gets the scale.
}
