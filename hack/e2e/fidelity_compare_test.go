// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// compared returns the responses, and the events by object, without what may differ.
func compared(t *testing.T, responses, events []seen) map[string][]string {
	names := namesOf(responses)
	versions := map[string][]string{} // those of the events of an object, which are in their order
	for _, event := range events {
		id := id(event.object)
		versions[id] = append(versions[id], versionOf(event.object))
		if !slices.IsSortedFunc(versions[id], compareVersions) {
			t.Errorf("the events of %s have the resourceVersions %s", id, versions[id])
		}
	}
	lines := func(s seen) []string {
		if s.object["kind"] == "Lease" { // The simulation keeps none of these.
			unstructured.RemoveNestedField(s.object, "metadata", "managedFields")
		}
		version := fmt.Sprint(" version ", slices.Index(versions[id(s.object)], versionOf(s.object)))
		if hasController(s.object) || strings.HasSuffix(version, "-1") { // It depends on how often the status has changed, or no event has it.
			version = ""
		}
		text := strings.ReplaceAll(leaves("", s.object), ": status.", ": ") // Paths in messages about a status may begin there.
		fields := strings.Split(invented.ReplaceAllString(names.Replace(s.what+version+text), "$1…$2"), "\n")
		slices.Sort(fields[1:]) // Some keys are random.
		return fields
	}
	result := map[string][]string{}
	for _, response := range responses {
		result["responses"] = append(result["responses"], lines(response)...)
	}
	last := map[string][]string{}
	for _, event := range events {
		id, lines := names.Replace("events of "+id(event.object)), lines(event)
		onlyStatus := hasController(event.object) && event.what == "MODIFIED" && slices.Equal(last[id], lines[1:])
		if !onlyStatus && !isOfNamespace(event.object) && nested(event.object, "metadata", "name") != lastName {
			result[id] = append(result[id], lines...)
		}
		last[id] = lines[1:]
	}
	return result
}

// namesOf returns what replaces what the API server makes up in responses: UIDs, generated names and IP addresses.
func namesOf(responses []seen) *strings.Replacer {
	var pairs [][2]string
	add := func(what string, value any) {
		if text, ok := value.(string); ok && text != "" && text != "None" {
			pairs = append(pairs, [2]string{text, fmt.Sprintf("<%s %d>", what, len(pairs))})
		}
	}
	known := map[any]bool{}
	for _, response := range responses {
		uid := nested(response.object, "metadata", "uid")
		if uid == nil || known[uid] {
			continue
		}
		known[uid] = true
		add("uid", uid)
		add("IP", nested(response.object, "spec", "clusterIP"))
		name, prefix := nested(response.object, "metadata", "name"), nested(response.object, "metadata", "generateName")
		if prefix != nil && strings.HasPrefix(fmt.Sprint(name), fmt.Sprint(prefix)) {
			add("name", name)
		}
	}
	slices.SortStableFunc(pairs, func(a, b [2]string) int { return cmp.Compare(len(b[0]), len(a[0])) }) // One may begin with another.
	var oldNew []string
	for _, pair := range pairs {
		oldNew = append(oldNew, pair[:]...)
	}
	return strings.NewReplacer(oldNew...)
}

func id(object map[string]any) string {
	return fmt.Sprint(object["kind"], " ", nested(object, "metadata", "name"))
}

func versionOf(object map[string]any) string {
	return fmt.Sprint(nested(object, "metadata", "resourceVersion"))
}

func compareVersions(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

func nested(object map[string]any, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object, path...) // nil if there is none
	return value
}

// hasController reports whether a controller of Kubernetes writes the status of an object: it is not compared.
func hasController(object map[string]any) bool {
	return slices.Contains(strings.Fields(
		"Deployment ReplicaSet StatefulSet DaemonSet Job CronJob Pod PodDisruptionBudget HorizontalPodAutoscaler"), fmt.Sprint(object["kind"]))
}

// isOfNamespace reports whether a controller of Kubernetes creates such an object in each namespace.
func isOfNamespace(object any) bool {
	o, _ := object.(map[string]any)
	return slices.Contains([]any{"kube-root-ca.crt", "default"}, nested(o, "metadata", "name"))
}

// ignored are fields that differ from run to run, and what controllers of Kubernetes set.
var ignored = strings.Fields("resourceVersion time lastTransitionTime deployment.kubernetes.io/revision controller-revision-hash nodeName")

// invented are resourceVersions, and objects and fields that cannot be changed, in messages.
var invented = regexp.MustCompile(
	`(current: |version: 1 \(|record \(|Invalid value: )(?:\d+|".*"|\{.*\}|null)(\)|: field is immutable|: json|: cannot|: strict|$)`)

// leaves returns the fields of a value that are compared, each as a line with its path.
func leaves(path string, value any) string {
	switch value := value.(type) {
	case []any:
		var text strings.Builder
		for i, element := range slices.DeleteFunc(value, isOfNamespace) {
			text.WriteString(leaves(fmt.Sprintf("%s[%d]", path, i), element))
		}
		return text.String()
	case map[string]any:
		var text strings.Builder
		for _, name := range slices.Sorted(maps.Keys(value)) {
			field := value[name]
			switch {
			case slices.Contains(ignored, name), name == "status" && hasController(value), field == "" && name == "continue":
				continue
			case slices.Contains([]string{"creationTimestamp", "deletionTimestamp", "continue"}, name):
				field = field != nil
			case name == "managedFields":
				field = slices.SortedFunc(slices.Values(slices.DeleteFunc(field.([]any), isOfController)), compareManaged)
			case name == "causes":
				field = slices.SortedFunc(slices.Values(field.([]any)), func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			case name == "message" && nested(value, "details", "causes") != nil:
				continue // It repeats them.
			case name == "message":
				field, _, _ = strings.Cut(fmt.Sprint(field), "\n") // A difference follows.
			}
			text.WriteString(leaves(path+"."+name, field))
		}
		if len(value) > 0 {
			return text.String()
		}
	}
	return fmt.Sprintf("\n  %s: %v", path, value)
}

// isOfController reports whether the managed fields are those of a controller of Kubernetes.
func isOfController(managed any) bool {
	return !strings.HasPrefix(fmt.Sprint(managed.(map[string]any)["manager"]), "user")
}

// compareManaged sorts managed fields not by the second in which they were set.
func compareManaged(a, b any) int {
	key := func(managed any) string {
		m := managed.(map[string]any)
		return fmt.Sprint(m["operation"], m["manager"], m["subresource"])
	}
	return cmp.Compare(key(a), key(b))
}
