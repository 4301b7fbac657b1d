// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

const (
	namespace = metav1.NamespaceDefault
	// manyLabel is the label of the Foos of createMany.
	manyLabel = "lab"
	// container is the container whose image is edited: containerName of controller.go.
	container = "nginx"
)

var (
	fooVersion    = samplev1alpha1.GroupVersion.String() // the apiVersion of Foos
	objectField   = field{Name: "name", Default: "a", Shared: true}
	replicasField = field{Name: "replicas", Default: "3", Type: "number", Min: 1, Max: 10}
)

// acts are what a user can do.
var acts = []action{
	{
		Name: "create", Label: "Create a Foo",
		Command: `echo '{"apiVersion":"` + fooVersion + `","kind":"Foo","metadata":{"name":"{name}"},` +
			`"spec":{"deploymentName":"{deploymentName}","replicas":{replicas}}}' | kubectl create -f -`,
		Fields: []field{objectField, {Name: "deploymentName", Default: "a"}, {Name: "replicas", Default: "1", Type: "number", Min: 1, Max: 10}},
		do: func(l *Lab, v values) error {
			return l.create(v["name"], v["deploymentName"], v.number("replicas"), nil)
		},
	},
	{
		Name: "scale", Label: "Scale it", Command: "kubectl scale foo/{name} --replicas={replicas}",
		Fields: []field{objectField, replicasField},
		do: func(l *Lab, v values) error {
			return l.patch(foos, v["name"], fmt.Sprintf(`{"replicas":%d}`, v.number("replicas")))
		},
	},
	{
		Name: "rename", Label: "Rename its Deployment",
		Command: `kubectl patch foo/{name} --type=merge -p '{"spec":{"deploymentName":"{deploymentName}"}}'`,
		Fields:  []field{objectField, {Name: "deploymentName", Default: "b"}},
		do: func(l *Lab, v values) error {
			return l.patch(foos, v["name"], `{"deploymentName":"`+v["deploymentName"]+`"}`)
		},
	},
	{
		Name: "delete", Label: "Delete it", Command: "kubectl delete foo/{name}",
		Fields: []field{objectField},
		do:     func(l *Lab, v values) error { return l.cluster.delete(foos, v["name"]) },
	},
	{
		Name: "createMany", Label: "Create many Foos",
		Command: `for i in $(seq -f %04g 0 $(({count} - 1))); do echo '{"apiVersion":"` + fooVersion + `","kind":"Foo",` +
			`"metadata":{"name":"many-'$i'","labels":{"` + manyLabel + `":"many"}},"spec":{"deploymentName":"many-'$i'","replicas":1}}'; done | kubectl create -f -`,
		Fields: []field{{Name: "count", Default: "100", Type: "number", Min: 1, Max: 1000}},
		do: func(l *Lab, v values) error {
			for n := range v.number("count") {
				name := fmt.Sprintf("many-%04d", n)
				if err := l.create(name, name, 1, map[string]any{manyLabel: "many"}); err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		Name: "deleteMany", Label: "Delete these", Command: "kubectl delete foos -l " + manyLabel + "=many",
		do: func(l *Lab, _ values) error {
			for _, foo := range l.cluster.objects(foos) {
				if foo.GetLabels()[manyLabel] != "" {
					if err := l.cluster.delete(foos, foo.GetName()); err != nil {
						return err
					}
				}
			}
			return nil
		},
	},
	{
		Name: "deleteDeployment", Label: "Delete a Deployment", Command: "kubectl delete deployment/{name}",
		Fields: []field{objectField},
		do:     func(l *Lab, v values) error { return l.cluster.delete(deployments, v["name"]) },
	},
	{
		Name: "scaleDeployment", Label: "Scale a Deployment", Command: "kubectl scale deployment/{name} --replicas={replicas}",
		Fields: []field{objectField, replicasField},
		do: func(l *Lab, v values) error {
			return l.patch(deployments, v["name"], fmt.Sprintf(`{"replicas":%d}`, v.number("replicas")))
		},
	},
	{
		Name: "editDeployment", Label: "Edit a Deployment's image", Command: "kubectl set image deployment/{name} " + container + "=apache",
		Fields: []field{objectField},
		do: func(l *Lab, v values) error {
			return l.patch(deployments, v["name"], `{"template":{"spec":{"containers":[{"name":"`+container+`","image":"apache"}]}}}`)
		},
	},
	{
		Name: "takeName", Label: "Take a Deployment's name", Command: "kubectl create deployment {name} --image=nginx",
		Fields: []field{{Name: "name", Default: "taken"}},
		do: func(l *Lab, v values) error {
			labels := map[string]any{"app": v["name"]}
			return l.cluster.create(newObject("apps/v1", "Deployment", v["name"], labels, map[string]any{
				"selector": map[string]any{"matchLabels": labels},
				"template": map[string]any{
					"metadata": map[string]any{"labels": labels},
					"spec":     map[string]any{"containers": []any{map[string]any{"name": container, "image": "nginx"}}},
				},
			}))
		},
	},
}

func newObject(apiVersion, kind, name string, labels, spec map[string]any) *object {
	return &object{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"namespace": namespace, "name": name, "labels": labels}, "spec": spec,
	}}
}

func (l *Lab) create(name, deploymentName string, replicas int, labels map[string]any) error {
	return l.cluster.create(newObject(fooVersion, "Foo", name, labels,
		map[string]any{"deploymentName": deploymentName, "replicas": int64(replicas)}))
}

// patch changes the spec of an object.
func (l *Lab) patch(resource, name, spec string) error {
	return l.cluster.patch(resource, name, `{"spec":`+spec+`}`)
}
