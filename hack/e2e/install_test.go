// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"k8s.io/sample-controller/hack/cluster"
)

const (
	allDir           = root + "/artifacts"
	allNamespacesDir = root + "/artifacts/install/all-namespaces"
	oneNamespaceDir  = root + "/artifacts/install/one-namespace"
	userRolesFile    = root + "/artifacts/install/user-roles.yaml"
)

// The permissions of the controller in the namespaces that it watches, and in the namespace that it runs in.
var (
	foosRules = []authorizationv1.ResourceRule{
		resourceRule("samplecontroller.k8s.io", "foos", "get", "list", "watch"),
		resourceRule("samplecontroller.k8s.io", "foos/status", "update"),
		resourceRule("samplecontroller.k8s.io", "foos/finalizers", "update"),
		resourceRule("apps", "deployments", "get", "list", "watch", "create", "patch", "delete"),
		resourceRule("", "events", "create", "patch"),
	}
	leasesRules = []authorizationv1.ResourceRule{
		resourceRule("coordination.k8s.io", "leases", "create"),
		{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"sample-controller"},
			Verbs: []string{"get", "update"},
		},
	}
)

// Not parallel: the controller watches all namespaces.
func TestInstallForAllNamespaces(t *testing.T) {
	const installed = "sample-controller"
	t.Cleanup(func() {
		kubectl(t, "delete", "--ignore-not-found", "-f", userRolesFile)
		kubectl(t, "delete", "--ignore-not-found", "-k", allNamespacesDir)
		if left := kubectl(t, "get", "--ignore-not-found", "-k", allNamespacesDir); left != "" {
			t.Errorf("kubectl delete left:\n%s", left)
		}
	})
	install(t, allDir, installed)
	account := serviceAccount(installed)
	waitForRules(t, account, installed, foosRules, leasesRules)
	waitForRules(t, account, metav1.NamespaceDefault, foosRules)
	checkServes(t, installed, newNamespace(t))
}

func TestInstallForOneNamespace(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	kubectl(t, "label", "namespace", namespace,
		"pod-security.kubernetes.io/enforce=restricted", "pod-security.kubernetes.io/warn=restricted")
	overlay := writeOverlay(t, oneNamespaceDir, "namespace: "+namespace)
	install(t, overlay, namespace)
	account := serviceAccount(namespace)
	waitForRules(t, account, namespace, foosRules, leasesRules)
	waitForRules(t, account, metav1.NamespaceDefault)
	kubectl(t, "label", "namespace", namespace, "pod-security.kubernetes.io/enforce-") // It does not allow the Pods of Foos.
	checkServes(t, namespace, namespace)
	kubectl(t, "delete", "-n", namespace, "-k", oneNamespaceDir)
	if left := kubectl(t, "get", "--ignore-not-found", "-k", overlay); left != "" {
		t.Errorf("kubectl delete left:\n%s", left)
	}
}

// Not parallel: the installation for all namespaces includes these roles.
func TestAggregatedUserRoles(t *testing.T) {
	kubectl(t, "apply", "-f", userRolesFile)
	t.Cleanup(func() { kubectl(t, "delete", "-f", userRolesFile) })
	namespace := newNamespace(t)
	const group = "samplecontroller.k8s.io"
	view := []authorizationv1.ResourceRule{
		resourceRule(group, "foos", "get", "list", "watch"),
		resourceRule(group, "foos/scale", "get"),
		resourceRule(group, "foos/status", "get"),
	}
	edit := []authorizationv1.ResourceRule{
		resourceRule(group, "foos", "create", "update", "patch", "delete", "deletecollection"),
		resourceRule(group, "foos/scale", "update", "patch"),
	}
	for role, want := range map[string][][]authorizationv1.ResourceRule{"view": {view}, "edit": {view, edit}, "admin": {view, edit}} {
		name := "user-" + role
		kubectl(t, "create", "rolebinding", "-n", namespace, name, "--clusterrole="+role, "--user="+name)
		eventually(t, convergence, func() error {
			got := slices.DeleteFunc(rulesOf(t, name, namespace), func(permission string) bool {
				return !strings.Contains(permission, "."+group)
			})
			if want := flatten(slices.Concat(want...)); !slices.Equal(got, want) {
				return fmt.Errorf("the permissions of %s are %q, want %q", role, got, want)
			}
			return nil
		})
	}
}

// The admission plugin requires the permission to update foos/finalizers for an owner reference with blockOwnerDeletion.
func TestOwnerReferencesPermissionEnforcement(t *testing.T) {
	t.Parallel()
	guarded, err := cluster.Start(t.Context(), cluster.Options{
		BinDir:         binDir,
		APIServerOnly:  true,
		APIServerFlags: []string{"--enable-admission-plugins=OwnerReferencesPermissionEnforcement"},
	})
	requireNoError(t, err)
	t.Cleanup(func() { guarded.Stop() })
	run := func(input string, args ...string) (string, error) {
		command := guarded.Command(context.Background(), "kubectl", args...)
		command.Stdin = strings.NewReader(input)
		output, err := command.CombinedOutput()
		return string(output), err
	}
	if output, err := run("", "apply", "-k", allDir); err != nil {
		t.Fatal(output)
	}
	owned := `{"apiVersion":"apps/v1","kind":"Deployment",` +
		`"metadata":{"name":"owned","namespace":"default","ownerReferences":[
		{"apiVersion":"samplecontroller.k8s.io/v1alpha1","kind":"Foo","name":"owner","uid":"1","controller":true,"blockOwnerDeletion":true}]},
		"spec":{"selector":{"matchLabels":{"app":"nginx"}},"template":{"metadata":{"labels":{"app":"nginx"}},
		"spec":{"containers":[{"name":"nginx","image":"nginx"}]}}}}`
	eventually(t, convergence, func() error {
		if output, err := run(owned, "create", "--as="+serviceAccount("sample-controller"), "-f", "-"); err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
}

// install applies a kustomization and waits until the Pods of the controller are ready, on different nodes. There must be no
// warnings, and no diff afterwards.
func install(t *testing.T, dir, namespace string) {
	t.Helper()
	if output := kubectl(t, "apply", "-k", dir); strings.Contains(output, "Warning") {
		t.Errorf("kubectl apply printed warnings:\n%s", output)
	}
	kubectl(t, "rollout", "status", "-n", namespace, "deployment/sample-controller", "--timeout=60s")
	pods, err := kubeClient.CoreV1().Pods(namespace).List(t.Context(),
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=sample-controller"})
	requireNoError(t, err)
	nodes := map[string]bool{}
	for _, pod := range pods.Items {
		nodes[pod.Spec.NodeName] = true
		// A namespace may have a range of user IDs, which it fills in. The kubelet verifies the image's.
		security := pod.Spec.SecurityContext
		if security.RunAsUser != nil || security.RunAsGroup != nil || !*security.RunAsNonRoot {
			t.Errorf("the security context of %s is %+v, want runAsNonRoot, and no user or group", pod.Name, security)
		}
	}
	if len(pods.Items) != 2 || len(nodes) != 2 {
		t.Errorf("got %d Pods on %d nodes, want 2 on 2", len(pods.Items), len(nodes))
	}
	kubectl(t, "diff", "-k", dir)
}

// checkServes runs the controller with the flags and permissions of the manifests until it has reconciled a Foo.
func checkServes(t *testing.T, installed, namespace string) {
	t.Helper()
	kubeconfig, err := local.KubeconfigFor(serviceAccount(installed))
	requireNoError(t, err)
	var flags []string
	for _, arg := range getDeployment(t, installed, "sample-controller").Spec.Template.Spec.Containers[0].Args {
		flags = append(flags, strings.ReplaceAll(arg, "$(NAMESPACE)", installed))
	}
	// The last of repeated flags is used. These replace what is specific to a Pod.
	p := startProcess(t, append(flags, "-kubeconfig", kubeconfig, "-leader-elect-resource-namespace", installed,
		"-metrics-bind-address=127.0.0.1:0", "-health-probe-bind-address=127.0.0.1:0")...)
	p.waitForLog("Started workers")
	foo := createReadyFoo(t, namespace, "served", "served", 1)
	waitForEvent(t, foo, corev1.EventTypeNormal, "Synced", "Foo synced successfully")
	p.stop()
	if strings.Contains(p.log.String(), "forbidden") {
		t.Error("the API server denied a request")
	}
}

// writeOverlay writes an overlay of a kustomization with one more line and returns its directory.
func writeOverlay(t *testing.T, dir, line string) string {
	t.Helper()
	overlay, err := os.MkdirTemp(binDir, "overlay") // in the repository, because kustomize requires relative paths
	requireNoError(t, err)
	t.Cleanup(func() { os.RemoveAll(overlay) })
	path, err := filepath.Rel(overlay, dir)
	requireNoError(t, err)
	content := fmt.Sprintf("resources: [%s]\n%s\n", path, line)
	requireNoError(t, os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(content), 0o600))
	return overlay
}

// serviceAccount returns the user name of a controller that is installed in a namespace.
func serviceAccount(namespace string) string {
	return "system:serviceaccount:" + namespace + ":sample-controller"
}

// waitForRules waits until a service account has exactly these permissions in a namespace, besides those that all have.
func waitForRules(t *testing.T, account, namespace string, rules ...[]authorizationv1.ResourceRule) {
	t.Helper()
	want := flatten(slices.Concat(rules...))
	eventually(t, convergence, func() error {
		defaults := rulesOf(t, "system:serviceaccount:"+namespace+":nobody", namespace)
		got := slices.DeleteFunc(rulesOf(t, account, namespace), func(permission string) bool {
			return slices.Contains(defaults, permission)
		})
		if !slices.Equal(got, want) {
			return fmt.Errorf("the permissions of %s in %s are %q, want %q", account, namespace, got, want)
		}
		return nil
	})
}

// rulesOf returns the permissions of a user in a namespace.
func rulesOf(t *testing.T, user, namespace string) []string {
	t.Helper()
	config := rest.CopyConfig(adminConfig)
	config.Impersonate.UserName = user
	client := kubernetes.NewForConfigOrDie(config).AuthorizationV1().SelfSubjectRulesReviews()
	review, err := client.Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
	}, metav1.CreateOptions{})
	requireNoError(t, err)
	permissions := flatten(review.Status.ResourceRules)
	for _, rule := range review.Status.NonResourceRules {
		permissions = append(permissions, fmt.Sprint(rule.Verbs, rule.NonResourceURLs))
	}
	return permissions
}

func resourceRule(group, resource string, verbs ...string) authorizationv1.ResourceRule {
	return authorizationv1.ResourceRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// flatten returns the distinct permissions of the rules, each as "verb resource.group names".
func flatten(rules []authorizationv1.ResourceRule) []string {
	var permissions []string
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					permissions = append(permissions, fmt.Sprintf("%s %s.%s %q", verb, resource, group, rule.ResourceNames))
				}
			}
		}
	}
	slices.Sort(permissions)
	return slices.Compact(permissions)
}
