// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package events records Kubernetes events in the background, without a queue that can be full, and can wait until all have been
// sent. (The broadcaster of client-go drops what exceeds its queue, and cannot wait.)
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

	// rememberedEvents is how many events each sender remembers, so that equal ones are counted up.
	rememberedEvents = 32

	attempts   = 10
	retryDelay = 5 * time.Second
)

// ErrNotAllSent says that a shutdown did not wait for the events that were left.
var ErrNotAllSent = errors.New("some events were not sent")

// Recorder is a record.EventRecorder that sends what it records to the API server. The events about one object are sent one
// after the other, and ones that equal a recent one are counted up instead of being repeated.
type Recorder struct {
	client    typedcorev1.EventsGetter
	scheme    *runtime.Scheme
	component string
	logger    klog.Logger

	senders []*sender
	seed    maphash.Seed
}

// occurrence is what an event tells. Thousands may wait to be sent, and so they are smaller than events.
type occurrence struct {
	about                      corev1.ObjectReference
	annotations                map[string]string
	eventType, reason, message string
	at                         metav1.Time
}

// event returns the event that comes from a component.
func (o *occurrence) event(component string) *corev1.Event {
	namespace := o.about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:        fmt.Sprintf("%s.%x", o.about.Name, o.at.UnixNano()),
			Namespace:   namespace,
			Annotations: o.annotations,
		},
		InvolvedObject:      o.about,
		Type:                o.eventType,
		Reason:              o.reason,
		Message:             o.message,
		Source:              corev1.EventSource{Component: component},
		ReportingController: component,
		FirstTimestamp:      o.at,
		LastTimestamp:       o.at,
		Count:               1,
	}
}

// sender sends the events about some of the objects, one event after the other.
type sender struct {
	component  string
	sink       record.EventSink
	correlator *record.EventCorrelator
	logger     klog.Logger

	lock   sync.Mutex
	queue  []occurrence
	closed bool
	// wake tells that there is something in the queue, or that it is closed.
	wake chan struct{}
}

// NewRecorder returns a recorder of events that come from component, about objects whose kinds scheme knows. It must be started
// before the first of them.
func NewRecorder(client typedcorev1.EventsGetter, scheme *runtime.Scheme, component string) *Recorder {
	return &Recorder{client: client, scheme: scheme, component: component, seed: maphash.MakeSeed()}
}

// Start begins to send events, so many at the same time. It does not end with ctx, because the last events are recorded while
// the process shuts down, but with the function that it returns. That waits until the events recorded so far have been sent. If
// its context ends before, the events that are left are lost, and the error is ErrNotAllSent.
func (r *Recorder) Start(ctx context.Context, senders int) (shutdown func(context.Context) error) {
	r.logger = klog.FromContext(ctx)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for range senders {
		s := &sender{
			component: r.component,
			sink:      &typedcorev1.EventSinkImpl{Interface: r.client.Events("")},
			correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{
				BurstSize:    mostPerObject,
				MaxEvents:    mostPerObject,
				LRUCacheSize: rememberedEvents,
			}),
			logger: r.logger,
			wake:   make(chan struct{}, 1),
		}
		r.senders = append(r.senders, s)
		running.Go(func() { s.run(ctx) })
	}
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	return func(shutdownCtx context.Context) error {
		defer cancel()
		for _, s := range r.senders {
			s.close()
		}
		select {
		case <-done:
		case <-shutdownCtx.Done():
			select {
			case <-done:
			default:
				return ErrNotAllSent // A request that hangs is not waited for.
			}
		}
		return nil
	}
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
	sender := maphash.String(r.seed, about.Namespace+"/"+about.Name) % uint64(len(r.senders))
	r.senders[sender].add(occurrence{
		about: *about, annotations: annotations, eventType: eventType, reason: reason, message: fmt.Sprintf(format, args...), at: metav1.Now(),
	})
}

func (s *sender) add(what occurrence) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.closed {
		s.logger.V(2).Info("An event was recorded after the end", "object", klog.KRef(what.about.Namespace, what.about.Name), "reason", what.reason)
		return
	}
	s.queue = append(s.queue, what)
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
		for i := range batch {
			if !s.send(ctx, batch[i].event(s.component)) {
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
