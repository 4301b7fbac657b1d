// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// Resource is what the API server knows of a resource. It is served in one version.
type Resource struct {
	schema.GroupVersionResource
	Kind       schema.GroupVersionKind
	Namespaced bool
	HasStatus  bool           // It has the subresource status.
	IsCustom   bool           // It comes from a CustomResourceDefinition (CRD).
	Schema     map[string]any // the structural schema of a custom resource
	Fields     []string       // what field selectors can select, beside the name and the namespace

	scale          *scalePaths
	hasRules       bool // The schema has rules in CEL.
	goType         any  // the zero value of the Go type of a built-in kind
	hasGeneration  bool
	createOnUpdate bool // An update creates an object that does not exist.
	conditional    bool // An update needs a resourceVersion.
	returnsDeleted bool // A deletion returns the object, not a Status.
	validator      *validate.SchemaValidator
	converter      func() managedfields.TypeConverter
	managers       func() map[string]*managedfields.FieldManager // by subresource
}

// scalePaths are where an object has what its subresource scale shows.
type scalePaths struct{ spec, status, selector []string }

// Registry has the resources that an API server serves: those of Kubernetes that are served by default, and those of CRDs. It does not
// change, and can be shared by several API servers.
type Registry struct {
	resources map[schema.GroupResource]*Resource
	kinds     map[schema.GroupKind]*Resource
	sorted    []*Resource
	discovery map[string]any // what is responded, by path
	notes     []string
}

// NewRegistry returns the built-in resources and those of CRDs. It returns an error if a CRD has no structural schema or no version that is
// stored.
func NewRegistry(crds ...*Object) (*Registry, error) {
	g := &Registry{resources: map[schema.GroupResource]*Resource{}, kinds: map[schema.GroupKind]*Resource{}}
	for _, r := range builtIn() {
		g.add(r)
	}
	for _, crd := range crds {
		r, notes, err := custom(crd)
		if err != nil {
			return nil, fmt.Errorf("CRD %s: %w", crd.GetName(), err)
		}
		if g.resources[r.GroupResource()] != nil {
			return nil, fmt.Errorf("CRD %s: there is such a resource already", crd.GetName())
		}
		g.add(r)
		g.notes = append(g.notes, notes...)
	}
	g.sorted = slices.SortedFunc(maps.Values(g.resources), func(a, b *Resource) int {
		return compareResources(a.GroupResource(), b.GroupResource())
	})
	g.discovery = discovery(g.sorted)
	return g, nil
}

func (g *Registry) add(r *Resource) {
	g.resources[r.GroupResource()], g.kinds[r.Kind.GroupKind()] = r, r
}

// Notes says what of the CRDs is not simulated.
func (g *Registry) Notes() []string { return g.notes }

// Resources returns all resources in the order of their groups and names. The slice must not be changed.
func (g *Registry) Resources() []*Resource { return g.sorted }

// Resource returns a resource, or nil if it is not served.
func (g *Registry) Resource(resource schema.GroupResource) *Resource { return g.resources[resource] }

// ForKind returns the resource of a kind, or nil if it is not served.
func (g *Registry) ForKind(kind schema.GroupKind) *Resource { return g.kinds[kind] }

// of returns the resource of an object.
func (g *Registry) of(o *Object) (*Resource, error) {
	kind := o.GroupVersionKind()
	r := g.ForKind(kind.GroupKind())
	if r == nil {
		return nil, errors.New("not simulated: objects of " + kind.String())
	}
	return r, nil
}
