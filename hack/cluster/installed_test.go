// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]string{
		"Kubernetes v1.36.3\n":                                 "v1.36.3",
		"Kubernetes v1.35.0-rc.1-eks-1234567\n":                "v1.35.0",
		"Client Version: v1.36.3\nKustomize Version: v5.8.1\n": "v1.36.3",
		"etcd Version: 3.6.8\nGo Version: go1.26.8\n":          "v3.6.8",
		"kwok version v0.8.0 go1.26.8 (linux/amd64)\n":         "v0.8.0",
	} {
		if got, err := parseVersion(text); err != nil || got.String() != want {
			t.Errorf("parseVersion(%q) = %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "Kubernetes v1.36", "unknown"} {
		if got, err := parseVersion(text); err == nil {
			t.Errorf("parseVersion(%q) = %v, want an error", text, got)
		}
	}
}

// writeBinary writes a script that prints the version as b does.
func writeBinary(t *testing.T, dir string, name, version string) {
	t.Helper()
	i := slices.IndexFunc(binaries, func(b binary) bool { return b.name == name })
	script := fmt.Sprintf("#!/bin/sh\n[ \"$*\" = %q ] && echo %q\n", strings.Join(binaries[i].versionArgs, " "), "Version: "+version)
	if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestFindInstalled(t *testing.T) {
	want := map[string]version{etcdModule: {3, 6, 8}, kubernetesModule: {1, 36, 3}, kwokModule: {0, 8, 0}}
	type versions map[string]string
	kubernetes := func(etcd, apiServer, controllerManager, scheduler, kubectl, kwok string) versions {
		return versions{"etcd": etcd, "kube-apiserver": apiServer, "kube-controller-manager": controllerManager,
			"kube-scheduler": scheduler, "kubectl": kubectl, "kwok": kwok}
	}
	for name, test := range map[string]struct {
		first, second versions
		wantUses      []string
		wantBuilds    string
		wantPackages  []string
		wantTags      []string
	}{
		"nothing is installed": {
			wantPackages: []string{".", kwokPackage},
		},
		"all binaries": {
			first:    kubernetes("3.6.8", "v1.36.3", "v1.36.3", "v1.36.3", "v1.36.3", "v0.8.0"),
			wantUses: []string{"using etcd v3.6.8, kube-apiserver v1.36.3, kube-controller-manager v1.36.3, kube-scheduler v1.36.3, kubectl v1.36.3, kwok v0.8.0 from FIRST"},
			wantTags: []string{"without_etcd", "without_kube_apiserver", "without_kube_controller_manager", "without_kube_scheduler", "without_kubectl", "without_kwok"},
		},
		"all binaries, one minor version older": {
			first:    kubernetes("3.5.21", "v1.35.9", "v1.35.9", "v1.35.9", "v1.35.9", "v0.7.0"),
			wantUses: []string{"using etcd v3.5.21, kube-apiserver v1.35.9, kube-controller-manager v1.35.9, kube-scheduler v1.35.9, kubectl v1.35.9, kwok v0.7.0 from FIRST"},
			wantTags: []string{"without_etcd", "without_kube_apiserver", "without_kube_controller_manager", "without_kube_scheduler", "without_kubectl", "without_kwok"},
		},
		"binaries for envtest": {
			first:        versions{"etcd": "3.6.4", "kube-apiserver": "v1.36.0", "kubectl": "v1.36.0"},
			wantUses:     []string{"using etcd v3.6.4, kube-apiserver v1.36.0, kubectl v1.36.0 from FIRST"},
			wantBuilds:   "building kube-controller-manager, kube-scheduler, kwok (not found)",
			wantPackages: []string{".", kwokPackage},
			wantTags:     []string{"without_etcd", "without_kube_apiserver", "without_kubectl"},
		},
		"kube-apiserver is older than the built components": {
			first:        versions{"etcd": "3.6.4", "kube-apiserver": "v1.35.0", "kubectl": "v1.35.0"},
			wantUses:     []string{"using etcd v3.6.4, kubectl v1.35.0 from FIRST"},
			wantBuilds:   "building kube-apiserver (FIRST/kube-apiserver is v1.35.0, older than kube-controller-manager v1.36.3); kube-controller-manager, kube-scheduler, kwok (not found)",
			wantPackages: []string{".", kwokPackage},
			wantTags:     []string{"without_etcd", "without_kubectl"},
		},
		"only kwok is missing": {
			first:        kubernetes("3.6.8", "v1.36.3", "v1.35.0", "v1.36.3", "v1.36.3", ""),
			wantUses:     []string{"using etcd v3.6.8, kube-apiserver v1.36.3, kube-controller-manager v1.35.0, kube-scheduler v1.36.3, kubectl v1.36.3 from FIRST"},
			wantBuilds:   "building kwok (not found)",
			wantPackages: []string{kwokPackage},
			wantTags:     []string{"without_etcd", "without_kube_apiserver", "without_kube_controller_manager", "without_kube_scheduler", "without_kubectl"},
		},
		"the first usable version is used": {
			first:        versions{"kubectl": "v1.34.9", "kwok": "v0.9.0"},
			second:       versions{"kubectl": "v1.36.1", "etcd": "4.6.8"},
			wantUses:     []string{"using kubectl v1.36.1 from SECOND"},
			wantBuilds:   "building etcd (SECOND/etcd is v4.6.8, need v3.6 or v3.5); kwok (FIRST/kwok is v0.9.0, need v0.8 or v0.7); kube-apiserver, kube-controller-manager, kube-scheduler (not found)",
			wantPackages: []string{".", kwokPackage},
			wantTags:     []string{"without_kubectl"},
		},
		"the version cannot be determined": {
			first:        versions{"kubectl": "unknown"},
			wantBuilds:   `building kubectl (FIRST/kubectl version --client: no version in "Version: unknown\n"); etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok (not found)`,
			wantPackages: []string{".", kwokPackage},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(assetsVariable, "")
			first, second := t.TempDir(), t.TempDir()
			for name, version := range test.first {
				if version != "" {
					writeBinary(t, first, name, version)
				}
			}
			for name, version := range test.second {
				writeBinary(t, second, name, version)
			}
			expand := strings.NewReplacer("FIRST", first, "SECOND", second)

			found := findInstalled(t.Context(), []string{first, second}, want)
			if got, want := strings.Join(found.uses(), "\n"), expand.Replace(strings.Join(test.wantUses, "\n")); got != want {
				t.Errorf("uses() =\n%s\nwant:\n%s", got, want)
			}
			if got, want := found.builds(), expand.Replace(test.wantBuilds); got != want {
				t.Errorf("builds() =\n%s\nwant:\n%s", got, want)
			}
			packages, tags := buildTargets(found)
			if !slices.Equal(packages, test.wantPackages) || !slices.Equal(tags, test.wantTags) {
				t.Errorf("buildTargets() = %q, %q, want %q, %q", packages, tags, test.wantPackages, test.wantTags)
			}
		})
	}
}

func TestSearchDirs(t *testing.T) {
	assets, dir, binDir := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv(assetsVariable, assets)
	t.Setenv("PATH", strings.Join([]string{dir, "", binDir + "/.", "/no/such/directory"}, string(filepath.ListSeparator)))
	if got, want := searchDirs(binDir), []string{assets, dir, "/no/such/directory"}; !slices.Equal(got, want) {
		t.Errorf("searchDirs() = %q, want %q", got, want)
	}
}

func TestUpToDate(t *testing.T) {
	b := &builder{binDir: t.TempDir()}
	if b.upToDate("stamp", nil) {
		t.Error("up to date without a build")
	}
	if err := os.Mkdir(filepath.Join(b.binDir, builtDir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.binDir, builtDir, stampFile), []byte("stamp\netcd\nkwok\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"controlplane", "kwok"} {
		if err := os.WriteFile(filepath.Join(b.binDir, builtDir, file), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		stamp string
		names []string
		want  bool
	}{
		{"stamp", nil, true},
		{"stamp", []string{"kwok"}, true},
		{"stamp", []string{"etcd", "kwok"}, true},
		{"stamp", []string{"kubectl", "kwok"}, false},
		{"other", nil, false},
	} {
		if got := b.upToDate(test.stamp, test.names); got != test.want {
			t.Errorf("upToDate(%q, %q) = %t, want %t", test.stamp, test.names, got, test.want)
		}
	}
	if err := os.Remove(filepath.Join(b.binDir, builtDir, "kwok")); err != nil {
		t.Fatal(err)
	}
	if b.upToDate("stamp", []string{"etcd", "kwok"}) {
		t.Error("up to date without kwok")
	}
}

func TestLink(t *testing.T) {
	b := &builder{binDir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(b.binDir, kubectlBinary), nil, 0o755); err != nil { // to be replaced
		t.Fatal(err)
	}
	for _, paths := range []map[string]string{{"etcd": "/assets/etcd", "kwok": "/assets/kwok"}, {}, {"kubectl": "/usr/bin/kubectl"}} {
		if err := b.link(paths); err != nil {
			t.Fatal(err)
		}
		for _, binary := range binaries {
			want := paths[binary.name]
			if want == "" && binary.name == "kwok" {
				want = "kubernetes/kwok"
			} else if want == "" {
				want = "kubernetes/controlplane"
			}
			if got, err := os.Readlink(filepath.Join(b.binDir, binary.name)); err != nil || got != want {
				t.Errorf("%s links to %q (%v), want %q", binary.name, got, err, want)
			}
		}
	}
}
