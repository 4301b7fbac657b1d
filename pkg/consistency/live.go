// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package consistency

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"
)

// EnsureCurrent reads a Foo live. It returns an error that wraps ErrStale if the API server has another Foo of the name, or another spec,
// than the cache. The generations may be equal even so, if etcd was restored from an older snapshot.
func EnsureCurrent(ctx context.Context, client clientset.Interface, foo *samplev1alpha1.Foo) error {
	live, err := client.SamplecontrollerV1alpha1().Foos(foo.Namespace).Get(ctx, foo.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if live.UID != foo.UID || !equality.Semantic.DeepEqual(live.Spec, foo.Spec) || live.DeletionTimestamp != nil {
		return fmt.Errorf("%w: Foo %q has changed", ErrStale, foo.Name)
	}
	return nil
}

// MergePatch returns the strategic merge patch from current to desired. It carries the resourceVersion of current, so that the API
// server answers with a conflict if the Deployment has changed since. Fields that this version of the Go types does not have survive.
func MergePatch(current, desired *appsv1.Deployment) ([]byte, error) {
	unversioned := current.DeepCopy()
	unversioned.ResourceVersion = ""
	before, err := json.Marshal(unversioned)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(desired)
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(before, after, appsv1.Deployment{})
}
