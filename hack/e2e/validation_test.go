// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestInvalidFoosAreRejected(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	for name, test := range map[string]struct{ metadataName, spec, want string }{
		"no spec":                    {"bad", "", "spec"},
		"no deploymentName":          {"bad", "spec: {replicas: 1}", "spec.deploymentName"},
		"empty deploymentName":       {"bad", `spec: {deploymentName: "", replicas: 1}`, "spec.deploymentName"},
		"upper case deploymentName":  {"bad", "spec: {deploymentName: Bad}", "spec.deploymentName"},
		"empty deploymentName label": {"bad", "spec: {deploymentName: a..b}", "spec.deploymentName"},
		"long deploymentName":        {"bad", "spec: {deploymentName: " + strings.Repeat("a", 254) + "}", "spec.deploymentName"},
		"0 replicas":                 {"bad", "spec: {deploymentName: a, replicas: 0}", "spec.replicas"},
		"11 replicas":                {"bad", "spec: {deploymentName: a, replicas: 11}", "spec.replicas"},
		"-1 replicas":                {"bad", "spec: {deploymentName: a, replicas: -1}", "spec.replicas"},
		"replicas of type string":    {"bad", `spec: {deploymentName: a, replicas: "3"}`, "spec.replicas"},
		"name of 64 characters":      {strings.Repeat("a", 64), "spec: {deploymentName: a}", "metadata.name must be no longer than 63 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			manifest := fmt.Sprintf("apiVersion: samplecontroller.k8s.io/v1alpha1\nkind: Foo\nmetadata: {name: %s}\n%s\n", test.metadataName, test.spec)
			output, err := tryKubectl(t, manifest, "apply", "-n", namespace, "-f", "-")
			if err == nil || !strings.Contains(output, test.want) {
				t.Errorf("kubectl apply: %q (%v), want an error that contains %q", output, err, test.want)
			}
		})
	}
	longest := strings.Repeat("a", 63)
	manifest := fmt.Sprintf("apiVersion: samplecontroller.k8s.io/v1alpha1\nkind: Foo\nmetadata: {name: %s}\nspec: {deploymentName: %s, replicas: 10}\n",
		longest, strings.Repeat("b", 253))
	if output, err := tryKubectl(t, manifest, "apply", "-n", namespace, "-f", "-"); err != nil {
		t.Errorf("a Foo with the longest names and the most replicas was rejected: %s", output)
	}
}

func TestKubectlExplain(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"foo":                           "nginx Deployment",
		"foo.spec.deploymentName":       "name of the Deployment",
		"foo.spec.replicas":             "from 1 to 10",
		"foo.status.availableReplicas":  "minReadySeconds",
		"foo.status.replicas":           "number of Pods",
		"foo.status.selector":           "label selector",
		"foo.status.observedGeneration": "metadata.generation",
		"foo.status.conditions":         "Stalled",
	} {
		// kubectl may break the line between the words.
		if got := strings.Join(strings.Fields(kubectl(t, "explain", field)), " "); !strings.Contains(got, want) {
			t.Errorf("the output of kubectl explain %s lacks %q:\n%s", field, want, got)
		}
	}
}

func installCRD(t *testing.T, manifest string) {
	t.Helper()
	if output, err := tryKubectl(t, manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(output)
	}
	waitForCRD(t)
}

// Not parallel: it deletes the CRD.
func TestInvalidFoosOfOlderCRD(t *testing.T) {
	namespace := newNamespace(t)
	deleteCRD(t)
	// It has the same category as the generated CRD, because kubectl caches discovery.
	lax := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{
		"annotations":{"api-approved.kubernetes.io":"unapproved, experimental-only"},
		"name":"foos.samplecontroller.k8s.io"},
		"spec":{"group":"samplecontroller.k8s.io","scope":"Namespaced","names":{"kind":"Foo","plural":"foos","categories":["all"]},
		"versions":[{"name":"v1alpha1","served":true,"storage":true,"subresources":{"status":{}},
		"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`
	installCRD(t, lax)
	bad := map[string]string{
		"no-spec":                `"other":1`,
		"no-name":                `"spec":{"replicas":1}`,
		"empty-name":             `"spec":{"deploymentName":"","replicas":1}`,
		"illegal-name":           `"spec":{"deploymentName":"No_Such/Name","replicas":1}`,
		"negative":               `"spec":{"deploymentName":"negative","replicas":-1}`,
		strings.Repeat("a", 100): `"spec":{"deploymentName":"long","replicas":1}`,
		strings.Repeat("b", 240): `"spec":{"deploymentName":"longer","replicas":1}`, // with a suffix too long for the name of an event
	}
	for name, spec := range bad {
		storeFoo(t, namespace, name, spec)
	}
	storeFoo(t, namespace, "good", `"spec":{"deploymentName":"good","replicas":1}`)
	kubectl(t, "apply", "-f", crdFile)

	startController(t, namespace, "-resync-period=1s")
	waitForReplicas(t, namespace, "good", 1)
	for name := range bad {
		rejected := waitForStalled(t, namespace, name, "DeploymentRejected")
		waitForEvent(t, getFoo(t, namespace, name), corev1.EventTypeWarning, "DeploymentRejected", rejected.Message)
	}
	waitForDeployments(t, namespace, "good")

	// A Foo is reconciled at once when its spec is corrected, however long its backoff is.
	kubectl(t, "patch", "-n", namespace, "foo/negative", "--type=merge", "-p", `{"spec":{"replicas":3}}`)
	waitForReplicas(t, namespace, "negative", 3)
	kubectl(t, "delete", "-n", namespace, "foos", "--all")

	// A value of another type cannot be decoded.
	installCRD(t, lax)
	storeFoo(t, namespace, "replicas-string", `"spec":{"deploymentName":"replicas-string","replicas":"3"}`)
	kubectl(t, "apply", "-f", crdFile)
	failing := startProcess(t, "-kubeconfig", kubeconfigFor(t, user), "-namespace", namespace, "-cache-sync-timeout=3s")
	failing.waitForExit(1, 20*time.Second)
	if last := failing.errorLine(); !strings.Contains(last, "replicas") {
		t.Errorf("the last line is %q, want the name of the field", last)
	}
	kubectl(t, "delete", "-n", namespace, "foos", "--all")
}
