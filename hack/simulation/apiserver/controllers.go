// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Controller is a built-in controller. Its value is the name of its client as well.
type Controller string

// The built-in controllers. Those of workloads set the status as if the Pods were there, and create Pods as soon as a client asks for some. A Rule
// that rejects the creation of a Pod by the client of such a controller, with the name of the workload, lets its rollout stand still.
const (
	DeploymentController  Controller = "deployment-controller"
	ReplicaSetController  Controller = "replicaset-controller"
	StatefulSetController Controller = "statefulset-controller"
	DaemonSetController   Controller = "daemonset-controller"
	JobController         Controller = "job-controller"
	Kubelet               Controller = "kubelet" // It runs Pods, and the scheduler is part of it.
	GarbageCollector      Controller = "garbage-collector"
	NamespaceController   Controller = "namespace-controller"
)

// The resources that the API server and the built-in controllers know something special of.
var (
	namespaces   = schema.GroupResource{Resource: "namespaces"}
	services     = schema.GroupResource{Resource: "services"}
	claims       = schema.GroupResource{Resource: "persistentvolumeclaims"}
	pods         = schema.GroupResource{Resource: "pods"}
	deployments  = schema.GroupResource{Group: "apps", Resource: "deployments"}
	replicaSets  = schema.GroupResource{Group: "apps", Resource: "replicasets"}
	statefulSets = schema.GroupResource{Group: "apps", Resource: "statefulsets"}
	daemonSets   = schema.GroupResource{Group: "apps", Resource: "daemonsets"}
	jobs         = schema.GroupResource{Group: "batch", Resource: "jobs"}
)

// systemNamespaces are those that each cluster has.
var systemNamespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// reconciler does what a built-in controller does about an object. It returns after which time it has to do more, or 0.
type reconciler func(c Client, o *Object) (again time.Duration, err error)

// reconcilers are those that look at one object of a resource at a time.
var reconcilers = map[Controller]struct {
	resource  schema.GroupResource
	reconcile reconciler
}{
	DeploymentController:  {deployments, rollOut},
	ReplicaSetController:  {replicaSets, rollOut},
	StatefulSetController: {statefulSets, rollOut},
	DaemonSetController:   {daemonSets, rollOut},
	JobController:         {jobs, runJob},
	Kubelet:               {pods, runPod},
	NamespaceController:   {namespaces, emptyNamespace},
}

// reconcileDelay is how long a built-in controller takes to notice a change. It tries again what has failed after reconcileRetry at least, and
// after twice the time each time, up to maxReconcileRetry.
const reconcileDelay, reconcileRetry, maxReconcileRetry = 80 * time.Millisecond, time.Second, 30 * time.Second

// retryAfter returns when what has failed is tried again that was last delayed by a time.
func retryAfter(delay time.Duration) time.Duration {
	return min(max(reconcileRetry, 2*delay), maxReconcileRetry)
}

// builtInControllers is an Observer that calls the built-in controllers.
type builtInControllers struct {
	server     *Server
	running    map[schema.GroupResource]Controller
	collects   bool
	collecting bool // A collection is due.

	lock              sync.Mutex                // It guards the rest.
	again             map[types.UID]*time.Timer // when an object is reconciled again without a change
	collectRetry      *time.Timer
	collectRetryDelay time.Duration
}

// startControllers starts the built-in controllers, and creates the namespaces of a new cluster.
func (s *Server) startControllers() {
	b := &builtInControllers{server: s, running: map[schema.GroupResource]Controller{}, again: map[types.UID]*time.Timer{}}
	for name, of := range reconcilers {
		if !slices.Contains(s.options.Without, name) {
			b.running[of.resource] = name
		}
	}
	b.collects = !slices.Contains(s.options.Without, GarbageCollector)
	s.Observe(b)
	s.controllers = b
	for _, name := range systemNamespaces {
		namespace := newObject(corev1.SchemeGroupVersion.WithKind("Namespace"))
		namespace.SetName(name)
		if _, err := s.Client("kube-apiserver").Create(namespace); err != nil {
			panic(err) // It is the first object of that name.
		}
	}
}

// Failed implements Observer.
func (b *builtInControllers) Failed(*Request, *Object, error) {}

// Committed implements Observer.
func (b *builtInControllers) Committed(c *Change) {
	if name, runs := b.running[c.Request.Resource]; runs && c.Type != watch.Deleted {
		b.schedule(name, c.New, reconcileDelay)
	}
	if c.Request.Resource == pods {
		b.scheduleOwner(c.New)
		if c.Old != nil && metav1.GetControllerOfNoCopy(c.New) == nil {
			b.scheduleOwner(c.Old)
		}
	}
	if c.Type == watch.Deleted {
		delete(b.server.templates, c.New.GetUID())
	}
	if b.collects && !b.collecting && c.Request.Subresource != "status" && isManaged(c.Request.Resource) {
		b.collecting = true
		time.AfterFunc(collectDelay, b.collect)
	}
}

// HasPods reports whether a built-in controller creates Pods for the objects of a resource, once a client asks for some.
func (s *Server) HasPods(resource schema.GroupResource) bool {
	_, runs := s.controllers.running[resource]
	return runs && resource != pods && resource != namespaces
}

// schedule reconciles an object after a while.
func (b *builtInControllers) schedule(name Controller, o *Object, after time.Duration) *time.Timer {
	return time.AfterFunc(after, func() {
		client := b.server.Client(string(name))
		found := client.Get(reconcilers[name].resource, o.GetNamespace(), o.GetName())
		if found == nil {
			return
		}
		again, err := reconcilers[name].reconcile(client, found)
		if err != nil && !apierrors.IsConflict(err) { // A conflict comes from another change, which calls it again.
			again = retryAfter(after)
		}
		if again == 0 {
			return
		}
		b.lock.Lock()
		defer b.lock.Unlock()
		if timer := b.again[o.GetUID()]; timer != nil {
			timer.Stop() // However often the object has changed, it is reconciled again once.
		}
		b.again[o.GetUID()] = b.schedule(name, o, again)
	})
}
