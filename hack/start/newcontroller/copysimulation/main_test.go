// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../../../.."

// files are those of a small module: a controller that gives each Widget a ConfigMap, and changes it whenever it looks at it.
var files = map[string]string{
	"go.mod": "module example.com/widgets\n\ngo 1.26.0\n",
	"main.go": `package main

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func main() {}

func run(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	for ctx.Err() == nil && err == nil {
		_, _ = client.CoreV1().ConfigMaps("default").Apply(ctx, corev1.ConfigMap("time", "default").
			WithData(map[string]string{"time": time.Now().String()}), metav1.ApplyOptions{FieldManager: "widgets"})
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return err
}
`,
	"artifacts/examples/crd.yaml": `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}
`,
	"artifacts/examples/widget.yaml": "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: widget, namespace: default}\nspec: {size: 1}\n",
}

// newModule writes a module, in which some files have other contents.
func newModule(t *testing.T, changed map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "widgets")
	for _, all := range []map[string]string{files, changed} {
		for name, content := range all {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestCopy copies the simulation, completes the test, and has a promise broken.
func TestCopy(t *testing.T) {
	dir := newModule(t, nil)
	var out strings.Builder
	if err := run(t.Context(), root, dir, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Created simulation_test.go. CRDs: artifacts/examples/crd.yaml; examples: artifacts/examples/widget.yaml.",
		"Added to go.mod: k8s.io/client-go v", "Added to go.mod: k8s.io/kube-openapi v"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output does not have %q:\n%s", want, &out)
		}
	}
	path := filepath.Join(dir, testFile)
	if output := walk(t, dir); !strings.Contains(output, "complete runController in simulation_test.go") {
		t.Errorf("the test that is not complete prints:\n%s", output)
	}
	completed := strings.Replace(read(t, path), `errors.New("complete runController in simulation_test.go")`, "run(ctx, restConfig)", 1)
	completed = strings.Replace(completed, "\t\"errors\"\n", "", 1)
	stale := filepath.Join(dir, packageDir, "stale.go")
	for name, content := range map[string]string{path: completed, stale: "package simulation\n"} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if output := walk(t, dir); !strings.Contains(output, "BROKEN PROMISE        silent: ") {
		t.Errorf("the completed test prints:\n%s", output)
	}

	if err := run(t.Context(), root, dir, &out); err != nil {
		t.Fatal(err)
	}
	if read(t, path) != completed || exists(stale) {
		t.Error("the update does not keep the test, or keeps a file that is not in the simulation any more")
	}
}

// walk runs the test of a module, which fails, and returns its output.
func walk(t *testing.T, dir string) string {
	t.Helper()
	command := exec.Command("go", "test", "-vet=off", "-run=^TestSimulation$/^walks$", ".", "-walks=2", "-shrink=1s")
	command.Dir = dir
	command.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	output, err := command.CombinedOutput()
	if err == nil {
		t.Errorf("no promise is broken:\n%s", output)
	}
	return string(output)
}

// TestManager prepares the test of a project as kubebuilder creates it.
func TestManager(t *testing.T) {
	dir := newModule(t, map[string]string{
		"api/v1/types.go": "package v1\n\nvar AddToScheme = func() {}\n",
		"internal/controller/widget.go": `package controller

type WidgetReconciler struct {
	client.Client
	Scheme *runtime.Scheme
	Clock  Clock
}

func (r *WidgetReconciler) SetupWithManager(mgr ctrl.Manager) error { return nil }
`,
		"config/crd/bases/widgets.yaml":     files["artifacts/examples/crd.yaml"],
		"config/samples/widget.yaml":        files["artifacts/examples/widget.yaml"],
		"config/samples/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n",
	})
	prepared, err := newTest(&module{dir: dir, path: "example.com/widgets", required: map[string]string{"sigs.k8s.io/controller-runtime": "v0.25.2"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := prepared.write(dir, &strings.Builder{}); err != nil {
		t.Fatal(err)
	}
	content := read(t, filepath.Join(dir, "test/simulation/simulation_test.go"))
	for _, want := range []string{
		`apiv1 "example.com/widgets/api/v1"`, "apiv1.AddToScheme}", `"../../config/crd/bases/widgets.yaml"}`, `"../../config/samples/widget.yaml"}`,
		"(&controller.WidgetReconciler{Client: manager.GetClient(), Scheme: manager.GetScheme()}).SetupWithManager(manager)", "// Complete: Clock.",
	} {
		if !strings.Contains(content, want) {
			t.Errorf("the test does not have %s:\n%s", want, content)
		}
	}
}

// TestAliases gives packages whose last elements are the same other aliases.
func TestAliases(t *testing.T) {
	taken := map[string]bool{}
	for _, test := range []struct{ path, want string }{
		{"api/v1", "apiv1"}, {"api/bootstrap/kubeadm/v1", "kubeadmv1"}, {"api/control-plane/kubeadm/v1", "controlplanekubeadmv1"},
		{"internal/controller", "controller"},
	} {
		if got := aliasOf(test.path, taken); got != test.want {
			t.Errorf("the alias of %s is %s, want %s", test.path, got, test.want)
		}
	}
}

// TestIsManager has modules that require controller-runtime.
func TestIsManager(t *testing.T) {
	for imported, want := range map[string]bool{"": true, "/pkg/manager": true, "/pkg/conversion": false} {
		dir := newModule(t, map[string]string{"internal/run.go": "package internal\n\nimport _ \"sigs.k8s.io/controller-runtime" + imported + "\"\n"})
		for version, want := range map[string]bool{"sigs.k8s.io/controller-runtime": want, "k8s.io/client-go": false} {
			if is, err := isManager(&module{dir: dir, required: map[string]string{version: "v0.25.2"}}, nil); err != nil || is != want {
				t.Errorf("with %s, and the import of %s: isManager() = %t, %v", version, imported, is, err)
			}
		}
	}
}

// TestManifests finds the CRD of a project wherever projects have them, and says where it has looked for what it has not found.
func TestManifests(t *testing.T) {
	for layout, want := range map[string]string{
		"config/crds/bases": "CRDs: ../../config/crds/bases/widgets.yaml; examples: none found in config/samples, config/samples/*, artifacts/examples, examples, deploy/examples.",
		"config/crds/v1":    "CRDs: ../../config/crds/v1/widgets.yaml;",
		"manifests/crds":    "CRDs: ../../manifests/crds/widgets.yaml;",
		// Of a larger project, and of its tests.
		"core/config/crd/bases": "CRDs: ../../core/config/crd/bases/widgets.yaml;",
		"test/config/crd/bases": "CRDs: none found in ",
		"api/crds":              "CRDs: none found in config/crd/bases, config/crds/bases, config/crds/v1, artifacts/examples, manifests/crds, deploy/crds;",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, layout, "widgets.yaml")
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(files["artifacts/examples/crd.yaml"]), 0o644)); err != nil {
			t.Fatal(err)
		}
		prepared, err := newTest(&module{dir: dir, path: "example.com/widgets"})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := prepared.write(dir, &out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("with %s, it says %s (%v), want %s", layout, out.String(), err, want)
		}
	}
}

func TestInvalidInput(t *testing.T) {
	const requirement = "module example.com/widgets\n\ngo 1.26.0\n\nrequire k8s.io/client-go v0.34.0\n\nreplace k8s.io/client-go => ./client-go v0.34.0\n"
	for name, test := range map[string]struct{ dir, want string }{
		"no directory":        {"", "DIR= is required"},
		"missing":             {filepath.Join(t.TempDir(), "missing"), "no such file"},
		"no go.mod":           {t.TempDir(), "there is no go.mod"},
		"this project":        {root, "this project"},
		"below this project":  {root + "/hack/check/bench", "this project"},
		"a started one":       {newModule(t, map[string]string{"hack/simulation/apiserver/server.go": "package apiserver\n"}), "what make new creates"},
		"another package":     {newModule(t, map[string]string{packageDir + "/simulation.go": "package simulation\n"}), "not a copy"},
		"an old Go":           {newModule(t, map[string]string{"go.mod": "module example.com/widgets\n\ngo 1.25.3\n"}), "go -C "},
		"no CRD of a project": {newModule(t, map[string]string{"config/crd/kustomization.yaml": "", "artifacts/examples/crd.yaml": ""}), "make manifests"},
		"invalid go.mod":      {newModule(t, map[string]string{"go.mod": requirement}), "go.mod:7"},
	} {
		t.Run(name, func(t *testing.T) {
			err := run(t.Context(), root, test.dir, &strings.Builder{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want one with %q", err, test.want)
			}
		})
	}
	for controllerRuntime, want := range map[string]string{"": "k8s.io/client-go@latest", "v0.22.1": "sigs.k8s.io/controller-runtime@latest"} {
		m := &module{required: map[string]string{"k8s.io/client-go": "v0.34.9", "k8s.io/api": "v0.37.2", "sigs.k8s.io/controller-runtime": controllerRuntime}}
		if err := m.checkKubernetes("widgets", nil); err == nil || !strings.Contains(err.Error(), "needs "+oldestKubernetes) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("error = %v, want one with %s, and %s at the end", err, oldestKubernetes, want)
		}
	}
	m := &module{required: map[string]string{"k8s.io/client-go": "v0.34.9"}}
	replacing := newModule(t, map[string]string{"go.mod": "module example.com/widgets\n\nreplace k8s.io/client-go => k8s.io/client-go v0.34.9\n"})
	if err := m.checkKubernetes(replacing, nil); err == nil || !strings.HasSuffix(err.Error(), "replace directives") {
		t.Errorf("error = %v, want one about the replace directives, which go get does not change", err)
	}
}
