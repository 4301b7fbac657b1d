// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

func TestOverridingAdmission(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace, "-resync-period=1s")
	existing := createReadyFoo(t, namespace, "existing", "existing", 1)
	renamed := createReadyFoo(t, namespace, "renamed", "before", 1)
	for _, foo := range []*samplev1alpha1.Foo{existing, renamed} {
		waitForEventCount(t, foo, "Synced", 1)
	}

	remove := installPolicy(t, namespace, `object.spec.template.spec.containers[0].image == "nginx:latest"`,
		`JSONPatch{op: "replace", path: "/spec/template/spec/containers/0/image", value: "mirror.example/nginx:latest"}`)
	patchFoo(t, namespace, "existing", `{"spec":{"replicas":2}}`)
	created := createFoo(t, namespace, "new", "new", 1)
	rename(t, namespace, "renamed", "after")
	for _, name := range []string{"existing", "new", "renamed"} {
		message := waitForStalled(t, namespace, name, "DeploymentOverridden").Message
		for _, want := range []string{"spec.template.spec.containers[nginx].image", `desired "nginx:latest"`, `found "mirror.example/nginx:latest"`} {
			if !strings.Contains(message, want) {
				t.Errorf("the message of %s is %q, want it to contain %q", name, message, want)
			}
		}
		waitForEvent(t, getFoo(t, namespace, name), corev1.EventTypeWarning, "DeploymentOverridden", message)
	}
	waitForEventCount(t, existing, "Synced", 1)
	waitForEventCount(t, renamed, "Synced", 1)
	waitForEventCount(t, created, "Synced", 0)
	waitForDeployments(t, namespace, "after", "existing", "new") // That the new one can take over is enough.

	remove()
	patchFoo(t, namespace, "existing", `{"spec":{"replicas":3}}`) // A new generation is written at once.
	waitForReplicas(t, namespace, "existing", 3)
	waitForEventCount(t, existing, "Synced", 2)
}

func TestInjectedSidecar(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace, "-resync-period=1s")
	createReadyFoo(t, namespace, "existing", "existing", 1)
	createReadyFoo(t, namespace, "renamed", "before", 1)
	installPolicy(t, namespace, `!object.spec.template.spec.containers.exists(c, c.name == "sidecar")`,
		`JSONPatch{op: "add", path: "/spec/template/spec/containers/0", value: Object.spec.template.spec.containers{name: "sidecar", image: "sidecar"}}`)
	patchFoo(t, namespace, "existing", `{"spec":{"replicas":2}}`)
	createFoo(t, namespace, "new", "new", 1)
	rename(t, namespace, "renamed", "after")
	for name, replicas := range map[string]int32{"existing": 2, "new": 1, "renamed": 1} {
		waitForReplicas(t, namespace, name, replicas)
	}
	waitForDeployments(t, namespace, "after", "existing", "new")
	for _, name := range []string{"after", "existing", "new"} {
		if containers := getDeployment(t, namespace, name).Spec.Template.Spec.Containers; len(containers) != 2 || containers[0].Image != "sidecar" ||
			containers[1].Image != "nginx:latest" {
			t.Errorf("the containers of %s are %v, want the sidecar and nginx", name, containers)
		}
	}
	before := len(stableRequestsIn(t, namespace))
	wait(t, time.After(3*time.Second)) // several resyncs
	if requests := stableRequestsIn(t, namespace)[before:]; len(requests) > 0 {
		t.Errorf("requests in steady state: %q", requests)
	}
}

// installPolicy installs a MutatingAdmissionPolicy for the Deployments of a namespace, with CEL expressions for which are mutated and for how,
// and waits until it is in force. The function that it returns removes it, and waits as well.
func installPolicy(t *testing.T, namespace, condition, patch string) (remove func()) {
	t.Helper()
	manifest := fmt.Sprintf(`{"apiVersion":"v1","kind":"List","items":[
		{"apiVersion":"admissionregistration.k8s.io/v1beta1","kind":"MutatingAdmissionPolicy","metadata":{"name":%[1]q},"spec":{
			"failurePolicy":"Fail","reinvocationPolicy":"Never",
			"matchConstraints":{"resourceRules":[{"apiGroups":["apps"],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":["deployments"]}]},
			"matchConditions":[{"name":"mutated","expression":%[2]q}],
			"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":%[3]q}}]}},
		{"apiVersion":"admissionregistration.k8s.io/v1beta1","kind":"MutatingAdmissionPolicyBinding","metadata":{"name":%[1]q},"spec":{
			"policyName":%[1]q,"matchResources":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":%[1]q}}}}}]}`,
		namespace, condition, "["+patch+"]")
	run := func(mutates bool, args ...string) {
		if output, err := tryKubectl(t, manifest, args...); err != nil {
			t.Error(output)
		}
		waitForMutation(t, namespace, mutates)
	}
	remove = sync.OnceFunc(func() { run(false, "delete", "--ignore-not-found", "-f", "-") })
	t.Cleanup(remove)
	run(true, "apply", "-f", "-")
	return remove
}

// waitForMutation waits until admission changes a new Deployment in a namespace, or leaves it alone.
func waitForMutation(t *testing.T, namespace string, want bool) {
	t.Helper()
	ctx, cancel := cleanupContext(t)
	defer cancel()
	expectNoError(t, poll(ctx, convergence, func() error {
		probe := newDeployment("probe", "nginx", map[string]string{"app": "probe"})
		created, err := kubeClient.AppsV1().Deployments(namespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		if got := created.Spec.Template.Spec.Containers[0].Image != "nginx:latest"; got != want {
			return fmt.Errorf("a new Deployment is mutated: %v, want %v", got, want)
		}
		return nil
	}))
}
