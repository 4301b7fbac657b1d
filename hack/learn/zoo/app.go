// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// App is the kind that all controllers of the zoo reconcile.
type App struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   AppSpec   `json:"spec"`
	Status AppStatus `json:"status,omitzero"`
}

// AppSpec is the desired state of an App.
type AppSpec struct {
	Replicas  int32  `json:"replicas"`
	Config    string `json:"config"`
	ChildName string `json:"childName,omitempty"`
}

// AppStatus is what is known of an App. No controller uses all fields.
type AppStatus struct {
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	Phase              string `json:"phase,omitempty"`
	Reason             string `json:"reason,omitempty"`
	Child              string `json:"child,omitempty"`
}

// AppList is a list of Apps.
type AppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []App `json:"items"`
}

var appKind = schema.GroupVersionKind{Group: "zoo.example.com", Version: "v1", Kind: "App"}

func install(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(appKind.GroupVersion(), &App{}, &AppList{})
	metav1.AddToGroupVersion(scheme, appKind.GroupVersion())
	return nil
}

// DeepCopy returns a copy.
func (a *App) DeepCopy() *App {
	c := *a
	c.ObjectMeta = *a.ObjectMeta.DeepCopy()
	return &c
}

// DeepCopyObject implements runtime.Object.
func (a *App) DeepCopyObject() runtime.Object { return a.DeepCopy() }

// DeepCopyObject implements runtime.Object.
func (l *AppList) DeepCopyObject() runtime.Object {
	c := &AppList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for _, a := range l.Items {
		c.Items = append(c.Items, *a.DeepCopy())
	}
	return c
}

// finalizer is that of controllers that clean up.
const finalizer = "zoo.example.com/cleanup"

// newMeta returns the metadata of a child of an App.
func newMeta(app *App, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: app.Namespace, Name: name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(app, appKind)},
	}
}

// newConfigMap returns a child that has the App's configuration.
func newConfigMap(app *App, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: newMeta(app, name), Data: map[string]string{"config": app.Spec.Config}}
}

// newStatefulSet returns a child that has the App's replicas.
func newStatefulSet(app *App) *appsv1.StatefulSet {
	labels := map[string]string{"app": app.Name}
	return &appsv1.StatefulSet{ObjectMeta: newMeta(app, app.Name), Spec: appsv1.StatefulSetSpec{
		Replicas: new(app.Spec.Replicas), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
		},
	}}
}
