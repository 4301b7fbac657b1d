// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package events records Kubernetes events in the background, loses none of them while the process runs, and can wait until
// all have been sent. (The broadcaster of client-go drops what exceeds its queue, and cannot wait.)
package events

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
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

	// senders is how many events are sent at the same time. One sender alone would be slower than a few workers.
	senders = 8
	// rememberedEvents is how many events each sender remembers, so that equal ones are counted up.
	rememberedEvents = 32

	attempts   = 10
	retryDelay = 5 * time.Second
)

// ErrNotAllSent says that a shutdown did not wait for the events that were left.
var ErrNotAllSent = errors.New("some events were not sent")

// Recorder is a record.EventRecorder that sends what it records to the API server. The events about one object are sent one
// after the other, and equal ones are counted up instead of being repeated.
type Recorder struct {
	scheme    *runtime.Scheme
	component string
	logger    klog.Logger

	senders [senders]*sender
	seed    maphash.Seed

	cancel context.CancelFunc
	// done is closed when all senders have ended.
	done chan struct{}
}

// sender sends the events about some of the objects, one event after the other.
type sender struct {
	sink       record.EventSink
	correlator *record.EventCorrelator
	logger     klog.Logger

	lock   sync.Mutex
	queue  []*corev1.Event
	closed bool
	// wake tells that there is something in the queue, or that it is closed.
	wake chan struct{}
}

// NewRecorder returns a recorder of events that come from component, about objects whose kinds scheme knows. It does not end
// with ctx, because the last events are recorded while the process shuts down: Shutdown ends it.
func NewRecorder(ctx context.Context, client typedcorev1.EventsGetter, scheme *runtime.Scheme, component string) *Recorder {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &Recorder{
		scheme:    scheme,
		component: component,
		logger:    klog.FromContext(ctx),
		seed:      maphash.MakeSeed(),
		cancel:    cancel,
		done:      make(chan struct{}),
	}
	var running sync.WaitGroup
	for i := range r.senders {
		s := &sender{
			sink: &typedcorev1.EventSinkImpl{Interface: client.Events("")},
			correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{
				BurstSize:    mostPerObject,
				MaxEvents:    mostPerObject,
				LRUCacheSize: rememberedEvents,
			}),
			logger: r.logger,
			wake:   make(chan struct{}, 1),
		}
		r.senders[i] = s
		running.Go(func() { s.run(ctx) })
	}
	go func() {
		running.Wait()
		close(r.done)
	}()
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
	r.senders[maphash.String(r.seed, about.Namespace+"/"+about.Name)%senders].add(event)
}

// Shutdown waits until the events recorded so far have been sent, and then ends the recorder. If ctx ends before, the events
// that are left are lost, and the error is ErrNotAllSent. Further calls do nothing more.
func (r *Recorder) Shutdown(ctx context.Context) error {
	for _, s := range r.senders {
		s.close()
	}
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

func (s *sender) add(event *corev1.Event) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.closed {
		s.logger.V(2).Info("An event was recorded after the end", "object", klog.KRef(event.Namespace, event.InvolvedObject.Name), "reason", event.Reason)
		return
	}
	s.queue = append(s.queue, event)
	s.wakeUp()
}

// close makes the sender end when it has sent what it has.
func (s *sender) close() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.closed = true
	s.wakeUp()
}

// wakeUp makes the sender look at the queue. s.lock is held.
func (s *sender) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // It will look anyway.
	}
}

// run sends events until it is closed and the queue is empty, or ctx ends.
func (s *sender) run(ctx context.Context) {
	for {
		s.lock.Lock()
		batch, closed := s.queue, s.closed
		s.queue = nil
		s.lock.Unlock()
		for _, event := range batch {
			if !s.send(ctx, event) {
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
		case <-s.wake:
		case <-ctx.Done():
			return
		}
	}
}

// send sends an event, if need be several times, until it is there or it is certain that it never will be. It returns false
// if ctx ended before.
func (s *sender) send(ctx context.Context, event *corev1.Event) bool {
	correlated, err := s.correlator.EventCorrelate(event)
	if err != nil || correlated.Skip {
		return true
	}
	for range attempts {
		var sent *corev1.Event
		if sent, err = s.write(correlated); apierrors.IsAlreadyExists(err) {
			sent, err = correlated.Event, nil // By an attempt before this one, whose answer was lost.
		}
		if err == nil {
			s.correlator.UpdateState(sent)
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
		s.logger.Error(err, "An event is lost", "object", klog.KRef(event.Namespace, event.InvolvedObject.Name), "reason", event.Reason)
	}
	return true
}

// write counts up the event that an equal one was sent as before, or creates it.
func (s *sender) write(correlated *record.EventCorrelateResult) (*corev1.Event, error) {
	if correlated.Event.Count > 1 {
		sent, err := s.sink.Patch(correlated.Event, correlated.Patch)
		if !apierrors.IsNotFound(err) {
			return sent, err
		}
		correlated.Event.ResourceVersion = "" // The earlier one has expired.
	}
	return s.sink.Create(correlated.Event)
}
