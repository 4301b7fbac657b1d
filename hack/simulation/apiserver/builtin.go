// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
)

// served are the built-in resources that are served by default, those in a stable version, with where their objects are. It is no search by
// reflection in client-go's clients, which a test does instead: the linker would keep all methods of all types, and double the program.
var served = []struct{ groupVersion, inNamespaces, inCluster string }{
	{
		"v1", "configmaps endpoints events limitranges persistentvolumeclaims pods podtemplates replicationcontrollers resourcequotas secrets " +
			"serviceaccounts services",
		"componentstatuses namespaces nodes persistentvolumes",
	},
	{
		"admissionregistration.k8s.io/v1", "",
		"mutatingadmissionpolicies mutatingadmissionpolicybindings mutatingwebhookconfigurations validatingadmissionpolicies " +
			"validatingadmissionpolicybindings validatingwebhookconfigurations",
	},
	{"apps/v1", "controllerrevisions daemonsets deployments replicasets statefulsets", ""},
	{"autoscaling/v2", "horizontalpodautoscalers", ""},
	{"batch/v1", "cronjobs jobs", ""},
	{"certificates.k8s.io/v1", "podcertificaterequests", "certificatesigningrequests clustertrustbundles"},
	{"coordination.k8s.io/v1", "leases", ""},
	{"discovery.k8s.io/v1", "endpointslices", ""},
	{"events.k8s.io/v1", "events", ""},
	{"flowcontrol.apiserver.k8s.io/v1", "", "flowschemas prioritylevelconfigurations"},
	{"networking.k8s.io/v1", "ingresses networkpolicies", "ingressclasses ipaddresses servicecidrs"},
	{"node.k8s.io/v1", "", "runtimeclasses"},
	{"policy/v1", "poddisruptionbudgets", ""},
	{"rbac.authorization.k8s.io/v1", "rolebindings roles", "clusterrolebindings clusterroles"},
	{"resource.k8s.io/v1", "resourceclaims resourceclaimtemplates", "deviceclasses devicetaintrules resourceslices"},
	{"scheduling.k8s.io/v1", "", "priorityclasses"},
	{"storage.k8s.io/v1", "csistoragecapacities", "csidrivers csinodes storageclasses volumeattachments volumeattributesclasses"},
	{"storagemigration.k8s.io/v1", "", "storageversionmigrations"},
}

// builtIn returns the built-in resources, as far as client-go has their kinds.
var builtIn = sync.OnceValue(func() (resources []*Resource) {
	goTypes := map[schema.GroupVersionResource]reflect.Type{}
	kinds := map[schema.GroupVersionResource]schema.GroupVersionKind{}
	for kind, goType := range scheme.Scheme.AllKnownTypes() {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		goTypes[plural], kinds[plural] = goType, kind
	}
	converter := sync.OnceValue(func() managedfields.TypeConverter { // It parses the schema of all kinds.
		return applyconfigurations.NewTypeConverter(scheme.Scheme)
	})
	for _, s := range served {
		gv, _ := schema.ParseGroupVersion(s.groupVersion)
		for _, name := range strings.Fields(s.inNamespaces + " " + s.inCluster) {
			gvr := gv.WithResource(name)
			goType := goTypes[gvr]
			if goType == nil {
				continue
			}
			_, hasStatus := goType.FieldByName("Status")
			r := &Resource{
				GroupVersionResource: gvr, Kind: kinds[gvr], Namespaced: slices.Contains(strings.Fields(s.inNamespaces), name), HasStatus: hasStatus,
				goType: reflect.Zero(goType).Interface(), converter: converter,
			}
			r.know()
			r.managers = sync.OnceValue(r.newManagers)
			resources = append(resources, r)
		}
	}
	return resources
})

// know adds what the API server knows of built-in resources and client-go does not.
func (r *Resource) know() {
	name := r.GroupResource().String()
	r.hasGeneration = slices.Contains(withGeneration, name)
	r.createOnUpdate = slices.Contains(createdOnUpdate, name)
	r.conditional = slices.Contains(conditionallyUpdated, name)
	r.returnsDeleted = r.Group == "storage.k8s.io" || slices.Contains(returnedWhenDeleted, name)
	r.Fields = selectableFields[name]
	if slices.Contains(scalable, name) {
		r.scale = &scalePaths{[]string{"spec", "replicas"}, []string{"status", "replicas"}, []string{"spec", "selector"}}
	}
}

var (
	scalable       = strings.Fields("replicationcontrollers deployments.apps replicasets.apps statefulsets.apps")
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
