// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// enduranceChanges is the number of changes of each of the two halves of TestEndurance.
	enduranceChanges = 2500
	enduranceFoos    = 5
	enduranceUsers   = 4
	// enduranceScaling is the number of changes after which all Foos are scaled.
	enduranceScaling = 100
)

// usage is what a process uses once it is idle.
type usage struct {
	resident, heap, goroutines, descriptors int
}

// TestEndurance makes many changes under a leader and a standby. After the second half, neither may use more than after the first one.
// Not parallel: it measures memory.
func TestEndurance(t *testing.T) {
	namespace := newNamespace(t)
	metrics := []string{freeAddress(t), freeAddress(t)}
	var instances []*instance
	for i := range metrics {
		in := &instance{user: fmt.Sprintf("%s-%d", namespace, i), health: freeAddress(t)}
		in.process = startProcess(t, "-kubeconfig", kubeconfigFor(t, in.user), "-namespace", namespace, "-resync-period=1s",
			"-leader-elect", "-leader-elect-resource-namespace", namespace, "-metrics-bind-address", metrics[i],
			"-health-probe-bind-address", in.health)
		in.waitForHealth("/readyz", http.StatusOK)
		if i == 0 {
			in.waitForLog("Started workers") // The first one leads.
		}
		instances = append(instances, in)
	}
	for i := range enduranceFoos {
		createFoo(t, namespace, fmt.Sprintf("foo-%d", i), fmt.Sprintf("foo-%d", i), 1)
	}
	measure := func() (all []usage) {
		for i := range enduranceFoos {
			waitForReplicas(t, namespace, fmt.Sprintf("foo-%d", i), 1)
		}
		for i, in := range instances {
			all = append(all, in.usage(metrics[i]))
		}
		return all
	}
	changeOften(t, namespace)
	before := measure()
	changeOften(t, namespace)
	after := measure()

	for i, in := range instances {
		t.Logf("%s: %+v, then %+v", in.user, before[i], after[i])
		for what, values := range map[string][3]int{
			"resident memory":  {before[i].resident, after[i].resident, before[i].resident / 4},
			"heap":             {before[i].heap, after[i].heap, 4 << 20},
			"goroutines":       {before[i].goroutines, after[i].goroutines, 5},
			"file descriptors": {before[i].descriptors, after[i].descriptors, 3},
		} {
			if values[1] > values[0]+values[2] {
				t.Errorf("%s: %s grew from %d to %d", in.user, what, values[0], values[1])
			}
		}
	}
	leader, standby := instances[0], instances[1]
	if adds := metric(t, metrics[0], `workqueue_adds_total{name="foos"}`); !leader.leads() || adds < enduranceChanges/10 {
		t.Errorf("the leader has added %v items to its workqueue", adds)
	}
	if _, body := get(metrics[1], "/metrics"); standby.leads() || strings.Contains(body, `workqueue_adds_total{name="foos"}`) &&
		metric(t, metrics[1], `workqueue_depth{name="foos"}`) > 0 {
		t.Error("the standby has items in its workqueue")
	}
}

// changeOften changes all Foos: some changes scale, the others only change metadata. In the end all have 1 replica.
func changeOften(t *testing.T, namespace string) {
	t.Helper()
	client := sampleClient.SamplecontrollerV1alpha1().Foos(namespace)
	change := func(i int, patch []byte) {
		_, err := client.Patch(t.Context(), fmt.Sprintf("foo-%d", i%enduranceFoos), types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
	}
	var users sync.WaitGroup
	for user := range enduranceUsers {
		users.Go(func() {
			for i := user; i < enduranceChanges; i += enduranceUsers {
				patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"change":"%d"}}}`, i)
				if i%enduranceScaling < enduranceFoos {
					patch = fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, 1+i/enduranceScaling%2)
				}
				change(i, patch)
			}
		})
	}
	users.Wait()
	for i := range enduranceFoos {
		change(i, []byte(`{"spec":{"replicas":1}}`))
	}
}

// usage returns what the process uses, with the least heap of several seconds: garbage is collected meanwhile.
func (in *instance) usage(metrics string) usage {
	in.t.Helper()
	descriptors, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(in.command.Process.Pid), "fd"))
	requireNoError(in.t, err)
	least := usage{descriptors: len(descriptors)}
	for began := time.Now(); time.Since(began) < 2*time.Second; sleep(in.t, 100*time.Millisecond) {
		for name, value := range map[string]*int{
			"process_resident_memory_bytes": &least.resident, "go_memstats_heap_alloc_bytes": &least.heap, "go_goroutines": &least.goroutines,
		} {
			if got := int(metric(in.t, metrics, name)); *value == 0 || got < *value {
				*value = got
			}
		}
	}
	return least
}

// metric returns the value of a metric.
func metric(t *testing.T, address, name string) float64 {
	t.Helper()
	_, body := get(address, "/metrics")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			requireNoError(t, err)
			return number
		}
	}
	t.Fatalf("/metrics lacks %s", name)
	return 0
}
