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
	"syscall"
	"testing"
	"time"

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

// What the controller may do in the namespaces whose Foos it serves, and in the one that it runs in.
var (
	foosRights = []authorizationv1.ResourceRule{
		resourceRule("samplecontroller.k8s.io", "foos", "get", "list", "watch"),
		resourceRule("samplecontroller.k8s.io", "foos/status", "update"),
		resourceRule("samplecontroller.k8s.io", "foos/finalizers", "update"),
		resourceRule("apps", "deployments", "get", "list", "watch", "create", "patch", "delete"),
		resourceRule("", "events", "create", "patch"),
	}
	leasesRights = []authorizationv1.ResourceRule{
		resourceRule("coordination.k8s.io", "leases", "create"),
		{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"sample-controller"},
			Verbs: []string{"get", "update"},
		},
	}
)

// Not parallel: it serves the Foos of all namespaces.
func TestTheManifestsInstallAControllerOfAllNamespaces(t *testing.T) {
	const installed = "sample-controller"
	t.Cleanup(func() {
		kubectl(t, "delete", "--ignore-not-found", "-f", userRolesFile)
		kubectl(t, "delete", "--ignore-not-found", "-k", allNamespacesDir)
		if left := kubectl(t, "get", "--ignore-not-found", "-k", allNamespacesDir); left != "" {
			t.Errorf("kubectl delete has left:\n%s", left)
		}
	})
	wantInstalled(t, allDir, installed)
	account := serviceAccount(installed)
	wantRights(t, account, installed, foosRights, leasesRights)
	wantRights(t, account, metav1.NamespaceDefault, foosRights)
	wantServed(t, installed, newNamespace(t))
}

func TestTheManifestsInstallAControllerOfOneNamespace(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	kubectl(t, "label", "namespace", namespace,
		"pod-security.kubernetes.io/enforce=restricted", "pod-security.kubernetes.io/warn=restricted")
	overlay := overlayOf(t, oneNamespaceDir, "namespace: "+namespace)
	wantInstalled(t, overlay, namespace)
	account := serviceAccount(namespace)
	wantRights(t, account, namespace, foosRights, leasesRights)
	wantRights(t, account, metav1.NamespaceDefault)

	kubectl(t, "delete", "-n", namespace, "-k", oneNamespaceDir)
	if left := kubectl(t, "get", "--ignore-not-found", "-k", overlay); left != "" {
		t.Errorf("kubectl delete has left:\n%s", left)
	}
}

func TestTheControllerOfOneNamespaceNeedsNoRightOutside(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	wantInstalled(t, overlayOf(t, oneNamespaceDir, "namespace: "+namespace), namespace)
	wantServed(t, namespace, namespace)
}

// Not parallel: the installation for all namespaces includes these roles.
func TestTheRolesThatEveryClusterHasSayWhatUsersMayDoWithFoos(t *testing.T) {
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
		name := "who-may-" + role
		kubectl(t, "create", "rolebinding", "-n", namespace, name, "--clusterrole="+role, "--user="+name)
		eventually(t, convergence, func() error {
			got := slices.DeleteFunc(rightsOf(t, name, namespace), func(right string) bool {
				return !strings.Contains(right, "."+group)
			})
			if want := expand(slices.Concat(want...)); !slices.Equal(got, want) {
				return fmt.Errorf("the rights of %s are %q, want %q", role, got, want)
			}
			return nil
		})
	}
}

// Where the plugin is on, only who may finalize a Foo can name it as an owner whose deletion a Deployment blocks.
func TestDeploymentsCanBeOwnedWhereOwnerReferencesAreGuarded(t *testing.T) {
	guarded, err := cluster.Start(t.Context(), cluster.Options{
		BinDir:         binDir,
		APIServerOnly:  true,
		APIServerFlags: []string{"--enable-admission-plugins=OwnerReferencesPermissionEnforcement"},
	})
	if err != nil {
		t.Fatal(err)
	}
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
	deployment := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"owned","namespace":"default","ownerReferences":[
		{"apiVersion":"samplecontroller.k8s.io/v1alpha1","kind":"Foo","name":"owner","uid":"1","controller":true,"blockOwnerDeletion":true}]},
		"spec":{"selector":{"matchLabels":{"app":"nginx"}},"template":{"metadata":{"labels":{"app":"nginx"}},
		"spec":{"containers":[{"name":"nginx","image":"nginx"}]}}}}`
	eventually(t, convergence, func() error {
		if output, err := run(deployment, "create", "--as="+serviceAccount("sample-controller"), "-f", "-"); err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
}

// wantInstalled applies a kustomization and waits until the controller's Pods are ready, each on a node of its own. Nothing
// may be warned of, and a second time there must be nothing to change.
func wantInstalled(t *testing.T, dir, namespace string) {
	t.Helper()
	if output := kubectl(t, "apply", "-k", dir); strings.Contains(output, "Warning") {
		t.Errorf("kubectl apply warns:\n%s", output)
	}
	kubectl(t, "rollout", "status", "-n", namespace, "deployment/sample-controller", "--timeout=60s")
	pods, err := kubeClient.CoreV1().Pods(namespace).List(t.Context(),
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=sample-controller"})
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string]bool{}
	for _, pod := range pods.Items {
		nodes[pod.Spec.NodeName] = true
	}
	if len(pods.Items) != 2 || len(nodes) != 2 {
		t.Errorf("there are %d Pods on %d nodes, want 2 on 2", len(pods.Items), len(nodes))
	}
	kubectl(t, "diff", "-k", dir)
}

// wantServed runs the program with the flags and the rights that the manifests give it, until it has served a Foo.
func wantServed(t *testing.T, installed, namespace string) {
	t.Helper()
	kubeconfig, err := local.KubeconfigFor(serviceAccount(installed))
	if err != nil {
		t.Fatal(err)
	}
	var flags []string
	for _, arg := range getDeployment(t, installed, "sample-controller").Spec.Template.Spec.Containers[0].Args {
		flags = append(flags, strings.ReplaceAll(arg, "$(NAMESPACE)", installed))
	}
	// Of two flags of a name the last one counts. These say what a Pod knows without them, or has to itself.
	p := startProgram(t, append(flags, "-kubeconfig", kubeconfig, "-leader-elect-resource-namespace", installed,
		"-metrics-bind-address=127.0.0.1:0", "-health-probe-bind-address=127.0.0.1:0")...)
	p.waitForLog("Started workers")
	foo := createFoo(t, namespace, "served", "served", 1)
	wantReplicas(t, namespace, "served", 1)
	wantEvent(t, foo, corev1.EventTypeNormal, "Synced", "Foo synced successfully")
	p.signal(syscall.SIGTERM)
	p.wantExit(0, 20*time.Second)
	if strings.Contains(p.log.String(), "forbidden") {
		t.Error("a request was forbidden")
	}
}

// overlayOf writes a kustomization of another one with one more line, and returns its directory.
func overlayOf(t *testing.T, dir, line string) string {
	t.Helper()
	overlay, err := os.MkdirTemp(binDir, "overlay") // Kustomize wants to get to the other one by a relative path.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(overlay) })
	path, err := filepath.Rel(overlay, dir)
	if err != nil {
		t.Fatal(err)
	}
	content := fmt.Sprintf("resources: [%s]\n%s\n", path, line)
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}

// serviceAccount returns the name by which the API server knows the controller that is installed in a namespace.
func serviceAccount(namespace string) string {
	return "system:serviceaccount:" + namespace + ":sample-controller"
}

// wantRights waits until the account's rights in the namespace, beyond those that everyone has, are exactly these.
func wantRights(t *testing.T, account, namespace string, rules ...[]authorizationv1.ResourceRule) {
	t.Helper()
	want := expand(slices.Concat(rules...))
	eventually(t, convergence, func() error {
		everyones := rightsOf(t, "system:serviceaccount:"+namespace+":nobody", namespace)
		got := slices.DeleteFunc(rightsOf(t, account, namespace), func(right string) bool {
			return slices.Contains(everyones, right)
		})
		if !slices.Equal(got, want) {
			return fmt.Errorf("the rights of %s in %s are %q, want %q", account, namespace, got, want)
		}
		return nil
	})
}

// rightsOf returns what a user may do in a namespace, as the API server says.
func rightsOf(t *testing.T, user, namespace string) []string {
	t.Helper()
	config := rest.CopyConfig(adminConfig)
	config.Impersonate.UserName = user
	client := kubernetes.NewForConfigOrDie(config).AuthorizationV1().SelfSubjectRulesReviews()
	review, err := client.Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rights := expand(review.Status.ResourceRules)
	for _, rule := range review.Status.NonResourceRules {
		rights = append(rights, fmt.Sprint(rule.Verbs, rule.NonResourceURLs))
	}
	return rights
}

func resourceRule(group, resource string, verbs ...string) authorizationv1.ResourceRule {
	return authorizationv1.ResourceRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// expand returns each right of the rules once, as "verb resource.group names".
func expand(rules []authorizationv1.ResourceRule) []string {
	var rights []string
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					rights = append(rights, fmt.Sprintf("%s %s.%s %q", verb, resource, group, rule.ResourceNames))
				}
			}
		}
	}
	slices.Sort(rights)
	return slices.Compact(rights)
}
