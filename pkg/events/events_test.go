// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

func TestShutdownWaitsForAllEvents(t *testing.T) {
	client := fake.NewClientset()
	ctx, cancel := context.WithCancel(t.Context())
	recorder := NewRecorder(ctx, client.CoreV1(), scheme.Scheme, "test")
	cancel() // The end of the context it was made with must not lose what is recorded during a shutdown.
	const count = 20
	for i := range count {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%d", i)}}
		recorder.Event(pod, corev1.EventTypeNormal, "Tested", "a test event")
	}
	recorder.Shutdown(t.Context())

	list, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != count {
		t.Errorf("%d events were sent, want %d", len(list.Items), count)
	}
	for _, event := range list.Items {
		if event.Reason != "Tested" {
			t.Errorf("an event with reason %q was sent", event.Reason)
		}
	}
}

func TestManyEventsAboutOneObjectAreAllSent(t *testing.T) {
	client := fake.NewClientset()
	recorder := NewRecorder(t.Context(), client.CoreV1(), scheme.Scheme, "test")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod"}}
	const count = 40
	for i := range count {
		recorder.Eventf(pod, corev1.EventTypeNormal, "Tested", "test event %d", i)
	}
	recorder.Shutdown(t.Context())
	list, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != count {
		t.Errorf("%d events were sent, want %d", len(list.Items), count)
	}
}

func TestShutdownGivesUpWhenItsContextEnds(t *testing.T) {
	client := fake.NewClientset()
	blocked := make(chan struct{})
	defer close(blocked)
	client.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-blocked
		return false, nil, nil
	})
	recorder := NewRecorder(t.Context(), client.CoreV1(), scheme.Scheme, "test")
	recorder.Event(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod"}}, corev1.EventTypeNormal, "Tested", "")
	ended, end := context.WithCancel(t.Context())
	end()
	recorder.Shutdown(ended)
}
