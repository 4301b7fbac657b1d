// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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

// A webhook may deny with any code, for a creation, a patch or a deletion. Whoever reads the Foo is told, and no Foo is Ready.
func TestDenyingWebhook(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	startController(t, namespace, "-resync-period=1s")
	codes := []int{400, 401, 404, 405, 409, 410, 429, 500, 503}
	for _, code := range codes {
		createReadyFoo(t, namespace, fmt.Sprintf("patched-%d", code), fmt.Sprintf("patched-%d", code), 1)
		createReadyFoo(t, namespace, fmt.Sprintf("renamed-%d", code), fmt.Sprintf("renamed-%d", code), 1)
	}
	installWebhook(t, namespace, codes)
	for _, code := range codes {
		created, patched, renamed := fmt.Sprintf("created-%d", code), fmt.Sprintf("patched-%d", code), fmt.Sprintf("renamed-%d", code)
		createFoo(t, namespace, created, created, 1)
		patchFoo(t, namespace, patched, `{"spec":{"replicas":2}}`)
		rename(t, namespace, renamed, fmt.Sprintf("new-name-%d", code*10)) // It can be created.
		for _, name := range []string{created, patched, renamed} {
			message := fmt.Sprintf(`admission webhook "code-%d.example.com" denied the request: no`, code)
			reason, isStalled := "DeploymentRejected", true
			if code >= 500 {
				reason, isStalled = "DeploymentFailed", false
			}
			eventually(t, convergence, func() error {
				foo := getFoo(t, namespace, name)
				ready := meta.FindStatusCondition(foo.Status.Conditions, samplev1alpha1.ConditionReady)
				if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != reason || ready.Message != message ||
					ready.ObservedGeneration != foo.Generation ||
					meta.IsStatusConditionTrue(foo.Status.Conditions, samplev1alpha1.ConditionStalled) != isStalled {
					return fmt.Errorf("the conditions of %s are %v, want %s", name, foo.Status.Conditions, reason)
				}
				return nil
			})
			waitForEvent(t, getFoo(t, namespace, name), corev1.EventTypeWarning, reason, message)
		}
	}
}

// installWebhook installs a validating webhook for the Deployments of a namespace, and waits until it is in force. It denies with a code what
// is done to those whose name ends with it.
func installWebhook(t *testing.T, namespace string, codes []int) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		code, err := strconv.Atoi(path.Base(r.URL.Path))
		if err := errors.Join(err, json.NewDecoder(r.Body).Decode(&review)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Code: int32(code), Message: "no",
			Details: &metav1.StatusDetails{RetryAfterSeconds: 300}}} // No worker waits for that.
		_ = json.NewEncoder(w).Encode(review) // If it fails, the API server says so.
	}))
	t.Cleanup(server.Close)
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	for _, code := range codes {
		configuration.Webhooks = append(configuration.Webhooks, admissionregistrationv1.ValidatingWebhook{
			Name: fmt.Sprintf("code-%d.example.com", code),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      new(fmt.Sprintf("%s/%d", server.URL, code)),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
			}},
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "name", Expression: fmt.Sprintf(`request.name.endsWith("-%d")`, code)}},
			SideEffects:     new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		})
	}
	client := kubeClient.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := client.Create(t.Context(), configuration, metav1.CreateOptions{})
	requireNoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := cleanupContext(t)
		defer cancel()
		expectNoError(t, client.Delete(ctx, configuration.Name, metav1.DeleteOptions{}))
	})
	eventually(t, convergence, func() error {
		probe := newDeployment(fmt.Sprintf("probe-%d", codes[0]), "nginx", map[string]string{"app": "probe"})
		_, err := kubeClient.AppsV1().Deployments(namespace).Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("the webhook is not in force")
		}
		return nil
	})
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
