// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// TestTrials has trials of a controller that is right, of which some expect too much.
func TestTrials(t *testing.T) {
	widget, configMap := Refer(widgets.GroupResource(), "default", "a"), Refer(configMaps.GroupResource(), "default", "a")
	create := func(w *Walk) {
		o := &object{Object: map[string]any{"spec": map[string]any{"color": "red"}}}
		o.SetGroupVersionKind(widgets.GroupVersion().WithKind("Widget"))
		o.SetNamespace(widget.Namespace)
		o.SetName(widget.Name)
		w.Create(o)
	}
	hasColor := func(w *Walk, color string) func() bool {
		return func() bool { return text(w.Get(configMap), "data", "color") == color }
	}
	creates := func(r *apiserver.Request) bool { return r.Verb == "create" && r.Resource == configMap.GroupResource }
	paint := func(w *Walk, color string) {
		w.Change(widget, "paints", func(o *apiserver.Object) { SetField(o, "spec.color", color) })
	}
	for name, test := range map[string]struct {
		judged []Promise
		run    func(w *Walk)
		broken string // or nothing
		told   string
	}{
		"a promise that is kept": {nil, func(w *Walk) {
			create(w)
			w.Expect(time.Second, "there is no ConfigMap", hasColor(w, "red"))
			paint(w, "blue")
			w.Expect(time.Second, "it is not painted", hasColor(w, "blue"))
		}, "", "paints Widget a: color blue"},
		"a ConfigMap that is expected too soon": {nil, func(w *Walk) {
			w.Reject("nothing can be created", time.Minute, errInjected, creates)
			create(w)
			w.Expect(10*time.Second, "there is no ConfigMap", hasColor(w, "red"))
		}, "reconciled soon: after 10s, there is no ConfigMap", "for 1m0s, nothing can be created"},
		"too many requests": {nil, func(w *Walk) {
			since := time.Now()
			w.FailNext(3, "create", configMap.GroupResource, errInjected)
			create(w)
			w.Expect(time.Second, "there is no ConfigMap", hasColor(w, "red"))
			w.AtMost(3, since, "after three errors", creates)
		}, "bounded work: 4 requests in", "create configmaps a: Internal error occurred: injected"},
		"a promise that is not judged": {[]Promise{Soon}, func(w *Walk) { w.AtMost(-1, time.Now(), "", creates) }, "", ""},
		"a watch that is cut": {nil, func(w *Walk) {
			create(w)
			w.Expect(time.Second, "there is no ConfigMap", hasColor(w, "red"))
			w.Cut(w.Instance(0), configMap.GroupResource, 5*time.Second)
			w.Delete(configMap, metav1.DeletePropagationBackground)
			w.Expect(10*time.Second, "it is not created again", hasColor(w, "red"))
		}, "", "cuts the watch of configmaps of instance-1"},
		"an instance that is killed": {nil, func(w *Walk) {
			killed := w.Instance(0)
			w.Kill(killed)
			create(w)
			w.Expect(5*time.Second, "there is no ConfigMap", hasColor(w, "red"))
			w.Terminate(killed)
		}, "health: instance-1 has ended", "instance-2"},
		"what users cannot create": {[]Promise{}, func(w *Walk) { create(w); create(w) }, "the simulation: a user cannot create Widget a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := newTestTester(t, Config{Program: newWidgetController(nil)})
			story, broken := all.try(t, Trial{Name: name, Judged: test.judged, Run: test.run})
			got := ""
			if broken != nil {
				got = broken.String()
			}
			if (got == "") != (test.broken == "") || !strings.HasPrefix(got, test.broken) || !strings.HasSuffix(story, got) {
				t.Errorf("the broken promise is %q, want %q, at the end of the story:\n%s", got, test.broken, story)
			}
			if !strings.Contains(story, test.told) {
				t.Errorf("%q is not told:\n%s", test.told, story)
			}
		})
	}
}
