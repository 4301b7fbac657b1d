// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// TestUndo has another client undo a change of the program, unless somebody has changed the object once more.
func TestUndo(t *testing.T) {
	for meanwhile, want := range map[string]string{"": "red", "green": "green"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWalk(newTestTester(t, Config{}), script{})
			w.begin(0, nil)
			defer w.end()
			ref := reference{schema.GroupResource{Resource: "configmaps"}, types.NamespacedName{Namespace: "default", Name: "a"}}
			o := newUnstructured("v1", "ConfigMap", "a")
			setField(o, "red", "data", "color")
			if _, err := w.user.Create(o); err != nil {
				t.Fatal(err)
			}
			w.undoChanges(ref, time.Hour)
			o = w.get(ref)
			setField(o, "blue", "data", "color")
			if _, err := w.server.Client(instancePrefix+"1").Update(o, ""); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond) // By the fake clock of the bubble, as the next one.
			if meanwhile != "" {
				w.change(ref, func(o *object) string { setField(o, meanwhile, "data", "color"); return "changes" })
			}
			time.Sleep(time.Second)
			if color := text(w.get(ref), "data", "color"); color != want {
				t.Errorf("with %q meanwhile, it becomes %q, want %q", meanwhile, color, want)
			}
		})
	}
}

// renewals counts how often a Lease is written.
type renewals struct{ atomic.Int64 }

func (l *renewals) Committed(c *apiserver.Change) {
	if c.Request.Resource == leases {
		l.Add(1)
	}
}

func (*renewals) Failed(*apiserver.Request, *object, error) {}

// TestIdle has a walk sleep for minutes, and often for some seconds: its leader goes on to lead, and renews the Lease less often in the former.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWalk(newTestTester(t, Config{Program: newWidgetController(func(c *widgetController) { c.elects = true })}), script{})
		w.begin(1, nil)
		defer w.end()
		counted := &renewals{}
		w.server.Observe(counted)
		for range 12 {
			w.sleep(10 * time.Second)
		}
		often := counted.Load()
		w.sleep(2 * time.Minute)
		seldom := counted.Load() - often
		// A leader that renews it less often comes to doubt that it leads.
		if often < 50 || seldom > often/2 || seldom < 20 || w.started != 1 {
			t.Errorf("the Lease is renewed %d times, and %d times while nothing but time passes; %d processes were started", often, seldom, w.started)
		}
	})
}

// TestIdleLease asks for a Lease while nothing but time passes. The response takes longer if that keeps nobody from leading for long.
func TestIdleLease(t *testing.T) {
	for name, test := range map[string]struct {
		leads, stopped, isLong, isLate bool
	}{
		"no leader":                 {},
		"a leader":                  {leads: true, isLate: true},
		"a leader that was stopped": {leads: true, stopped: true},
		"a fault of hours":          {isLong: true, isLate: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWalk(newTestTester(t, Config{}), script{})
			w.begin(0, nil)
			defer w.end()
			i := w.newInstance()
			i.leads, i.stopped = test.leads, test.stopped
			w.instances = append(w.instances, i)
			w.setLong(test.isLong)
			r := &apiserver.Request{Verb: "get", Resource: leases, Namespace: "default", Name: "widgets", Client: i.name}
			w.leaseDurations[r.Key()] = time.Minute
			defer w.idle()()
			if f, _ := i.Request(r); (f.AfterDelay > 0) != test.isLate {
				t.Errorf("with %s, the response takes %s longer", name, f.AfterDelay)
			}
		})
	}
}

// TestProgress tells the rollout of a DaemonSet as one line.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWalk(newTestTester(t, Config{}), script{})
		w.begin(0, nil)
		defer w.end()
		set := newUnstructured("apps/v1", "DaemonSet", "a")
		setField(set, map[string]any{"l": "a"}, "spec", "selector", "matchLabels")
		setField(set, map[string]any{"l": "a"}, "spec", "template", "metadata", "labels")
		setField(set, []any{map[string]any{"name": "c", "image": "c"}}, "spec", "template", "spec", "containers")
		if _, err := w.user.Create(set); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // By the fake clock of the bubble.
		w.story.lock.Lock()
		defer w.story.lock.Unlock()
		if told := join(w.lines); len(w.lines) != 1 || !strings.Contains(told, "daemonsets a: 1 of 1 replicas available") {
			t.Errorf("the rollout is told as:\n%s", told)
		}
	})
}

// TestLongLease has a program whose Lease lasts as long as those of OpenShift's operators. When its leader is killed, what is to be done comes late:
// that is no fault. Instances that are restarted are watched until one leads.
func TestLongLease(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *widgetController)
		broken []Promise
	}{
		"right":           {func(*widgetController) {}, nil},
		"writes at start": {writeAtStart, []Promise{Restart}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hasContent := func(c Cluster) error {
				if slices.ContainsFunc(c.List(widgets.GroupResource()), func(o *object) bool { return len(c.ControlledBy(o)) == 0 }) {
					return errors.New("one has none")
				}
				return nil
			}
			all := newTestTester(t, Config{
				Program: newWidgetController(func(c *widgetController) {
					c.elects, c.leaseDuration = true, 137*time.Second
					test.change(c)
				}),
				Exempt: []Promise{SameEnd}, Own: []Own{{Name: "a Widget has a ConfigMap", Moment: hasContent, Within: time.Minute}},
			})
			killing := steps(t, "create", "kill", "deleteTheirs")
			killing[1].after = momentTime // Its status is judged before.
			w := all.walk(t, script{steps: killing}, "")
			if broken := slices.Collect(maps.Keys(w.broken)); !slices.Equal(broken, test.broken) {
				t.Errorf("%v is broken, want %v\n%s", broken, test.broken, join(w.lines))
			}
		})
	}
}

// TestCreatedAfterCollection has a program create an object more than two minutes after the last action: that is late, unless the object was there
// until the garbage collector deleted it.
func TestCreatedAfterCollection(t *testing.T) {
	for isThere, isLate := range map[bool]bool{false: true, true: false} {
		synctest.Test(t, func(t *testing.T) {
			o := newUnstructured("v1", "ConfigMap", "a")
			w := newWalk(newTestTester(t, Config{Program: func(ctx context.Context, config *rest.Config) error {
				time.Sleep(convergenceTimeout + 10*time.Second)
				client := dynamic.NewForConfigOrDie(config).Resource(configMaps).Namespace("default")
				if _, err := client.Create(ctx, o, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
				<-ctx.Done()
				return nil
			}}), script{})
			w.begin(1, nil)
			defer w.end()
			if isThere {
				if _, err := w.user.Create(o); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(time.Minute, func() {
					if err := w.server.Client(string(apiserver.GarbageCollector)).Delete(o, metav1.DeleteOptions{}); err != nil {
						t.Error(err)
					}
				})
			}
			w.settle()
			if broken := w.broken[Soon]; (broken != nil) != isLate {
				t.Errorf("if the object was there (%v), broken is %v", isThere, broken)
			}
		})
	}
}
