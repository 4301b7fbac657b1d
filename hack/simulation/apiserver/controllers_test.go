// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

func TestWorkloads(t *testing.T) {
	for _, test := range []struct {
		controller Controller
		text       string
		want       map[string]string
	}{
		{DeploymentController, deployment, map[string]string{
			"status.availableReplicas": "1", "status.updatedReplicas": "1", "metadata.annotations": `{deployment.kubernetes.io/revision: "1"}`,
			"metadata.generation": "1",
		}},
		{ReplicaSetController, replicaSet, map[string]string{"status.availableReplicas": "1", "status.fullyLabeledReplicas": "1"}},
		{StatefulSetController, stateful, map[string]string{"status.availableReplicas": "1", "status.currentReplicas": "1"}},
		{DaemonSetController, daemonSet, map[string]string{"status.numberAvailable": "1", "status.desiredNumberScheduled": "1"}},
		{JobController, job, map[string]string{"status.succeeded": "1", "status.active": "null"}},
		{Kubelet, pod, map[string]string{"status.phase": "Running", "spec.nodeName": nodeName}},
	} {
		t.Run(string(test.controller), func(t *testing.T) {
			inCluster(t, Options{}, Reliable{}, func(c *cluster) {
				o := c.create(test.text)
				advance(10 * time.Second)
				c.expect(c.get(o), test.want)
				version := c.ResourceVersion()
				advance(time.Hour)
				if c.ResourceVersion() != version {
					t.Errorf("it is never silent: %d after %d", c.ResourceVersion(), version)
				}
			})
			inCluster(t, Options{Without: []Controller{test.controller}}, Reliable{}, func(c *cluster) {
				o := c.create(test.text)
				advance(10 * time.Second)
				if found := c.get(o); found.GetResourceVersion() != o.GetResourceVersion() {
					t.Errorf("without its controller it becomes %v", found)
				}
			})
			if test.controller == Kubelet {
				return
			}
			inCluster(t, Options{}, Reliable{}, func(c *cluster) {
				c.AddRule(Rule{
					Until:   time.Now().Add(time.Minute),
					Matches: func(r *Request) bool { return r.Resource == pods && r.Client == string(test.controller) },
					Reject: func(r *Request) error {
						return apierrors.NewForbidden(r.Resource, r.Name, errors.New("exceeded quota"))
					},
				})
				o := c.create(test.text)
				advance(30 * time.Second)
				for path := range test.want {
					if strings.HasPrefix(path, "status.available") || strings.HasPrefix(path, "status.numberAvailable") || path == "status.succeeded" {
						if v := value(c.get(o), strings.Split(path, ".")...); v != nil && v != int64(0) {
							t.Errorf("while its Pods are rejected, %s is %v", path, v)
						}
					}
				}
				advance(time.Minute)
				c.expect(c.get(o), test.want)
			})
		})
	}
}

// TestRollout shows the steps of rollouts: how many Pods of which generation there are, and how many of the newest template.
func TestRollout(t *testing.T) {
	const image, revision = "spec: {template: {spec: {containers: [{name: a, image: other}]}}}", `metadata.annotations`
	for name, test := range map[string]struct {
		text, change string
		want         string
		then         map[string]string
	}{
		"scale down": {deployment, "spec: {replicas: 1}", "1/1 2/2 3/3 2/2 1/1", map[string]string{revision: `{deployment.kubernetes.io/revision: "1"}`}},
		"template":   {deployment, image, "1/1 2/2 3/3 4/1 3/1 4/2 3/2 4/3 3/3", map[string]string{revision: `{deployment.kubernetes.io/revision: "2"}`}},
		"scale and template": {
			deployment, strings.Replace(image, "spec: {", "spec: {replicas: 1, ", 1), "1/1 2/2 3/3 2/0 1/0 2/1 1/1", map[string]string{"status.updatedReplicas": "1"},
		},
		"paused, template": {deployment, strings.Replace(image, "spec: {", "spec: {paused: true, ", 1), "1/1 2/2 3/3 3/0", map[string]string{
			revision: `{deployment.kubernetes.io/revision: "1"}`,
		}},
		"paused, template and scale": {
			deployment, strings.Replace(image, "spec: {", "spec: {paused: true, replicas: 4, ", 1), "1/1 2/2 3/3 4/0", map[string]string{"status.updatedReplicas": "null"},
		},
		"paused at first": {
			strings.Replace(deployment, "selector:", "paused: true, selector:", 1), "spec: {paused: false}", "0/0 1/1 2/2 3/3",
			map[string]string{revision: `{deployment.kubernetes.io/revision: "1"}`},
		},
		"paused, scale": {deployment, "spec: {paused: true, replicas: 4}", "1/1 2/2 3/3 4/4", nil},
		"ReplicaSet":    {replicaSet, image, "1/0 2/0 3/0 3/0", nil},
		"StatefulSet":   {stateful, image, "1/1 2/2 3/3 2/0 3/1 2/1 3/2 2/2 3/3", map[string]string{"status.currentReplicas": "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, Options{}, Reliable{}, func(c *cluster) {
				var steps []string
				c.Observe(committed(func(change *Change) {
					if change.Request.Subresource == "status" {
						steps = append(steps, fmt.Sprintf("%d/%d", number(change.New, "status", "replicas"), number(change.New, "status", "updatedReplicas")))
					}
				}))
				o := c.create(strings.Replace(test.text, "selector:", "replicas: 3, selector:", 1))
				advance(time.Minute)
				c.merge(o, test.change)
				advance(time.Minute)
				synctest.Wait()
				if got := strings.Join(steps, " "); got != test.want {
					t.Errorf("the steps are %s, want %s", got, test.want)
				}
				c.expect(c.get(o), test.then)
			})
		})
	}
}

// TestPausedRollout pauses a rollout that is under way, and resumes it.
func TestPausedRollout(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		d := c.create(strings.Replace(deployment, "selector:", "replicas: 3, selector:", 1))
		advance(time.Minute)
		c.merge(d, "spec: {template: {metadata: {labels: {b: c}}}}")
		advance(4*reconcileDelay + time.Millisecond)
		c.expect(c.get(d), map[string]string{"status.replicas": "3", "status.updatedReplicas": "2"})
		c.merge(d, "spec: {paused: true, replicas: 4}")
		advance(time.Minute)
		c.expect(c.get(d), map[string]string{"status.replicas": "4", "status.updatedReplicas": "2"})
		c.merge(d, "spec: {paused: false}")
		advance(time.Minute)
		c.expect(c.get(d), map[string]string{"status.replicas": "4", "status.updatedReplicas": "4"})
	})
}

// TestConditions shows which conditions a Deployment has, and that they have the times of their transitions.
func TestConditions(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		d := c.create(deployment)
		expect := func(after time.Duration, want string) {
			t.Helper()
			advance(after)
			var got []string
			for _, condition := range conditionsOf(c.get(d)) {
				got = append(got, fmt.Sprint(condition["type"], "=", condition["status"], " ", condition["reason"], " ", condition["lastTransitionTime"]))
			}
			if got := strings.ReplaceAll(strings.Join(got, "; "), "2000-01-01T", ""); got != want {
				t.Errorf("the conditions are %s, want %s", got, want)
			}
		}
		expect(time.Minute, "Available=True MinimumReplicasAvailable 00:00:00Z; Progressing=True NewReplicaSetAvailable 00:00:00Z")
		c.AddRule(Rule{
			Until: time.Now().Add(time.Hour), Matches: func(r *Request) bool { return r.Resource == pods },
			Reject: func(r *Request) error { return errors.New("exceeded quota") },
		})
		c.merge(d, "spec: {replicas: 2}")
		expect(time.Minute, "Available=False MinimumReplicasUnavailable 00:01:00Z; Progressing=True ReplicaSetUpdated 00:00:00Z; ReplicaFailure=True FailedCreate 00:01:00Z")
		expect(10*time.Minute, "Available=False MinimumReplicasUnavailable 00:01:00Z; Progressing=False ProgressDeadlineExceeded 00:11:00Z; ReplicaFailure=True FailedCreate 00:01:00Z")
		expect(time.Hour, "Available=True MinimumReplicasAvailable 01:01:00Z; Progressing=True NewReplicaSetAvailable 01:01:00Z")
		c.merge(d, "spec: {paused: true, template: {metadata: {labels: {b: c}}}}")
		expect(time.Minute, "Available=True MinimumReplicasAvailable 01:01:00Z; Progressing=Unknown DeploymentPaused 01:12:00Z")
		c.merge(d, "spec: {paused: false}")
		expect(time.Minute, "Available=True MinimumReplicasAvailable 01:01:00Z; Progressing=True NewReplicaSetAvailable 01:13:00Z")
	})
}

// TestSuspendedJob suspends a Job that runs, and resumes it.
func TestSuspendedJob(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		j := c.create(job)
		advance(jobDuration / 2)
		c.expect(c.get(j), map[string]string{"status.active": "1"})
		c.merge(j, "spec: {suspend: true}")
		advance(time.Minute)
		c.expect(c.get(j), map[string]string{"status.active": "null", "status.startTime": "null", "status.succeeded": "null"})
		expectSuspended(t, c.get(j), "True")
		c.merge(j, "spec: {suspend: false}")
		advance(time.Minute)
		c.expect(c.get(j), map[string]string{"status.succeeded": "1", "status.startTime": `"2000-01-01T00:01:00Z"`})
		expectSuspended(t, c.get(j), "False")
	})
}

func expectSuspended(t *testing.T, job *Object, status string) {
	t.Helper()
	conditions, _ := value(job, "status", "conditions").([]any)
	if first, _ := conditions[0].(map[string]any); first["type"] != "Suspended" || first["status"] != status {
		t.Errorf("the conditions are %v", conditions)
	}
}

// TestOutageOfControllers has a rule that rejects what the controllers write: they try it again, later and later. What others do meanwhile makes
// none of them try more often for ever.
func TestOutageOfControllers(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		tries := map[string]int{}
		c.AddRule(Rule{
			Until: time.Now().Add(time.Minute), Matches: func(r *Request) bool { return r.Client != "tester" && r.Resource != pods },
			Reject: func(r *Request) error {
				tries[r.Client]++
				return StatusError(503, "overloaded")
			},
		})
		o := c.create(widget)
		dependent, d := c.create(owned(o, "b", "")), c.create(deployment)
		if err := c.of(o).Delete(c.ctx, "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for n := range 10 {
			c.create(strings.Replace(widget, "name: a", fmt.Sprint("name: other", n), 1))
			advance(time.Second)
		}
		advance(40 * time.Second)
		c.lock.Lock() // It is held when a rule is applied.
		for client, n := range tries {
			if n > 20 {
				t.Errorf("%s tries %d times", client, n)
			}
		}
		c.lock.Unlock()
		if c.get(dependent) == nil || value(c.get(d), "status", "availableReplicas") != nil {
			t.Errorf("they are %v and %v", c.get(dependent), c.get(d))
		}
		advance(time.Minute)
		if c.get(dependent) != nil || value(c.get(d), "status", "availableReplicas") != int64(1) {
			t.Errorf("they are %v and %v", c.get(dependent), c.get(d))
		}
	})
}

// committed is an Observer of commits.
type committed func(c *Change)

func (f committed) Committed(c *Change)           { f(c) }
func (committed) Failed(*Request, *Object, error) {}

// TestLeaderElection has two candidates. When the leader is killed, the other one holds the Lease.
func TestLeaderElection(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		ctx, cancel := context.WithCancel(context.Background())
		connections, leaders, ended := map[string]*Connection{}, make(chan string), make(chan struct{})
		for _, name := range []string{"one", "two"} {
			connections[name] = c.Connect(name, Reliable{})
			lock := &resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "election"}, LockConfig: resourcelock.ResourceLockConfig{Identity: name},
				Client: kubernetes.NewForConfigOrDie(connections[name].Config()).CoordinationV1(),
			}
			go func() {
				leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
					Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
					Callbacks: leaderelection.LeaderCallbacks{
						OnStartedLeading: func(context.Context) { leaders <- name }, OnStoppedLeading: func() {},
					},
				})
				ended <- struct{}{}
			}()
		}
		first := <-leaders
		advance(time.Minute)
		start := time.Now()
		connections[first].Break()
		if second := <-leaders; second == first {
			t.Errorf("%s leads again", second)
		}
		// client-go jitters the retry period: it is 4.4 s at most, once until the last renewal is seen, and once after it has expired.
		if took := time.Since(start); took < 10*time.Second || took > 24*time.Second {
			t.Errorf("it took %s", took)
		}
		cancel()
		<-ended
		<-ended
	})
}

func TestEvents(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		broadcaster := record.NewBroadcaster()
		broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.kube.CoreV1().Events("")})
		tested := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(c.create(pod).Object, tested); err != nil {
			t.Fatal(err)
		}
		recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "test"})
		for range 2 {
			recorder.Event(tested, corev1.EventTypeNormal, "Tested", "It was tested.")
			advance(time.Second)
		}
		list, err := c.kube.CoreV1().Events("default").List(c.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=a,reason=Tested"})
		if err != nil || len(list.Items) != 1 || list.Items[0].Count != 2 {
			t.Errorf("the events are %v, %v", list, err)
		}
		broadcaster.Shutdown()
		advance(time.Minute)
	})
}

// TestEventSeries has the network stand still, and then a 429: an EventBroadcaster that holds its mutex while it sends would stop virtual time.
func TestEventSeries(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		c.connection.Hold(AllResources, time.Hour)
		event := &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tested"}, EventTime: metav1.NowMicro(), Type: corev1.EventTypeNormal,
			Reason: "Tested", Action: "Test", ReportingController: "example.com/test", ReportingInstance: "test-1",
		}
		start := time.Now()
		send := func(want metav1.StatusReason) {
			_, err := c.kube.EventsV1().Events("default").Create(c.ctx, event, metav1.CreateOptions{})
			expectError(t, err, want, "")
			if took := time.Since(start); took > 0 {
				t.Errorf("it took %s", took)
			}
		}
		send("")
		c.AddRule(Rule{
			Until: start.Add(time.Minute), Matches: func(*Request) bool { return true },
			Reject: func(*Request) error { return apierrors.NewTooManyRequests("busy", 1) },
		})
		send(metav1.StatusReasonTooManyRequests)
	})
}
