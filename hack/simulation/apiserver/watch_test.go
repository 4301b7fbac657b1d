// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// labelled is a ConfigMap with a name and a label.
func labelled(name, label string) string {
	return strings.NewReplacer("name: a", "name: "+name, "{l: a}", "{l: "+label+"}").Replace(configMap)
}

func TestList(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		c.create(`{apiVersion: v1, kind: Namespace, metadata: {name: other}}`)
		for _, name := range []string{"c", "a", "b"} {
			c.create(labelled(name, name))
		}
		c.create(strings.Replace(configMap, "namespace: default", "namespace: other", 1))
		before := fmt.Sprint(c.ResourceVersion())
		c.create(labelled("d", "d"))
		c.create(strings.Replace(widget, "red", "blue", 1))
		for _, test := range []struct {
			of      string
			options metav1.ListOptions
			want    string
			reason  metav1.StatusReason
		}{
			{configMap, metav1.ListOptions{}, "a b c d", ""},
			{configMap, metav1.ListOptions{LabelSelector: "l in (a, c)"}, "a c", ""},
			{configMap, metav1.ListOptions{LabelSelector: "l in ("}, "", metav1.StatusReasonBadRequest},
			{configMap, metav1.ListOptions{FieldSelector: "metadata.name!=a"}, "b c d", ""},
			{configMap, metav1.ListOptions{FieldSelector: "data.k=v"}, "", metav1.StatusReasonBadRequest},
			{widget, metav1.ListOptions{FieldSelector: "spec.color=blue"}, "a", ""},
			{widget, metav1.ListOptions{FieldSelector: "spec.color=red"}, "", ""},
			{widget, metav1.ListOptions{FieldSelector: "spec.size=1"}, "", metav1.StatusReasonBadRequest},
			{pod, metav1.ListOptions{FieldSelector: "spec.nodeName="}, "", ""},
			{configMap, metav1.ListOptions{ResourceVersion: before, ResourceVersionMatch: "Exact"}, "a b c", ""},
			{configMap, metav1.ListOptions{ResourceVersion: before, ResourceVersionMatch: "NotOlderThan"}, "a b c d", ""},
			{configMap, metav1.ListOptions{ResourceVersionMatch: "Exact"}, "", metav1.StatusReasonInvalid},
			{configMap, metav1.ListOptions{ResourceVersion: "1", ResourceVersionMatch: "Exact"}, "", metav1.StatusReasonExpired},
			{configMap, metav1.ListOptions{ResourceVersion: "9999"}, "", metav1.StatusReasonTimeout},
		} {
			list, err := c.of(object(t, test.of)).List(c.ctx, test.options)
			expectError(t, err, test.reason, "")
			var names []string
			if err == nil {
				for _, item := range list.Items {
					names = append(names, item.GetName())
				}
			}
			if got := strings.Join(names, " "); got != test.want {
				t.Errorf("%+v lists %q, want %q", test.options, got, test.want)
			}
		}
		all, err := c.kube.CoreV1().ConfigMaps("").List(c.ctx, metav1.ListOptions{})
		if err != nil || len(all.Items) != 5 {
			t.Errorf("there are %d, %v", len(all.Items), err)
		}
	})
}

// TestPages has a list in pages: all of them show the state of the first.
func TestPages(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		for _, name := range []string{"a", "b", "c"} {
			c.create(labelled(name, name))
		}
		maps := c.kube.CoreV1().ConfigMaps("default")
		first, err := maps.List(c.ctx, metav1.ListOptions{Limit: 2})
		if err != nil || len(first.Items) != 2 || first.Continue == "" {
			t.Fatalf("the first page is %v, %v", first, err)
		}
		if n := first.RemainingItemCount; n == nil || *n != 1 {
			t.Errorf("%v remain", n)
		}
		if err := maps.Delete(c.ctx, "c", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		second, err := maps.List(c.ctx, metav1.ListOptions{Limit: 2, Continue: first.Continue})
		if err != nil || len(second.Items) != 1 || second.Items[0].Name != "c" || second.Continue != "" || second.ResourceVersion != first.ResourceVersion {
			t.Errorf("the second page is %v, %v", second, err)
		}
		c.Compact()
		_, err = maps.List(c.ctx, metav1.ListOptions{Limit: 2, Continue: first.Continue})
		expectError(t, err, metav1.StatusReasonExpired, "")
		_, err = maps.List(c.ctx, metav1.ListOptions{Continue: "x"})
		expectError(t, err, metav1.StatusReasonBadRequest, "")
	})
}

// watching returns the events that a watch of ConfigMaps has seen, once all waits.
func (c *cluster) watching(options metav1.ListOptions) (seen func() string, stop func()) {
	c.Helper()
	w, err := c.kube.CoreV1().ConfigMaps("default").Watch(c.ctx, options)
	if err != nil {
		c.Fatal(err)
	}
	var lock sync.Mutex
	var events []string
	isOver := make(chan struct{})
	go func() {
		defer close(isOver)
		for event := range w.ResultChan() {
			name := ""
			if o, ok := event.Object.(*corev1.ConfigMap); ok {
				name = o.Name
				if event.Type == watch.Bookmark {
					name = o.ResourceVersion
				}
			}
			lock.Lock()
			events = append(events, strings.TrimSpace(string(event.Type)+" "+name))
			lock.Unlock()
		}
	}()
	return func() string {
		synctest.Wait()
		lock.Lock()
		defer lock.Unlock()
		return strings.Join(events, ", ")
	}, func() { w.Stop(); <-isOver }
}

func TestWatch(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		a := c.create(labelled("a", "a"))
		version := a.GetResourceVersion()
		b := c.create(labelled("b", "b"))
		initial := metav1.ListOptions{SendInitialEvents: new(true), ResourceVersionMatch: "NotOlderThan", AllowWatchBookmarks: true}
		options := []metav1.ListOptions{
			initial, {}, {ResourceVersion: version}, {LabelSelector: "l=a", ResourceVersion: version}, {FieldSelector: "metadata.name=b"},
			{ResourceVersion: "1"},
		}
		var watches []func() string
		for _, o := range options {
			seen, stop := c.watching(o)
			defer stop()
			watches = append(watches, seen)
			advance(latency)
		}
		_, err := c.kube.CoreV1().ConfigMaps("default").Watch(c.ctx, metav1.ListOptions{ResourceVersion: "9999"})
		expectError(t, err, metav1.StatusReasonTimeout, "Too large resource version: 9999, current: ")
		_, err = c.kube.CoreV1().ConfigMaps("default").Watch(c.ctx, metav1.ListOptions{SendInitialEvents: new(true)})
		expectError(t, err, metav1.StatusReasonInvalid, "sendInitialEvents requires")
		other := c.create(widget)
		c.merge(b, "metadata: {labels: {l: a}}")
		c.merge(a, "metadata: {labels: {l: c}}")
		c.merge(a, "data: {x: z}")
		if err := c.of(b).Delete(c.ctx, "b", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		advance(time.Second)
		for i, want := range []string{
			"ADDED a, ADDED b, BOOKMARK " + b.GetResourceVersion() + ", MODIFIED b, MODIFIED a, MODIFIED a, DELETED b",
			"ADDED a, ADDED b, MODIFIED b, MODIFIED a, MODIFIED a, DELETED b",
			"ADDED b, MODIFIED b, MODIFIED a, MODIFIED a, DELETED b",
			"ADDED b, DELETED a, DELETED b",
			"ADDED b, MODIFIED b, DELETED b",
			"ERROR",
		} {
			if got := watches[i](); got != want {
				t.Errorf("the watch %+v sees %q, want %q", options[i], got, want)
			}
		}
		c.merge(other, "spec: {size: 3}") // Watches of ConfigMaps do not see that.
		advance(bookmarkInterval)
		if got, want := watches[0](), fmt.Sprint("DELETED b, BOOKMARK ", c.ResourceVersion()); !strings.HasSuffix(got, want) {
			t.Errorf("a minute later, the watch has seen %q", got)
		}
	})
}

// TestWatchEnds shows that a watch ends when it times out, and when the client stops it.
func TestWatchEnds(t *testing.T) {
	network := &recorder{}
	inCluster(t, Options{}, network, func(c *cluster) {
		_, stop := c.watching(metav1.ListOptions{})
		stop()
		synctest.Wait()
		_, stop = c.watching(metav1.ListOptions{TimeoutSeconds: new(int64(60))})
		advance(time.Minute + time.Second)
		if n := network.ended.Load(); n != 2 {
			t.Errorf("%d watches have ended", n)
		}
		stop()
	})
}

// TestHeldWatch has a watch that stands still for a while, with the events in their order later.
func TestHeldWatch(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		seen, stop := c.watching(metav1.ListOptions{})
		defer stop()
		c.connection.Hold(deployments, time.Minute)
		c.create(labelled("a", "a"))
		advance(time.Second)
		if got := seen(); got != "ADDED a" {
			t.Errorf("while another watch is held, this one sees %q", got)
		}
		c.connection.Hold(configMaps, time.Minute)
		for _, name := range []string{"b", "c"} {
			c.create(labelled(name, name))
		}
		advance(50 * time.Second)
		if got := seen(); got != "ADDED a" {
			t.Errorf("a held watch sees %q", got)
		}
		advance(20 * time.Second)
		if got := seen(); got != "ADDED a, ADDED b, ADDED c" {
			t.Errorf("a watch that was held sees %q", got)
		}
		c.connection.Hold(AllResources, time.Hour)
		go func() {
			advance(time.Minute)
			c.connection.Heal()
		}()
		if start := time.Now(); c.create(labelled("d", "d")) != nil && time.Since(start) < time.Minute || time.Since(start) > time.Minute+100*time.Millisecond {
			t.Errorf("a request on a network that stood still took %s", time.Since(start))
		}
	})
}

// TestCutWatch has a watch that is cut: for a while, no other one begins.
func TestCutWatch(t *testing.T) {
	network := &recorder{}
	inCluster(t, Options{}, network, func(c *cluster) {
		_, stop := c.watching(metav1.ListOptions{})
		c.connection.CutWatches(deployments, time.Minute)
		advance(time.Second)
		if n := network.ended.Load(); n != 0 {
			t.Error("another watch was cut")
		}
		c.connection.CutWatches(configMaps, time.Minute)
		stop()
		for _, want := range []string{"", "ADDED a"} {
			seen, stop := c.watching(metav1.ListOptions{}) // Its client takes a broken connection for its end.
			if want == "" {
				c.create(configMap)
			}
			advance(time.Minute)
			if got := seen(); got != want {
				t.Errorf("it sees %q, want %q", got, want)
			}
			stop()
		}
	})
}

// TestExpiredWatch has a watch from a resourceVersion that is forgotten: its only event is an error, which the network is told as well.
func TestExpiredWatch(t *testing.T) {
	network := &recorder{}
	inCluster(t, Options{}, network, func(c *cluster) {
		version := c.create(configMap).GetResourceVersion()
		c.create(labelled("b", "b"))
		c.Compact()
		seen, stop := c.watching(metav1.ListOptions{ResourceVersion: version})
		defer stop()
		advance(time.Second)
		if got := seen(); got != "ERROR" {
			t.Errorf("it has seen %q", got)
		}
		if want := []string{"configmaps ERROR Expired"}; !slices.Equal(network.events, want) || network.ended.Load() != 1 {
			t.Errorf("the network was told %q, want %q, and that %d watches have ended", network.events, want, network.ended.Load())
		}
	})
}

// TestInformer has an informer: whatever happens to its watches, it knows all objects in the end.
func TestInformer(t *testing.T) {
	for name, happens := range map[string]func(c *cluster){
		"nothing":   func(*cluster) {},
		"cut":       func(c *cluster) { c.connection.CutWatches(configMaps, 10*time.Second) },
		"compacted": func(c *cluster) { c.connection.CutWatches(AllResources, time.Second); c.Compact() },
		"held":      func(c *cluster) { c.connection.Hold(configMaps, time.Minute) },
		"frozen":    func(c *cluster) { c.connection.Hold(AllResources, time.Minute) },
		"stale": func(c *cluster) {
			c.connection.Stale(configMaps, 1)
			c.connection.CutWatches(configMaps, 0)
			c.Compact()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, Options{}, Reliable{}, func(c *cluster) {
				factory := informers.NewSharedInformerFactory(c.kube, 0)
				lister := factory.Core().V1().ConfigMaps().Lister()
				stop := make(chan struct{})
				c.create(labelled("a", "a"))
				factory.Start(stop)
				factory.WaitForCacheSync(stop)
				happens(c)
				user := c.Client("user")
				if err := user.Delete(object(t, configMap), metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
				if _, err := user.Create(object(t, labelled("b", "b"))); err != nil {
					t.Error(err)
				}
				advance(5 * time.Minute)
				_, err := lister.ConfigMaps("default").Get("a")
				expectError(t, err, metav1.StatusReasonNotFound, "")
				_, err = lister.ConfigMaps("default").Get("b")
				expectError(t, err, "", "")
				close(stop)
				factory.Shutdown()
			})
		})
	}
}

// TestStaleList has an informer that begins with an old state.
func TestStaleList(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		o := c.create(configMap)
		version, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		c.merge(o, "data: {k: w}")
		c.create(pod) // Whatever happens to other resources.
		c.connection.Stale(configMaps, version)
		factory := informers.NewSharedInformerFactory(c.kube, 0)
		var seen []string
		note := func(o any) { seen = append(seen, o.(*corev1.ConfigMap).Data["k"]) }
		_, err = factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: note, UpdateFunc: func(_, o any) { note(o) },
		})
		if err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		factory.Start(stop)
		advance(time.Second)
		synctest.Wait()
		for n, test := range []struct {
			isStale       bool
			version, want string
		}{{false, "0", "w"}, {true, "0", "v"}, {false, "0", "w"}, {true, "", "w"}, {false, "0", "w"}} {
			if test.isStale {
				c.connection.Stale(configMaps, version)
				_, err := c.of(o).Watch(c.ctx, metav1.ListOptions{
					SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
				})
				expectError(t, err, metav1.StatusReasonInvalid, "unless the WatchList feature gate is enabled")
			}
			list, err := c.of(o).List(c.ctx, metav1.ListOptions{ResourceVersion: test.version})
			if err != nil || text(&list.Items[0], "data", "k") != test.want {
				t.Errorf("list %d is %v, %v", n, list, err)
			}
		}
		if !slices.Equal(seen, []string{"v", "w"}) {
			t.Errorf("it has seen %q", seen)
		}
		close(stop)
		factory.Shutdown()
	})
}

// recorder is a network that knows what it was told, and delays events.
type recorder struct {
	Reliable
	lag    time.Duration
	events []string
	ended  atomic.Int32
}

func (r *recorder) Lag(*Request, watch.EventType, *Object) time.Duration { return r.lag }

func (r *recorder) Event(w *Request, event watch.EventType, o *Object) {
	r.events = append(r.events, fmt.Sprint(w.Resource, " ", event, " ", o.GetName()+text(o, "reason")))
}

func (r *recorder) Ended(*Request) { r.ended.Add(1) }

func TestLag(t *testing.T) {
	network := &recorder{lag: time.Minute}
	inCluster(t, Options{}, network, func(c *cluster) {
		seen, stop := c.watching(metav1.ListOptions{})
		defer stop()
		for _, name := range []string{"a", "b"} {
			c.create(labelled(name, name))
		}
		advance(90 * time.Second)
		if got := seen(); got != "ADDED a" {
			t.Errorf("after 90 s it has seen %q", got)
		}
		advance(time.Minute)
		if got := seen(); got != "ADDED a, ADDED b" {
			t.Errorf("after 150 s it has seen %q", got)
		}
		if want := []string{"configmaps ADDED a", "configmaps ADDED b"}; !slices.Equal(network.events, want) {
			t.Errorf("the network was told %q, want %q", network.events, want)
		}
	})
}
