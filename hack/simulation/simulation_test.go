// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"k8s.io/sample-controller/hack/simulation/apiserver"
	"k8s.io/sample-controller/hack/simulation/recording"
)

func newTestTester(t *testing.T, config Config) *tester {
	t.Helper()
	config.CRDs, config.Examples = []string{"testdata/widgets.yaml"}, []string{"testdata/examples.yaml"}
	config.Instances, config.Objects = 1, 3
	all, err := newTester(config)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// steps returns steps about the first object, a second after each other: "create/3" is the action create with the argument 3.
func steps(t *testing.T, names ...string) (list []step) {
	t.Helper()
	actions := map[string]*action{}
	for _, a := range slices.Concat(pointers(userActions), pointers(programActions), pointers(faultActions), pointers(longFaults)) {
		actions[a.name] = a
	}
	for _, name := range names {
		s := step{after: time.Second}
		name, argument, _ := strings.Cut(name, "/")
		_, _ = fmt.Sscan(argument, &s.argument) // Without one, it is 0.
		if s.action = actions[name]; s.action == nil {
			t.Fatalf("no action %s", name)
		}
		list = append(list, s)
	}
	return list
}

func probeOf(name string) []*probe {
	all := allProbes()
	return all[slices.IndexFunc(all, func(p *probe) bool { return p.name == name }):][:1]
}

// TestBrokenPromises has controllers of which each breaks a promise, and walks in which that is noticed.
func TestBrokenPromises(t *testing.T) {
	create := steps(t, "create")
	const longest = 65520 // the argument of a fault that lasts as long as possible
	refuseAndChange := []string{"create", fmt.Sprint("refuse/", longest), "change/16", "deleteTheirs"}
	for promise, test := range map[Promise]struct {
		change func(c *widgetController)
		script script
	}{
		LeaderWrites: {func(c *widgetController) { c.elects, c.writesAsStandby = true, true }, script{steps: create}},
		LeaseLast: {func(c *widgetController) { c.elects, c.releases = true, true },
			script{steps: create, probes: probeOf("a termination while a write is open")}},
		OwnObjects: {func(c *widgetController) {
			c.syncContent = func(c *widgetController, ctx context.Context, widget, configMap *object) (*object, error) {
				if configMap != nil {
					configMap = configMap.DeepCopy()
					configMap.SetOwnerReferences(newConfigMap(widget).GetOwnerReferences())
				}
				return c.createOrUpdate(ctx, widget, configMap)
			}
		}, script{steps: steps(t, "create", "replace", "change/16")}},
		LivingOwners: {func(c *widgetController) { c.ignoresDeletion = true }, script{steps: steps(t, "create", "hold", "delete", "deleteTheirs")}},
		OwnFields: {func(c *widgetController) {
			c.syncContent = func(c *widgetController, ctx context.Context, widget, configMap *object) (*object, error) {
				if configMap == nil {
					return c.createOrUpdate(ctx, widget, configMap)
				}
				return c.configMaps.Update(ctx, newConfigMap(widget), metav1.UpdateOptions{})
			}
		}, script{steps: steps(t, "create", "annotateTheirs")}},
		BoundedWork: {func(c *widgetController) { c.retry = func(c *widgetController, key string) { c.queue.Add(key) } },
			script{steps: steps(t, refuseAndChange...)}},
		Pace: {nil, script{steps: create, probes: probeOf("an hour of undone writes")}},
		Soon: {func(c *widgetController) {
			c.retry = func(c *widgetController, key string) { c.queue.AddAfter(key, 150*time.Second) }
		}, script{steps: steps(t, refuseAndChange...)}},
		Silence: {func(c *widgetController) {
			c.syncContent = func(c *widgetController, ctx context.Context, widget, configMap *object) (*object, error) {
				_, _ = c.widgets.Get(ctx, widget.GetName(), metav1.GetOptions{})
				return c.createOrUpdate(ctx, widget, configMap)
			}
		}, script{steps: create}},
		Restart: {writeAtStart, script{steps: create}},
		SameEnd: {func(c *widgetController) {
			c.syncContent = func(c *widgetController, ctx context.Context, widget, configMap *object) (*object, error) {
				if configMap != nil {
					return configMap, nil
				}
				return c.createOrUpdate(ctx, widget, nil)
			}
		}, script{steps: steps(t, "create", "change/16", "change/32")}},
		Generations: {func(c *widgetController) {
			c.syncStatus = func(c *widgetController, ctx context.Context, widget, configMap *object) error {
				if widget.GetGeneration() > 1 {
					return nil
				}
				return c.reportReady(ctx, widget, configMap)
			}
		}, script{steps: steps(t, "create", "change/16", "change/32")}},
		TransitionTimes: {func(c *widgetController) { c.transition = "2020-01-01T00:00:00Z" }, script{steps: create}},
		Truth: {func(c *widgetController) {
			c.syncStatus = func(c *widgetController, ctx context.Context, widget, _ *object) error {
				return c.reportReady(ctx, widget, widget)
			}
		}, script{steps: create, long: &steps(t, "policy")[0], meanwhile: steps(t, "deleteTheirs")}},
		Deletion: {func(c *widgetController) {
			c.syncStatus = func(c *widgetController, ctx context.Context, widget, configMap *object) error {
				if len(widget.GetFinalizers()) == 0 {
					changed := widget.DeepCopy()
					changed.SetFinalizers([]string{"example.com/widget"})
					_, err := c.widgets.Update(ctx, changed, metav1.UpdateOptions{})
					return err
				}
				return c.reportReady(ctx, widget, configMap)
			}
		}, script{steps: steps(t, "create", "delete")}},
		Health: {func(c *widgetController) {
			c.syncStatus = func(_ *widgetController, ctx context.Context, _, _ *object) error {
				klog.FromContext(ctx).Error(nil, "Observed a panic")
				return nil
			}
		}, script{steps: create}},
		NoResync: {func(c *widgetController) { c.onDeletion = func(*widgetController, any) {} },
			script{steps: create, probes: probeOf("a deletion that no watch sees")}},
		FreshDelay: {func(c *widgetController) { c.forget = func(*widgetController, string) {} },
			script{steps: create, probes: probeOf("an error after a success")}},
		SoonAfterErrors: {func(c *widgetController) {
			c.resync = 0
			c.retry = func(c *widgetController, key string) { c.queue.AddAfter(key, 40*time.Minute) }
		}, script{steps: create, probes: probeOf("an hour of errors")}},
		OwnPause: {func(c *widgetController) {
			c.resync, c.onDeletion = 0, func(*widgetController, any) {}
		}, script{steps: create, probes: probeOf("changes that are refused, and then a deletion")}},
		Terminates: {func(c *widgetController) { c.lingers = time.Minute }, script{steps: create, probes: probeOf("a termination while lists are refused")}},
		Restored: {func(c *widgetController) { c.resync = 0 },
			script{steps: create, probes: probeOf("a status that another client removes")}},
		NotLast: {nil, script{steps: create, probes: probeOf("many objects, then one change")}},
		NewSpec: {func(c *widgetController) { c.onChange = (*widgetController).enqueueLate },
			script{steps: create, probes: probeOf("changes that are refused, and then a new spec")}},
		FreshSpec: {nil, script{steps: create, probes: probeOf("changes that fail, and then a new spec")}},
		FreshPause: {func(c *widgetController) { c.onChange = (*widgetController).enqueueLate },
			script{steps: create, probes: probeOf("an hour of undone writes")}},
		Unseen: {nil, script{steps: create, probes: probeOf("a creation that no watch sees")}},
		FreshOwners: {func(c *widgetController) {
			c.syncContent = func(c *widgetController, ctx context.Context, widget, configMap *object) (*object, error) {
				if configMap != nil && len(configMap.GetAnnotations()) > 0 {
					return nil, c.configMaps.Delete(ctx, configMap.GetName(), metav1.DeleteOptions{})
				}
				return c.createOrUpdate(ctx, widget, configMap)
			}
		}, script{steps: steps(t, "create", fmt.Sprint("holdWatch/", longest+5), "change/16", "annotateTheirs")}}, // of Widgets
		OwnWrites: {func(c *widgetController) {
			c.syncContent = func(c *widgetController, ctx context.Context, widget, configMap *object) (*object, error) {
				result, err := c.createOrUpdate(ctx, widget, configMap)
				if configMap == nil && err == nil {
					_, err = c.createOrUpdate(ctx, widget, nil)
				}
				return result, err
			}
		}, script{steps: create}},
		NoTwins: {func(c *widgetController) {
			c.syncContent = func(c *widgetController, ctx context.Context, widget, _ *object) (*object, error) {
				configMap := newConfigMap(widget)
				configMap.SetName("")
				configMap.SetGenerateName(widget.GetName() + "-")
				return c.configMaps.Create(ctx, configMap, metav1.CreateOptions{})
			}
		}, script{steps: steps(t, "create", "annotate")}},
		FreshWrites: {func(c *widgetController) {
			c.syncContent = func(c *widgetController, ctx context.Context, widget, configMap *object) (*object, error) {
				if configMap != nil {
					configMap = configMap.DeepCopy()
					configMap.SetResourceVersion("")
				}
				return c.createOrUpdate(ctx, widget, configMap)
			}
		}, script{steps: steps(t, "create", fmt.Sprint("holdWatch/", longest+1), "annotateTheirs", "change/16", "change/32")}},
	} {
		t.Run(string(promise), func(t *testing.T) {
			t.Parallel()
			testBroken(t, promise, test.change, test.script)
		})
	}
}

// TestNewOwner has a controller that does not look at what gets another controller.
func TestNewOwner(t *testing.T) {
	create := steps(t, "create", "create")
	create[1].target = 1
	testBroken(t, NoResync, func(c *widgetController) {
		c.onChange = func(c *widgetController, old, obj any) {
			before, after := metav1.GetControllerOf(old.(*object)), metav1.GetControllerOf(obj.(*object))
			if before == nil || before.UID == after.UID {
				c.enqueueChange(old, obj)
			}
		}
	}, script{steps: create, probes: probeOf("an object that gets another controller")})
}

// TestNewObject has a controller that looks at new objects late, and otherwise first at what has come last.
func TestNewObject(t *testing.T) {
	testBroken(t, NotLast, func(c *widgetController) {
		c.order = &stack{}
		c.onAddition = func(c *widgetController, obj any) {
			c.queue.AddAfter(obj.(*object).GetName(), 20*time.Second)
		}
	}, script{steps: steps(t, "create"), probes: probeOf("many objects, then one change")})
}

// TestRetryAfter has a controller whose only worker sleeps until a request is to be sent again.
func TestRetryAfter(t *testing.T) {
	create := steps(t, "create", "create")
	create[1].target = 1
	testBroken(t, FreeWorkers, nil, script{steps: create, probes: probeOf("requests to be sent again later, then one change")})
}

// TestNeverReturns has a program that does not return when its context is done, as one that waits for its queue: the walk ends, and says so.
func TestNeverReturns(t *testing.T) {
	testBroken(t, Health, func(c *widgetController) { c.lingers = 1000 * time.Hour }, script{steps: steps(t, "create")})
}

// TestExits has a program that ends its goroutine, as log.Fatal ends a process: it is started again.
func TestExits(t *testing.T) {
	run, starts := newWidgetController(nil), 0
	w := newWalk(newTestTester(t, Config{Instances: 1, Program: func(ctx context.Context, config *rest.Config) error {
		if starts++; starts == 1 {
			runtime.Goexit()
		}
		return run(ctx, config)
	}}), script{steps: steps(t, "create")})
	w.inBubble(t)
	if starts < 2 || w.broken[Health] != nil {
		t.Errorf("it was started %d times, want more; %v", starts, w.broken[Health])
	}
}

// TestEndedProbes has a probe of an hour broken off: virtual time does not pass any more.
func TestEndedProbes(t *testing.T) {
	for _, probe := range []string{"an hour of undone writes", "an hour of refused writes"} {
		t.Run(probe, func(t *testing.T) {
			testBroken(t, BoundedWork, func(c *widgetController) {
				c.syncContent = func(c *widgetController, ctx context.Context, widget, configMap *object) (*object, error) {
					result, err := c.createOrUpdate(ctx, widget, configMap)
					for differs := configMap != nil && result != configMap; differs && ctx.Err() == nil; {
						_, _ = c.configMaps.Get(ctx, widget.GetName(), metav1.GetOptions{})
					}
					return result, err
				}
			}, script{steps: steps(t, "create"), probes: probeOf(probe)})
		})
	}
}

// TestListsAtStart has a program list when it starts, and end with the error: that is none of its faults while lists are refused.
func TestListsAtStart(t *testing.T) {
	run := newWidgetController(nil)
	w := newWalk(newTestTester(t, Config{Program: func(ctx context.Context, config *rest.Config) error {
		if _, err := dynamic.NewForConfigOrDie(config).Resource(configMaps).List(ctx, metav1.ListOptions{}); err != nil {
			return err
		}
		return run(ctx, config)
	}}), script{steps: steps(t, "create"), probes: probeOf("a termination while lists are refused")})
	w.inBubble(t)
	if broken := w.broken[Health]; broken != nil {
		t.Errorf("health is broken by %v", broken)
	}
}

// TestEndlessUndoing has a client that undoes, for hours, what a controller writes again at once: the client slows down.
func TestEndlessUndoing(t *testing.T) {
	all := newTestTester(t, Config{Program: newWidgetController(nil), Exempt: []Promise{Pace}})
	w := newWalk(all, script{steps: steps(t, "create"), long: &steps(t, "undo")[0], meanwhile: steps(t, "change/16")})
	w.inBubble(t)
	made := w.sentSince(time.Time{}, func(r *request) bool { return r.IsWrite() })
	if n := len(made); n <= 2*maxPace || n > 4*maxPace {
		t.Errorf("it has made %d writes:\n%s", n, join(w.lines[max(0, len(w.lines)-20):]))
	}
}

// testBroken walks with a controller that breaks a promise.
func testBroken(t *testing.T, promise Promise, change func(c *widgetController), s script) {
	t.Helper()
	all := newTestTester(t, Config{Program: newWidgetController(change), Strict: strictPromises})
	if promise == LeaderWrites {
		all.Instances = 2
	}
	var w *walk
	for range 10 { // A resync may come just while a probe waits for a correction without one.
		w = newWalk(all, s)
		w.stopAt = promise
		w.inBubble(t)
		if w.broken[promise] != nil {
			break
		}
	}
	if w.broken[promise] == nil {
		t.Fatalf("%q is not broken, but %v\n%s", promise, slices.Collect(maps.Values(w.broken)), join(w.lines))
	}
	if tale := w.broken[promise].tale(); !strings.HasSuffix(tale, w.broken[promise].String()) {
		t.Errorf("the story is:\n%s", tale)
	}
}

// TestDirectory names this package as the go command does in the root of its module.
func TestDirectory(t *testing.T) {
	root := t.TempDir()
	inner := filepath.Join(root, "test", "simulation")
	if err := errors.Join(os.MkdirAll(inner, 0o755), os.WriteFile(filepath.Join(root, "go.mod"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{root: ".", inner: "./test/simulation"} {
		t.Chdir(path)
		if got := directory(); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

// TestRecord reads the recording of a walk in which a controller breaks a promise.
func TestRecord(t *testing.T) {
	*recordDir = t.TempDir()
	t.Cleanup(func() { *recordDir = "" })
	config := Config{Viewer: "a viewer", Program: newWidgetController(func(c *widgetController) {
		c.retry = func(c *widgetController, key string) { c.queue.AddAfter(key, 150*time.Second) }
	})}
	all := newTestTester(t, config)
	s := script{seed: 7, steps: steps(t, "create", "refuse/65520", "change/16", "deleteTheirs"), faults: map[string]fault{}}
	message := all.record(t, Soon, s.seedName(), func() *walk { return all.newWalk(s, Soon) })
	name := filepath.Join(*recordDir, "reconciled-soon-seed-7.jsonl")
	if want := "\nit is recorded in " + name + ", for a viewer"; message != want {
		t.Fatalf("the message is %q, want %q", message, want)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	entries, err := recording.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[recording.Kind]recording.Entry{}
	for _, e := range entries {
		found[e.Kind] = e
	}
	last := entries[len(entries)-1]
	if last.Kind != recording.Broken || last.Promise != string(Soon) || !strings.Contains(last.Text, "still writes") || last.At < convergenceTimeout {
		t.Errorf("the last entry is %+v", last)
	}
	if r := found[recording.Requested]; r.Client != "instance-1" || r.Request == nil || r.Request.String() != "update widgets/status widget-0" {
		t.Errorf("the last request is %+v", r)
	}
	if o, err := found[recording.Stored].Decode(); err != nil || o.GetResourceVersion() == "" {
		t.Errorf("the last object that is stored is %v, %v", o, err)
	}
	for _, kind := range []recording.Kind{recording.Told, recording.Started, recording.Logged, recording.Responded, recording.Event} {
		if e := found[kind]; e.Client == "" || e.Text == "" && e.ID == 0 {
			t.Errorf("the last entry %s is %+v", kind, e)
		}
	}
}

// TestFormerOwner has a controller that changes what the former Widget of the same name has left.
func TestFormerOwner(t *testing.T) {
	testBroken(t, OwnObjects, func(c *widgetController) { c.byName = true },
		script{steps: steps(t, "create", "noControllers/65520", "recreate/33", "recreate/65")})
}

// writeAtStart lets a controller write once after each start, although nothing has changed.
func writeAtStart(c *widgetController) {
	started := false
	c.syncContent = func(c *widgetController, ctx context.Context, widget, configMap *object) (*object, error) {
		if configMap != nil && !started {
			started = true
			return c.configMaps.Update(ctx, touched(configMap), metav1.UpdateOptions{})
		}
		started = true
		return c.createOrUpdate(ctx, widget, configMap)
	}
}

// touched is a ConfigMap that a program has changed for no reason.
func touched(configMap *object) *object {
	changed := configMap.DeepCopy()
	setField(changed, time.Now().String(), "data", "touched")
	return changed
}

// TestNoFalseAlarm walks with a controller that keeps all promises but those that need more than a queue and caches.
func TestNoFalseAlarm(t *testing.T) {
	all := newTestTester(t, Config{Program: newWidgetController(nil), Exempt: []Promise{Pace, NotLast}})
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := all.walk(t, all.newScript(seed), "")
			for _, v := range w.broken {
				t.Errorf("%s\n%s", v, v.tale())
			}
		})
	}
}

// TestEnds has programs that end.
func TestEnds(t *testing.T) {
	for want, program := range map[string]Program{
		"health: instance-1 ends without an error, although nothing has stopped it": func(context.Context, *rest.Config) error { return nil },
		"health: instance-1 ends with the error failed":                             func(context.Context, *rest.Config) error { return errors.New("failed") },
	} {
		w := newWalk(newTestTester(t, Config{Program: program}), script{})
		w.calmSince = time.Time{}.Add(1)
		w.inBubble(t)
		if v := w.broken[Health]; v == nil || v.String() != want {
			t.Errorf("the broken promise is %v, want %s", v, want)
		}
	}
}

// TestBecomes has an object become like another one of a kind that has no spec.
func TestBecomes(t *testing.T) {
	o, other := newUnstructured("example.com/v1", "Class", "a"), newUnstructured("example.com/v1", "Class", "b")
	o.Object["driver"], other.Object["driver"], other.Object["status"] = "a", "b", map[string]any{}
	becomes(other)(o)
	want := newUnstructured("example.com/v1", "Class", "a")
	want.Object["driver"] = "b"
	if !reflect.DeepEqual(o, want) {
		t.Errorf("it is %v, want %v", o, want)
	}
}

func TestNames(t *testing.T) {
	k := &userKind{
		examples: []*object{{Object: map[string]any{"spec": map[string]any{
			"templateRef": map[string]any{"kind": "ConfigMap"}, "activeService": "a", "serviceName": "x", "secret": "a",
		}}}},
		there: []*object{newUnstructured("v1", "Service", "a"), newUnstructured("v1", "Secret", "b"), newUnstructured("v1", "Service", "c")},
	}
	for path, want := range map[string][]string{
		"spec.configMapName": {"configmap-0", "configmap-1", "configmap-2", "configmap-3"}, "spec.widgetRef.name": {"widget-0", "widget-1"},
		"spec.templateRef.name": {"configmap-0"}, "spec.serviceName": {"a", "c", "service-2", "a", "c", "service-5"},
		"spec.activeService": {"a", "c", "activeservice-2"}, "spec.tlsSecretName": {"b", "tlssecret-1"},
	} {
		for n, want := range want {
			if name := k.nameIn(leaf{path: strings.Split(path, ".")}, poolSize*3+n); name != want {
				t.Errorf("the %dth name in %s is %s, want %s", n, path, name, want)
			}
		}
	}
	for key, want := range map[string]bool{"activeService": true, "serviceName": true, "secret": false, "image": false} {
		if got := k.isName(leaf{path: []string{"spec", key}, schema: map[string]any{"type": "string"}}); got != want {
			t.Errorf("%s has a name: %t, want %t", key, got, want)
		}
	}
}

// TestFixtures has an object from the beginning, with its status, that the program comes to own.
func TestFixtures(t *testing.T) {
	fixture := newUnstructured("v1", "PersistentVolumeClaim", "given")
	fixture.Object["spec"] = map[string]any{"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}}
	fixture.Object["status"] = map[string]any{"phase": "Bound"}
	all := newTestTester(t, Config{Program: newWidgetController(nil)})
	all.others = []*object{fixture}
	w := newWalk(all, script{steps: steps(t, "create")})
	ref := Refer(corev1.Resource("persistentvolumeclaims"), "default", "given")
	check := func(when string, w *walk) {
		if claim := w.get(ref); claim == nil || text(claim, "status", "phase") != "Bound" {
			t.Errorf("%s it is %v", when, claim)
		}
	}
	w.trial = &Trial{Run: func(*Walk) {
		w.takeSteps()
		check("in the walk", w)
		widget := w.get(Refer(widgets.GroupResource(), "default", "widget-0"))
		w.change(ref, func(o *object) string {
			o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(widget, widgets.GroupVersion().WithKind("Widget"))})
			return "changes"
		})
		check("in a fresh cluster", w.freshCluster(w.server.All(), nil))
	}}
	w.inBubble(t)
}

func TestLeftover(t *testing.T) {
	w := newWalk(newTestTester(t, Config{Program: func(ctx context.Context, _ *rest.Config) error {
		go func() { select {} }()
		<-ctx.Done()
		return nil
	}}), script{})
	w.inBubble(t)
	if v := w.broken[NoLeftover]; v == nil || !strings.Contains(v.what, "TestLeftover") {
		t.Errorf("the broken promise is %v, and does not name the goroutine that is left", v)
	}
}

func TestCopies(t *testing.T) {
	w := newWalk(newTestTester(t, Config{}), script{})
	w.server = apiserver.New(w.registry, apiserver.Options{})
	newObservation := func(size, other int64) observation {
		widget := &object{Object: map[string]any{"status": map[string]any{"size": size, "constant": int64(1), "observedGeneration": size}}}
		widget.SetGroupVersionKind(widgets.GroupVersion().WithKind("Widget"))
		deployment := &object{Object: map[string]any{"status": map[string]any{"replicas": other, "constant": int64(1), "desired": int64(3)}}}
		deployment.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
		return observation{object: widget, its: []*object{deployment}}
	}
	copies := w.findCopies([]observation{newObservation(2, 2), newObservation(3, 3)})
	want := map[copied]bool{{
		fieldOf{widgets.GroupResource(), "status.size"}, fieldOf{appsv1.Resource("deployments"), "status.replicas"},
	}: false}
	if !reflect.DeepEqual(copies, want) {
		t.Errorf("findCopies() = %v, want %v", copies, want)
	}
	if name, _ := w.wrongCopy(newObservation(4, 4), copies); name != "" {
		t.Errorf("%s is said to be wrong", name)
	}
	if name, n := w.wrongCopy(newObservation(4, 5), copies); name != "status.size" || n != 4 {
		t.Errorf("wrongCopy() = %q, %d", name, n)
	}
	if name, _ := w.wrongCopy(newObservation(0, 4), copies); name == "" {
		t.Error("0 is not said to be wrong")
	}
	w.kinds[0].leaves = append(w.kinds[0].leaves, leaf{path: []string{"spec", "deploymentName"}, schema: map[string]any{"type": "string"}})
	setField(w.kinds[0].examples[0], "example", "spec", "deploymentName")
	give := func(s observation, desired, name string) observation {
		setField(s.object, desired, "spec", "deploymentName")
		s.its[0].SetName(name)
		return s
	}
	copies = w.findCopies([]observation{give(newObservation(2, 2), "a", "a"), give(newObservation(3, 3), "b", "b")})
	if name, _ := w.wrongCopy(give(newObservation(0, 4), "a", "a"), copies); name == "" {
		t.Error("0 is not said to be wrong, although there is one of the desired name")
	}
	if name, _ := w.wrongCopy(give(newObservation(0, 4), "a", "b"), copies); name != "" {
		t.Error("0 is said to be wrong, although there is none of the desired name")
	}
}

func TestScriptFollowsFromSeed(t *testing.T) {
	all := newTestTester(t, Config{})
	a := all.newScript(1)
	if again := all.newScript(1).steps; !slices.Equal(again, a.steps) {
		t.Errorf("the steps are %v, and then %v", a.steps, again)
	}
	if slices.Equal(all.newScript(2).steps, a.steps) {
		t.Errorf("two seeds have the same steps: %v", a.steps)
	}
	for n := range 1000 {
		id, r := fmt.Sprint("request ", n), &apiserver.Request{Verb: "get"}
		if x, y := a.requestFault(id, r), a.requestFault(id, r); x.what != y.what {
			t.Errorf("the fault of a request is %q, and then %q", x.what, y.what)
		}
	}
}

func TestMinimize(t *testing.T) {
	var list []int
	for i := range 100 {
		list = append(list, i)
	}
	got := minimize(list, func(rest []int) bool { return slices.Contains(rest, 17) && slices.Contains(rest, 80) })
	if want := []int{17, 80}; !reflect.DeepEqual(got, want) {
		t.Errorf("minimize() = %v, want %v", got, want)
	}
}
