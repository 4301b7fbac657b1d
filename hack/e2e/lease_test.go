// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"k8s.io/sample-controller/hack/cluster/faults"
)

// requestLatency is how much later than its client sent it a request may pass the proxy.
const requestLatency = 500 * time.Millisecond

// leaseFaults are what happens to the Lease while the leader works. All but one end with another leader, or with the same one again.
var leaseFaults = []struct {
	name   string
	losses int // that the instances can observe
	inject func(t *testing.T, namespace string, leader *instance)
}{
	{"deleted", 1, func(t *testing.T, namespace string, leader *instance) {
		delayLeaseReads(leader)
		requireNoError(t, kubeClient.CoordinationV1().Leases(namespace).Delete(t.Context(), leaseName(namespace), metav1.DeleteOptions{}))
	}},
	{"cleared", 1, func(t *testing.T, namespace string, leader *instance) {
		delayLeaseReads(leader)
		_, err := patchLease(t.Context(), namespace, leaseName(namespace), cleared())
		requireNoError(t, err)
	}},
	{"handed over", 1, func(t *testing.T, namespace string, leader *instance) {
		// The new holder renews the Lease until the leader has given up.
		for running := true; running; {
			_, err := patchLease(t.Context(), namespace, leaseName(namespace), handedOver())
			requireNoError(t, err)
			select {
			case <-leader.exited:
				running = false
			case <-time.After(retryPeriod):
			case <-t.Context().Done():
				return
			}
		}
		leader.waitForExit(1, time.Second)
	}},
	{"update forbidden", 0, func(t *testing.T, _ string, leader *instance) {
		leader.proxy.SetRules(faults.Rule{
			Verbs: []string{"update"}, Resources: []string{"leases"}, Fault: faults.Reject(http.StatusForbidden, metav1.StatusReasonForbidden),
		})
		leader.waitForExit(1, 10*time.Second)
		if !strings.Contains(leader.log.String(), "Access to the Lease is forbidden") {
			t.Error("the log does not say that access to the Lease is forbidden")
		}
	}},
}

// delayLeaseReads delays what an instance does between a renewal that fails and an attempt to acquire the Lease again. The sleep is the
// fault: it makes the response slow.
func delayLeaseReads(in *instance) {
	in.proxy.SetRules(faults.Rule{
		Verbs: []string{"get"}, Resources: []string{"leases"}, Fault: faults.During(func() { time.Sleep(renewDeadline / 2) }),
	})
}

// TestLeaseFaults lets the leader lose the Lease while it works. From when it can know, it must not write.
func TestLeaseFaults(t *testing.T) {
	t.Parallel()
	for _, fault := range leaseFaults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			history := watchHistory(t, namespace)
			instances := []*instance{startProxiedInstance(t, namespace, 0), startProxiedInstance(t, namespace, 1)}
			leader, _ := waitForLeader(t, instances)
			foos := []string{"foo-0", "foo-1", "foo-2", "foo-3"}
			for _, name := range foos {
				createFoo(t, namespace, name, name, 1)
			}
			stop := changeFoos(t, namespace, foos...)
			waitForWrites(t, leader, 10)
			fault.inject(t, namespace, leader)

			// The changes are still reconciled, by whoever is the leader then.
			before := len(leader.proxy.Requests())
			eventually(t, convergence, func() error {
				writes := writesIn(withoutLeases(leader.proxy.Requests()[before:]))
				for _, in := range instances {
					if in != leader {
						writes = append(writes, writesIn(withoutLeases(in.proxy.Requests()))...)
					}
				}
				if len(writes) < 10 {
					return fmt.Errorf("there have been %d writes since, want 10", len(writes))
				}
				return nil
			})
			replicas := stop()
			for _, name := range foos {
				waitForReplicas(t, namespace, name, replicas)
			}
			losses := 0
			for _, in := range instances {
				losses += checkNoWritesAfterLoss(t, in.user, in.proxy.Requests(), renewDeadline)
				history.checkWrites(in.proxy.Requests())
				checkLog(t, in.log.String())
			}
			if want := fault.losses; losses < want {
				t.Errorf("the Lease was lost %d times, want %d", losses, want)
			}
		})
	}
}

// A Lease that may not be read is reported at once, and ends the process after -cache-sync-timeout.
func TestForbiddenLease(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	for name, grantedLease := range map[string]string{"none": "", "another Lease": "sample-controller"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			user := outageUser + "-" + nonNameCharacters.ReplaceAllString(name, "-") + "-" + namespace
			kubectl(t, "create", "rolebinding", "-n", namespace, user, "--clusterrole="+watcherRole(t, user), "--user="+user)
			if grantedLease != "" {
				kubectl(t, "create", "role", "-n", namespace, user, "--verb=get,update", "--resource=leases", "--resource-name="+grantedLease)
				kubectl(t, "create", "rolebinding", "-n", namespace, user+"-leases", "--role="+user, "--user="+user)
			}
			kubeconfig, err := local.KubeconfigFor(user)
			requireNoError(t, err)
			p := startProcess(t, "-kubeconfig", kubeconfig, "-namespace", namespace, "-leader-elect",
				"-leader-elect-resource-namespace", namespace, "-leader-elect-retry-period=200ms", "-cache-sync-timeout=3s")
			p.waitForLog("Access to the Lease is forbidden")
			select {
			case <-p.exited:
				t.Error("the controller exited at once")
			default:
			}
			p.waitForExit(1, 15*time.Second)
			for _, line := range []string{firstLineWith(p.log.String(), "Access to the Lease is forbidden"), p.errorLine()} {
				for _, want := range []string{`cannot get resource`, "leases", "-leader-elect-resource-name"} {
					if !strings.Contains(line, want) {
						t.Errorf("the log says %q, want it to contain %q", line, want)
					}
				}
			}
			if count := strings.Count(p.log.String(), "Access to the Lease is forbidden"); count != 1 {
				t.Errorf("it was logged %d times, want once", count)
			}
		})
	}
}

// watcherRole creates a ClusterRole with the permissions of the controller in the namespaces that it watches.
func watcherRole(t *testing.T, name string) string {
	t.Helper()
	kubectl(t, "create", "clusterrole", name, "--verb=get,list,watch", "--resource=deployments.apps,foos.samplecontroller.k8s.io")
	t.Cleanup(func() { kubectl(t, "delete", "clusterrole", name) })
	return name
}

func firstLineWith(log, text string) string {
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			return line
		}
	}
	return ""
}

func leaseName(namespace string) string { return "sample-controller-" + namespace }

// cleared and handedOver return what is changed in the spec of a Lease, so that nobody holds it or another holder has just renewed it.
func cleared() map[string]any { return map[string]any{"holderIdentity": ""} }

func handedOver() map[string]any {
	return map[string]any{
		"holderIdentity": "other", "renewTime": metav1.NowMicro(), "leaseDurationSeconds": int(leaseDuration.Seconds()),
	}
}

func patchLease(ctx context.Context, namespace, name string, spec map[string]any) (*coordinationv1.Lease, error) {
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return nil, err
	}
	return kubeClient.CoordinationV1().Leases(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
}

// changeFoos scales Foos one after the other until the function that it returns is called. That sets the same number of replicas in
// all of them, and returns it.
func changeFoos(t *testing.T, namespace string, names ...string) (stop func() int32) {
	var stopping atomic.Bool
	stopped := make(chan struct{})
	scale := func(name string, replicas int) {
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
		_, err := sampleClient.SamplecontrollerV1alpha1().Foos(namespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	}
	go func() {
		defer close(stopped)
		for i := 0; !stopping.Load() && t.Context().Err() == nil; i++ {
			scale(names[i%len(names)], 2+i/len(names)%2)
			sleep(t, 10*time.Millisecond)
		}
	}()
	return func() int32 {
		stopping.Store(true)
		<-stopped
		for _, name := range names {
			scale(name, 1)
		}
		return 1
	}
}

// waitForWrites waits until an instance has made this number of writes other than to the Lease.
func waitForWrites(t *testing.T, in *instance, count int) {
	t.Helper()
	eventually(t, convergence, func() error {
		if writes := writesIn(withoutLeases(in.proxy.Requests())); len(writes) < count {
			return fmt.Errorf("there are %d writes, want %d", len(writes), count)
		}
		return nil
	})
}

// checkNoWritesAfterLoss fails the test if an instance sent a write when a response that it got to one of its requests for the Lease had
// said that it does not hold the Lease, or when its last renewal was older than the renew deadline. It returns how often the Lease was lost.
func checkNoWritesAfterLoss(t *testing.T, user string, requests []faults.Request, renewDeadline time.Duration) (losses int) {
	t.Helper()
	type state struct {
		since, renewed time.Time
		loss           string // why the Lease is not held; "" if it is
	}
	states := []state{{loss: "the Lease had never been acquired"}}
	identity := ""
	for _, request := range requests { // Requests for the Lease are made one after the other.
		if request.Resource != "leases" || request.Code == 0 || request.ResponseLost {
			continue
		}
		last := states[len(states)-1]
		lease, ok := request.Object.(*coordinationv1.Lease)
		holder := ""
		if ok {
			holder = ptr.Deref(lease.Spec.HolderIdentity, "")
		}
		switch {
		case request.Succeeded() && request.Verb != "get" && holder != "":
			identity = holder
			states = append(states, state{since: request.Responded, renewed: request.Sent})
		case request.Code == http.StatusNotFound, request.Code == http.StatusConflict, request.Succeeded() && holder != identity:
			if last.loss == "" {
				losses++
				loss := fmt.Sprintf("the response to %s leases was %d with holder %q", request.Verb, request.Code, holder)
				states = append(states, state{since: request.Responded, renewed: last.renewed, loss: loss})
			}
		}
	}
	for _, request := range withoutLeases(requests) {
		if !slices.Contains(faults.Writes, request.Verb) {
			continue
		}
		// A request may pass the proxy a while after the client has sent it, when the instance still held the Lease, or held it again.
		sent := request.Sent.Add(-requestLatency)
		current, mayWrite := states[0], false
		for _, state := range states {
			if !state.since.After(sent) {
				current = state
			} else if state.loss == "" && state.since.Before(request.Sent) {
				mayWrite = true
			}
		}
		what := fmt.Sprintf("%s %s %s by %s", request.Verb, request.Resource, request.Name, user)
		switch age := sent.Sub(current.renewed); {
		case mayWrite:
			continue
		case current.loss != "":
			t.Errorf("%s was sent %s after %s", what, request.Sent.Sub(current.since), current.loss)
		case age > renewDeadline:
			t.Errorf("%s was sent %s after the last renewal", what, age)
		default:
			continue
		}
		break // The others tell no more.
	}
	return losses
}
