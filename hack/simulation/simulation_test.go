// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"

	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
)

func TestScriptFollowsFromSeed(t *testing.T) {
	steps := newScript(1).steps
	if again := newScript(1).steps; !slices.Equal(again, steps) {
		t.Errorf("the steps are %v, and then %v", steps, again)
	}
	if slices.Equal(newScript(2).steps, steps) {
		t.Errorf("two seeds have the same steps: %v", steps)
	}
	for n := range 1000 {
		id, r := fmt.Sprint("request ", n), &Request{Verb: "get", Resource: foos}
		if a, b := newScript(1).requestFault(id, r), newScript(1).requestFault(id, r); a.what != b.what {
			t.Errorf("the fault of a request is %q, and then %q", a.what, b.what)
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

// TestBrokenPromises has programs that are no controllers, and verifies which promise they are found to break.
func TestBrokenPromises(t *testing.T) {
	writing := func(ctx context.Context, config *rest.Config) error {
		client := clientset.NewForConfigOrDie(config).SamplecontrollerV1alpha1().Foos("default")
		foo, err := client.Get(ctx, "foo-0", metav1.GetOptions{})
		if err == nil {
			_, err = client.UpdateStatus(ctx, foo, metav1.UpdateOptions{})
		}
		<-ctx.Done()
		return err
	}
	reporting := func(ctx context.Context, _ *rest.Config) error {
		utilruntime.HandleErrorWithContext(ctx, errors.New("failed"), "This must not block")
		return errors.New("failed")
	}
	for name, test := range map[string]struct {
		program Program
		want    string
	}{
		"ends":                {func(context.Context, *rest.Config) error { return nil }, "health: instance-1 ends with the error <nil>"},
		"reports an error":    {reporting, "health: instance-1 ends with the error failed"},
		"does nothing":        {func(ctx context.Context, _ *rest.Config) error { <-ctx.Done(); return nil }, "how soon: 1s after the last action or fault Foo foo-0 has no"},
		"writes as a standby": {writing, "who writes: instance-1 knows since"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWalk(script{}, test.program)
			w.isTrial = true
			w.inBubble(t, 1, func() {
				w.act("create", 0, 0)
				w.waitUntilReconciled(soon)
			})
			if w.violation == nil || !strings.HasPrefix(w.violation.String(), test.want) {
				t.Errorf("the broken promise is %v, want %s", w.violation, test.want)
			}
			if tale := w.tale(); !strings.HasSuffix(tale, w.violation.String()) {
				t.Errorf("the story is:\n%s", tale)
			}
		})
	}
}
