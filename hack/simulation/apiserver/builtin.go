// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// builtIn returns the built-in resources that are served by default, those in a stable version. The interfaces of client-go's clients say
// what there is of them: AppsV1().Deployments(namespace) has the methods Get, UpdateStatus and GetScale.
var builtIn = sync.OnceValue(func() []*Resource {
	converter := applyconfigurations.NewTypeConverter(scheme.Scheme)
	newest := map[schema.GroupKind]*Resource{}
	for groupVersion := range methods(reflect.TypeFor[kubernetes.Interface]()) {
		for client := range methods(groupVersion.Type.Out(0)) {
			r := resourceOf(client)
			if r == nil || strings.Contains(r.Version, "alpha") || strings.Contains(r.Version, "beta") {
				continue
			}
			older := newest[r.Kind.GroupKind()]
			if older == nil || version.CompareKubeAwareVersionStrings(r.Version, older.Version) > 0 {
				newest[r.Kind.GroupKind()] = r
			}
		}
	}
	var resources []*Resource
	for _, r := range newest {
		r.converter = converter
		r.know()
		r.addManagers()
		resources = append(resources, r)
	}
	return resources
})

// methods are those of an interface that return one value.
func methods(of reflect.Type) func(yield func(reflect.Method) bool) {
	return func(yield func(reflect.Method) bool) {
		for i := range of.NumMethod() {
			if m := of.Method(i); m.Type.NumOut() == 1 && m.Type.Out(0).Kind() == reflect.Interface && !yield(m) {
				return
			}
		}
	}
}

// resourceOf returns the resource of a method such as Deployments(namespace), or nil if it has none.
func resourceOf(client reflect.Method) *Resource {
	get, isResource := client.Type.Out(0).MethodByName("Get")
	if !isResource || get.Type.Out(0).Kind() != reflect.Pointer {
		return nil
	}
	goType := get.Type.Out(0).Elem()
	o, isObject := reflect.New(goType).Interface().(runtime.Object)
	if !isObject {
		return nil
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		return nil
	}
	_, hasStatus := client.Type.Out(0).MethodByName("UpdateStatus")
	r := &Resource{
		GroupVersionResource: kinds[0].GroupVersion().WithResource(strings.ToLower(client.Name)), Kind: kinds[0],
		Namespaced: client.Type.NumIn() == 1, HasStatus: hasStatus, goType: reflect.Zero(goType).Interface(),
	}
	if _, hasScale := client.Type.Out(0).MethodByName("GetScale"); hasScale {
		r.scale = &scalePaths{[]string{"spec", "replicas"}, []string{"status", "replicas"}, []string{"spec", "selector"}}
	}
	return r
}

// know adds what the API server knows of built-in resources and client-go does not.
func (r *Resource) know() {
	name := r.GroupResource().String()
	r.hasGeneration = slices.Contains(withGeneration, name)
	r.createOnUpdate = slices.Contains(createdOnUpdate, name)
	r.conditional = slices.Contains(conditionallyUpdated, name)
	r.returnsDeleted = r.Group == "storage.k8s.io" || slices.Contains(returnedWhenDeleted, name)
	r.Fields = selectableFields[name]
}

var (
	withGeneration = strings.Fields(`
		pods replicationcontrollers deployments.apps replicasets.apps statefulsets.apps daemonsets.apps jobs.batch cronjobs.batch
		horizontalpodautoscalers.autoscaling
		ingresses.networking.k8s.io networkpolicies.networking.k8s.io poddisruptionbudgets.policy endpointslices.discovery.k8s.io
		flowschemas.flowcontrol.apiserver.k8s.io prioritylevelconfigurations.flowcontrol.apiserver.k8s.io
		priorityclasses.scheduling.k8s.io ingressclasses.networking.k8s.io
		mutatingwebhookconfigurations.admissionregistration.k8s.io validatingwebhookconfigurations.admissionregistration.k8s.io
		validatingadmissionpolicies.admissionregistration.k8s.io validatingadmissionpolicybindings.admissionregistration.k8s.io`)
	createdOnUpdate = strings.Fields(`
		endpoints events limitranges services leases.coordination.k8s.io events.events.k8s.io
		roles.rbac.authorization.k8s.io rolebindings.rbac.authorization.k8s.io
		clusterroles.rbac.authorization.k8s.io clusterrolebindings.rbac.authorization.k8s.io`)
	returnedWhenDeleted = strings.Fields(`
		pods services serviceaccounts podtemplates resourcequotas persistentvolumes persistentvolumeclaims replicationcontrollers`)
	conditionallyUpdated = strings.Fields(`
		leases.coordination.k8s.io poddisruptionbudgets.policy runtimeclasses.node.k8s.io csidrivers.storage.k8s.io csinodes.storage.k8s.io
		volumeattachments.storage.k8s.io mutatingwebhookconfigurations.admissionregistration.k8s.io
		validatingwebhookconfigurations.admissionregistration.k8s.io`)
)

var selectableFields = map[string][]string{
	"pods": {
		"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork", "status.phase",
		"status.podIP", "status.nominatedNodeName",
	},
	"nodes":      {"spec.unschedulable"},
	"namespaces": {"status.phase"},
	"secrets":    {"type"},
	"services":   {"spec.clusterIP", "spec.type"},
	"events": {
		"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion",
		"involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type",
	},
	"replicationcontrollers": {"status.replicas"},
	"replicasets.apps":       {"status.replicas"},
	"jobs.batch":             {"status.successful"},
	"certificatesigningrequests.certificates.k8s.io": {"spec.signerName"},
}
