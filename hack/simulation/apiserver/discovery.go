// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
)

// aggregated begins the media type of aggregated discovery, which is in the discovery map at its paths with this prefix.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

var (
	verbs            = metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	subresourceVerbs = metav1.Verbs{"get", "patch", "update"}
)

// discovery returns what the API server says about its resources, by path.
func discovery(resources []*Resource) map[string]any {
	said := map[string]any{
		"/version": apimachineryversion.Info{Major: "1", Minor: "37", GitVersion: "v1.37.2"},
		"/api":     metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
	}
	groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	legacy, others := newAggregated(), newAggregated()
	for _, group := range grouped(resources, func(r *Resource) string { return r.Group }) {
		described, list := describe(group), &others
		if described.Name == "" {
			list = &legacy
		} else {
			groups.Groups = append(groups.Groups, described)
			said["/apis/"+described.Name] = described
		}
		list.Items = append(list.Items, aggregate(group))
		for _, version := range grouped(group, func(r *Resource) string { return r.Version }) {
			said[pathOf(version[0].GroupVersion())] = listOf(version)
		}
	}
	said["/apis"] = groups
	said[aggregated+"/api"], said[aggregated+"/apis"] = legacy, others
	return said
}

// grouped returns the resources in groups of the same key, in their order.
func grouped(resources []*Resource, key func(r *Resource) string) (groups [][]*Resource) {
	resources = slices.Clone(resources)
	slices.SortStableFunc(resources, func(a, b *Resource) int { return cmp.Compare(key(a), key(b)) })
	for _, r := range resources {
		if n := len(groups); n > 0 && key(groups[n-1][0]) == key(r) {
			groups[n-1] = append(groups[n-1], r)
		} else {
			groups = append(groups, []*Resource{r})
		}
	}
	return groups
}

func pathOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}

func describe(group []*Resource) metav1.APIGroup {
	d := metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: group[0].Group}
	for _, version := range grouped(group, func(r *Resource) string { return r.Version }) {
		gv := version[0].GroupVersion()
		d.Versions = append(d.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version})
	}
	d.PreferredVersion = d.Versions[len(d.Versions)-1]
	return d
}

func listOf(version []*Resource) metav1.APIResourceList {
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version[0].GroupVersion().String(),
	}
	for _, r := range version {
		of := metav1.APIResource{
			Name: r.Resource, SingularName: strings.ToLower(r.Kind.Kind), Namespaced: r.Namespaced, Kind: r.Kind.Kind, Verbs: verbs,
		}
		list.APIResources = append(list.APIResources, of)
		of.SingularName, of.Verbs = "", subresourceVerbs
		if r.HasStatus {
			of.Name = r.Resource + "/status"
			list.APIResources = append(list.APIResources, of)
		}
		if r.scale != nil {
			of.Name, of.Group, of.Version, of.Kind = r.Resource+"/scale", scaleKind.Group, scaleKind.Version, scaleKind.Kind
			list.APIResources = append(list.APIResources, of)
		}
	}
	return list
}

func newAggregated() apidiscoveryv2.APIGroupDiscoveryList {
	return apidiscoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: apidiscoveryv2.SchemeGroupVersion.String()},
	}
}

func aggregate(group []*Resource) apidiscoveryv2.APIGroupDiscovery {
	d := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: group[0].Group}}
	for _, version := range grouped(group, func(r *Resource) string { return r.Version }) {
		v := apidiscoveryv2.APIVersionDiscovery{Version: version[0].Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
		for _, r := range version {
			v.Resources = append(v.Resources, r.aggregate())
		}
		d.Versions = append(d.Versions, v)
	}
	slices.Reverse(d.Versions) // The preferred version is the first.
	return d
}

func (r *Resource) aggregate() apidiscoveryv2.APIResourceDiscovery {
	kindOf := func(kind schema.GroupVersionKind) *metav1.GroupVersionKind {
		return &metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}
	}
	d := apidiscoveryv2.APIResourceDiscovery{
		Resource: r.Resource, ResponseKind: kindOf(r.Kind), SingularResource: strings.ToLower(r.Kind.Kind), Verbs: verbs,
		Scope: apidiscoveryv2.ScopeCluster,
	}
	if r.Namespaced {
		d.Scope = apidiscoveryv2.ScopeNamespace
	}
	add := func(name string, kind schema.GroupVersionKind) {
		d.Subresources = append(d.Subresources, apidiscoveryv2.APISubresourceDiscovery{
			Subresource: name, ResponseKind: kindOf(kind), Verbs: subresourceVerbs,
		})
	}
	if r.HasStatus {
		add("status", r.Kind)
	}
	if r.scale != nil {
		add("scale", scaleKind)
	}
	return d
}

// discover returns the response to a request for discovery, or nil if it is none.
func (g *Registry) discover(r *http.Request) *http.Response {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if r.Method != http.MethodGet {
		return nil
	}
	if said := g.discovery[aggregated+path]; said != nil && strings.Contains(r.Header.Get("Accept"), aggregated) {
		response := respond(r, http.StatusOK, encode(said))
		response.Header.Set("Content-Type", aggregated)
		return response
	}
	if said := g.discovery[path]; said != nil {
		return respond(r, http.StatusOK, encode(said))
	}
	return nil
}
