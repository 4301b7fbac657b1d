// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package foos

import (
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"k8s.io/sample-controller/hack/simulation/apiserver"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
)

// TestActions shows that each action has an effect sooner or later, and that the API server rejects none but for what is there.
func TestActions(t *testing.T) {
	raw, err := os.ReadFile("../../../artifacts/examples/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crds, err := apiserver.ReadYAML(raw)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := apiserver.NewRegistry(crds...)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		config := apiserver.New(registry, apiserver.Options{}).Connect("users", apiserver.Reliable{}).Config()
		u := Users{
			FooClient:        clientset.NewForConfigOrDie(config).SamplecontrollerV1alpha1().Foos(metav1.NamespaceDefault),
			DeploymentClient: kubernetes.NewForConfigOrDie(config).AppsV1().Deployments(metav1.NamespaceDefault),
		}
		random, done := rand.New(rand.NewPCG(1, 1)), map[string]bool{}
		for range 500 {
			action, target := Actions[random.IntN(len(Actions))], NewTarget(random)
			err := action.Do(t.Context(), u, target)
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
				t.Errorf("%s, %s: %v", action.Name, target, err)
			}
			done[action.Name] = done[action.Name] || err == nil
		}
		for _, action := range Actions {
			if !done[action.Name] {
				t.Errorf("%s has never had an effect", action.Name)
			}
		}
	})
}
