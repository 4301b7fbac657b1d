// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestBadFoosAreRefusedWithAMessageThatNamesTheField(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	for name, test := range map[string]struct{ metadataName, spec, want string }{
		"no spec":                                   {"bad", "", "spec"},
		"no deploymentName":                         {"bad", "spec: {replicas: 1}", "spec.deploymentName"},
		"an empty deploymentName":                   {"bad", `spec: {deploymentName: "", replicas: 1}`, "spec.deploymentName"},
		"a deploymentName in capitals":              {"bad", "spec: {deploymentName: Bad}", "spec.deploymentName"},
		"a deploymentName of two labels, one empty": {"bad", "spec: {deploymentName: a..b}", "spec.deploymentName"},
		"a deploymentName that is too long":         {"bad", "spec: {deploymentName: " + strings.Repeat("a", 254) + "}", "spec.deploymentName"},
		"0 replicas":                                {"bad", "spec: {deploymentName: a, replicas: 0}", "spec.replicas"},
		"11 replicas":                               {"bad", "spec: {deploymentName: a, replicas: 11}", "spec.replicas"},
		"-1 replicas":                               {"bad", "spec: {deploymentName: a, replicas: -1}", "spec.replicas"},
		"replicas that are a string":                {"bad", `spec: {deploymentName: a, replicas: "3"}`, "spec.replicas"},
		"a name of 64 characters":                   {strings.Repeat("a", 64), "spec: {deploymentName: a}", "metadata.name must be no longer than 63 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			manifest := fmt.Sprintf("apiVersion: samplecontroller.k8s.io/v1alpha1\nkind: Foo\nmetadata: {name: %s}\n%s\n", test.metadataName, test.spec)
			output, err := tryKubectl(t, manifest, "apply", "-n", namespace, "-f", "-")
			if err == nil || !strings.Contains(output, test.want) {
				t.Errorf("kubectl apply said %q (%v), want a refusal that names %s", output, err, test.want)
			}
		})
	}
	longest := strings.Repeat("a", 63)
	manifest := fmt.Sprintf("apiVersion: samplecontroller.k8s.io/v1alpha1\nkind: Foo\nmetadata: {name: %s}\nspec: {deploymentName: %s, replicas: 10}\n",
		longest, strings.Repeat("b", 253))
	if output, err := tryKubectl(t, manifest, "apply", "-n", namespace, "-f", "-"); err != nil {
		t.Errorf("the longest names and the most replicas are refused: %s", output)
	}
}

func TestKubectlExplainsEveryField(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"foo":                           "nginx Deployment",
		"foo.spec.deploymentName":       "name of the Deployment",
		"foo.spec.replicas":             "from 1 to 10",
		"foo.status.availableReplicas":  "are available",
		"foo.status.replicas":           "at present",
		"foo.status.selector":           "label selector",
		"foo.status.observedGeneration": "metadata.generation",
		"foo.status.conditions":         "Stalled",
	} {
		// kubectl wraps lines, so that the words may stand on two of them.
		if got := strings.Join(strings.Fields(kubectl(t, "explain", field)), " "); !strings.Contains(got, want) {
			t.Errorf("kubectl explain %s does not say %q:\n%s", field, want, got)
		}
	}
}

// Not parallel: it takes the definition of Foos away from all others for a while.
func TestFoosOfALaxerDefinitionAreToldWhatIsWrong(t *testing.T) {
	namespace := newNamespace(t)
	kubectl(t, "delete", "-f", crdFile)
	t.Cleanup(func() { kubectl(t, "apply", "-f", crdFile) })
	// Like ours it is of the category all: kubectl remembers for a while what kinds there are.
	lax := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{
		"annotations":{"api-approved.kubernetes.io":"unapproved, experimental-only"},
		"name":"foos.samplecontroller.k8s.io"},
		"spec":{"group":"samplecontroller.k8s.io","scope":"Namespaced","names":{"kind":"Foo","plural":"foos","categories":["all"]},
		"versions":[{"name":"v1alpha1","served":true,"storage":true,"subresources":{"status":{}},
		"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`
	if output, err := tryKubectl(t, lax, "apply", "-f", "-"); err != nil {
		t.Fatal(output)
	}
	kubectl(t, "wait", "--for=condition=Established", "crd/foos.samplecontroller.k8s.io", "--timeout=30s")
	bad := map[string]string{
		"no-spec":                `"other":1`,
		"no-name":                `"spec":{"replicas":1}`,
		"empty-name":             `"spec":{"deploymentName":"","replicas":1}`,
		"illegal-name":           `"spec":{"deploymentName":"No_Such/Name","replicas":1}`,
		"numeric-name":           `"spec":{"deploymentName":5}`,
		"negative":               `"spec":{"deploymentName":"negative","replicas":-1}`,
		"replicas-string":        `"spec":{"deploymentName":"replicas-string","replicas":"3"}`,
		strings.Repeat("a", 100): `"spec":{"deploymentName":"long","replicas":1}`,
	}
	good := `"spec":{"deploymentName":"good","replicas":1}`
	for name, spec := range bad {
		storeFoo(t, namespace, name, spec)
	}
	storeFoo(t, namespace, "good", good)
	kubectl(t, "apply", "-f", crdFile)

	startController(t, namespace, "-resync-period=1s")
	wantReplicas(t, namespace, "good", 1)
	for name := range bad {
		rejected := wantReason(t, namespace, name, "DeploymentRejected")
		wantEvent(t, getFoo(t, namespace, name), corev1.EventTypeWarning, "DeploymentRejected", rejected.Message)
	}
	wantOnlyDeployments(t, namespace, "good")

	// Corrected, it is served at once.
	kubectl(t, "patch", "-n", namespace, "foo/replicas-string", "--type=merge", "-p", `{"spec":{"replicas":3}}`)
	wantReplicas(t, namespace, "replicas-string", 3)
}
