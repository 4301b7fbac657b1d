// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// TestMetadata reads, lists, watches, patches and deletes with a client of metadata. TestSimulationIsTrue compares the responses with the real ones.
func TestMetadata(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
		created := c.create(labelled("a", "x"))
		client, err := metadata.NewForConfig(c.connection.Config())
		if err != nil {
			t.Fatal(err)
		}
		of := client.Resource(configMaps).Namespace("default")
		informer := metadatainformer.NewFilteredMetadataInformer(client, configMaps, "default", 0, cache.Indexers{}, nil).Informer()
		go informer.RunWithContext(c.ctx)
		if !cache.WaitForCacheSync(c.ctx.Done(), informer.HasSynced) {
			t.Fatal("the cache does not sync")
		}
		want := metav1.ObjectMeta{
			Name: "a", Namespace: "default", UID: created.GetUID(), ResourceVersion: created.GetResourceVersion(), Labels: created.GetLabels(),
			CreationTimestamp: created.GetCreationTimestamp(), ManagedFields: created.GetManagedFields(),
		}
		expect := func(how string, got any, err error) {
			t.Helper()
			if partial, ok := got.(*metav1.PartialObjectMetadata); err != nil || !ok || !equality.Semantic.DeepEqual(partial.ObjectMeta, want) {
				t.Errorf("%s: %v, %v, want %v", how, got, err, want)
			}
		}
		got, err := of.Get(c.ctx, "a", metav1.GetOptions{})
		expect("a read", got, err)
		list, err := of.List(c.ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("a list: %v, %v", list, err)
		}
		expect("a list", &list.Items[0], nil)
		cached, _, err := informer.GetStore().GetByKey("default/a")
		expect("a watch that begins", cached, err)
		got, err = of.Patch(c.ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"l":"new"}}}`), metav1.PatchOptions{})
		if err != nil || got.Labels["l"] != "new" {
			t.Fatalf("a patch: %v, %v", got, err)
		}
		want = got.ObjectMeta
		advance(latency)
		cached, _, err = informer.GetStore().GetByKey("default/a")
		expect("a watch", cached, err)
		if err := of.Delete(c.ctx, "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		advance(latency)
		if left := informer.GetStore().List(); len(left) > 0 {
			t.Errorf("after the deletion, the cache has %v", left)
		}
	})
}
