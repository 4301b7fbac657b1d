// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/util/json"
)

// UnmarshalJSON reads a spec. The CustomResourceDefinition sees to it that new ones are well formed, but one that was stored
// under an older, laxer definition may hold values of other types. That must not keep clients from listing all Foos. So a
// deploymentName that is no string is read as "", and replicas that are no int32 as -1: no Deployment can have these, and
// the API server says so when it is asked to create one.
func (s *FooSpec) UnmarshalJSON(data []byte) error {
	type wellFormed FooSpec
	if err := json.Unmarshal(data, (*wellFormed)(s)); err == nil {
		return nil
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		fields = nil // The spec is no object at all.
	}
	*s = FooSpec{}
	s.DeploymentName, _ = fields["deploymentName"].(string)
	if value, set := fields["replicas"]; set && value != nil {
		replicas, ok := value.(int64)
		if !ok || replicas != int64(int32(replicas)) {
			replicas = -1
		}
		s.Replicas = new(int32(replicas))
	}
	return nil
}
