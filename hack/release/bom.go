// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// writeBOM writes the software bill of materials of all binaries: the Go modules that they contain, according to themselves, and the
// standard library. Its serial number is derived from the commit and the version.
func (r *release) writeBOM(binaries []binary) error {
	controller := component(cyclonedx.ComponentTypeApplication, r.module, r.version)
	controller.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}
	components := modules(binaries)
	var refs []string
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte(controller.PackageURL+"?commit="+r.commit)).URN()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &controller}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: controller.BOMRef, Dependencies: &refs}}

	var content bytes.Buffer
	// Readers of the newest version are still rare.
	err := cyclonedx.NewBOMEncoder(&content, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6)
	if err != nil {
		return err
	}
	return r.writeFile(r.fileName("sbom.cdx.json"), content.Bytes())
}

// modules returns the modules that at least one of the binaries contains, sorted by path.
func modules(binaries []binary) []cyclonedx.Component {
	found := map[string]cyclonedx.Component{}
	for _, b := range binaries {
		standardLibrary := &debug.Module{Path: "stdlib", Version: strings.TrimPrefix(b.info.GoVersion, "go")}
		for _, module := range append(b.info.Deps, standardLibrary) {
			if module.Replace != nil {
				module = module.Replace
			}
			c := component(cyclonedx.ComponentTypeLibrary, module.Path, module.Version)
			found[c.BOMRef] = c
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b cyclonedx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
}

func component(kind cyclonedx.ComponentType, path, version string) cyclonedx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cyclonedx.Component{BOMRef: url, Type: kind, Name: path, Version: version, PackageURL: url}
}
