// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// A program that compiles quickly, and the time of its commit.
const (
	goMod      = "module example.com/program\n\ngo 1.26.0\n"
	mainGo     = "package main\n\nfunc main() {}\n"
	commitTime = "2026-01-02T03:04:05Z"
)

func TestReproducible(t *testing.T) {
	first := filepath.Join(t.TempDir(), "archive.tar")
	firstOut := mustRun(t, "-source="+newRepository(t), "-output="+first)

	t.Setenv("GOFLAGS", "-buildvcs=false -tags=other")
	t.Setenv("GOAMD64", "v3")
	second := filepath.Join(t.TempDir(), "archive.tar")
	secondOut := mustRun(t, "-source="+newRepository(t), "-output="+second)

	if !bytes.Equal(readFile(t, first), readFile(t, second)) {
		t.Error("two archives of the same source differ")
	}
	if a, b := digestLine(t, firstOut), digestLine(t, secondOut); a != b {
		t.Errorf("two images of the same source have different digests: %s, %s", a, b)
	}
}

func TestPlatforms(t *testing.T) {
	source := newRepository(t)
	archive := filepath.Join(t.TempDir(), "not", "yet", "there", "archive.tar")
	out := mustRun(t, "-source="+source, "-output="+archive)
	index, annotations := openArchive(t, archive)

	wantAnnotations := map[string]string{
		"io.containerd.image.name":          "docker.io/library/sample-controller:latest",
		"org.opencontainers.image.ref.name": "latest",
	}
	if !maps.Equal(annotations, wantAnnotations) {
		t.Errorf("annotations = %v, want %v", annotations, wantAnnotations)
	}
	digest, err := index.Digest()
	must(t, err)
	if got := digestLine(t, out); got != "Digest: "+digest.String() {
		t.Errorf("printed %q, but the archive has %s", got, digest)
	}
	manifest, err := index.IndexManifest()
	must(t, err)
	machines := map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64}
	if len(manifest.Manifests) != len(machines) {
		t.Fatalf("the index has %d images, want %d", len(manifest.Manifests), len(machines))
	}
	wantLabels := map[string]string{
		"org.opencontainers.image.title":    "sample-controller",
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.version":  "v0.0.0-20260102030405-" + revision(t, source)[:12],
		"org.opencontainers.image.revision": revision(t, source),
	}
	for _, descriptor := range manifest.Manifests {
		platform := descriptor.Platform.String()
		t.Run(platform, func(t *testing.T) {
			if descriptor.MediaType != types.OCIManifestSchema1 || descriptor.ArtifactType != "" {
				t.Errorf("media type = %q, artifact type = %q", descriptor.MediaType, descriptor.ArtifactType)
			}
			image, err := index.Image(descriptor.Digest)
			must(t, err)
			checkConfig(t, image, platform, wantLabels)
			checkBinary(t, onlyFile(t, image), machines[platform])
		})
	}
}

func TestDockerManifest(t *testing.T) {
	source := newRepository(t)
	for _, platforms := range []string{"linux/amd64,linux/arm64", "linux/arm64,linux/amd64"} {
		t.Run(platforms, func(t *testing.T) {
			archive := filepath.Join(t.TempDir(), "archive.tar")
			mustRun(t, "-source="+source, "-output="+archive, "-platforms="+platforms, "-image=example.com/team/controller:v1")

			tag, err := name.NewTag("example.com/team/controller:v1")
			must(t, err)
			docker, err := tarball.ImageFromPath(archive, &tag)
			must(t, err)
			must(t, validate.Image(docker))
			dockerID, err := docker.ConfigName()
			must(t, err)

			index, _ := openArchive(t, archive)
			manifest, err := index.IndexManifest()
			must(t, err)
			image, err := index.Image(manifest.Manifests[0].Digest)
			must(t, err)
			id, err := image.ConfigName()
			must(t, err)
			config, err := docker.ConfigFile()
			must(t, err)
			if want, _, _ := strings.Cut(platforms, ","); config.Platform().String() != want || dockerID != id {
				t.Errorf("manifest.json has the image of %s (%s), want %s (%s)", config.Platform(), dockerID, want, id)
			}
		})
	}
}

func TestNoVersion(t *testing.T) {
	tests := []struct {
		name   string
		source func(*testing.T) string
		flags  []string
	}{
		{name: "no repository", source: newSource},
		{name: "no git", source: func(t *testing.T) string {
			source := newRepository(t)
			goCommand, err := exec.LookPath("go")
			must(t, err)
			bin := t.TempDir()
			must(t, os.Symlink(goCommand, filepath.Join(bin, "go")))
			t.Setenv("PATH", bin)
			return source
		}},
		{name: "buildvcs disabled", source: newRepository, flags: []string{"-buildvcs=false"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			config := configOf(t, test.source(t), test.flags...)
			for _, label := range []string{"version", "revision"} {
				if value, ok := config.Config.Labels["org.opencontainers.image."+label]; ok {
					t.Errorf("label %s = %q, want none", label, value)
				}
			}
			if created := config.Created.Time; !created.Equal(time.Unix(0, 0)) {
				t.Errorf("created = %s, want the epoch", created)
			}
		})
	}
}

func TestDirtyVersion(t *testing.T) {
	source := newRepository(t)
	must(t, os.WriteFile(filepath.Join(source, "main.go"), []byte(mainGo+"\n// Changed.\n"), 0o644))
	labels := configOf(t, source).Config.Labels
	if got, want := labels["org.opencontainers.image.revision"], revision(t, source)+"+dirty"; got != want {
		t.Errorf("revision = %q, want %q", got, want)
	}
	if got := labels["org.opencontainers.image.version"]; !strings.HasSuffix(got, "+dirty") {
		t.Errorf("version = %q, want suffix +dirty", got)
	}
}

func TestFailedBuildKeepsArchive(t *testing.T) {
	source := newSource(t)
	must(t, os.WriteFile(filepath.Join(source, "main.go"), []byte("package main\n\nfunc main() { undefined() }\n"), 0o644))
	archive := filepath.Join(t.TempDir(), "archive.tar")
	must(t, os.WriteFile(archive, []byte("old"), 0o644))

	o, err := parseFlags([]string{"-source=" + source, "-output=" + archive}, io.Discard)
	must(t, err)
	var progress bytes.Buffer
	err = run(t.Context(), o, io.Discard, &progress)
	if err == nil || !strings.Contains(err.Error(), "for linux/amd64 failed") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error = %q, want one line that names the platform", err)
	}
	if !strings.Contains(progress.String(), "undefined: undefined") {
		t.Errorf("progress = %q, want the compiler's error", &progress)
	}
	if got := readFile(t, archive); string(got) != "old" {
		t.Error("the old archive was overwritten")
	}
}

func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	image := strings.TrimPrefix(server.URL, "http://") + "/team/controller:v1"
	out := mustRun(t, "-source="+newRepository(t), "-output="+filepath.Join(t.TempDir(), "archive.tar"), "-image="+image, "-push")

	tag, err := name.NewTag(image)
	must(t, err)
	index, err := remote.Index(tag)
	must(t, err)
	must(t, validate.Index(index))
	digest, err := index.Digest()
	must(t, err)
	if got := digestLine(t, out); got != "Digest: "+digest.String() {
		t.Errorf("printed %q, but the registry has %s", got, digest)
	}
}

func TestUsageErrors(t *testing.T) {
	tests := []struct{ flag, want string }{
		{"-platforms=linux/toaster", `-platforms: "linux/toaster" is not a Linux platform that Go supports`},
		{"-platforms=darwin/arm64", `-platforms: "darwin/arm64" is not a Linux platform that Go supports`},
		{"-platforms=linux", `-platforms: "linux" is not a Linux platform that Go supports`},
		{"-platforms=", `-platforms: "" is not a Linux platform that Go supports`},
		{"-platforms=linux/amd64,linux/amd64", "-platforms: duplicate linux/amd64"},
		{"-image=Upper:case", `-image must be NAME:TAG, not "Upper:case"`},
		{"-image=", `-image must be NAME:TAG, not ""`},
		{"-image=name:tag with space", "-image must be NAME:TAG"},
		{"-output=", "-output must not be empty"},
		{"-buildvcs=maybe", "-buildvcs must be auto, true or false"},
		{"-unknown", "-unknown"},
		{"argument", `unexpected argument "argument"`},
	}
	for _, test := range tests {
		t.Run(test.flag, func(t *testing.T) {
			_, err := parseFlags([]string{test.flag}, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error = %v, want one line with %q", err, test.want)
			}
		})
	}
}

func checkConfig(t *testing.T, image v1.Image, platform string, labels map[string]string) {
	t.Helper()
	config, err := image.ConfigFile()
	must(t, err)
	if got := config.Platform().String(); got != platform {
		t.Errorf("platform = %s, want %s", got, platform)
	}
	if config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/sample-controller"}) {
		t.Errorf("the image runs %q as %q", config.Config.Entrypoint, config.Config.User)
	}
	if len(config.Config.Cmd) > 0 || len(config.Config.Env) > 0 {
		t.Errorf("cmd = %q, env = %q, want none", config.Config.Cmd, config.Config.Env)
	}
	if !maps.Equal(config.Config.Labels, labels) {
		t.Errorf("labels = %v, want %v", config.Config.Labels, labels)
	}
	if got := config.Created.Format(time.RFC3339); got != commitTime {
		t.Errorf("created = %s, want %s", got, commitTime)
	}
}

// onlyFile returns the content of the image's only file, and checks the file's metadata.
func onlyFile(t *testing.T, image v1.Image) []byte {
	t.Helper()
	layers, err := image.Layers()
	must(t, err)
	if len(layers) != 1 {
		t.Fatalf("the image has %d layers, want 1", len(layers))
	}
	files, err := layers[0].Uncompressed()
	must(t, err)
	defer files.Close()
	r := tar.NewReader(files)
	header, err := r.Next()
	must(t, err)
	content, err := io.ReadAll(r)
	must(t, err)
	if header.Name != "sample-controller" || header.Typeflag != tar.TypeReg || header.Mode != 0o755 ||
		header.Uid != 0 || header.Gid != 0 || !header.ModTime.Equal(time.Unix(0, 0)) {
		t.Errorf("header = %+v", header)
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("the layer has more than one file")
	}
	return content
}

func checkBinary(t *testing.T, binary []byte, machine elf.Machine) {
	t.Helper()
	file, err := elf.NewFile(bytes.NewReader(binary))
	must(t, err)
	if file.Machine != machine {
		t.Errorf("machine = %s, want %s", file.Machine, machine)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP || segment.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary has a segment %s, want a static binary", segment.Type)
		}
	}
}

// configOf builds an image for one platform and returns its config.
func configOf(t *testing.T, source string, flags ...string) *v1.ConfigFile {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "archive.tar")
	mustRun(t, append(flags, "-source="+source, "-output="+archive, "-platforms=linux/amd64")...)
	image, err := tarball.ImageFromPath(archive, nil)
	must(t, err)
	config, err := image.ConfigFile()
	must(t, err)
	return config
}

// openArchive validates an archive and returns its index and the index's annotations.
func openArchive(t *testing.T, archive string) (v1.ImageIndex, map[string]string) {
	t.Helper()
	dir := t.TempDir()
	r := tar.NewReader(bytes.NewReader(readFile(t, archive)))
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		content, err := io.ReadAll(r)
		must(t, err)
		path := filepath.Join(dir, header.Name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, content, 0o644))
	}
	images, err := layout.ImageIndexFromPath(dir)
	must(t, err)
	manifest, err := images.IndexManifest()
	must(t, err)
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].MediaType != types.OCIImageIndex {
		t.Fatalf("index.json refers to %+v, want one index", manifest.Manifests)
	}
	index, err := images.ImageIndex(manifest.Manifests[0].Digest)
	must(t, err)
	must(t, validate.Index(index))
	return index, manifest.Manifests[0].Annotations
}

// newSource returns a directory with a Go program.
func newSource(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(goMod), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(mainGo), 0o644))
	return dir
}

// newRepository returns a git repository with a Go program. The commit is always the same.
func newRepository(t *testing.T) string {
	t.Helper()
	dir := newSource(t)
	git(t, dir, "init", "--quiet", "--object-format=sha1")
	git(t, dir, "add", ".")
	git(t, dir, "-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgSign=false",
		"commit", "--quiet", "--message=Start")
	return dir
}

func revision(t *testing.T, source string) string {
	t.Helper()
	return strings.TrimSpace(git(t, source, "rev-parse", "HEAD"))
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE="+commitTime, "GIT_COMMITTER_DATE="+commitTime)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// mustRun runs the command with the arguments and returns its output.
func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	o, err := parseFlags(args, io.Discard)
	must(t, err)
	var out, progress bytes.Buffer
	if err := run(t.Context(), o, &out, &progress); err != nil {
		t.Fatalf("%v: %s", err, &progress)
	}
	return out.String()
}

func digestLine(t *testing.T, out string) string {
	t.Helper()
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "Digest: sha256:") {
			return strings.TrimSpace(line)
		}
	}
	t.Fatalf("no digest in %q", out)
	return ""
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return content
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
