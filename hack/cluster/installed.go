// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	etcdModule       = "go.etcd.io/etcd/server/v3"
	kubernetesModule = "k8s.io/kubernetes"
	kwokModule       = "sigs.k8s.io/kwok"

	kubectlBinary = "kubectl"
)

// binary is an executable of the local Kubernetes.
type binary struct {
	name        string
	module      string   // that it is built from
	versionArgs []string // make it print its version
}

var binaries = []binary{
	{string(Etcd), etcdModule, []string{"--version"}},
	{string(APIServer), kubernetesModule, []string{"--version"}},
	{string(ControllerManager), kubernetesModule, []string{"--version"}},
	{string(Scheduler), kubernetesModule, []string{"--version"}},
	{kubectlBinary, kubernetesModule, []string{"version", "--client"}},
	{string(Kwok), kwokModule, []string{"--version"}},
}

type version struct{ major, minor, patch int }

var versionPattern = regexp.MustCompile(`\bv?(\d+)\.(\d+)\.(\d+)`)

// parseVersion returns the first version in text.
func parseVersion(text string) (version, error) {
	match := versionPattern.FindStringSubmatch(text)
	if match == nil {
		return version{}, fmt.Errorf("no version in %q", text)
	}
	var numbers [3]int
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.Atoi(match[i+1]); err != nil {
			return version{}, err
		}
	}
	return version{numbers[0], numbers[1], numbers[2]}, nil
}

func (v version) String() string { return fmt.Sprintf("v%d.%d.%d", v.major, v.minor, v.patch) }

// usable reports whether v has the wanted minor version or the one before.
func (v version) usable(want version) bool {
	return v.major == want.major && (v.minor == want.minor || v.minor == want.minor-1)
}

// installed are the binaries that do not have to be built.
type installed struct {
	paths    map[string]string  // by name
	versions map[string]version // by name
	missing  map[string]error   // by name: why a binary has to be built
}

var errNotFound = errors.New("not found")

// findInstalled looks for usable binaries in the directories. want has the versions of the modules.
func findInstalled(ctx context.Context, dirs []string, want map[string]version) *installed {
	found := &installed{paths: map[string]string{}, versions: map[string]version{}, missing: map[string]error{}}
	for _, b := range binaries {
		path, v, err := b.find(ctx, dirs, want[b.module])
		if err != nil {
			found.missing[b.name] = err
			continue
		}
		found.paths[b.name], found.versions[b.name] = path, v
	}
	found.checkSkew(want[kubernetesModule])
	return found
}

// find returns the first usable binary, or an error about the first one that is not usable.
func (b binary) find(ctx context.Context, dirs []string, want version) (string, version, error) {
	result := errNotFound
	for _, dir := range dirs {
		path, err := exec.LookPath(filepath.Join(dir, b.name))
		if err != nil {
			continue
		}
		v, err := b.printedVersion(ctx, path)
		if err == nil && v.usable(want) {
			return path, v, nil
		}
		if err == nil {
			err = fmt.Errorf("%s is %v, need v%d.%d or v%[3]d.%[5]d", path, v, want.major, want.minor, want.minor-1)
		}
		if result == errNotFound {
			result = err
		}
	}
	return "", version{}, result
}

func (b binary) printedVersion(ctx context.Context, path string) (version, error) {
	const timeout = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, b.versionArgs...)
	cmd.WaitDelay = time.Second
	output, err := cmd.Output()
	if err != nil {
		return version{}, fmt.Errorf("%s %s: %w", path, strings.Join(b.versionArgs, " "), err)
	}
	v, err := parseVersion(string(output))
	if err != nil {
		return version{}, fmt.Errorf("%s %s: %w", path, strings.Join(b.versionArgs, " "), err)
	}
	return v, nil
}

// checkSkew discards a kube-apiserver that is older than kube-controller-manager or kube-scheduler, which the version skew
// policy of Kubernetes does not allow. built is the version of binaries that are not installed.
func (i *installed) checkSkew(built version) {
	apiServer, ok := i.versions[string(APIServer)]
	if !ok {
		return
	}
	for _, client := range []Component{ControllerManager, Scheduler} {
		v, ok := i.versions[string(client)]
		if !ok {
			v = built
		}
		if v.minor > apiServer.minor {
			i.missing[string(APIServer)] = fmt.Errorf("%s is %v, older than %s %v", i.paths[string(APIServer)], apiServer, client, v)
			delete(i.paths, string(APIServer))
			delete(i.versions, string(APIServer))
			return
		}
	}
}

// uses returns a line per directory with installed binaries.
func (i *installed) uses() []string {
	var dirs []string
	names := map[string][]string{}
	for _, b := range binaries {
		if path, ok := i.paths[b.name]; ok {
			dir := filepath.Dir(path)
			if names[dir] == nil {
				dirs = append(dirs, dir)
			}
			names[dir] = append(names[dir], fmt.Sprintf("%s %v", b.name, i.versions[b.name]))
		}
	}
	var lines []string
	for _, dir := range dirs {
		lines = append(lines, fmt.Sprintf("using %s from %s", strings.Join(names[dir], ", "), dir))
	}
	return lines
}

// builds returns a line with the binaries to build and the reasons, or nothing if that is the default: if no binary was found.
func (i *installed) builds() string {
	var reasons, notFound []string
	for _, b := range binaries {
		switch err := i.missing[b.name]; err {
		case nil:
		case errNotFound:
			notFound = append(notFound, b.name)
		default:
			reasons = append(reasons, fmt.Sprintf("%s (%v)", b.name, err))
		}
	}
	if len(notFound) == len(binaries) && os.Getenv(assetsVariable) == "" || len(i.missing) == 0 {
		return ""
	}
	if len(notFound) > 0 {
		reasons = append(reasons, fmt.Sprintf("%s (%v)", strings.Join(notFound, ", "), errNotFound))
	}
	return "building " + strings.Join(reasons, "; ")
}

// toBuild returns the names of the binaries that are not installed.
func (i *installed) toBuild() []string { return slices.Sorted(maps.Keys(i.missing)) }

// assetsVariable is the variable with the directory of the binaries for envtest.
const assetsVariable = "KUBEBUILDER_ASSETS"

// searchDirs returns the directories that may contain installed binaries: KUBEBUILDER_ASSETS and PATH, except binDir and its
// subdirectories, to which Build adds links.
func searchDirs(binDir string) []string {
	var dirs []string
	for _, dir := range append([]string{os.Getenv(assetsVariable)}, filepath.SplitList(os.Getenv("PATH"))...) {
		if dir != "" && !sameDir(dir, binDir) && !sameDir(filepath.Dir(dir), binDir) {
			if absolute, err := filepath.Abs(dir); err == nil {
				dirs = append(dirs, absolute)
			}
		}
	}
	return dirs
}

func sameDir(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}
