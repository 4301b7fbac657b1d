// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package events records Kubernetes events in the background, and can wait until all of them have been sent.
package events

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// lastReason is the reason of the event that marks the end of the queue. It never leaves the process.
const lastReason = "Last"

// mostPerObject is how many events about one object are sent before they are held back, or put together into one that tells
// no details. The defaults of 25 and 10 are for components that repeat themselves; a controller that speaks of changes alone
// reaches them by being used.
const mostPerObject = 1000

// Recorder is an EventRecorder that sends what it records to the API server, one event after the other.
type Recorder struct {
	record.EventRecorder
	broadcaster record.EventBroadcaster
	allSent     chan struct{}
}

// NewRecorder returns a recorder of events that come from component, about objects whose kinds scheme knows. Shutdown
// ends it.
func NewRecorder(ctx context.Context, client typedcorev1.EventsGetter, scheme *runtime.Scheme, component string) *Recorder {
	// The broadcaster must outlive ctx: the last events are recorded while the process shuts down.
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)), record.WithCorrelatorOptions(record.CorrelatorOptions{
		BurstSize: mostPerObject,
		MaxEvents: mostPerObject,
	}))
	allSent := make(chan struct{})
	broadcaster.StartStructuredLogging(4)
	broadcaster.StartRecordingToSink(&sink{
		EventSink: &typedcorev1.EventSinkImpl{Interface: client.Events("")},
		allSent:   allSent,
	})
	return &Recorder{
		EventRecorder: broadcaster.NewRecorder(scheme, corev1.EventSource{Component: component}),
		broadcaster:   broadcaster,
		allSent:       allSent,
	}
}

// Shutdown waits until the events recorded so far have been sent, or ctx ends, and then ends the recorder. It may be
// called once; what is recorded afterwards is lost.
func (r *Recorder) Shutdown(ctx context.Context) {
	// Events are sent in the order in which they were recorded: when this one arrives, all others have.
	r.Event(&corev1.ObjectReference{Namespace: metav1.NamespaceDefault, Name: lastReason}, corev1.EventTypeNormal, lastReason, "")
	select {
	case <-r.allSent:
	case <-ctx.Done():
	}
	r.broadcaster.Shutdown()
}

// sink passes events on to the API server, and stops at the one that marks the end.
type sink struct {
	record.EventSink
	allSent chan struct{}
}

func (s *sink) Create(event *corev1.Event) (*corev1.Event, error) {
	if event.Reason == lastReason {
		close(s.allSent)
		return event, nil
	}
	return s.EventSink.Create(event)
}
