// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// testRecorder is a Recorder that is started.
type testRecorder struct {
	*Recorder
	Shutdown func(context.Context) error
}

func startRecorder(ctx context.Context, client kubernetes.Interface) testRecorder {
	recorder := NewRecorder(client.CoreV1(), scheme.Scheme, "test")
	return testRecorder{recorder, recorder.Start(ctx, 4)}
}

func TestShutdownWaitsForAllEvents(t *testing.T) {
	client := fake.NewClientset()
	ctx, cancel := context.WithCancel(t.Context())
	recorder := startRecorder(ctx, client)
	cancel() // The end of the context it was made with must not lose what is recorded during a shutdown.
	const count = 20
	for i := range count {
		recorder.Event(pod(fmt.Sprintf("pod-%d", i)), corev1.EventTypeNormal, "Tested", "a test event")
	}
	shutDown(t, recorder)

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
	recorder := startRecorder(t.Context(), client)
	const count = 40
	for i := range count {
		recorder.Eventf(pod("pod"), corev1.EventTypeNormal, "Tested", "test event %d", i)
	}
	shutDown(t, recorder)
	list, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != count {
		t.Errorf("%d events were sent, want %d", len(list.Items), count)
	}
}

func TestMoreEventsThanAnyQueueHoldsAreAllSent(t *testing.T) {
	client := fake.NewClientset()
	recorder := startRecorder(t.Context(), client)
	const count = 1200
	for i := range count {
		recorder.Event(pod(fmt.Sprintf("pod-%d", i)), corev1.EventTypeNormal, "Tested", "a test event")
	}
	shutDown(t, recorder)
	if got := len(client.Actions()); got != count {
		t.Errorf("%d events were sent, want %d", got, count)
	}
}

func TestEqualEventsAreCountedUp(t *testing.T) {
	client := fake.NewClientset()
	recorder := startRecorder(t.Context(), client)
	for range 3 {
		recorder.Event(pod("pod"), corev1.EventTypeNormal, "Tested", "100 % the same")
	}
	shutDown(t, recorder)
	list, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Count != 3 || list.Items[0].Message != "100 % the same" ||
		list.Items[0].InvolvedObject.Kind != "Pod" || list.Items[0].Source.Component != "test" {
		t.Errorf("the events are %+v, want one with count 3", list.Items)
	}
}

func TestAnEventThatHasExpiredIsCreatedAgain(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("patch", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(corev1.Resource("events"), "expired")
	})
	created := 0
	client.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		created++
		return true, action.(clienttesting.CreateAction).GetObject(), nil
	})
	recorder := startRecorder(t.Context(), client)
	recorder.Event(pod("pod"), corev1.EventTypeNormal, "Tested", "the same")
	recorder.Event(pod("pod"), corev1.EventTypeNormal, "Tested", "the same")
	shutDown(t, recorder)
	if created != 2 {
		t.Errorf("%d events were created, want 2", created)
	}
}

func TestAnEventIsRetriedUnlessItIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var answers []error
		client.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
			err := answers[0]
			answers = answers[1:]
			return err != nil, nil, err
		})
		answers = []error{
			errors.New("connection refused"), apierrors.NewServiceUnavailable("down"), nil, // The first event,
			apierrors.NewForbidden(corev1.Resource("events"), "", nil), // the second,
			nil, // and the third.
		}
		recorder := startRecorder(t.Context(), client)
		for i := range 3 {
			recorder.Eventf(pod("pod"), corev1.EventTypeNormal, "Tested", "test event %d", i)
		}
		shutDown(t, recorder)
		if len(answers) > 0 {
			t.Errorf("%d answers were not asked for", len(answers))
		}
	})
}

func TestAnEventWhoseAnswerWasLostIsCountedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		answered := false
		client.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if answered {
				return false, nil, nil
			}
			answered = true
			create := action.(clienttesting.CreateAction)
			if err := client.Tracker().Create(create.GetResource(), create.GetObject(), create.GetNamespace()); err != nil {
				t.Error(err)
			}
			return true, nil, errors.New("connection lost")
		})
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
		recorder := startRecorder(klog.NewContext(t.Context(), logger), client)
		recorder.Event(pod("pod"), corev1.EventTypeNormal, "Tested", "")
		recorder.Event(pod("pod"), corev1.EventTypeNormal, "Tested", "")
		shutDown(t, recorder)
		list, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 || list.Items[0].Count != 2 {
			t.Errorf("the events are %+v, %v, want one of count 2", list, err)
		}
		if log := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); log != "" {
			t.Errorf("the log has\n%s", log)
		}
	})
}

func TestShutdownGivesUpWhenItsContextEnds(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	recorder := startRecorder(t.Context(), client)
	recorder.Event(pod("pod"), corev1.EventTypeNormal, "Tested", "")
	ended, end := context.WithCancel(t.Context())
	end()
	if err := recorder.Shutdown(ended); !errors.Is(err, ErrNotAllSent) {
		t.Errorf("Shutdown returned %v, want %v", err, ErrNotAllSent)
	}
}

func TestShutdownDoesNotWaitForARequestThatHangs(t *testing.T) {
	client := fake.NewClientset()
	hangs, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	client.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		close(hangs)
		<-release
		return true, nil, errors.New("connection reset")
	})
	recorder := startRecorder(t.Context(), client)
	recorder.Event(pod("pod"), corev1.EventTypeNormal, "Tested", "")
	<-hangs
	ended, end := context.WithCancel(t.Context())
	end()
	if err := recorder.Shutdown(ended); !errors.Is(err, ErrNotAllSent) {
		t.Errorf("Shutdown returned %v, want %v", err, ErrNotAllSent)
	}
}

// sink is a record.EventSink that calls create.
type sink struct {
	record.EventSink
	create func(*corev1.Event)
}

func (s sink) Create(event *corev1.Event) (*corev1.Event, error) {
	s.create(event)
	return event, nil
}

func newRecorderTo(t *testing.T, create func(*corev1.Event)) testRecorder {
	recorder := startRecorder(t.Context(), fake.NewClientset())
	for _, sender := range recorder.senders {
		sender.sink = sink{create: create}
	}
	return recorder
}

func TestEventsAboutOneObjectKeepTheirOrder(t *testing.T) {
	var got []string // Without a lock: the race detector tells of two at the same time.
	recorder := newRecorderTo(t, func(event *corev1.Event) { got = append(got, event.Message) })
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprint(i))
		recorder.Event(pod("pod"), corev1.EventTypeNormal, "Tested", want[i])
	}
	shutDown(t, recorder)
	if !slices.Equal(got, want) {
		t.Errorf("the events were sent in the order %v", got)
	}
}

func TestEventsAboutSeveralObjectsAreSentAtTheSameTime(t *testing.T) {
	var underWay atomic.Int32
	two := make(chan struct{})
	recorder := newRecorderTo(t, func(*corev1.Event) {
		if underWay.Add(1) == 2 {
			close(two)
		}
		<-two
	})
	for i := range 100 { // Of so many, at least two are not of the same sender.
		recorder.Event(pod(fmt.Sprintf("pod-%d", i)), corev1.EventTypeNormal, "Tested", "")
	}
	shutDown(t, recorder)
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func shutDown(t *testing.T, recorder testRecorder) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := recorder.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
}
