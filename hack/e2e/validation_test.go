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

// Not parallel: it deletes the CRD.
func TestInvalidFoosOfOlderCRD(t *testing.T) {
	namespace := newNamespace(t)
	deleteCRD(t)
	lax := olderCRD(`{"status":{}}`, `"x-kubernetes-preserve-unknown-fields":true`)
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

	// A Foo is reconciled at once when its spec is corrected, however long its write pause is.
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

// olderCRD returns a CRD of the classic sample-controller. Its category is that of the generated CRD, because kubectl caches discovery.
func olderCRD(subresources, schema string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{
		"annotations":{"api-approved.kubernetes.io":"unapproved, experimental-only"},
		"name":"foos.samplecontroller.k8s.io"},
		"spec":{"group":"samplecontroller.k8s.io","scope":"Namespaced","names":{"kind":"Foo","plural":"foos","categories":["all"]},
		"versions":[{"name":"v1alpha1","served":true,"storage":true,"subresources":%s,"schema":{"openAPIV3Schema":{"type":"object",%s}}}]}}`,
		subresources, schema)
}

const classicSchema = `"properties":{
	"spec":{"type":"object","properties":{"deploymentName":{"type":"string"},"replicas":{"type":"integer","minimum":1,"maximum":10}}},
	"status":{"type":"object","properties":{"availableReplicas":{"type":"integer"}}}}`

func installCRD(t *testing.T, manifest string) {
	t.Helper()
	if output, err := tryKubectl(t, manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(output)
	}
	waitForCRD(t)
}

// olderCRDMessage is logged once when a status is not stored as it was written.
const olderCRDMessage = "is older than this controller"

// The CRD is replaced by an older one while the controller runs. Then the controller is restarted, and then the CRD is updated. Not parallel.
func TestOlderCRD(t *testing.T) {
	for name, subresources := range map[string]string{"without status subresource": `{}`, "with availableReplicas alone": `{"status":{}}`} {
		t.Run(name, func(t *testing.T) {
			namespace := newNamespace(t)
			deleteCRD(t)
			kubectl(t, "apply", "-f", crdFile)
			waitForCRD(t)
			controller := startController(t, namespace, "-resync-period=1s")
			createReadyFoo(t, namespace, "scaled", "scaled", 1)
			installCRD(t, olderCRD(subresources, classicSchema))
			createFoo(t, namespace, "renamed", "old", 2)
			waitForAvailable(t, namespace, "old", 2)
			patchFoo(t, namespace, "scaled", `{"spec":{"replicas":3}}`)
			rename(t, namespace, "renamed", "new")
			waitForAvailable(t, namespace, "scaled", 3)
			waitForAvailable(t, namespace, "new", 2)
			waitForDeployments(t, namespace, "new", "scaled")
			for name, replicas := range map[string]int32{"scaled": 3, "renamed": 2} {
				eventually(t, convergence, func() error {
					if got := getFoo(t, namespace, name).Status.AvailableReplicas; got != replicas && subresources != `{}` {
						return fmt.Errorf("status.availableReplicas of %s = %d, want %d", name, got, replicas)
					}
					return nil
				})
			}

			// In steady state each resync makes at most one status write for each Foo, and reads the Foo if that fails. The audit log lags behind.
			sleep(t, 2*time.Second) // The last events are recorded.
			countSyncs := func() int { return strings.Count(controller.log.String(), "Finished syncing") }
			syncs, before := countSyncs(), requestsIn(t, namespace)
			eventually(t, convergence, func() error {
				if resynced := countSyncs() - syncs; resynced < 3*2 {
					return fmt.Errorf("there have been %d syncs, want 3 of each Foo", resynced)
				}
				return nil
			})
			requests := requestsIn(t, namespace)[len(before):]
			statusWrites, resyncs := countPrefix(requests, "update foos/status"), countSyncs()-syncs
			if reads := countPrefix(requests, "get foos"); statusWrites == 0 || statusWrites > resyncs+2 || reads+statusWrites < len(requests) {
				t.Errorf("got %d status writes in %d resyncs, and in all %q", statusWrites, resyncs, requests)
			}
			checkReportedOnce(t, controller)

			// After a restart it is noticed again, and no Deployment is written.
			controller.stop(10 * time.Second)
			before = stableRequestsIn(t, namespace)
			controller = startController(t, namespace, "-resync-period=1s")
			controller.waitForLog(olderCRDMessage)
			sleep(t, 2*time.Second)
			for _, request := range requestsIn(t, namespace)[len(before):] {
				if strings.Contains(request, " deployments ") && !strings.HasPrefix(request, "list") {
					t.Errorf("unnecessary request after a restart: %s", request)
				}
			}

			kubectl(t, "apply", "-f", crdFile)
			waitForCRD(t)
			patchFoo(t, namespace, "scaled", `{"spec":{"replicas":1}}`)
			waitForReplicas(t, namespace, "scaled", 1)
			waitForReplicas(t, namespace, "renamed", 2) // by the next resync
			checkReportedOnce(t, controller)
			checkLog(t, controller.log.String())
			controller.stop(10 * time.Second)
			kubectl(t, "delete", "-n", namespace, "foos", "--all")
		})
	}
}

func checkReportedOnce(t *testing.T, controller *process) {
	t.Helper()
	if count := strings.Count(controller.log.String(), olderCRDMessage); count != 1 {
		t.Errorf("it was logged %d times that the CRD is older, want once", count)
	}
	if line := firstLineWith(controller.log.String(), olderCRDMessage); !strings.Contains(line, "kubectl apply -f artifacts/examples/crd.yaml") {
		t.Errorf("the log says %q, want the command that updates the CRD", line)
	}
}
