// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const (
	artifactsDir = "../../../artifacts"
	chartDir     = artifactsDir + "/chart"
)

// The chart must render to the objects of the kustomization.
func TestChartEqualsKustomization(t *testing.T) {
	for name, test := range map[string]struct {
		kustomization, namespace string
		values                   map[string]any
		crds                     bool
	}{
		"defaults":          {".", "sample-controller", nil, true},
		"another namespace": {".", "controllers", map[string]any{"allNamespaces": true}, true},
		"another image":     {".", "sample-controller", map[string]any{"image": "example.com/team/controller:v1@sha256:" + strings.Repeat("0", 64)}, true},
		"one namespace":     {"install/one-namespace", "team-a", map[string]any{"allNamespaces": false}, false},
		"name of digits":    {"install/one-namespace", "123", map[string]any{"allNamespaces": false, "image": "other:v2"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			image := "sample-controller:latest"
			if other, ok := test.values["image"]; ok {
				image = other.(string)
			}
			manifests, err := Render(artifactsDir, test.kustomization, image, test.namespace)
			must(t, err)
			want := parseObjects(t, manifests)
			// Helm needs the namespace before it installs a chart.
			delete(want, "v1 Namespace "+test.namespace)
			rendered, err := renderChart(loadChart(t), test.namespace, test.values, test.crds)
			must(t, err)
			compareObjects(t, parseObjects(t, []byte(rendered)), want)
		})
	}
}

func TestChartCRD(t *testing.T) {
	crds := loadChart(t).CRDObjects()
	want, err := os.ReadFile(artifactsDir + "/examples/crd.yaml")
	must(t, err)
	if len(crds) != 1 || !bytes.Equal(crds[0].File.Data, want) {
		t.Error("the chart's CRD is not that of artifacts/examples/crd.yaml; run: make generate")
	}
}

func TestChartInvalidValues(t *testing.T) {
	for value, content := range map[string]any{"replicas": 3, "allNamespaces": "false", "image": ""} {
		t.Run(value, func(t *testing.T) {
			_, err := renderChart(loadChart(t), "sample-controller", map[string]any{value: content}, false)
			if err == nil || !strings.Contains(err.Error(), "values don't meet the specifications of the schema") || !strings.Contains(err.Error(), value) {
				t.Errorf("error = %v, want one of the schema that names the value", err)
			}
		})
	}
}

func TestChartLint(t *testing.T) {
	for _, message := range lint.RunAll(chartDir, nil, "sample-controller").Messages {
		if message.Severity > support.InfoSev {
			t.Error(message)
		}
	}
}

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	chart, err := loader.Load(chartDir)
	must(t, err)
	return chart
}

// renderChart returns what helm install would send to the API server.
func renderChart(chart *chart.Chart, namespace string, values map[string]any, crds bool) (string, error) {
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy = action.DryRunClient
	install.KubeVersion = &common.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"}
	install.ReleaseName, install.Namespace, install.IncludeCRDs = "any", namespace, crds
	rendered, err := install.Run(chart, values)
	if err != nil {
		return "", err
	}
	release := rendered.(*releasev1.Release)
	if len(release.Hooks) > 0 {
		return "", fmt.Errorf("unexpected hooks: %v", release.Hooks)
	}
	return release.Manifest, nil
}

// parseObjects returns the objects of a manifest by API version, kind, namespace and name.
func parseObjects(t *testing.T, manifest []byte) map[string]any {
	t.Helper()
	objects := map[string]any{}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		must(t, err)
		var content any
		must(t, yaml.UnmarshalStrict(document, &content))
		if content == nil {
			continue // Only comments.
		}
		var object struct {
			APIVersion, Kind string
			Metadata         struct{ Namespace, Name string }
		}
		must(t, yaml.Unmarshal(document, &object))
		key := strings.Join(slices.DeleteFunc([]string{object.APIVersion, object.Kind, object.Metadata.Namespace, object.Metadata.Name},
			func(part string) bool { return part == "" }), " ")
		if _, ok := objects[key]; ok {
			t.Errorf("%s: more than once", key)
		}
		objects[key] = content
	}
}

func compareObjects(t *testing.T, got, want map[string]any) {
	t.Helper()
	for key := range maps.Keys(want) {
		if got[key] == nil {
			t.Errorf("%s: missing", key)
		}
	}
	for key, object := range got {
		switch {
		case want[key] == nil:
			t.Errorf("%s: unexpected", key)
		case !reflect.DeepEqual(object, want[key]):
			t.Errorf("%s: got:\n%s\nwant:\n%s", key, asYAML(t, object), asYAML(t, want[key]))
		}
	}
}

func asYAML(t *testing.T, object any) string {
	t.Helper()
	content, err := yaml.Marshal(object)
	must(t, err)
	return string(content)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
