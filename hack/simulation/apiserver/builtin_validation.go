// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// immutable are the fields that must not change, by resource.
var immutable = map[string][]string{
	"deployments.apps": {"spec.selector"},
	"replicasets.apps": {"spec.selector"},
	"daemonsets.apps":  {"spec.selector"},
	"jobs.batch": {
		"spec.selector", "spec.completionMode", "spec.completions", "spec.podFailurePolicy", "spec.backoffLimitPerIndex",
		"spec.managedBy",
	},
	"secrets":                                       {"type"},
	"persistentvolumeclaims":                        {"spec.accessModes", "spec.selector", "spec.storageClassName", "spec.volumeMode"},
	"controllerrevisions.apps":                      {"data"},
	"storageclasses.storage.k8s.io":                 {"provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"},
	"priorityclasses.scheduling.k8s.io":             {"value", "preemptionPolicy"},
	"rolebindings.rbac.authorization.k8s.io":        {"roleRef"},
	"clusterrolebindings.rbac.authorization.k8s.io": {"roleRef"},
}

// mutable are the fields of the spec that may change, of resources of which most must not.
var mutable = map[string][]string{
	"statefulsets.apps": {
		"replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
	},
	"pods": {
		"containers", "initContainers", "activeDeadlineSeconds", "tolerations", "nodeName", "ephemeralContainers", "schedulingGates",
	},
}

// validateImmutable returns the changes of fields that must not change.
func (resource *Resource) validateImmutable(found, o *Object) (invalid field.ErrorList) {
	if found == nil {
		return nil
	}
	name := resource.GroupResource().String()
	paths := slices.Clone(immutable[name])
	if allowed := mutable[name]; allowed != nil {
		before, _ := found.Object["spec"].(map[string]any)
		after, _ := o.Object["spec"].(map[string]any)
		for _, f := range slices.Sorted(maps.Keys(union(before, after))) {
			if !slices.Contains(allowed, f) {
				paths = append(paths, "spec."+f)
			}
		}
	}
	if ip := value(found, "spec", "clusterIP"); name == "services" && text(found, "spec", "type") == text(o, "spec", "type") &&
		ip != value(o, "spec", "clusterIP") {
		invalid = append(invalid, field.Invalid(field.NewPath("spec", "clusterIPs").Index(0), value(o, "spec", "clusterIPs"), "may not change once set"))
	}
	if name == "jobs.batch" && (value(found, "spec", "suspend") != true || value(found, "status", "startTime") != nil) {
		paths = append(paths, "spec.template")
	}
	if (name == "configmaps" || name == "secrets") && value(found, "immutable") == true {
		for _, f := range []string{"immutable", "data", "binaryData"} {
			if !equality.Semantic.DeepEqual(value(found, f), value(o, f)) {
				invalid = append(invalid, field.Forbidden(field.NewPath(f), "field is immutable when `immutable` is set"))
			}
		}
	}
	var changed []*field.Path
	for _, p := range paths {
		path := strings.Split(p, ".")
		if after, at := value(o, path...), field.NewPath(path[0], path[1:]...); !equality.Semantic.DeepEqual(value(found, path...), after) {
			changed = append(changed, at)
			invalid = append(invalid, field.Invalid(at, after, apivalidation.FieldImmutableErrorMsg))
		}
	}
	switch {
	case name == "pods" && (len(changed) > 0 || !equality.Semantic.DeepEqual(withoutImages(found), withoutImages(o))):
		return field.ErrorList{field.Forbidden(field.NewPath("spec"), podUpdate)}
	case len(changed) > 0 && name == "priorityclasses.scheduling.k8s.io":
		return field.ErrorList{field.Forbidden(changed[0], "may not be changed in an update.")}
	}
	return invalid
}

// podUpdate is what the API server says about updates of Pods, before it shows the difference.
const podUpdate = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`," +
	"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` " +
	"(allow it to be set to 1 if it was previously negative)"

// validateFinalizers checks that the finalizers of a new built-in object are qualified, or known.
func validateFinalizers(o *Object, path *field.Path) (invalid field.ErrorList) {
	known := []string{metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents, string(corev1.FinalizerKubernetes)}
	for i, finalizer := range o.GetFinalizers() {
		if !strings.Contains(finalizer, "/") && !slices.Contains(known, finalizer) {
			invalid = append(invalid, field.Invalid(path.Index(i), finalizer, "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return invalid
}

// withoutImages returns the containers of a Pod without their images, which may change.
func withoutImages(pod *Object) (containers []any) {
	for _, name := range []string{"containers", "initContainers"} {
		of, _ := value(pod, "spec", name).([]any)
		for _, c := range of {
			container, _ := c.(map[string]any)
			container = maps.Clone(container)
			delete(container, "image")
			containers = append(containers, container)
		}
	}
	return containers
}

func union(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// counts are the fields that must not be negative.
var counts = []string{"replicas", "minReadySeconds", "revisionHistoryLimit", "parallelism", "completions", "backoffLimit", "minReplicas"}

// validateBuiltIn returns those errors of built-in objects that controllers make.
func (resource *Resource) validateBuiltIn(o *Object) (invalid field.ErrorList) {
	spec := field.NewPath("spec")
	for _, name := range counts {
		if n, ok := value(o, "spec", name).(int64); ok && n < 0 {
			invalid = append(invalid, field.Invalid(spec.Child(name), n, apivalidation.IsNegativeErrorMsg))
		}
	}
	switch resource.GroupResource().String() {
	case "deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps":
		invalid = append(invalid, validateSelector(o, spec)...)
		if text(o, "spec", "strategy", "type") == "Recreate" && value(o, "spec", "strategy", "rollingUpdate") != nil {
			invalid = append(invalid, field.Forbidden(spec.Child("strategy", "rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'"))
		}
		invalid = append(invalid, validatePod(value(o, "spec", "template", "spec"), spec.Child("template", "spec"), "Always")...)
	case "jobs.batch":
		template := spec.Child("template", "spec")
		if text(o, "spec", "template", "spec", "restartPolicy") == "Always" {
			invalid = append(invalid, field.Required(template.Child("restartPolicy"), `valid values: "OnFailure", "Never"`))
		}
		invalid = append(invalid, validatePod(value(o, "spec", "template", "spec"), template, "Always", "OnFailure", "Never")...)
	case "pods":
		invalid = append(invalid, validatePod(o.Object["spec"], spec, "Always", "OnFailure", "Never")...)
	case "services":
		ports, _ := value(o, "spec", "ports").([]any)
		if len(ports) == 0 && text(o, "spec", "type") != "ExternalName" && text(o, "spec", "clusterIP") != "None" {
			invalid = append(invalid, field.Required(spec.Child("ports"), ""))
		}
		if port := number(o, "spec", "healthCheckNodePort"); port != 0 && !needsHealthCheck(o) {
			invalid = append(invalid, field.Invalid(spec.Child("healthCheckNodePort"), port,
				"may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
		}
	case "configmaps", "secrets":
		invalid = append(invalid, validateData(o)...)
	case "leases.coordination.k8s.io":
		if n, ok := value(o, "spec", "leaseDurationSeconds").(int64); ok && n <= 0 {
			invalid = append(invalid, field.Invalid(spec.Child("leaseDurationSeconds"), n, "must be greater than 0"))
		}
	}
	return invalid
}

// needsHealthCheck reports whether a Service has a port for health checks.
func needsHealthCheck(service *Object) bool {
	return text(service, "spec", "type") == "LoadBalancer" && text(service, "spec", "externalTrafficPolicy") == "Local"
}

// requiredKeys are the keys that Secrets of some types must have.
var requiredKeys = map[corev1.SecretType][]string{
	corev1.SecretTypeDockercfg:        {corev1.DockerConfigKey},
	corev1.SecretTypeDockerConfigJson: {corev1.DockerConfigJsonKey},
	corev1.SecretTypeSSHAuth:          {corev1.SSHAuthPrivateKey},
	corev1.SecretTypeTLS:              {corev1.TLSCertKey, corev1.TLSPrivateKeyKey},
}

// validateData checks the keys of a ConfigMap or a Secret.
func validateData(o *Object) (invalid field.ErrorList) {
	for _, name := range []string{"data", "binaryData"} {
		data, _ := value(o, name).(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(data)) {
			for _, message := range validation.IsConfigMapKey(key) {
				invalid = append(invalid, field.Invalid(field.NewPath(name).Key(key), key, message))
			}
		}
	}
	data, _ := value(o, "data").(map[string]any)
	binary, _ := value(o, "binaryData").(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if _, ok := binary[key]; ok {
			invalid = append(invalid, field.Invalid(field.NewPath("data").Key(key), key, "duplicate of key present in binaryData"))
		}
	}
	if o.GetKind() == "Secret" {
		invalid = append(invalid, validateKeys(corev1.SecretType(text(o, "type")), data)...)
	}
	return invalid
}

// validateKeys checks that a Secret has the keys that its type needs.
func validateKeys(secretType corev1.SecretType, data map[string]any) (invalid field.ErrorList) {
	required := requiredKeys[secretType]
	_, hasPassword := data[corev1.BasicAuthPasswordKey]
	if _, hasName := data[corev1.BasicAuthUsernameKey]; secretType == corev1.SecretTypeBasicAuth && !hasName && !hasPassword {
		required = []string{corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey}
	}
	for _, key := range required {
		if v, ok := data[key]; !ok || v == "" && secretType == corev1.SecretTypeSSHAuth {
			invalid = append(invalid, field.Required(field.NewPath("data").Key(key), ""))
		}
	}
	return invalid
}

// validateSelector checks that a workload selects the Pods that it makes.
func validateSelector(o *Object, spec *field.Path) (invalid field.ErrorList) {
	at, of := spec.Child("selector"), strings.ToLower(strings.Replace(o.GetKind(), "ReplicaSet", "Deployment", 1)) // This is how it is.
	selector, content := &metav1.LabelSelector{}, value(o, "spec", "selector")
	if content, isObject := content.(map[string]any); !isObject {
		selector = nil
		invalid = append(invalid, field.Required(at, ""))
	} else if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, selector); err != nil {
		return field.ErrorList{field.Invalid(at, content, err.Error())}
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return field.ErrorList{field.Invalid(at, content, err.Error())}
	}
	if parsed.Empty() && selector != nil {
		invalid = append(invalid, field.Invalid(at, content, "empty selector is invalid for "+of))
	}
	set := labels.Set{}
	inTemplate, _ := value(o, "spec", "template", "metadata", "labels").(map[string]any)
	for label, v := range inTemplate {
		set[label] = fmt.Sprint(v)
	}
	if !parsed.Matches(set) {
		invalid = append(invalid, field.Invalid(spec.Child("template", "metadata", "labels"), inTemplate, "`selector` does not match template `labels`"))
	}
	return invalid
}

// validatePod checks the containers and the restart policy in the spec of a Pod.
func validatePod(spec any, path *field.Path, restartPolicies ...string) (invalid field.ErrorList) {
	pod, _ := spec.(map[string]any)
	containers, _ := pod["containers"].([]any)
	if len(containers) == 0 {
		invalid = append(invalid, field.Required(path.Child("containers"), ""))
	}
	names := map[any]bool{}
	for i, c := range containers {
		container, _ := c.(map[string]any)
		at := path.Child("containers").Index(i)
		for _, name := range []string{"name", "image"} {
			if v, _ := container[name].(string); v == "" {
				invalid = append(invalid, field.Required(at.Child(name), ""))
			}
		}
		if names[container["name"]] {
			invalid = append(invalid, field.Duplicate(at.Child("name"), container["name"]))
		}
		names[container["name"]] = true
	}
	if policy, _ := pod["restartPolicy"].(string); !slices.Contains(restartPolicies, policy) {
		invalid = append(invalid, field.NotSupported(path.Child("restartPolicy"), policy, restartPolicies))
	}
	return invalid
}
