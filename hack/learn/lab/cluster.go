// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"io/fs"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"k8s.io/sample-controller/hack/simulation/apiserver"
	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// crdFile has the CRD of Foos.
const crdFile = "artifacts/examples/crd.yaml"

// resources are those of the lanes.
var resources = map[string]schema.GroupResource{foos: samplev1alpha1.Resource("foos"), deployments: appsv1.Resource("deployments")}

// laneOf returns the lane of a resource, or nothing if no informer has it.
func laneOf(resource schema.GroupResource) string {
	for lane, r := range resources {
		if r == resource {
			return lane
		}
	}
	return ""
}

// cluster is the cluster, with the user who acts.
type cluster struct {
	*apiserver.Server
	user apiserver.Client
}

// newCluster returns a cluster with the CRD in the code of this project.
func newCluster(sources fs.FS) (*cluster, error) {
	content, err := fs.ReadFile(sources, crdFile)
	if err != nil {
		return nil, err
	}
	crds, err := apiserver.ReadYAML(content)
	if err != nil {
		return nil, err
	}
	registry, err := apiserver.NewRegistry(crds...)
	if err != nil {
		return nil, err
	}
	s := apiserver.New(registry, apiserver.Options{WithoutManagedFields: true})
	return &cluster{s, s.Client("kubectl")}, nil
}

// objects returns the objects of a lane. They must not be changed.
func (c *cluster) objects(lane string) []*object { return c.List(resources[lane], "") }

func (c *cluster) create(o *object) error {
	_, err := c.user.Create(o)
	return err
}

// patch applies a merge patch to a Foo, or a strategic merge patch to a Deployment.
func (c *cluster) patch(lane, name, patch string) error {
	patchType := map[string]types.PatchType{foos: types.MergePatchType, deployments: types.StrategicMergePatchType}[lane]
	return c.do(&apiserver.Request{Verb: "patch", PatchType: patchType, Body: []byte(patch)}, lane, name)
}

// delete deletes an object as kubectl does.
func (c *cluster) delete(lane, name string) error {
	options, err := json.Marshal(metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	if err != nil {
		return err
	}
	return c.do(&apiserver.Request{Verb: "delete", Body: options}, lane, name)
}

// do makes a request of the user for an object of a lane.
func (c *cluster) do(r *apiserver.Request, lane, name string) error {
	r.Resource, r.Namespace, r.Name = resources[lane], namespace, name
	_, err := c.user.Do(r)
	return err
}
