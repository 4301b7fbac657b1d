// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// Not parallel: it deletes the CRD.
func TestReadyz(t *testing.T) {
	namespace := newNamespace(t)
	deleteCRD(t)
	in := &instance{health: freeAddress(t)}
	in.process = startProcess(t, "-kubeconfig", kubeconfigFor(t, user), "-namespace", namespace, "-health-probe-bind-address", in.health)
	in.waitForLog("Failed to list or watch")
	in.waitForHealth("/livez", http.StatusOK)
	in.waitForHealth("/readyz", http.StatusInternalServerError)
	if _, body := get(in.health, "/readyz"); !strings.Contains(body, "have not synced") {
		t.Errorf("/readyz = %q, want the reason", body)
	}
	kubectl(t, "apply", "-f", crdFile)
	in.waitForHealth("/readyz", http.StatusOK)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	address := freeAddress(t)
	startController(t, namespace, "-metrics-bind-address", address, "-leader-elect", "-leader-elect-resource-namespace", namespace)
	createReadyFoo(t, namespace, "measured", "measured", 1)
	_, metrics := get(address, "/metrics")
	for _, want := range []string{
		`workqueue_adds_total{name="foos"}`, `workqueue_depth{name="foos"`, `workqueue_retries_total{name="foos"}`,
		`rest_client_requests_total{code="201"`, "rest_client_request_duration_seconds_bucket", `leader_election_master_status{name="sample-controller-`,
		`informer_queued_items{group="samplecontroller.k8s.io",name="foos"`, `informer_store_resource_version{group="apps",name="deployments"`,
		`informer_processing_latency_seconds_bucket{group="samplecontroller.k8s.io",name="foos"`,
		"go_goroutines", "process_resident_memory_bytes", `sample_controller_syncs_total{result="success"}`, `sample_controller_syncs_total{result="stalled"} 0`,
		"sample_controller_sync_duration_seconds_bucket", "sample_controller_sync_panics_total 0", "sample_controller_active_workers",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if status, _ := get(address, "/debug/pprof/"); status != http.StatusNotFound {
		t.Errorf("/debug/pprof/ got %d, want 404: profiling is not enabled", status)
	}
}
