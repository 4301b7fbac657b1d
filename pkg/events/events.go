// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package events records Kubernetes events in the background, loses none of them while the process runs, and can wait until
// all have been sent. (The broadcaster of client-go drops what exceeds its queue, and cannot wait.)
package events

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"
)

const (
	// mostPerObject is how many events about one object are sent before they are held back, or put together into one that
	// tells no details. The defaults of 25 and 10 are for components that repeat themselves; a controller that speaks of
	// changes alone reaches them by being used.
	mostPerObject = 1000

	attempts   = 10
	retryDelay = 5 * time.Second
)

// ErrNotAllSent says that a shutdown did not wait for the events that were left.
var ErrNotAllSent = errors.New("some events were not sent")

// Recorder is a record.EventRecorder that sends what it records to the API server, one event after the other. Equal events
// are counted up instead of being repeated.
type Recorder struct {
	sink       record.EventSink
	scheme     *runtime.Scheme
	component  string
	correlator *record.EventCorrelator
	logger     klog.Logger

	lock   sync.Mutex
	queue  []*corev1.Event
	closed bool
	// wake tells the sender that there is something in the queue, or that it is closed.
	wake chan struct{}

	cancel context.CancelFunc
	done   chan struct{}
}

// NewRecorder returns a recorder of events that come from component, about objects whose kinds scheme knows. It does not end
// with ctx, because the last events are recorded while the process shuts down: Shutdown ends it.
func NewRecorder(ctx context.Context, client typedcorev1.EventsGetter, scheme *runtime.Scheme, component string) *Recorder {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &Recorder{
		sink:      &typedcorev1.EventSinkImpl{Interface: client.Events("")},
		scheme:    scheme,
		component: component,
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{
			BurstSize: mostPerObject,
			MaxEvents: mostPerObject,
		}),
		logger: klog.FromContext(ctx),
		wake:   make(chan struct{}, 1),
		cancel: cancel,
		done:   make(chan struct{}),
	}
	go r.run(ctx)
	return r
}

// Event implements record.EventRecorder. It does not wait for the API server.
func (r *Recorder) Event(object runtime.Object, eventType, reason, message string) {
	r.AnnotatedEventf(object, nil, eventType, reason, "%s", message)
}

// Eventf implements record.EventRecorder. It does not wait for the API server.
func (r *Recorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	r.AnnotatedEventf(object, nil, eventType, reason, format, args...)
}

// AnnotatedEventf implements record.EventRecorder. It does not wait for the API server.
func (r *Recorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventType, reason, format string, args ...any) {
	about, err := reference.GetReference(r.scheme, object)
	if err != nil {
		r.logger.Error(err, "An event is about an object of an unknown kind", "reason", reason)
		return
	}
	now := metav1.Now()
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:        fmt.Sprintf("%s.%x", about.Name, now.UnixNano()),
			Namespace:   namespace,
			Annotations: annotations,
		},
		InvolvedObject:      *about,
		Type:                eventType,
		Reason:              reason,
		Message:             fmt.Sprintf(format, args...),
		Source:              corev1.EventSource{Component: r.component},
		ReportingController: r.component,
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.closed {
		r.logger.V(2).Info("An event was recorded after the end", "object", klog.KRef(about.Namespace, about.Name), "reason", reason)
		return
	}
	r.queue = append(r.queue, event)
	r.wakeSender()
}

// Shutdown waits until the events recorded so far have been sent, and then ends the recorder. If ctx ends before, the events
// that are left are lost, and the error is ErrNotAllSent. Further calls do nothing more.
func (r *Recorder) Shutdown(ctx context.Context) error {
	r.lock.Lock()
	r.closed = true
	r.wakeSender()
	r.lock.Unlock()
	defer r.cancel()
	select {
	case <-r.done:
	case <-ctx.Done():
		select {
		case <-r.done:
		default:
			return ErrNotAllSent // A request that hangs is not waited for.
		}
	}
	return nil
}

// wakeSender makes the sender look at the queue. r.lock is held.
func (r *Recorder) wakeSender() {
	select {
	case r.wake <- struct{}{}:
	default: // It will look anyway.
	}
}

// run sends events until the recorder is closed and the queue is empty, or ctx ends.
func (r *Recorder) run(ctx context.Context) {
	defer close(r.done)
	for {
		r.lock.Lock()
		batch, closed := r.queue, r.closed
		r.queue = nil
		r.lock.Unlock()
		for _, event := range batch {
			if !r.send(ctx, event) {
				return
			}
		}
		if len(batch) > 0 {
			continue
		}
		if closed {
			return
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return
		}
	}
}

// send sends an event, if need be several times, until it is there or it is certain that it never will be. It returns false
// if ctx ended before.
func (r *Recorder) send(ctx context.Context, event *corev1.Event) bool {
	correlated, err := r.correlator.EventCorrelate(event)
	if err != nil || correlated.Skip {
		return true
	}
	for range attempts {
		var sent *corev1.Event
		if sent, err = r.write(correlated); err == nil {
			r.correlator.UpdateState(sent)
			return true
		}
		if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown && !apierrors.IsServerTimeout(err) && !apierrors.IsTimeout(err) &&
			!apierrors.IsServiceUnavailable(err) && !apierrors.IsInternalError(err) && !apierrors.IsTooManyRequests(err) {
			break // The API server has said no.
		}
		select {
		case <-time.After(retryDelay):
		case <-ctx.Done():
			return false
		}
	}
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		r.logger.Error(err, "An event is lost", "object", klog.KRef(event.Namespace, event.InvolvedObject.Name), "reason", event.Reason)
	}
	return true
}

// write counts up the event that an equal one was sent as before, or creates it.
func (r *Recorder) write(correlated *record.EventCorrelateResult) (*corev1.Event, error) {
	if correlated.Event.Count > 1 {
		sent, err := r.sink.Patch(correlated.Event, correlated.Patch)
		if !apierrors.IsNotFound(err) {
			return sent, err
		}
		correlated.Event.ResourceVersion = "" // The earlier one has expired.
	}
	return r.sink.Create(correlated.Event)
}
