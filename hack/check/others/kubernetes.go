// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package others runs controllers that others wrote, as their main functions do, for walks in the simulation.
package others

import (
	"context"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/ttlafterfinished"
)

// resync is the resync period of informers. In kube-controller-manager it is 12 to 24 hours.
const resync = 4 * time.Minute

// workers is how many workers a controller has, as in kube-controller-manager.
const workers = 5

// TTLAfterFinished runs the controller that deletes Jobs some time after they have finished.
func TTLAfterFinished(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, resync)
	controller := ttlafterfinished.New(ctx, factory.Batch().V1().Jobs(), client)
	factory.StartWithContext(ctx)
	controller.Run(ctx, workers)
	return nil
}

// Job runs the controller of Jobs.
func Job(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, resync)
	controller, err := job.NewController(ctx, client, factory.Core().V1().Pods(), factory.Batch().V1().Jobs(), nil, nil)
	if err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	controller.Run(ctx, workers)
	return nil
}

// ReplicaSet runs the controller of ReplicaSets.
func ReplicaSet(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, resync)
	controller := replicaset.NewReplicaSetController(ctx, factory.Apps().V1().ReplicaSets(), factory.Core().V1().Pods(), client, replicaset.BurstReplicas)
	factory.StartWithContext(ctx)
	controller.Run(ctx, workers)
	return nil
}
