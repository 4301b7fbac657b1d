// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// host is a Host without processes. The test is the process of each instance.
type host struct {
	calls []string
	steps []Step
	state State
}

func (h *host) Start(pod, variant string, flags []string) {
	h.calls = append(h.calls, strings.TrimSpace("start "+pod+" "+variant+" "+strings.Join(flags[3:], " ")))
}
func (h *host) Kill(pod string)      { h.calls = append(h.calls, "kill "+pod) }
func (h *host) Terminate(pod string) { h.calls = append(h.calls, "terminate "+pod) }
func (h *host) Freeze(pod string)    { h.calls = append(h.calls, "freeze "+pod) }
func (h *host) Thaw(pod string)      { h.calls = append(h.calls, "thaw "+pod) }
func (h *host) Steps(steps []Step)   { h.steps = append(h.steps, steps...) }
func (h *host) State(s State)        { h.state = s }

type fixture struct {
	*testing.T
	*host
	lab *Lab
}

// inBubble runs a test of a lab in virtual time.
func inBubble(t *testing.T, test func(f *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{}
		l, err := New(h, os.DirFS("../../.."))
		if err != nil {
			t.Fatal(err)
		}
		l.startInstances(1)
		test(&fixture{t, h, l})
		l.stopInstances()
	})
}

// handle does what the page asks for, and fails unless the error is as wanted.
func (f *fixture) handle(path, body, wantError string) {
	f.Helper()
	if r := f.lab.Handle(path, []byte(body)); !strings.Contains(r.Error, wantError) || (r.Error == "") != (wantError == "") {
		f.Errorf("%s %s: error %q, want %q", path, body, r.Error, wantError)
	}
	synctest.Wait()
}

// send sends a request of instance a.
func (f *fixture) send(method, path, body string) (status int, content string, err error) {
	f.Helper()
	r, err := http.NewRequestWithContext(f.Context(), method, "http://lab"+path, strings.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	r.Header.Set("Content-Type", map[string]string{"POST": "application/json", "PATCH": "application/merge-patch+json"}[method])
	response, err := f.lab.Connection("a").RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	return response.StatusCode, string(read), err
}

// verifySteps fails unless these are the kinds of the steps since the last call, inferred ones aside.
func (f *fixture) verifySteps(want ...string) (steps []Step) {
	f.Helper()
	synctest.Wait()
	var got []string
	for _, s := range f.steps {
		if s.Source == inferred || s.Stop == "fault" && s.Kind != "fault" {
			continue
		}
		steps = append(steps, s)
		got = append(got, strings.TrimSpace(s.Kind+" "+s.EventType))
	}
	if !slices.Equal(got, want) {
		f.Fatalf("the steps are %q, want %q", got, want)
	}
	f.steps = nil
	return steps
}

const (
	foosPath        = "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/default/foos"
	deploymentsPath = "/apis/apps/v1/namespaces/default/deployments"
	deploymentOfA   = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"default","name":"a","ownerReferences":[{"apiVersion":` +
		`"samplecontroller.k8s.io/v1alpha1","kind":"Foo","name":"a","uid":"uid-1","controller":true}]},"spec":{"replicas":1,` +
		`"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"nginx","image":"nginx"}]}}}}`
)

func TestRequestIsTraced(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.handle("acts/create", `{"name":"a"}`, "")
		f.verifySteps("act", "stored ADDED")
		if status, _, err := f.send("POST", deploymentsPath, deploymentOfA); status != http.StatusCreated || err != nil {
			f.Fatal(status, err)
		}
		steps := f.verifySteps("request", "stored ADDED", "response")
		request, response := steps[0], steps[2]
		if request.Verb != "create" || request.Resource != deployments || request.Object != "default/a" || request.Key != "default/a" {
			f.Errorf("the request is %+v", request)
		}
		if response.Status != http.StatusCreated || response.Request != request.Seq || response.ResourceVersion != steps[1].ResourceVersion || response.Duration <= 0 {
			f.Errorf("the response is %+v", response)
		}
		if _, _, err := f.send("GET", foosPath+"/none", ""); err != nil {
			f.Fatal(err)
		}
		if s := f.verifySteps("request", "response")[1]; s.Status != http.StatusNotFound || s.Why == "" || s.Key != "default/none" {
			f.Errorf("the response is %+v", s)
		}
		f.handle("faults/kill", `{"pod":"a"}`, "")
		if _, _, err := f.send("GET", foosPath+"/a", ""); err == nil {
			f.Error("a process that was killed gets a response")
		}
	})
}

func TestFaultOfWriteIsInjected(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.handle("acts/create", `{"name":"a"}`, "")
		f.handle("faults/failWrite", `{"code":"500"}`, "") // The next write of a Deployment.
		f.handle("faults/failWrite", `{"code":"409","lane":"foos"}`, "")
		if status, _, err := f.send("GET", foosPath+"/a", ""); status != http.StatusOK {
			f.Errorf("a fault was injected into a request that is no write: %d, %v", status, err)
		}
		f.steps = nil
		if status, _, err := f.send("PATCH", foosPath+"/a", `{"spec":{"replicas":2}}`); status != http.StatusConflict {
			f.Errorf("the patch: %d, %v", status, err)
		}
		if s := f.verifySteps("request", "response")[1]; s.Name != "failWrite" || s.Why != "injected by the lab" {
			f.Errorf("the response is %+v", s)
		}
		for _, want := range []int{http.StatusInternalServerError, http.StatusCreated} {
			if status, _, err := f.send("POST", deploymentsPath, deploymentOfA); status != want {
				f.Errorf("the creation: %d, %v, want %d", status, err, want)
			}
		}
	})
}

// watch starts a watch of Foos, and returns its events.
func (f *fixture) watch(query string) *bufio.Scanner {
	r, err := http.NewRequestWithContext(f.Context(), "GET", "http://lab"+foosPath+"?watch=1&timeoutSeconds=60&"+query, nil)
	if err != nil {
		f.Fatal(err)
	}
	response, err := f.lab.Connection("a").RoundTrip(r)
	if err != nil {
		f.Fatal(err)
	}
	return bufio.NewScanner(response.Body)
}

func TestWatchIsTraced(t *testing.T) {
	inBubble(t, func(f *fixture) {
		events := f.watch("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
		events.Scan() // the bookmark that ends the initial list
		f.verifySteps("watchStart list", "listed")
		f.handle("acts/create", `{"name":"a"}`, "")
		if !events.Scan() || !strings.Contains(events.Text(), `"type":"ADDED"`) {
			f.Errorf("the event is %s", events.Text())
		}
		if s := f.verifySteps("act", "stored ADDED", "watchEvent ADDED")[2]; s.Object != "default/a" || s.Key != "default/a" || s.Lane != foos {
			f.Errorf("the event is traced as %+v", s)
		}
	})
}

// TestExpiredWatch has a watch from a resourceVersion that the API server has forgotten.
func TestExpiredWatch(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.handle("acts/create", `{"name":"a"}`, "")
		f.handle("faults/healWatch", `{"relist":"yes"}`, "")
		f.steps = nil
		events := f.watch("resourceVersion=1000")
		if !events.Scan() || !strings.Contains(events.Text(), `"code":410`) {
			f.Errorf("the event is %s", events.Text())
		}
		if s := f.verifySteps("watchStart", "watchEnd")[1]; s.Lane != foos || s.Why == "" {
			f.Errorf("the end is traced as %+v", s)
		}
	})
}

func TestReset(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.handle("acts/create", `{"name":"a"}`, "")
		f.handle("acts/takeName", `{"name":"a"}`, "")
		f.steps = nil
		f.handle("reset", `{}`, "")
		if steps := f.verifySteps("stored DELETED", "stored DELETED"); steps[0].Lane == steps[1].Lane {
			f.Errorf("the deletions are %+v", steps)
		}
		f.handle("acts/create", `{"name":"a"}`, "")
	})
}

func TestInvalidRequests(t *testing.T) {
	inBubble(t, func(f *fixture) {
		for path, want := range map[string]string{
			"acts/none": "there is no act", "faults/none": "there is no fault", "none/a": "there is no none/a", "none": "there is no none",
		} {
			f.handle(path, `{}`, want)
		}
		f.handle("faults/kill", `{"pod":"b"}`, "there is no instance b")
		f.handle("faults/killLeader", `{}`, "no instance leads")
		f.handle("faults/thaw", `{"pod":"a"}`, "instance a is not frozen")
		f.handle("acts/scale", `{"name":"a"}`, `"a" not found`)
		f.handle("acts/create", `{"name":"a"}`, "")
		f.handle("acts/create", `{"name":"a"}`, `"a" already exists`)
	})
}

func TestVariant(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.handle("acts/create", `{"name":"earlier"}`, "")
		for _, side := range []string{"controller", "variant"} {
			f.handle("variants/v", `{"action":"begin","side":"`+side+`","flags":["-x"]}`, "")
			f.handle("acts/create", `{"name":"a"}`, "")
			time.Sleep(2 * time.Second) // By the fake clock of the bubble: the Deployment is available.
			f.handle("variants/v", `{"action":"end"}`, "")
		}
		var ends []string
		for _, s := range f.steps {
			if strings.HasPrefix(s.Kind, "variant") {
				ends = append(ends, strings.TrimSpace(s.Kind+" "+s.Result+s.Object))
			}
		}
		if want := []string{"variant controller", "variantEnd default/a", "variantEnd", "variant variant", "variantEnd default/a", "variantEnd"}; !slices.Equal(ends, want) {
			f.Errorf("the runs are %q, want %q", ends, want)
		}
		f.handle("variants/v", `{"action":"back"}`, "")
		if count := len(f.lab.cluster.objects(foos)); count != 1 {
			f.Errorf("after the variant there are %d Foos", count)
		}
		if want := []string{"start a", "start a  -x", "start a v -x", "start a"}; !slices.Equal(slices.DeleteFunc(f.calls, func(call string) bool { return call == "kill a" }), want) {
			f.Errorf("the host was called with %q, want %q", f.calls, want)
		}
	})
}
