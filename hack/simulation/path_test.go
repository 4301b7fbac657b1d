// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// TestChosenNames compares clusters in which a status reports what the API server has chosen, which differs in each.
func TestChosenNames(t *testing.T) {
	all := newTestTester(t, Config{})
	newEnd := func(suffix, address, phase string) *walk {
		w := newWalk(all, script{})
		w.server = apiserver.New(w.registry, apiserver.Options{})
		pod, service, widget := newUnstructured("v1", "Pod", "a-"+suffix), newUnstructured("v1", "Service", "a"), newUnstructured("example.com/v1", "Widget", "a")
		pod.SetGenerateName("a-")
		service.Object["spec"] = map[string]any{"clusterIP": address}
		widget.SetUID(types.UID("uid-of-" + address))
		widget.Object["status"] = map[string]any{
			"pod": "default/a-" + suffix, "address": address + ":80", "phase": phase, "ref": map[string]any{"resourceVersion": suffix},
		}
		// The program has generated one name, and made another one of a UID.
		ofPod, ofWidget := newUnstructured("v1", "ConfigMap", "a-"+suffix+"-"+suffix), newUnstructured("v1", "ConfigMap", "of-"+string(widget.GetUID()))
		owners := []metav1.OwnerReference{{Kind: "Pod", Name: pod.GetName(), UID: pod.GetUID()}, {Kind: "Widget", Name: "a", UID: widget.GetUID()}}
		if suffix == "b4m9q" {
			slices.Reverse(owners)
		}
		ofPod.SetOwnerReferences(owners)
		daemonSet := newUnstructured("apps/v1", "DaemonSet", "a")
		daemonSet.SetAnnotations(map[string]string{appsv1.DeprecatedTemplateGeneration: suffix})
		for _, o := range []*object{pod, service, widget, ofPod, ofWidget, daemonSet} {
			w.objects[w.referenceTo(o)] = o
			for _, f := range fieldsOf(o) {
				w.set[fieldOf{w.referenceTo(o).GroupResource, f.name}] = true // The program has written all of it once.
			}
		}
		return w
	}
	walked := newEnd("x7k2p", "10.0.0.1", "Running")
	for phase, want := range map[string]string{
		"Running": "", "Failed": `widgets default/a: status.phase is "Running", and in a fresh cluster "Failed"`,
	} {
		if got, _ := walked.differsFrom(newEnd("b4m9q", "10.0.0.2", phase)); got != want {
			t.Errorf("the end differs: %q, want %q", got, want)
		}
	}
}

// TestFreshClusterIsPrepared has a program that reads a ConfigMap only when it starts: a fresh cluster has it before.
func TestFreshClusterIsPrepared(t *testing.T) {
	configMap := newUnstructured("v1", "ConfigMap", "configuration")
	w := newWalk(newTestTester(t, Config{Program: func(ctx context.Context, config *rest.Config) error {
		_, err := dynamic.NewForConfigOrDie(config).Resource(configMaps).Namespace("default").Get(ctx, configMap.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Errorf("it is not there at the start: %v", err)
		}
		<-ctx.Done()
		return nil
	}}), script{})
	w.others = []*object{configMap}
	w.inBubble(t)
}

// TestFromDifference shortens two texts so that one sees in what they differ.
func TestFromDifference(t *testing.T) {
	long := strings.Repeat("-", 1000)
	for _, test := range []struct{ a, b, wantA, wantB string }{
		{"a", "b", "a", "b"},
		{long[:30] + "a", long[:30], long[:30] + "a", long[:30]},
		{long + "a", long + "b", "..." + long[:20] + "a", "..." + long[:20] + "b"},
		{"a" + long, "", "a" + long[:maxText-1] + "...", ""},
	} {
		if a, b := fromDifference(test.a, test.b); a != test.wantA || b != test.wantB {
			t.Errorf("fromDifference() = %q, %q, want %q, %q", a, b, test.wantA, test.wantB)
		}
	}
}
