// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	listers "k8s.io/sample-controller/pkg/generated/listers/samplecontroller/v1alpha1"
)

var foo = &samplev1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "example-foo", UID: "foo-uid"}}

func deployment(changes ...func(*metav1.OwnerReference)) *appsv1.Deployment {
	owner := metav1.NewControllerRef(foo, FooKind)
	for _, change := range changes {
		change(owner)
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       "default",
			Name:            "example",
			OwnerReferences: []metav1.OwnerReference{*owner},
		},
	}
}

func TestFooOf(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*metav1.OwnerReference)
		want   bool
	}{
		"the Foo that controls a Deployment":     {func(*metav1.OwnerReference) {}, true},
		"a Foo of a newer version of the API":    {func(o *metav1.OwnerReference) { o.APIVersion = "samplecontroller.k8s.io/v1" }, true},
		"a Foo of another group":                 {func(o *metav1.OwnerReference) { o.APIVersion = "example.com/v1alpha1" }, false},
		"another kind":                           {func(o *metav1.OwnerReference) { o.Kind = "Bar" }, false},
		"a Foo that owns it without controlling": {func(o *metav1.OwnerReference) { o.Controller = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := FooOf(deployment(test.change)); (got != nil) != test.want {
				t.Errorf("FooOf() = %v, want one: %v", got, test.want)
			}
			if got := Controls(foo, deployment(test.change)); got != test.want {
				t.Errorf("Controls() = %v, want %v", got, test.want)
			}
			earlier := &samplev1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Name: foo.Name, UID: "earlier-uid"}}
			if Controls(earlier, deployment(test.change)) {
				t.Error("an earlier Foo of the same name controls it too")
			}
		})
	}
	if got := FooOf("not an object"); got != nil {
		t.Errorf("FooOf(a string) = %v", got)
	}
}

// cacheOf returns a cache with the given indexers, and objects.
func cacheOf(t *testing.T, indexers cache.Indexers, objects ...any) cache.Indexer {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)
	for _, object := range objects {
		if err := indexer.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return indexer
}

func TestControllingFoo(t *testing.T) {
	foos := listers.NewFooLister(cacheOf(t, FooIndexers, foo))
	for name, test := range map[string]struct {
		object any
		want   *samplev1alpha1.Foo
	}{
		"a Deployment of a Foo":        {deployment(), foo},
		"its tombstone":                {cache.DeletedFinalStateUnknown{Obj: deployment()}, foo},
		"a Deployment of nobody":       {&appsv1.Deployment{}, nil},
		"a Deployment of a Foo gone":   {deployment(func(o *metav1.OwnerReference) { o.Name = "gone" }), nil},
		"a Deployment of its namesake": {deployment(func(o *metav1.OwnerReference) { o.UID = "earlier-uid" }), nil},
		"no object":                    {"default/example", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ControllingFoo(foos, test.object); got != test.want {
				t.Errorf("ControllingFoo() = %v, want %v", got, test.want)
			}
		})
	}
}

func TestOtherDeployments(t *testing.T) {
	named := func(name string, changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
		d := deployment()
		d.Name = name
		for _, change := range changes {
			change(d)
		}
		return d
	}
	deployments := cacheOf(t, DeploymentIndexers, named("wanted"), named("earlier"),
		named("going", func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{} }),
		named("foreign", func(d *appsv1.Deployment) { d.OwnerReferences = nil }),
		named("namesakes", func(d *appsv1.Deployment) { d.OwnerReferences[0].UID = "earlier-uid" }),
		named("elsewhere", func(d *appsv1.Deployment) { d.Namespace = "elsewhere" }), named(foo.Name))
	for wanted, want := range map[string][]string{
		"wanted":  {"earlier", foo.Name},
		"earlier": {foo.Name, "wanted"},
		foo.Name:  {"earlier", "wanted"},
		"foreign": {"earlier", foo.Name, "wanted"},
	} {
		wanting := foo.DeepCopy()
		wanting.Spec.DeploymentName = wanted
		var got []string
		for _, deployment := range OtherDeployments(deployments, wanting) {
			got = append(got, deployment.Name)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("OtherDeployments() = %q if %q is wanted, want %q", got, wanted, want)
		}
	}
}

func TestWaitingFoos(t *testing.T) {
	wants := func(name, deploymentName, reason string) *samplev1alpha1.Foo {
		return &samplev1alpha1.Foo{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       samplev1alpha1.FooSpec{DeploymentName: deploymentName},
			Status: samplev1alpha1.FooStatus{Conditions: []metav1.Condition{
				{Type: samplev1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: reason},
			}},
		}
	}
	served := wants("served", "example", "")
	served.Status = samplev1alpha1.FooStatus{}
	foos := cacheOf(t, FooIndexers, served, wants("second", "example", "Taken"), wants("first", "example", "Taken"), wants("third", "other", "Taken"))
	for name, object := range map[string]any{
		"a Deployment":  &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "example"}},
		"its tombstone": cache.DeletedFinalStateUnknown{Key: "example"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, obj := range WaitingFoos(foos, object) {
				got = append(got, obj.(*samplev1alpha1.Foo).Name)
			}
			slices.Sort(got)
			if want := []string{"first", "second"}; !slices.Equal(got, want) {
				t.Errorf("WaitingFoos() = %q, want %q", got, want)
			}
		})
	}
	if got := WaitingFoos(foos, "no object"); got != nil {
		t.Errorf("WaitingFoos() of no object = %v", got)
	}
}
