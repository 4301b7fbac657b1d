// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

func TestInvalidFoosAreRejected(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	apply := func(name, spec string) (string, error) {
		manifest := fmt.Sprintf("apiVersion: samplecontroller.k8s.io/v1alpha1\nkind: Foo\nmetadata: {name: %s}\n%s\n", name, spec)
		return tryKubectl(t, manifest, "apply", "-n", namespace, "-f", "-")
	}
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
			output, err := apply(test.metadataName, test.spec)
			if err == nil || !strings.Contains(output, test.want) {
				t.Errorf("kubectl apply: %q (%v), want an error that contains %q", output, err, test.want)
			}
		})
	}
	longest := fmt.Sprintf("spec: {deploymentName: %s, replicas: 10}", strings.Repeat("b", 253))
	if output, err := apply(strings.Repeat("a", 63), longest); err != nil {
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
