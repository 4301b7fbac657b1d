// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package foostatus

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
)

// DeploymentOverridden is the reason of a StalledError whose message names the fields that admission or
// another controller changes.
const DeploymentOverridden = "DeploymentOverridden"

// Overridden returns the error that names the differences, or nil if there are none. An error that the status
// of the Foo reports already stays, with its text.
func Overridden(foo *samplev1alpha1.Foo, differences Differences) *StalledError {
	reported := Reported(foo, DeploymentOverridden)
	if reported != nil || !differences.Exist() {
		return reported
	}
	return &StalledError{Reason: DeploymentOverridden, Message: truncated(differences.String())}
}

// RejectedOrOverridden returns what stalls a Foo whose Deployment differs and may not be written yet, because the last
// write was rejected, as the Foo reports, or undone.
func RejectedOrOverridden(foo *samplev1alpha1.Foo, differences Differences) *StalledError {
	if rejected := Reported(foo, DeploymentRejected); rejected != nil {
		return rejected
	}
	return Overridden(foo, differences)
}

// Differences are the fields of a Deployment that differ from its desired state. Found is nil if there is no
// Deployment. They are computed when they are printed, so that a log line that is disabled costs nothing.
type Differences struct{ Found, Desired *appsv1.Deployment }

// Exist reports whether anything differs. Values that are equal to the API server, such as the quantities
// 1000m and 1, or an empty list and none, do not.
func (d Differences) Exist() bool { return !equality.Semantic.DeepEqual(d.Found, d.Desired) }

// String returns each field with its desired value and the one that was found.
func (d Differences) String() string {
	if d.Found == nil {
		return fmt.Sprintf("Deployment %q: desired, found nothing", d.Desired.Name)
	}
	found, desired := fieldsOf(d.Found), fieldsOf(d.Desired)
	var differences []string
	for _, field := range slices.Sorted(maps.Keys(desired)) {
		if value := cmp.Or(found[field], "nothing"); value != desired[field] {
			differences = append(differences, fmt.Sprintf("%s: desired %s, found %s", field, desired[field], value))
		}
	}
	return strings.Join(differences, "; ")
}

// Reported returns the error that the status of a Foo reports for its latest generation, if it has the given
// reason, and nil otherwise.
func Reported(foo *samplev1alpha1.Foo, reason string) *StalledError {
	condition := meta.FindStatusCondition(foo.Status.Conditions, samplev1alpha1.ConditionStalled)
	if condition == nil || condition.Reason != reason || condition.ObservedGeneration != foo.Generation {
		return nil
	}
	return &StalledError{Reason: condition.Reason, Message: condition.Message}
}

// fieldsOf returns the values of an object's fields by their paths, such as
// spec.template.spec.containers[nginx].image.
func fieldsOf(deployment *appsv1.Deployment) map[string]string {
	fields := map[string]string{}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(deployment)
	if err == nil { // A Deployment can always be converted.
		flatten("", object, fields)
	}
	return fields
}

func flatten(path string, value any, into map[string]string) {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			flatten(strings.TrimPrefix(path+"."+key, "."), field, into)
		}
	case []any:
		for i, item := range value {
			index := strconv.Itoa(i)
			if named, ok := item.(map[string]any); ok && named["name"] != nil {
				index = fmt.Sprint(named["name"])
			}
			flatten(fmt.Sprintf("%s[%s]", path, index), item, into)
		}
	default:
		into[path] = fmt.Sprintf("%#v", value)
	}
}
