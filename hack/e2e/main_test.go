// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	clientset "k8s.io/sample-controller/pkg/generated/clientset/versioned"

	"k8s.io/sample-controller/hack/cluster"
)

const (
	root        = "../.."
	binDir      = root + "/.build/bin"
	crdFile     = root + "/artifacts/examples/crd.yaml"
	exampleFile = root + "/artifacts/examples/example-foo.yaml"
)

// The tests share a cluster with the CRD installed, clients with administrator permissions, and the controller binary.
var (
	local            *cluster.Cluster
	kubeClient       kubernetes.Interface
	sampleClient     clientset.Interface
	adminConfig      *rest.Config
	controllerBinary string
)

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp(binDir, "e2e")
	if err != nil {
		return 0, fmt.Errorf("%w; build the local Kubernetes first: make cluster", err)
	}
	defer os.RemoveAll(dir)
	if controllerBinary, err = buildController(dir); err != nil {
		return 0, err
	}
	// Kubernetes before 1.36 has no other version of MutatingAdmissionPolicy, and disables this one by default.
	policies := []string{"--feature-gates=MutatingAdmissionPolicy=true", "--runtime-config=admissionregistration.k8s.io/v1beta1=true"}
	if local, err = cluster.Start(context.Background(), cluster.Options{BinDir: binDir, APIServerFlags: policies}); err != nil {
		return 0, err
	}
	defer local.Stop()
	if adminConfig, err = clientcmd.BuildConfigFromFlags("", local.Kubeconfig()); err != nil {
		return 0, err
	}
	adminConfig.QPS = -1
	kubeClient = kubernetes.NewForConfigOrDie(adminConfig)
	sampleClient = clientset.NewForConfigOrDie(adminConfig)
	if output, err := local.Command(context.Background(), "kubectl", "apply", "-f", crdFile).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("installing the CRD: %w\n%s", err, output)
	}
	if err := grantPermissions(kubeClient); err != nil {
		return 0, err
	}
	code = m.Run()
	if err := local.Err(); err != nil {
		return 1, fmt.Errorf("the local Kubernetes failed during the tests: %w", err)
	}
	if completeSuite := flag.Lookup("test.run").Value.String() == ""; completeSuite && code == 0 {
		return code, checkPermissions()
	}
	return code, nil
}

// checkPermissions returns an error unless the controller used exactly the permissions that the manifests grant. An exception is
// foos/finalizers, which no request shows: it is needed by an admission plugin, and has a test of its own.
func checkPermissions() error {
	requests, err := local.Requests()
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, request := range requests {
		if !strings.HasPrefix(request.UserAgent, "sample-controller/") || request.User == nobody || request.Resource == "" {
			continue
		}
		resource := strings.TrimSuffix(request.Resource+"/"+request.Subresource, "/")
		if request.Denied && !strings.HasPrefix(request.User, outageUser) {
			return fmt.Errorf("the controller is not allowed to %s %s (%s)", request.Verb, resource, request.URI)
		}
		used[fmt.Sprintf("%s %s.%s", request.Verb, resource, request.APIGroup)] = true
	}
	var errs []error
	for _, rule := range slices.Concat(foosRules, leasesRules) {
		for _, verb := range rule.Verbs {
			permission := fmt.Sprintf("%s %s.%s", verb, rule.Resources[0], rule.APIGroups[0])
			if !used[permission] && rule.Resources[0] != "foos/finalizers" {
				errs = append(errs, fmt.Errorf("the permission to %s is granted but not used by any test", permission))
			}
		}
	}
	return errors.Join(errs...)
}

// buildController builds the controller, with the race detector if there is a C compiler.
func buildController(dir string) (string, error) {
	path, err := filepath.Abs(filepath.Join(dir, "sample-controller"))
	if err != nil {
		return "", err
	}
	args := []string{"build", "-o", path}
	if _, err := exec.LookPath("cc"); err == nil {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, ".")...)
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the controller: %w\n%s", err, output)
	}
	return path, nil
}
