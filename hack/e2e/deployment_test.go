// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/pkg/ownership"
)

func TestTheExampleFooBecomesAnAvailableDeployment(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	kubectl(t, "apply", "-n", namespace, "-f", exampleFile)

	wantReplicas(t, namespace, "example-foo", 1)
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
		t.Errorf("containers = %v, want one, nginx of nginx:latest", containers)
	}
	if foo.Status.Replicas != 1 || foo.Status.Selector != "app=nginx,controller=example-foo" {
		t.Errorf("status = %+v", foo.Status)
	}
	wantEvent(t, foo, corev1.EventTypeNormal, "Synced", "Foo synced successfully")

	columns := strings.Fields(strings.Split(kubectl(t, "get", "foos", "-n", namespace, "-o", "wide"), "\n")[0])
	if want := []string{"NAME", "DEPLOYMENT", "DESIRED", "AVAILABLE", "READY", "AGE", "REASON", "MESSAGE"}; !slices.Equal(columns, want) {
		t.Errorf("columns = %q, want %q", columns, want)
	}
	if all := kubectl(t, "get", "all", "-n", namespace); !strings.Contains(all, "foo.samplecontroller.k8s.io/example-foo") {
		t.Errorf("kubectl get all does not show the Foo:\n%s", all)
	}
	kubectl(t, "wait", "-n", namespace, "--for=condition=Ready", "foo/example-foo", "--timeout=10s")
}

func TestAllNamespacesAreServedUnlessOneIsNamed(t *testing.T) {
	named, namespace := newNamespace(t), newNamespace(t)
	ofOne := startController(t, named)
	createFoo(t, namespace, "anywhere", "anywhere", 1)
	createFoo(t, named, "named", "named", 1)
	wantReplicas(t, named, "named", 1)
	if status := getFoo(t, namespace, "anywhere").Status; status.ObservedGeneration != 0 {
		t.Errorf("a controller of another namespace has written the status %+v", status)
	}
	ofOne.signal(syscall.SIGTERM)
	ofOne.wantExit(0, 10*time.Second)

	startController(t, "", "-image", "nginx:1.27")
	wantReplicas(t, namespace, "anywhere", 1)
	if image := getDeployment(t, namespace, "anywhere").Spec.Template.Spec.Containers[0].Image; image != "nginx:1.27" {
		t.Errorf("image = %q, want the one of -image", image)
	}
}

func TestScalingAFooScalesItsDeployment(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace, "-resync-period=0") // Only the watches tell the status.
	createFoo(t, namespace, "scaled", "scaled", 1)
	for _, replicas := range []int32{1, 10, 1} {
		kubectl(t, "scale", "-n", namespace, "foo/scaled", fmt.Sprintf("--replicas=%d", replicas))
		wantReplicas(t, namespace, "scaled", replicas)
	}
}

func TestAFooWithoutReplicasLeavesTheCountAlone(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "free", "free", 0)
	wantReplicas(t, namespace, "free", 1)
	kubectl(t, "scale", "-n", namespace, "deployment/free", "--replicas=3")
	wantReplicas(t, namespace, "free", 3)
}

func TestADeploymentThatIsDeletedComesBack(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "restored", "restored", 2)
	wantReplicas(t, namespace, "restored", 2)
	before := getDeployment(t, namespace, "restored").UID
	kubectl(t, "delete", "-n", namespace, "deployment/restored")
	eventually(t, convergence, func() error {
		if deployment, err := findDeployment(t, namespace, "restored"); err != nil || deployment.UID == before {
			return fmt.Errorf("the Deployment is not back: %w", err)
		}
		return nil
	})
	wantReplicas(t, namespace, "restored", 2)
}

func TestADeploymentThatIsScaledByHandIsPutBack(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "steady", "steady", 2)
	wantReplicas(t, namespace, "steady", 2)
	kubectl(t, "scale", "-n", namespace, "deployment/steady", "--replicas=5")
	eventually(t, convergence, func() error {
		if replicas := *getDeployment(t, namespace, "steady").Spec.Replicas; replicas != 2 {
			return fmt.Errorf("the Deployment has %d replicas, want 2", replicas)
		}
		return nil
	})
}

func TestWhatOthersSetInADeploymentSurvivesAndOursIsPutBack(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "shared", "shared", 2)
	wantReplicas(t, namespace, "shared", 2)

	kubectl(t, "rollout", "restart", "-n", namespace, "deployment/shared")
	kubectl(t, "annotate", "-n", namespace, "deployment/shared", "note=mine")
	kubectl(t, "label", "-n", namespace, "deployment/shared", "team=a", "app=other", "controller-", "--overwrite")
	kubectl(t, "patch", "-n", namespace, "deployment/shared", "--type=strategic", "-p", `{"spec":{"minReadySeconds":1,"template":{
		"metadata":{"labels":{"extra":"label"}},
		"spec":{"tolerations":[{"key":"mine"}],"containers":[{"name":"sidecar","image":"sidecar"},{"name":"nginx","image":"apache","env":[{"name":"A","value":"b"}]}]}}}}`)
	eventually(t, convergence, func() error {
		deployment := getDeployment(t, namespace, "shared")
		pod := deployment.Spec.Template
		images := map[string]string{}
		for _, container := range pod.Spec.Containers {
			images[container.Name] = container.Image
		}
		ours := deployment.Labels["app"] == "nginx" && deployment.Labels["controller"] == "shared" &&
			pod.Labels["app"] == "nginx" && pod.Labels["controller"] == "shared" && images["nginx"] == "nginx:latest"
		theirs := deployment.Labels["team"] == "a" && deployment.Annotations["note"] == "mine" && pod.Labels["extra"] == "label" &&
			pod.Annotations["kubectl.kubernetes.io/restartedAt"] != "" && len(pod.Spec.Tolerations) == 1 &&
			images["sidecar"] == "sidecar" && deployment.Spec.MinReadySeconds == 1
		if !ours || !theirs {
			return fmt.Errorf("ours is put back: %v, theirs is left alone: %v, in %+v", ours, theirs, deployment)
		}
		return nil
	})
	wantReplicas(t, namespace, "shared", 2)
	for _, container := range getDeployment(t, namespace, "shared").Spec.Template.Spec.Containers {
		if container.Name == "nginx" && len(container.Env) != 1 {
			t.Error("the environment of the nginx container is lost")
		}
	}
}

func TestGarbageCollectionTakesTheDeploymentOfADeletedFoo(t *testing.T) {
	for _, policy := range []string{"background", "foreground"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			startController(t, namespace)
			createFoo(t, namespace, "deleted", "deleted", 1)
			wantReplicas(t, namespace, "deleted", 1)
			kubectl(t, "delete", "-n", namespace, "foo/deleted", "--cascade="+policy, "--timeout=60s")
			// The garbage collector learns of a new kind within 30 seconds, and until then knows no owner of it.
			eventually(t, convergence+30*time.Second, func() error {
				if _, err := findDeployment(t, namespace, "deleted"); !apierrors.IsNotFound(err) {
					return fmt.Errorf("the Deployment is still there (%v)", err)
				}
				return nil
			})
		})
	}
}

func TestOrphaningDeletionLeavesTheDeployment(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	createFoo(t, namespace, "leaving", "staying", 1)
	wantReplicas(t, namespace, "leaving", 1)
	uid := getDeployment(t, namespace, "staying").UID

	kubectl(t, "delete", "-n", namespace, "foo/leaving", "--cascade=orphan", "--timeout=60s")
	deployment := getDeployment(t, namespace, "staying")
	if deployment.UID != uid || len(deployment.OwnerReferences) > 0 || deployment.DeletionTimestamp != nil {
		t.Errorf("the Deployment was not just orphaned: %+v", deployment.ObjectMeta)
	}
}

func TestARecreatedFooDoesNotTakeTheOldOnesDeploymentForItsOwn(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	controller := startController(t, namespace)
	createFoo(t, namespace, "phoenix", "ashes", 1)
	wantReplicas(t, namespace, "phoenix", 1)
	oldDeployment := getDeployment(t, namespace, "ashes").UID
	oldFoo := getFoo(t, namespace, "phoenix").UID

	kubectl(t, "delete", "-n", namespace, "foo/phoenix", "--wait=false")
	created := createFoo(t, namespace, "phoenix", "ashes", 2)
	wantReplicasWithin(t, 2*convergence, namespace, "phoenix", 2)
	deployment := getDeployment(t, namespace, "ashes")
	if created.UID == oldFoo || deployment.UID == oldDeployment || !metav1.IsControlledBy(deployment, created) {
		t.Errorf("the Deployment is %+v, want a new one of the new Foo", deployment.ObjectMeta)
	}
	controller.signal(syscall.SIGTERM)
	controller.wantExit(0, 10*time.Second)
}

func TestAnAdoptedDeploymentConvergesAndAnOrphanedOneIsLeftAlone(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace)
	foo := createFoo(t, namespace, "parent", "child", 2)
	wantReplicas(t, namespace, "parent", 2)

	kubectl(t, "patch", "-n", namespace, "deployment/child", "--type=merge", "-p", `{"metadata":{"ownerReferences":null},"spec":{"replicas":3}}`)
	wantReason(t, namespace, "parent", "ErrResourceExists")
	if replicas := *getDeployment(t, namespace, "child").Spec.Replicas; replicas != 3 {
		t.Errorf("the orphaned Deployment has %d replicas: it was touched", replicas)
	}

	owner, err := json.Marshal(metav1.NewControllerRef(foo, ownership.FooKind))
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, "patch", "-n", namespace, "deployment/child", "--type=merge", "-p", fmt.Sprintf(`{"metadata":{"ownerReferences":[%s]}}`, owner))
	wantReplicas(t, namespace, "parent", 2)
}
