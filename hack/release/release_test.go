// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"k8s.io/sample-controller/hack/release/manifests"
)

const (
	root         = "../.."
	artifactsDir = root + "/artifacts"

	commitTime = "2026-01-02T03:04:05Z"
	version    = "v1.2.3"
	image      = "registry.example.com/team/sample-controller"
)

// TestRelease builds the release of the working tree twice, in different environments, and checks the files. With -short it builds for
// Linux only: compiling for the other platforms takes minutes.
func TestRelease(t *testing.T) {
	if testing.Short() {
		all := platforms
		platforms = slices.DeleteFunc(slices.Clone(all), isNotLinux)
		t.Cleanup(func() { platforms = all })
	}
	first := newRepository(t)
	build(t, first)

	second := filepath.Join(t.TempDir(), "a", "longer", "path", "of", "another", "clone")
	runGit(t, first, "clone", "--quiet", first, second)
	runGit(t, second, "tag", version)
	runGit(t, second, "tag", "v1.9.0")
	runGit(t, second, "checkout", "--quiet", "--detach")
	must(t, os.Mkdir(filepath.Join(second, distDir), 0o755))
	must(t, os.WriteFile(filepath.Join(second, distDir, "former"), nil, 0o644))
	config := filepath.Join(t.TempDir(), "gitconfig")
	must(t, os.WriteFile(config, []byte("[core]\nabbrev=5\n[log]\nshowSignature=true\n[tag]\ngpgSign=true\n"), 0o644))
	for key, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": config, "TZ": "Asia/Tokyo", "GOFLAGS": "-buildvcs=false -tags=other", "GOAMD64": "v3", "CGO_ENABLED": "1",
	} {
		t.Setenv(key, value)
	}
	defer syscall.Umask(syscall.Umask(0o077))
	build(t, second)

	t.Run("reproducible", func(t *testing.T) {
		want := []string{
			"SHA256SUMS", "install.yaml", "release-notes.md",
			"sample-controller-v1.2.3-chart.tgz", "sample-controller-v1.2.3-image.tar", "sample-controller-v1.2.3-sbom.cdx.json",
			"sample-controller-v1.2.3-linux-amd64.tar.gz", "sample-controller-v1.2.3-linux-arm64.tar.gz",
		}
		if !testing.Short() {
			want = append(want,
				"sample-controller-v1.2.3-darwin-amd64.tar.gz", "sample-controller-v1.2.3-darwin-arm64.tar.gz",
				"sample-controller-v1.2.3-windows-amd64.zip", "sample-controller-v1.2.3-windows-arm64.zip")
		}
		slices.Sort(want)
		for _, dir := range []string{first, second} {
			if got := names(t, filepath.Join(dir, distDir)); !slices.Equal(got, want) {
				t.Errorf("files:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		for _, file := range want {
			if !bytes.Equal(readFile(t, first, distDir, file), readFile(t, second, distDir, file)) {
				t.Errorf("%s of two builds of the same commit differ", file)
			}
		}
	})

	dist := filepath.Join(first, distDir)
	head := runGit(t, first, "rev-parse", "HEAD")
	digest := imageDigest(t, dist)
	pinned := image + ":" + version + "@" + digest
	t.Run("checksums", func(t *testing.T) { checkChecksums(t, dist) })
	t.Run("binaries", func(t *testing.T) { checkBinaries(t, dist, head) })
	t.Run("image", func(t *testing.T) { checkImageBinaries(t, dist) })
	t.Run("manifests", func(t *testing.T) { checkManifests(t, dist, pinned) })
	t.Run("chart", func(t *testing.T) { checkChart(t, dist, pinned) })
	t.Run("SBOM", func(t *testing.T) { checkBOM(t, dist) })
	t.Run("notes", func(t *testing.T) {
		want := fmt.Sprintf(`## Changes since v1.2.2

- Correct drift of \*all\* labels, \_even\_ \<new> ones (%.12s)
- Report \`+"`Ready\\`"+` (%.12s)

## Installation

`+"`kubectl apply -f install.yaml` installs the controller for all namespaces, with the image `%s`"+`.

## Provenance

Built from commit %[4]s with %[5]s. The digest of the image is `+"`%[6]s`"+`. The files can be
reproduced from the commit with `+"`GOTOOLCHAIN=%[5]s make release VERSION=%[7]s IMAGE=%[8]s`"+`.
`, head, runGit(t, first, "rev-parse", "HEAD^"), pinned, head, runtime.Version(), digest, version, image)
		if got := string(readFile(t, dist, "release-notes.md")); got != want {
			t.Errorf("release notes:\n%s\nwant:\n%s", got, want)
		}
	})
}

func isNotLinux(p platform) bool { return p.os != "linux" }

func TestNotesOfFirstRelease(t *testing.T) {
	r := release{source: source{version: "v0.1.0"}, files: t.TempDir(), progress: io.Discard}
	must(t, r.writeNotes("controller:v0.1.0", "sha256:0", "go1.26.0"))
	if got := string(readFile(t, r.files, "release-notes.md")); !strings.HasPrefix(got, "The first release.\n\n## Installation") {
		t.Errorf("release notes:\n%s", got)
	}
}

func TestPinnedImage(t *testing.T) {
	for image, want := range map[string]string{
		"controller":                  "controller:v1.2.3",
		"team/controller":             "team/controller:v1.2.3@sha256:0",
		"localhost:5000/a/controller": "localhost:5000/a/controller:v1.2.3@sha256:0",
	} {
		r := release{source: source{version: version}, image: image}
		if got := r.pinnedImage("sha256:0"); got != want {
			t.Errorf("image %s is pinned as %s, want %s", image, got, want)
		}
	}
}

// newRepository returns a git repository with the files of the working tree.
func newRepository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	runGit(t, dir, "init", "--quiet", "--object-format=sha1")
	for name := range strings.SplitSeq(runGit(t, root, "ls-files", "--cached", "--others", "--exclude-standard", "-z"), "\x00") {
		info, err := os.Stat(filepath.Join(root, name))
		if name == "" || errors.Is(err, fs.ErrNotExist) {
			continue // Deleted, but not committed.
		}
		must(t, err)
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, readFile(t, root, name), info.Mode().Perm()))
	}
	commit(t, dir, "Start")
	runGit(t, dir, "tag", "v1.2.2")
	commit(t, dir, "Report `Ready`")
	runGit(t, dir, "tag", "v1.2.3-rc.1")
	commit(t, dir, "Correct drift of *all* labels, _even_ <new> ones")
	return dir
}

func build(t *testing.T, dir string) {
	t.Helper()
	var progress bytes.Buffer
	if err := run(t.Context(), dir, version, image, &progress); err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
}

func checkChecksums(t *testing.T, dist string) {
	var want []string
	for _, name := range names(t, dist) {
		if name != "SHA256SUMS" {
			want = append(want, fmt.Sprintf("%x  %s\n", sha256.Sum256(readFile(t, dist, name)), name))
		}
	}
	if got := string(readFile(t, dist, "SHA256SUMS")); got != strings.Join(want, "") {
		t.Errorf("SHA256SUMS:\n%s\nwant:\n%s", got, strings.Join(want, ""))
	}
}

func checkBinaries(t *testing.T, dist, commit string) {
	for _, p := range platforms {
		content := binaryOf(t, dist, p)
		info, err := buildinfo.Read(bytes.NewReader(content))
		must(t, err)
		settings := map[string]string{}
		for _, setting := range info.Settings {
			settings[setting.Key] = setting.Value
		}
		for key, want := range map[string]string{
			"GOOS": p.os, "GOARCH": p.arch, "CGO_ENABLED": "0", "-trimpath": "true", "vcs.revision": commit, "vcs.modified": "false", "-tags": "",
		} {
			if settings[key] != want {
				t.Errorf("%s/%s: %s = %q, want %q", p.os, p.arch, key, settings[key], want)
			}
		}
		if info.Main.Version != version {
			t.Errorf("%s/%s: version = %q, want %q", p.os, p.arch, info.Main.Version, version)
		}
		if p.os != runtime.GOOS || p.arch != runtime.GOARCH {
			continue
		}
		path := filepath.Join(t.TempDir(), "controller")
		must(t, os.WriteFile(path, content, 0o700))
		out, err := exec.CommandContext(t.Context(), path, "-version").Output()
		must(t, err)
		if want := fmt.Sprintf("sample-controller %s, commit %s, %s\n", version, commit, runtime.Version()); string(out) != want {
			t.Errorf("-version printed %q, want %q", out, want)
		}
	}
}

// binaryOf returns the binary in the archive for a platform, and checks the archive.
func binaryOf(t *testing.T, dist string, p platform) []byte {
	t.Helper()
	dir := "sample-controller-" + version + "-" + p.os + "-" + p.arch
	var files map[string]archived
	executable := "sample-controller"
	if p.os == "windows" {
		executable += ".exe"
		files = zipFiles(t, readFile(t, dist, dir+".zip"))
	} else {
		files = tarFiles(t, uncompressed(t, readFile(t, dist, dir+".tar.gz")), commitTime)
	}
	license, binary := files[dir+"/LICENSE"], files[dir+"/"+executable]
	if len(files) != 2 || license.mode != 0o644 || binary.mode != 0o755 || !bytes.Equal(license.content, readFile(t, root, "LICENSE")) {
		t.Errorf("%s: the archive has %d files, LICENSE with mode %o, %s with mode %o", dir, len(files), license.mode, executable, binary.mode)
	}
	return binary.content
}

// imageDigest returns the digest of the only index in the archive of the image, and checks the name.
func imageDigest(t *testing.T, dist string) string {
	t.Helper()
	var index struct {
		Manifests []struct {
			Digest      string
			Annotations map[string]string
		}
	}
	must(t, json.Unmarshal(imageFiles(t, dist)["index.json"].content, &index))
	if len(index.Manifests) != 1 {
		t.Fatalf("the archive has %d indexes, want 1", len(index.Manifests))
	}
	if got := index.Manifests[0].Annotations["io.containerd.image.name"]; got != image+":"+version {
		t.Errorf("name of the image = %q", got)
	}
	return index.Manifests[0].Digest
}

// checkImageBinaries checks that the image contains the same binaries as the archives.
func checkImageBinaries(t *testing.T, dist string) {
	want := [][]byte{binaryOf(t, dist, platform{"linux", "amd64"}), binaryOf(t, dist, platform{"linux", "arm64"})}
	found := 0
	for path, file := range imageFiles(t, dist) {
		if !bytes.HasPrefix(file.content, []byte("\x1f\x8b")) {
			continue // Not a layer.
		}
		layer := tarFiles(t, uncompressed(t, file.content), "1970-01-01T00:00:00Z")
		if !slices.ContainsFunc(want, func(binary []byte) bool { return bytes.Equal(binary, layer["sample-controller"].content) }) {
			t.Errorf("the layer %s has another binary than the archives", path)
		}
		found++
	}
	if found != len(want) {
		t.Errorf("the image has %d layers, want %d", found, len(want))
	}
}

func imageFiles(t *testing.T, dist string) map[string]archived {
	t.Helper()
	return tarFiles(t, readFile(t, dist, "sample-controller-"+version+"-image.tar"), "1970-01-01T00:00:00Z")
}

func checkManifests(t *testing.T, dist, pinned string) {
	objects, err := manifests.Render(artifactsDir, ".", pinned, "")
	must(t, err)
	_, got, _ := bytes.Cut(readFile(t, dist, "install.yaml"), []byte("\n")) // The first line has the version.
	if !bytes.Equal(got, objects) {
		t.Errorf("install.yaml:\n%s\nwant:\n%s", got, objects)
	}
	if count := strings.Count(string(got), "image: "+pinned+"\n"); count != 1 {
		t.Errorf("install.yaml has the image %s %d times, want once", pinned, count)
	}
}

// checkChart checks that the chart is that of the repository, but for the version and the image.
func checkChart(t *testing.T, dist, pinned string) {
	archive := readFile(t, dist, "sample-controller-"+version+"-chart.tgz")
	files := tarFiles(t, uncompressed(t, archive), commitTime)
	chart, err := loader.LoadArchive(bytes.NewReader(archive))
	must(t, err)
	if chart.Metadata.Version != "1.2.3" || chart.Metadata.AppVersion != version || chart.Values["image"] != pinned {
		t.Errorf("version = %q, appVersion = %q, image = %v", chart.Metadata.Version, chart.Metadata.AppVersion, chart.Values["image"])
	}
	released := strings.NewReplacer("\nversion: 0.0.0\n", "\nversion: 1.2.3\nappVersion: v1.2.3\n",
		"\nimage: sample-controller:latest\n", fmt.Sprintf("\nimage: %q\n", pinned))
	must(t, fs.WalkDir(os.DirFS(artifactsDir+"/chart"), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		got, want := string(files[name+"/"+path].content), released.Replace(string(readFile(t, artifactsDir, "chart", path)))
		if got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", path, got, want)
		}
		delete(files, name+"/"+path)
		return nil
	}))
	if len(files) > 0 {
		t.Errorf("files that are not in the repository: %v", files)
	}
}

func checkBOM(t *testing.T, dist string) {
	content := readFile(t, dist, "sample-controller-"+version+"-sbom.cdx.json")
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	must(t, err)
	must(t, bomSchema(t).Validate(document))
	var bom cyclonedx.BOM
	must(t, cyclonedx.NewBOMDecoder(bytes.NewReader(content), cyclonedx.BOMFileFormatJSON).Decode(&bom))

	want := map[string]bool{"pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go"): true}
	for _, p := range platforms {
		info, err := buildinfo.Read(bytes.NewReader(binaryOf(t, dist, p)))
		must(t, err)
		for _, module := range info.Deps {
			want["pkg:golang/"+module.Path+"@"+module.Version] = true
		}
	}
	for _, c := range *bom.Components {
		if !want[c.PackageURL] {
			t.Errorf("%s is in no binary", c.PackageURL)
		}
		delete(want, c.PackageURL)
	}
	for url := range want {
		t.Errorf("%s is missing", url)
	}
	if got := bom.Metadata.Component.PackageURL; !strings.HasSuffix(got, "k8s.io/sample-controller@"+version) {
		t.Errorf("the controller is %s", got)
	}
	if bom.Metadata.Timestamp != commitTime {
		t.Errorf("timestamp = %s, want that of the commit", bom.Metadata.Timestamp)
	}
}

// bomSchema returns the JSON schema of CycloneDX, which is in the library's module.
func bomSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	must(t, err)
	compiler := jsonschema.NewCompiler()
	for name, file := range map[string]string{
		"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(readFile(t, strings.TrimSpace(string(dir)), "schema", file)))
		must(t, err)
		must(t, compiler.AddResource("http://cyclonedx.org/schema/"+name, schema))
	}
	schema, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	must(t, err)
	return schema
}

// tarFiles returns the files of a tar file, and checks that they have this time and no owner.
func tarFiles(t *testing.T, content []byte, modified string) map[string]archived {
	t.Helper()
	files := map[string]archived{}
	r := tar.NewReader(bytes.NewReader(content))
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must(t, err)
		if got := header.ModTime.UTC().Format(time.RFC3339); got != modified || header.Uid+header.Gid != 0 || header.Uname+header.Gname != "" {
			t.Errorf("header = %+v", header)
		}
		content, err := io.ReadAll(r)
		must(t, err)
		files[header.Name] = archived{path: header.Name, mode: header.FileInfo().Mode(), content: content}
	}
}

func zipFiles(t *testing.T, content []byte) map[string]archived {
	t.Helper()
	files := map[string]archived{}
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	must(t, err)
	for _, file := range archive.File {
		if got := file.Modified.UTC().Format(time.RFC3339); got != commitTime {
			t.Errorf("%s: time = %s, want %s", file.Name, got, commitTime)
		}
		r, err := file.Open()
		must(t, err)
		content, err := io.ReadAll(r)
		must(t, err)
		files[file.Name] = archived{path: file.Name, mode: file.Mode(), content: content}
	}
	return files
}

func uncompressed(t *testing.T, content []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(content))
	must(t, err)
	uncompressed, err := io.ReadAll(r)
	must(t, err)
	return uncompressed
}

func readFile(t *testing.T, path ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	must(t, err)
	return content
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
