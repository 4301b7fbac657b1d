// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/hack/simulation/apiserver"
	"k8s.io/sample-controller/hack/simulation/recording"
)

// TestWalk traces the recording of a walk, in which one instance is killed and another one takes over.
func TestWalk(t *testing.T) {
	const foo = `{"apiVersion":"samplecontroller.k8s.io/v1alpha1","kind":"Foo","metadata":{"namespace":"default","name":"a","resourceVersion":"7"}}`
	deployment := &apiserver.Request{Verb: "create", Resource: resources[deployments], Namespace: "default", Name: "a",
		Body: []byte(`{"kind":"Deployment","metadata":{"namespace":"default","ownerReferences":[{"kind":"Foo","name":"a","controller":true}]}}`)}
	watch := &apiserver.Request{Verb: "watch", Resource: resources[foos], Query: url.Values{"sendInitialEvents": {"true"}}}
	lease := &apiserver.Request{Verb: "update"}
	lease.Resource.Resource = leases
	log := func(instance, message string) recording.Entry {
		return recording.Entry{Kind: recording.Logged, Client: instance, Text: `{"msg":"` + message + `","caller":"sample-controller/controller.go:1","level":4,"foo":{"namespace":"default","name":"a"},"count":2}`}
	}
	entries := []recording.Entry{
		{Kind: recording.Stored, Client: "user", Request: &apiserver.Request{Resource: resources[foos]}, Type: "ADDED", Object: json.RawMessage(foo)},
		{Kind: recording.Told, Client: "user", Text: "creates Foo a"},
		{Kind: recording.Started, Client: "instance-1", Text: "starts"},
		{Kind: recording.Started, Client: "instance-2", Text: "starts"},
		{Kind: recording.Requested, Client: "instance-1", ID: 1, Request: lease},
		{Kind: recording.Responded, Client: "instance-1", ID: 1, Object: json.RawMessage(`{"spec":{"holderIdentity":"x","leaseDurationSeconds":15}}`)},
		log("instance-1", "Starting workers"),
		{Kind: recording.Requested, Client: "instance-1", ID: 2, Request: watch},
		{Kind: recording.Responded, Client: "instance-1", ID: 2},
		{Kind: recording.Event, Client: "instance-1", ID: 2, Type: "ADDED", Object: json.RawMessage(foo)},
		{Kind: recording.Event, Client: "instance-1", ID: 2, Type: "BOOKMARK",
			Object: json.RawMessage(`{"metadata":{"resourceVersion":"7","annotations":{"` + metav1.InitialEventsAnnotationKey + `":"true"}}}`)},
		log("instance-1", "Started syncing"),
		{At: time.Second, Kind: recording.Requested, Client: "instance-1", ID: 3, Request: deployment},
		{At: time.Second, Kind: recording.Told, Client: "instance-1", Text: "create deployments a: 500"},
		{At: 2 * time.Second, Kind: recording.Responded, Client: "instance-1", ID: 3, Status: &metav1.Status{Code: 500, Message: "injected"}},
		{At: 2 * time.Second, Kind: recording.WatchEnd, Client: "instance-1", ID: 2},
		{At: 3 * time.Second, Kind: recording.Ended, Client: "instance-1", Text: "killed"},
		log("instance-1", "Finished syncing"),
		{At: 3 * time.Second, Kind: recording.Ended, Client: "instance-1", Text: "ends: broken"},
		{At: 4 * time.Second, Kind: recording.Started, Client: "instance-3", Text: "starts"},
		{At: 5 * time.Second, Kind: recording.Broken, Promise: "a promise", Text: "it does not"},
	}
	var text strings.Builder
	for _, e := range entries {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	body, err := json.Marshal(map[string]string{"text": text.String()})
	if err != nil {
		t.Fatal(err)
	}
	response := (&Lab{sources: fstest.MapFS{}}).Handle("walk", body)
	if response.Error != "" {
		t.Fatal(response.Error)
	}
	var got []string
	for _, s := range response.Steps {
		if s.Stop != "fifo" && s.Stop != "queue" {
			got = append(got, strings.TrimSpace(s.Pod+" "+s.Kind))
		}
	}
	want := []string{"stored", "act", "a podStarted", "b podStarted", "a lease", "a leader", "a workersStarted", "a watchStart", "a watchEvent", "a listed",
		"a indexerReplaced", "a syncStart", "a request", "a fault", "a response", "a watchEnd", "a podExited", "a podStarted", "promise"}
	if !slices.Equal(got, want) {
		t.Errorf("the steps are\n%q, want\n%q", got, want)
	}
	for _, s := range response.Steps {
		switch s.Kind {
		case "response":
			if s.Key != "default/a" || s.Status != 500 || s.Duration != 1 || s.Time.Second() != 2 {
				t.Errorf("the response is %+v", s)
			}
		case "promise":
			if s.Name != "a promise" || s.Error != "it does not" || s.Time.Second() != 5 {
				t.Errorf("the last step is %+v", s)
			}
		}
	}
	if response := (&Lab{}).Handle("walk", []byte(`{"text": "{"}`)); response.Error == "" {
		t.Error("half a line is no recording")
	}
}
