// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/workqueue"
)

var (
	widgets    = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// widgetController is a controller that gives each Widget a ConfigMap of its name. Its functions can be replaced by wrong ones.
type widgetController struct {
	widgets, configMaps dynamic.ResourceInterface
	widgetStore         cache.Store
	configMapStore      cache.Store
	queue               workqueue.TypedRateLimitingInterface[string]
	order               workqueue.Queue[string] // of the queue: first in, first out if it is nil

	resync                                   time.Duration
	byName                                   bool // It takes what belongs to a former Widget of the same name for its own.
	elects, writesAsStandby, ignoresDeletion bool
	leaseDuration                            time.Duration
	releases                                 bool // It releases the Lease when it is terminated, whatever runs.
	lingers                                  time.Duration
	transition                               string // of each condition, instead of when it has changed
	syncStatus                               func(c *widgetController, ctx context.Context, widget, configMap *object) error
	syncContent                              func(c *widgetController, ctx context.Context, widget, configMap *object) (*object, error)
	retry                                    func(c *widgetController, key string)
	forget                                   func(c *widgetController, key string)
	onAddition, onDeletion                   func(c *widgetController, obj any)
	onChange                                 func(c *widgetController, old, obj any)
}

// newWidgetController returns a controller that is right, but for what change does.
func newWidgetController(change func(c *widgetController)) Program {
	return func(ctx context.Context, config *rest.Config) error {
		client := dynamic.NewForConfigOrDie(config)
		c := &widgetController{
			widgets: client.Resource(widgets).Namespace("default"), configMaps: client.Resource(configMaps).Namespace("default"),
			resync: 4 * time.Minute, leaseDuration: 15 * time.Second, syncStatus: (*widgetController).reportReady, syncContent: (*widgetController).createOrUpdate,
			retry:      func(c *widgetController, key string) { c.queue.AddRateLimited(key) },
			forget:     func(c *widgetController, key string) { c.queue.Forget(key) },
			onAddition: (*widgetController).enqueue, onChange: (*widgetController).enqueueChange, onDeletion: (*widgetController).enqueue,
		}
		if change != nil {
			change(c)
		}
		return c.run(ctx, config, client)
	}
}

func (c *widgetController) run(ctx context.Context, config *rest.Config, client dynamic.Interface) error {
	defer func() { time.Sleep(c.lingers) }()
	informers := dynamicinformer.NewDynamicSharedInformerFactory(client, c.resync)
	c.queue = workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(
			workqueue.TypedDelayingQueueConfig[string]{Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: c.order})})})
	context.AfterFunc(ctx, c.queue.ShutDown)
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.onAddition(c, obj) }, UpdateFunc: func(old, obj any) { c.onChange(c, old, obj) },
		DeleteFunc: func(obj any) { c.onDeletion(c, obj) },
	}
	var synced []cache.InformerSynced
	for _, resource := range []schema.GroupVersionResource{widgets, configMaps} {
		informer := informers.ForResource(resource).Informer()
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return err
		}
		synced = append(synced, registration.HasSynced)
		go informer.RunWithContext(ctx)
	}
	c.widgetStore, c.configMapStore = informers.ForResource(widgets).Informer().GetStore(), informers.ForResource(configMaps).Informer().GetStore()
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	if !c.elects {
		c.work(ctx)
		return nil
	}
	if c.writesAsStandby {
		go c.work(ctx)
	}
	return c.lead(ctx, config)
}

// enqueueChange does not enqueue a change of the status of a Widget. A resync has the same object twice.
func (c *widgetController) enqueueChange(old, obj any) {
	before, after := old.(*object), obj.(*object)
	isSame := before.GetResourceVersion() == after.GetResourceVersion()
	if isSame || after.GetKind() != "Widget" || before.GetGeneration() != after.GetGeneration() {
		c.enqueue(obj)
	}
}

// stack is the order of a queue that hands out first what was added last.
type stack []string

func (s *stack) Push(item string) { *s = append(*s, item) }
func (s *stack) Len() int         { return len(*s) }
func (s *stack) Touch(item string) {
	*s = append(slices.DeleteFunc(*s, func(other string) bool { return other == item }), item)
}
func (s *stack) Pop() string {
	last := len(*s) - 1
	defer func() { *s = (*s)[:last] }()
	return (*s)[last]
}

// enqueueLate enqueues what was changed a minute later.
func (c *widgetController) enqueueLate(_, obj any) {
	c.queue.AddAfter(obj.(*object).GetName(), time.Minute)
}

func (c *widgetController) enqueue(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	c.queue.Add(obj.(*object).GetName())
}

func (c *widgetController) lead(ctx context.Context, config *rest.Config) error {
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "widgets"}, Client: kubernetes.NewForConfigOrDie(config).CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: config.UserAgent},
	}
	lost := false
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, ReleaseOnCancel: c.releases,
		LeaseDuration: c.leaseDuration, RenewDeadline: c.leaseDuration * 2 / 3, RetryPeriod: c.leaseDuration * 2 / 15,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(ctx context.Context) { c.work(context.WithoutCancel(ctx)) }, OnStoppedLeading: func() { lost = true }},
	})
	if lost && ctx.Err() == nil {
		return errors.New("the Lease is lost")
	}
	return nil
}

func (c *widgetController) work(ctx context.Context) {
	for {
		key, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		if err := c.sync(ctx, key); err != nil {
			c.retry(c, key)
		} else {
			c.forget(c, key)
		}
		c.queue.Done(key)
	}
}

func (c *widgetController) sync(ctx context.Context, name string) error {
	key := "default/" + name
	widget, configMap := get(c.widgetStore, key), get(c.configMapStore, key)
	if widget == nil || widget.GetDeletionTimestamp() != nil && !c.ignoresDeletion {
		return nil
	}
	configMap, err := c.syncContent(c, ctx, widget, configMap)
	if err != nil {
		configMap = nil
	}
	return errors.Join(err, c.syncStatus(c, ctx, widget, configMap))
}

func get(store cache.Store, key string) *object {
	if obj, exists, err := store.GetByKey(key); err == nil && exists {
		return obj.(*object)
	}
	return nil
}

// createOrUpdate returns the ConfigMap of a Widget, or nil if there is none.
func (c *widgetController) createOrUpdate(ctx context.Context, widget, configMap *object) (*object, error) {
	if configMap == nil {
		return c.configMaps.Create(ctx, newConfigMap(widget), metav1.CreateOptions{})
	}
	if !metav1.IsControlledBy(configMap, widget) && !c.byName {
		return nil, nil
	}
	if value(configMap, "data", "color") == value(widget, "spec", "color") {
		return configMap, nil
	}
	changed := configMap.DeepCopy()
	setField(changed, value(widget, "spec", "color"), "data", "color")
	return c.configMaps.Update(ctx, changed, metav1.UpdateOptions{})
}

func newConfigMap(widget *object) *object {
	configMap := &object{Object: map[string]any{"data": map[string]any{"color": value(widget, "spec", "color")}}}
	configMap.SetAPIVersion("v1")
	configMap.SetKind("ConfigMap")
	configMap.SetName(widget.GetName())
	configMap.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(widget, widgets.GroupVersion().WithKind("Widget"))})
	return configMap
}

// reportReady reports whether a Widget has its ConfigMap.
func (c *widgetController) reportReady(ctx context.Context, widget, configMap *object) error {
	changed := widget.DeepCopy()
	status := "False"
	if configMap != nil {
		status = "True"
	}
	transition := time.Now().UTC().Format(time.RFC3339)
	if last := conditionsOf(widget)["Ready"]; last["status"] == status {
		transition, _ = last["lastTransitionTime"].(string)
	}
	if c.transition != "" {
		transition = c.transition
	}
	changed.Object["status"] = map[string]any{"observedGeneration": widget.GetGeneration(), "conditions": []any{
		map[string]any{"type": "Ready", "status": status, "lastTransitionTime": transition},
	}}
	if equality.Semantic.DeepEqual(changed, widget) {
		return nil
	}
	_, err := c.widgets.UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	return err
}
