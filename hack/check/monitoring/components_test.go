// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// installations are the kustomizations that components can be added to, by the line that sets their namespace.
var installations = map[string]struct{ line, namespace string }{
	"artifacts":                        {"", "sample-controller"},
	"artifacts/install/all-namespaces": {"", "sample-controller"},
	"artifacts/install/one-namespace":  {"namespace: team-a", "team-a"},
}

// rendered has the objects of a kustomization that matter here.
type rendered struct {
	resources      resmap.ResMap
	deployment     appsv1.Deployment
	service        corev1.Service
	networkPolicy  networkingv1.NetworkPolicy
	serviceMonitor monitoringv1.ServiceMonitor
}

// eachInstallation renders the components on top of each installation.
func eachInstallation(t *testing.T, check func(t *testing.T, namespace string, r *rendered), components ...string) {
	t.Helper()
	for dir, installation := range installations {
		t.Run(strings.Join(append(components, dir), " "), func(t *testing.T) {
			r := render(t, overlay(dir, installation.line, components...))
			checkNamespaces(t, installation.namespace, r)
			check(t, installation.namespace, r)
		})
	}
}

// overlay returns a kustomization beside artifacts that adds components to an installation.
func overlay(dir, line string, components ...string) string {
	kustomization := fmt.Sprintf("resources: [../%s]\ncomponents:\n", dir)
	for _, component := range components {
		kustomization += "- ../artifacts/components/" + component + "\n"
	}
	return kustomization + line + "\n"
}

// render renders a kustomization as kubectl kustomize does.
func render(t *testing.T, kustomization string) *rendered {
	t.Helper()
	files := filesys.MakeFsInMemory()
	err := filepath.WalkDir(root+"/artifacts", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return files.WriteFile(path.Join("/", strings.TrimPrefix(filepath.ToSlash(file), root)), content)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := files.WriteFile("/overlay/kustomization.yaml", []byte(kustomization)); err != nil {
		t.Fatal(err)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/overlay")
	if err != nil {
		t.Fatal(err)
	}
	r := &rendered{resources: resources}
	r.get(t, "Deployment", &r.deployment)
	r.get(t, "Service", &r.service)
	r.get(t, "NetworkPolicy", &r.networkPolicy)
	r.get(t, "ServiceMonitor", &r.serviceMonitor)
	return r
}

// get decodes the object of a kind, if there is one, without accepting unknown fields.
func (r *rendered) get(t *testing.T, kind string, into any) {
	t.Helper()
	for _, resource := range r.resources.Resources() {
		if resource.GetKind() != kind {
			continue
		}
		content, err := resource.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(content, into); err != nil {
			t.Errorf("%s %s: %v", kind, resource.GetName(), err)
		}
	}
}

// bindings returns the bindings of a role, or of all roles.
func (r *rendered) bindings(t *testing.T, role string) []rbacv1.ClusterRoleBinding {
	t.Helper()
	var bindings []rbacv1.ClusterRoleBinding
	for _, resource := range r.resources.Resources() {
		if kind := resource.GetKind(); kind != "ClusterRoleBinding" && kind != "RoleBinding" {
			continue
		}
		content, err := resource.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		var binding rbacv1.ClusterRoleBinding
		if err := yaml.UnmarshalStrict(content, &binding); err != nil {
			t.Fatal(err)
		}
		if role == "" || binding.RoleRef.Name == role {
			bindings = append(bindings, binding)
		}
	}
	return bindings
}

// checkNamespaces fails if an object, or a subject of a binding, is in another namespace.
func checkNamespaces(t *testing.T, namespace string, r *rendered) {
	t.Helper()
	for _, resource := range r.resources.Resources() {
		if got := resource.GetNamespace(); got != "" && got != namespace {
			t.Errorf("%s %s is in namespace %s, want %s", resource.GetKind(), resource.GetName(), got, namespace)
		}
	}
	for _, binding := range r.bindings(t, "") {
		for _, subject := range binding.Subjects {
			if subject.Namespace != namespace {
				t.Errorf("the binding %s has the subject %s, want one in %s", binding.Name, subject, namespace)
			}
		}
	}
}

// checkMetricsPort fails if the Service and the NetworkPolicy do not lead to the port of the name metrics, or if another container than
// this one has it.
func checkMetricsPort(t *testing.T, r *rendered, container string, number int32) {
	t.Helper()
	var got []string
	for _, c := range r.deployment.Spec.Template.Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == "metrics" {
				got = append(got, fmt.Sprintf("%s:%d", c.Name, port.ContainerPort))
			}
		}
	}
	if want := fmt.Sprintf("%s:%d", container, number); !slices.Equal(got, []string{want}) {
		t.Errorf("the ports of the name metrics are %q, want %s", got, want)
	}
	if !k8slabels.SelectorFromSet(r.service.Spec.Selector).Matches(k8slabels.Set(r.deployment.Spec.Template.Labels)) {
		t.Error("the Service does not select the Pods")
	}
	if port := r.service.Spec.Ports[0]; port.Name != "metrics" || port.Port != number || port.TargetPort.String() != "metrics" {
		t.Errorf("the port of the Service is %+v, want metrics, %d", port, number)
	}
	if port := r.networkPolicy.Spec.Ingress[0].Ports[0].Port; port.String() != "metrics" {
		t.Errorf("the NetworkPolicy allows the port %s, want metrics", port)
	}
}

// checkServiceMonitor fails if the ServiceMonitor does not select the port of the Service, or sets another job than that of the alerts.
func checkServiceMonitor(t *testing.T, r *rendered) monitoringv1.Endpoint {
	t.Helper()
	spec := r.serviceMonitor.Spec
	selector, err := metav1.LabelSelectorAsSelector(&spec.Selector)
	if err != nil {
		t.Fatal(err)
	}
	if selector.Empty() || !selector.Matches(k8slabels.Set(r.service.Labels)) {
		t.Errorf("the ServiceMonitor does not select the Service: %s", selector)
	}
	if got := r.service.Labels[spec.JobLabel]; got != job {
		t.Errorf("the ServiceMonitor sets the job %q, want %s", got, job)
	}
	if len(spec.Endpoints) != 1 || spec.Endpoints[0].Port != r.service.Spec.Ports[0].Name {
		t.Fatalf("the ServiceMonitor has the endpoints %+v, want the port of the Service", spec.Endpoints)
	}
	return spec.Endpoints[0]
}

func TestWithoutComponents(t *testing.T) {
	eachInstallation(t, func(t *testing.T, _ string, r *rendered) {
		checkMetricsPort(t, r, "sample-controller", 8080)
		from := r.networkPolicy.Spec.Ingress[0].From
		if len(from) != 1 || from[0].PodSelector != nil || from[0].NamespaceSelector == nil {
			t.Fatalf("the NetworkPolicy allows %v, want namespaces", from)
		}
		selector, err := metav1.LabelSelectorAsSelector(from[0].NamespaceSelector)
		if err != nil {
			t.Fatal(err)
		}
		const label = "samplecontroller.k8s.io/metrics-access"
		if selector.Matches(k8slabels.Set{}) || !selector.Matches(k8slabels.Set{label: "true"}) {
			t.Errorf("the NetworkPolicy allows namespaces with %s, want those with %s", selector, label)
		}
	})
}

func TestMetricsFromAnywhere(t *testing.T) {
	eachInstallation(t, func(t *testing.T, _ string, r *rendered) {
		if rules := r.networkPolicy.Spec.Ingress; len(rules) != 1 || rules[0].From != nil || len(rules[0].Ports) != 1 {
			t.Errorf("the NetworkPolicy allows %+v, want one port from any source", rules)
		}
	}, "metrics-from-anywhere")
}

func TestServiceMonitor(t *testing.T) {
	eachInstallation(t, func(t *testing.T, _ string, r *rendered) {
		if endpoint := checkServiceMonitor(t, r); endpoint.Scheme != nil {
			t.Errorf("the scheme is %s, want none", *endpoint.Scheme)
		}
	}, "service-monitor")
}

func TestAlertsAndDashboard(t *testing.T) {
	eachInstallation(t, func(t *testing.T, namespace string, r *rendered) {
		var rule monitoringv1.PrometheusRule
		r.get(t, "PrometheusRule", &rule)
		if rule.Namespace != namespace || len(rule.Spec.Groups) == 0 {
			t.Errorf("got PrometheusRule %s/%s with %d groups", rule.Namespace, rule.Name, len(rule.Spec.Groups))
		}
		var dashboard corev1.ConfigMap
		r.get(t, "ConfigMap", &dashboard)
		if dashboard.Namespace != namespace || dashboard.Labels["grafana_dashboard"] != "1" || len(dashboard.Data) != 1 {
			t.Errorf("got ConfigMap %s/%s with the labels %v and %d files", dashboard.Namespace, dashboard.Name, dashboard.Labels,
				len(dashboard.Data))
		}
	}, "alerts", "dashboard")
}

// The order of components must not matter.
func TestSecureMetrics(t *testing.T) {
	check := func(t *testing.T, _ string, r *rendered) {
		checkMetricsPort(t, r, "kube-rbac-proxy", 8443)
		spec := r.deployment.Spec.Template.Spec
		if got := spec.Containers[0].Args; !slices.Contains(got, "-metrics-bind-address=127.0.0.1:8080") || slices.Contains(got, "-metrics-bind-address=:8080") {
			t.Errorf("the controller runs with %q, want metrics on the loopback interface only", got)
		}
		checkProxy(t, spec.Containers[1])
		endpoint := checkServiceMonitor(t, r)
		if endpoint.Scheme == nil || *endpoint.Scheme != "https" || endpoint.TLSConfig == nil {
			t.Errorf("the scheme is %v, want https", endpoint.Scheme)
		}
		checkToken(t, r, endpoint)
	}
	eachInstallation(t, check, "secure-metrics", "secure-service-monitor", "alerts", "dashboard")
	eachInstallation(t, check, "dashboard", "alerts", "secure-service-monitor", "secure-metrics")
}

// checkToken fails if Prometheus does not authenticate with the token of a service account that may get the metrics.
func checkToken(t *testing.T, r *rendered, endpoint monitoringv1.Endpoint) {
	t.Helper()
	var secret corev1.Secret
	r.get(t, "Secret", &secret)
	authorization := endpoint.Authorization
	if authorization == nil || authorization.Credentials == nil || authorization.Credentials.Name != secret.Name ||
		authorization.Credentials.Key != corev1.ServiceAccountTokenKey || secret.Type != corev1.SecretTypeServiceAccountToken {
		t.Fatalf("the endpoint has the authorization %v, want the token of the Secret %s", authorization, secret.Name)
	}
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: secret.Annotations[corev1.ServiceAccountNameKey], Namespace: secret.Namespace}
	if bindings := r.bindings(t, "sample-controller-metrics-reader"); len(bindings) != 1 || !slices.Contains(bindings[0].Subjects, account) {
		t.Errorf("the bindings of the ClusterRole are %v, want one of %s", bindings, account)
	}
}

// checkProxy fails if the proxy does not meet the Pod Security Standard restricted, or its image or memory is not pinned.
func checkProxy(t *testing.T, proxy corev1.Container) {
	t.Helper()
	security := cmp.Or(proxy.SecurityContext, &corev1.SecurityContext{})
	for _, want := range []*bool{security.RunAsNonRoot, security.ReadOnlyRootFilesystem} {
		if want == nil || !*want {
			t.Errorf("the security context of the proxy is %+v, want one without root and without writes", security)
		}
	}
	if security.RunAsUser != nil || security.RunAsGroup != nil { // A namespace may have a range of user IDs, which it fills in.
		t.Errorf("the security context of the proxy is %+v, want no user and group, but those of its image", security)
	}
	if escalation := security.AllowPrivilegeEscalation; escalation == nil || *escalation || security.Capabilities == nil ||
		!slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("the security context of the proxy is %+v, want one without privileges", security)
	}
	if _, tag, _ := strings.Cut(proxy.Image, ":"); !strings.HasPrefix(tag, "v") {
		t.Errorf("the image %s has no version", proxy.Image)
	}
	if proxy.Resources.Limits.Memory().IsZero() || proxy.Resources.Requests.Cpu().IsZero() {
		t.Errorf("the resources of the proxy are %+v, want a memory limit and a CPU request", proxy.Resources)
	}
}

// The examples in the documentation: a complete kustomization, and patches for one that secures the metrics of one namespace.
func TestDocumentedKustomizations(t *testing.T) {
	content, err := os.ReadFile(root + "/docs/operate/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(content), "\n## Monitoring\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var examples []string
	for _, block := range strings.Split(section, "```yaml\n")[1:] {
		example, _, _ := strings.Cut(block, "```")
		examples = append(examples, strings.ReplaceAll(example, "- sample-controller/artifacts", "- ../artifacts"))
	}
	if len(examples) != 2 {
		t.Fatalf("got %d examples, want 2", len(examples))
	}

	r := render(t, examples[0])
	if image := r.deployment.Spec.Template.Spec.Containers[0].Image; image != "registry/name:tag" {
		t.Errorf("the image is %s, want registry/name:tag", image)
	}
	checkServiceMonitor(t, r)

	r = render(t, overlay("artifacts/install/one-namespace", "namespace: team-a", "secure-metrics", "secure-service-monitor")+examples[1])
	checkNamespaces(t, "team-a", r)
	for _, binding := range r.bindings(t, "") {
		if binding.Kind == "ClusterRoleBinding" && !strings.HasSuffix(binding.Name, "-team-a") {
			t.Errorf("the ClusterRoleBinding %s has the same name in all namespaces", binding.Name)
		}
	}
}
