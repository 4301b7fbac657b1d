// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/util/json"
)

func TestFooSpecsOfLaxerDefinitionsCanBeRead(t *testing.T) {
	for name, test := range map[string]struct {
		stored string
		want   FooSpec
	}{
		"a well-formed spec":                 {`{"deploymentName":"a","replicas":3}`, FooSpec{DeploymentName: "a", Replicas: new(int32(3))}},
		"a spec without replicas":            {`{"deploymentName":"a"}`, FooSpec{DeploymentName: "a"}},
		"replicas that are null":             {`{"deploymentName":"a","replicas":null}`, FooSpec{DeploymentName: "a"}},
		"replicas that are a string":         {`{"deploymentName":"a","replicas":"3"}`, FooSpec{DeploymentName: "a", Replicas: new(int32(-1))}},
		"replicas with a fraction":           {`{"deploymentName":"a","replicas":1.5}`, FooSpec{DeploymentName: "a", Replicas: new(int32(-1))}},
		"replicas that are too many":         {`{"deploymentName":"a","replicas":4294967297}`, FooSpec{DeploymentName: "a", Replicas: new(int32(-1))}},
		"a deploymentName that is a number":  {`{"deploymentName":5,"replicas":3}`, FooSpec{Replicas: new(int32(3))}},
		"a spec that is empty":               {`{}`, FooSpec{}},
		"a spec that is null":                {`null`, FooSpec{}},
		"a spec that is a string":            {`"none"`, FooSpec{}},
		"a field that only others know of":   {`{"deploymentName":"a","colour":"red"}`, FooSpec{DeploymentName: "a"}},
		"a field that differs in case alone": {`{"DeploymentName":"a"}`, FooSpec{}},
	} {
		t.Run(name, func(t *testing.T) {
			var foo Foo
			if err := json.Unmarshal([]byte(`{"metadata":{"name":"example-foo"},"spec":`+test.stored+`}`), &foo); err != nil {
				t.Fatal(err)
			}
			if foo.Name != "example-foo" || !reflect.DeepEqual(foo.Spec, test.want) {
				t.Errorf("read %+v of %s, want %+v", foo.Spec, foo.Name, test.want)
			}
		})
	}
}
