// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	labels := map[string]string{"app": "nginx", "controller": "example-foo"}
	for place, got := range map[string]map[string]string{
		"selector": deployment.Spec.Selector.MatchLabels, "labels": deployment.Labels, "Pod labels": deployment.Spec.Template.Labels,
	} {
		if fmt.Sprint(got) != fmt.Sprint(labels) {
			t.Errorf("%s = %v, want %v", place, got, labels)
		}
	}
	if containers := deployment.Spec.Template.Spec.Containers; len(containers) != 1 || containers[0].Name != "nginx" ||
		containers[0].Image != "nginx:latest" {
		t.Errorf("containers = %v, want nginx with image nginx:latest only", containers)
	}
	if foo.Status.Replicas != 1 || foo.Status.Selector != "app=nginx,controller=example-foo" {
		t.Errorf("status = %+v", foo.Status)
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
	if status := getFoo(t, namespace, "other").Status; status.ObservedGeneration != 0 {
		t.Errorf("the controller of another namespace wrote status %+v", status)
	}
	controller.stop(10 * time.Second)

	startController(t, "", "-image", "nginx:1.27")
	waitForReplicas(t, namespace, "other", 1)
	if image := getDeployment(t, namespace, "other").Spec.Template.Spec.Containers[0].Image; image != "nginx:1.27" {
		t.Errorf("image = %q, want the value of -image", image)
	}
}

func TestScale(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace, "-resync-period=0") // The status must be updated by watch events alone.
	createFoo(t, namespace, "scaled", "scaled", 1)
	for _, replicas := range []int32{1, 10, 1} {
		kubectl(t, "scale", "-n", namespace, "foo/scaled", fmt.Sprintf("--replicas=%d", replicas))
		waitForReplicas(t, namespace, "scaled", replicas)
	}
}

func TestUnsetReplicasAreNotManaged(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "unmanaged", "unmanaged", 0)
	waitForReplicas(t, namespace, "unmanaged", 1)
	kubectl(t, "scale", "-n", namespace, "deployment/unmanaged", "--replicas=3")
	waitForReplicas(t, namespace, "unmanaged", 3)
}

func TestDeletedDeploymentIsRecreated(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createReadyFoo(t, namespace, "recreated", "recreated", 2)
	before := getDeployment(t, namespace, "recreated").UID
	kubectl(t, "delete", "-n", namespace, "deployment/recreated")
	eventually(t, convergence, func() error {
		deployment, err := findDeployment(t, namespace, "recreated")
		if err == nil && deployment.UID == before {
			err = errors.New("the Deployment has not been deleted")
		}
		return err
	})
	waitForReplicas(t, namespace, "recreated", 2)
}

func TestReplicasDriftIsCorrected(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createReadyFoo(t, namespace, "scaled", "scaled", 2)
	kubectl(t, "scale", "-n", namespace, "deployment/scaled", "--replicas=5")
	eventually(t, convergence, func() error {
		if replicas := *getDeployment(t, namespace, "scaled").Spec.Replicas; replicas != 2 {
			return fmt.Errorf("the Deployment has %d replicas, want 2", replicas)
		}
		return nil
	})
}

func TestDriftCorrectionKeepsOtherFields(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createReadyFoo(t, namespace, "shared", "shared", 2)

	kubectl(t, "rollout", "restart", "-n", namespace, "deployment/shared")
	kubectl(t, "annotate", "-n", namespace, "deployment/shared", "note=kept")
	kubectl(t, "label", "-n", namespace, "deployment/shared", "team=a", "app=other", "controller-", "--overwrite")
	kubectl(t, "patch", "-n", namespace, "deployment/shared", "--type=strategic", "-p", `{"spec":{"minReadySeconds":1,"template":{
		"metadata":{"labels":{"extra":"label"}},
		"spec":{"tolerations":[{"key":"kept"}],"containers":[{"name":"sidecar","image":"sidecar"},{"name":"nginx","image":"apache","env":[{"name":"A","value":"b"}]}]}}}}`)
	eventually(t, convergence, func() error {
		deployment := getDeployment(t, namespace, "shared")
		pod := deployment.Spec.Template
		images := map[string]string{}
		for _, container := range pod.Spec.Containers {
			images[container.Name] = container.Image
		}
		corrected := deployment.Labels["app"] == "nginx" && deployment.Labels["controller"] == "shared" &&
			pod.Labels["app"] == "nginx" && pod.Labels["controller"] == "shared" && images["nginx"] == "nginx:latest"
		kept := deployment.Labels["team"] == "a" && deployment.Annotations["note"] == "kept" && pod.Labels["extra"] == "label" &&
			pod.Annotations["kubectl.kubernetes.io/restartedAt"] != "" && len(pod.Spec.Tolerations) == 1 &&
			images["sidecar"] == "sidecar" && deployment.Spec.MinReadySeconds == 1
		if !corrected || !kept {
			return fmt.Errorf("drift corrected: %v, other fields kept: %v, in %+v", corrected, kept, deployment)
		}
		return nil
	})
	waitForReplicas(t, namespace, "shared", 2)
	for _, container := range getDeployment(t, namespace, "shared").Spec.Template.Spec.Containers {
		if container.Name == "nginx" && len(container.Env) != 1 {
			t.Error("the environment variables of the nginx container were removed")
		}
	}
}

func TestGarbageCollection(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"background", "foreground"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			startController(t, namespace)
			createReadyFoo(t, namespace, "deleted", "deleted", 1)
			kubectl(t, "delete", "-n", namespace, "foo/deleted", "--cascade="+policy, "--timeout=60s")
			// The garbage collector discovers new resources every 30 seconds.
			waitForGarbageCollection(t, convergence+30*time.Second, namespace, "deleted")
		})
	}
}

func TestOrphanPropagation(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createReadyFoo(t, namespace, "deleted", "orphaned", 1)
	uid := getDeployment(t, namespace, "orphaned").UID

	kubectl(t, "delete", "-n", namespace, "foo/deleted", "--cascade=orphan", "--timeout=60s")
	deployment := getDeployment(t, namespace, "orphaned")
	if deployment.UID != uid || len(deployment.OwnerReferences) > 0 || deployment.DeletionTimestamp != nil {
		t.Errorf("the Deployment was not merely orphaned: %+v", deployment.ObjectMeta)
	}
}

func TestRecreatedFoo(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	controller := startController(t, namespace)
	createReadyFoo(t, namespace, "recreated", "first", 1)
	oldDeployment := getDeployment(t, namespace, "first").UID
	oldFoo := getFoo(t, namespace, "recreated").UID

	kubectl(t, "delete", "-n", namespace, "foo/recreated", "--wait=false")
	created := createFoo(t, namespace, "recreated", "first", 2)
	waitForReplicasWithin(t, 2*convergence, namespace, "recreated", 2)
	deployment := getDeployment(t, namespace, "first")
	if created.UID == oldFoo || deployment.UID == oldDeployment || !metav1.IsControlledBy(deployment, created) {
		t.Errorf("the Deployment is %+v, want a new one that the new Foo controls", deployment.ObjectMeta)
	}
	controller.stop(10 * time.Second)
}

func TestOrphanedAndAdoptedDeployment(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	foo := createReadyFoo(t, namespace, "owner", "adopted", 2)

	kubectl(t, "patch", "-n", namespace, "deployment/adopted", "--type=merge", "-p", `{"metadata":{"ownerReferences":null},"spec":{"replicas":3}}`)
	waitForStalled(t, namespace, "owner", "ErrResourceExists")
	if replicas := *getDeployment(t, namespace, "adopted").Spec.Replicas; replicas != 3 {
		t.Errorf("the orphaned Deployment has %d replicas, want 3", replicas)
	}

	setController(t, namespace, "adopted", foo)
	waitForReplicas(t, namespace, "owner", 2)
}
