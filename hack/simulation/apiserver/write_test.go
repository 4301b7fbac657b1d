// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestCreated has what becomes of objects when they are created.
func TestCreated(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       map[string]string
	}{
		{"metadata", `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default, uid: mine, deletionTimestamp: "2001-01-01T00:00:00Z",
			creationTimestamp: "2001-01-01T00:00:00Z", nope: x}, nope: x}`, map[string]string{
			"metadata.creationTimestamp": `"2000-01-01T00:00:00Z"`, "metadata.deletionTimestamp": "null", "metadata.generation": "null",
			"metadata.nope": "null", "nope": "null",
		}},
		{"deployment", deployment, map[string]string{
			"metadata.generation": "1", "spec.replicas": "1", "spec.progressDeadlineSeconds": "600", "spec.template.spec.restartPolicy": "Always",
			"spec.strategy": `{type: RollingUpdate, rollingUpdate: {maxSurge: "25%", maxUnavailable: "25%"}}`,
		}},
		{"stateful set", stateful, map[string]string{"spec.podManagementPolicy": "OrderedReady", "spec.updateStrategy.rollingUpdate.partition": "0"}},
		{"daemon set", daemonSet, map[string]string{"spec.updateStrategy.rollingUpdate.maxUnavailable": "1"}},
		{"job", job, map[string]string{"spec.completions": "1", "spec.suspend": "false", "metadata.labels.job-name": "a"}},
		{"pod", pod, map[string]string{"status.phase": "Pending", "spec.serviceAccountName": "default", "spec.enableServiceLinks": "true"}},
		{"service", service, map[string]string{"spec.type": "ClusterIP", "spec.ports": "[{port: 80, protocol: TCP, targetPort: 80}]"}},
		{"secret", `{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: default}, stringData: {a: b}}`, map[string]string{
			"data": "{a: Yg==}", "stringData": "null", "type": "Opaque",
		}},
		{"status", strings.Replace(deployment, "spec:", "status: {replicas: 3}, spec:", 1), map[string]string{"status.replicas": "null"}},
		{"status of a custom resource", strings.Replace(widget, "spec:", "status: {size: 3}, spec:", 1), map[string]string{"status": "null"}},
		{"status without subresource", strings.Replace(plain, "{name: a}", "{name: a}, status: s", 1), map[string]string{"status": "s"}},
		{"defaults of a schema", strings.Replace(widget, "red", "red, mode: null, size: null, parts: [{name: p}], limits: {a: {}}", 1), map[string]string{
			"spec": "{color: red, size: 1, mode: null, parts: [{name: p, count: 3}], limits: {a: {cpu: one}}}", "metadata.generation": "1",
		}},
		{"pruning", strings.Replace(widget, "red", "red, nope: 1, any: {x: {z: 1}}, parts: [{name: p, nope: 1}], port: http", 1), map[string]string{
			"spec": "{color: red, size: 1, mode: auto, any: {x: {z: 1}}, parts: [{name: p, count: 3}], port: http}",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inCluster(t, Options{}, Reliable{}, func(c *cluster) {
				c.expect(c.create(test.text), test.want)
			})
		})
	}
}

// TestUIDs has more than ten objects: the UID of none is part of that of another.
func TestUIDs(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		var uids []string
		for n := range 20 {
			uids = append(uids, string(c.create(strings.Replace(configMap, "name: a", fmt.Sprintf("name: a-%d", n), 1)).GetUID()))
		}
		for n, uid := range uids {
			for _, other := range uids[n+1:] {
				if strings.Contains(other, uid) {
					t.Errorf("%s is part of %s", uid, other)
				}
			}
		}
	})
}

// TestMutate has a mutation that counts the writes of an object in a label.
func TestMutate(t *testing.T) {
	mutate := func(o, found *Object) {
		writes := 1
		if found != nil {
			writes, _ = strconv.Atoi(found.GetLabels()["writes"])
			writes++
		}
		o.SetLabels(map[string]string{"writes": strconv.Itoa(writes)})
	}
	inCluster(t, Options{Mutate: mutate}, Reliable{}, func(c *cluster) {
		o := c.create(configMap)
		changed, err := c.patch(o, types.MergePatchType, "data: {other: v}")
		if err != nil || o.GetLabels()["writes"] != "1" || changed.GetLabels()["writes"] != "2" {
			t.Errorf("the labels are %v, and then %v, %v", o.GetLabels(), changed.GetLabels(), err)
		}
	})
}

// TestValidate has a validation that lets no object have more than one key.
func TestValidate(t *testing.T) {
	validate := func(o, found *Object) error {
		if data, _ := o.Object["data"].(map[string]any); len(data) > 1 {
			return fmt.Errorf("%d keys, created: %t", len(data), found == nil)
		}
		return nil
	}
	inCluster(t, Options{Validate: validate}, Reliable{}, func(c *cluster) {
		o := c.create(configMap)
		_, err := c.patch(o, types.MergePatchType, "data: {other: v}")
		expectError(t, err, metav1.StatusReasonForbidden, "2 keys, created: false")
		_, err = c.Client("user").Create(object(c.T, strings.NewReplacer("name: a", "name: b", "k: v", "k: v, a: v, b: v").Replace(configMap)))
		expectError(t, err, metav1.StatusReasonForbidden, "3 keys, created: true")
	})
}

// TestRejectedCreation has what is wrong with objects.
func TestRejectedCreation(t *testing.T) {
	invalid := metav1.StatusReasonInvalid
	for _, test := range []struct {
		name, text string
		reason     metav1.StatusReason
		part       string
	}{
		{"again", configMap, metav1.StatusReasonAlreadyExists, "already exists"},
		{"name", strings.Replace(configMap, "name: a", "name: A_", 1), invalid, "metadata.name"},
		{"no name", strings.Replace(configMap, "name: a, ", "", 1), invalid, "name or generateName is required"},
		{"label", strings.Replace(configMap, "{l: a}", "{l: a b}", 1), invalid, "metadata.labels"},
		{"no such namespace", strings.Replace(configMap, "default", "other", 1), metav1.StatusReasonNotFound, `namespaces "other" not found`},
		{"resource version", strings.Replace(configMap, "name: a", `name: b, resourceVersion: "1"`, 1), metav1.StatusReasonUnknown, "resourceVersion"},
		{"type", strings.Replace(configMap, "{k: v}", "{k: 1}", 1), metav1.StatusReasonBadRequest, "cannot be handled as a ConfigMap"},
		{"owner", strings.Replace(configMap, "name: a", "name: b, ownerReferences: [{name: x}]", 1), invalid, "ownerReferences"},
		{"finalizer", strings.Replace(configMap, "name: a", "name: b, finalizers: [x]", 1), invalid, "fully qualified"},
		{"no selector", strings.Replace(deployment, "selector: {matchLabels: {l: a}},", "", 1), invalid, "spec.selector"},
		{"empty selector", strings.Replace(deployment, "{matchLabels: {l: a}}", "{}", 1), invalid, "empty selector is invalid for deployment"},
		{"labels", strings.Replace(deployment, "labels: {l: a}", "labels: {l: b}", 1), invalid, "does not match template"},
		{"image", strings.Replace(stateful, `, image: "c:1"`, "", 1), invalid, "image"},
		{"replicas", strings.Replace(deployment, "selector", "replicas: -1, selector", 1), invalid, "spec.replicas"},
		{"restart policy", strings.Replace(job, "Never", "Always", 1), invalid, "restartPolicy: Required"},
		{"lease duration", strings.Replace(lease, "holderIdentity: x", "leaseDurationSeconds: 0", 1), invalid, "leaseDurationSeconds"},
		{"no port", strings.Replace(service, "ports: [{port: 80}]", "", 1), invalid, "spec.ports"},
		{"health check", strings.Replace(service, "ports:", "healthCheckNodePort: 30000, ports:", 1), invalid, "may only be set when `type` is"},
		{"key", strings.Replace(configMap, "{k: v}", "{k k: v}", 1), invalid, "data[k k]: Invalid"},
		{"certificate", strings.NewReplacer("kind: ConfigMap", "kind: Secret, type: kubernetes.io/tls", "{k: v}", "{tls.crt: dg==}").Replace(configMap),
			invalid, "data[tls.key]: Required"},
		{"key in both", strings.Replace(configMap, "{k: v}", "{k: v}, binaryData: {k: dg==}", 1), invalid, "data[k]: Invalid value: \"k\": duplicate"},
		{"password", strings.NewReplacer("kind: ConfigMap", "kind: Secret, type: kubernetes.io/basic-auth", "{k: v}", "{}").Replace(configMap),
			invalid, "data[username]: Required"},
		{"private key", strings.NewReplacer("kind: ConfigMap", "kind: Secret, type: kubernetes.io/ssh-auth", "{k: v}", `{ssh-privatekey: ""}`).Replace(configMap),
			invalid, "data[ssh-privatekey]: Required"},
		{"required", strings.Replace(widget, "color: red", "", 1), invalid, "spec.color: Required"},
		{"rules that are not evaluated", strings.Replace(widget, "color: red", "", 1), invalid, "some validation rules were not checked"},
		{"length", strings.Replace(widget, "red", "red, name: abcdef", 1), invalid, "may not be more than 5"},
		{"replicas of the schema", strings.Replace(widget, "red", "red, size: x", 1), invalid, ".spec.size accessor error"},
		{"enum", strings.Replace(widget, "red", "pink", 1), invalid, `spec.color: Unsupported value: "pink"`},
		{"maximum", strings.Replace(widget, "red", "red, size: 11", 1), invalid, "less than or equal to 10"},
		{"pattern", strings.Replace(widget, "red", "red, name: A", 1), invalid, "spec.name"},
		{"schema type", strings.Replace(widget, "red", "red, size: x", 1), invalid, "spec.size"},
		{"set", strings.Replace(widget, "red", "red, tags: [a, a]", 1), invalid, `spec.tags[1]: Duplicate value: "a"`},
		{"map", strings.Replace(widget, "red", "red, parts: [{name: a}, {name: a}]", 1), invalid, "spec.parts[1]: Duplicate"},
		{"metadata of a custom resource", strings.Replace(widget, "name: a", "name: a, labels: {a: 1}", 1), metav1.StatusReasonBadRequest,
			"cannot unmarshal"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inCluster(t, Options{}, Reliable{}, func(c *cluster) {
				c.create(configMap)
				o := object(t, test.text)
				_, err := c.of(o).Create(c.ctx, o, metav1.CreateOptions{})
				expectError(t, err, test.reason, test.part)
			})
		})
	}
}

// TestPatched has what becomes of objects when they are patched, and what is wrong with a patch.
func TestPatched(t *testing.T) {
	invalid, immutable := metav1.StatusReasonInvalid, "field is immutable"
	for _, test := range []struct {
		name, text  string
		patchType   types.PatchType
		patch       string
		subresource string
		reason      metav1.StatusReason
		part        string
		want        map[string]string
	}{
		{"merge", configMap, types.MergePatchType, "data: {k: null, x: z}", "", "", "", map[string]string{"data": "{x: z}"}},
		{"port for health checks that is not needed any more", loadBalancer, types.MergePatchType, "spec: {externalTrafficPolicy: Cluster}", "", "", "",
			map[string]string{"spec.healthCheckNodePort": "null"}},
		{"strategic", deployment, types.StrategicMergePatchType, "spec: {template: {spec: {containers: [{name: d, image: d}]}}}", "", "", "",
			map[string]string{"metadata.generation": "2"}},
		{"strategic patch of a custom resource", widget, types.StrategicMergePatchType, "spec: {}", "", metav1.StatusReasonUnsupportedMediaType,
			"accepted media types", nil},
		{"annotation of a Deployment", deployment, types.MergePatchType, "metadata: {annotations: {x: z}}", "", "", "",
			map[string]string{"metadata.generation": "2"}},
		{"label", deployment, types.MergePatchType, "metadata: {labels: {x: z}}", "", "", "", map[string]string{"metadata.generation": "1"}},
		{"generation", widget, types.MergePatchType, "{metadata: {generation: 7}, spec: {color: blue}}", "", "", "",
			map[string]string{"metadata.generation": "2"}},
		{"generation alone", widget, types.MergePatchType, "{metadata: {generation: 7}}", "", "", "", map[string]string{"metadata.generation": "1"}},
		{"status through the resource", widget, types.MergePatchType, "status: {size: 1}", "", "", "",
			map[string]string{"status": "null", "metadata.generation": "1"}},
		{"status", widget, types.MergePatchType, "{status: {size: 1}, spec: {color: blue}, metadata: {labels: {a: b}}}", "status", "", "",
			map[string]string{"status.size": "1", "spec.color": "red", "metadata.labels": "null", "metadata.generation": "1"}},
		{"status of a built-in object", deployment, types.MergePatchType,
			"{status: {replicas: 7}, spec: {replicas: 3}, metadata: {labels: {a: b}, finalizers: [example.com/a]}}", "status", "", "", map[string]string{
				"spec.replicas": "1", "metadata.labels": "null", "metadata.finalizers": "[example.com/a]", "metadata.generation": "1",
			}},
		{"status without subresource", plain, types.MergePatchType, "status: x", "status", metav1.StatusReasonNotFound, "", nil},
		{"schema", widget, types.MergePatchType, "spec: {size: 11}", "", invalid, "spec.size", nil},
		{"type", deployment, types.MergePatchType, "spec: {replicas: x}", "", invalid, "patch", nil},
		{"name", configMap, types.MergePatchType, "metadata: {name: b}", "", metav1.StatusReasonBadRequest, "does not match", nil},
		{"kind", configMap, types.MergePatchType, "kind: Secret", "", invalid, "the kind is", nil},
		{"kind of a custom resource", widget, types.MergePatchType, "kind: Plain", "", invalid, "must be Widget", nil},
		{"no status", configMap, types.MergePatchType, "{}", "status", metav1.StatusReasonNotFound, "the server could not find the requested resource", nil},
		{"uid", configMap, types.MergePatchType, "metadata: {uid: other}", "", invalid, "metadata.uid", nil},
		{"resource version", configMap, types.MergePatchType, `metadata: {resourceVersion: "1"}`, "", metav1.StatusReasonConflict, "modified", nil},
		{"selector of a Deployment", deployment, types.MergePatchType,
			"spec: {selector: {matchLabels: {l: b}}, template: {metadata: {labels: {l: b}}}}", "", invalid, immutable, nil},
		{"service of a StatefulSet", stateful, types.MergePatchType, "spec: {serviceName: t}", "", invalid, immutable, nil},
		{"replicas of a StatefulSet", stateful, types.MergePatchType, "spec: {replicas: 3}", "", "", "", map[string]string{"spec.replicas": "3"}},
		{"template of a Job", job, types.MergePatchType, "spec: {template: {metadata: {labels: {x: z}}}}", "", invalid, immutable, nil},
		{"command of a Pod", pod, types.StrategicMergePatchType, "spec: {containers: [{name: c, command: [x]}]}", "", invalid, "may not change fields", nil},
		{"restart policy of a Pod", pod, types.MergePatchType, "spec: {restartPolicy: Never}", "", invalid, "spec: Forbidden", nil},
		{"grace period of a Pod", pod, types.MergePatchType, "spec: {terminationGracePeriodSeconds: 1}", "", invalid, "may not change fields", nil},
		{"image of a Pod", pod, types.StrategicMergePatchType, "spec: {containers: [{name: c, image: x}]}", "", "", "",
			map[string]string{"metadata.generation": "2"}},
		{"IP of a Service", service, types.MergePatchType, "spec: {clusterIP: 10.0.0.1}", "", invalid, "may not change", nil},
		{"rolling update of a Deployment that is recreated", deployment, types.MergePatchType, "spec: {strategy: {type: Recreate}}", "", invalid,
			"rollingUpdate", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			inCluster(t, Options{}, Reliable{}, func(c *cluster) {
				o := c.create(test.text)
				var subresources []string
				if test.subresource != "" {
					subresources = append(subresources, test.subresource)
				}
				patched, err := c.patch(o, test.patchType, test.patch, subresources...)
				expectError(t, err, test.reason, test.part)
				if err == nil {
					c.expect(patched, test.want)
					c.expect(c.get(o), test.want)
				}
			})
		})
	}
}

func TestJSONPatch(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		o := c.create(configMap)
		patch := func(text string) error {
			_, err := c.of(o).Patch(c.ctx, "a", types.JSONPatchType, []byte(text), metav1.PatchOptions{})
			return err
		}
		expectError(t, patch(`[{"op":"test","path":"/data/k","value":"v"},{"op":"add","path":"/data/x","value":"z"}]`), "", "")
		c.expect(c.get(o), map[string]string{"data": "{k: v, x: z}"})
		expectError(t, patch(`[{"op":"test","path":"/data/k","value":"w"}]`), metav1.StatusReasonInvalid, "")
		expectError(t, patch(`{}`), metav1.StatusReasonBadRequest, "")
	})
}

func TestUpdate(t *testing.T) {
	for _, test := range []struct {
		name, text  string
		edit        func(o *Object)
		subresource string
		reason      metav1.StatusReason
		part        string
	}{
		{"any version of a built-in object", configMap, func(o *Object) { o.SetResourceVersion("") }, "", "", ""},
		{"any version of a custom resource", widget, func(o *Object) { o.SetResourceVersion("") }, "", metav1.StatusReasonInvalid, "resourceVersion"},
		{"any version of a Lease", lease, func(o *Object) { o.SetResourceVersion("") }, "", metav1.StatusReasonInvalid, "resourceVersion"},
		{"stale", widget, func(o *Object) { o.SetResourceVersion("1001") }, "", metav1.StatusReasonConflict, "modified"},
		{"stale status", widget, func(o *Object) { o.SetResourceVersion("1001") }, "status", metav1.StatusReasonConflict, "modified"},
		{"another object", configMap, func(o *Object) { o.SetUID("other"); o.SetResourceVersion("1") }, "", metav1.StatusReasonConflict, "UID in precondition: other"},
		{"absent", configMap, func(o *Object) { o.SetName("b") }, "", metav1.StatusReasonNotFound, ""},
		{"absent Lease that was there", lease, func(o *Object) { o.SetName("b") }, "", metav1.StatusReasonConflict, ""},
		{"absent Lease", lease, func(o *Object) { o.SetName("b"); o.SetUID("") }, "", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			inCluster(t, Options{}, Reliable{}, func(c *cluster) {
				o := c.create(test.text)
				test.edit(o)
				var subresources []string
				if test.subresource != "" {
					subresources = append(subresources, test.subresource)
				}
				_, err := c.of(o).Update(c.ctx, o, metav1.UpdateOptions{}, subresources...)
				expectError(t, err, test.reason, test.part)
			})
		})
	}
}

// TestIdentity has objects that are not those that the URL says.
func TestIdentity(t *testing.T) {
	for _, text := range []string{strings.Replace(configMap, "default", "other", 1), strings.Replace(configMap, "ConfigMap", "Secret", 1)} {
		inCluster(t, Options{}, Reliable{}, func(c *cluster) {
			client := c.dynamic.Resource(c.Resource(configMaps).GroupVersionResource).Namespace("default")
			_, err := client.Create(c.ctx, object(t, text), metav1.CreateOptions{})
			expectError(t, err, metav1.StatusReasonBadRequest, "does not match")
		})
	}
}

// TestAllocated has a Service: an update that does not say its IP keeps it.
func TestAllocated(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		o := c.create(strings.Replace(service, "ports", "clusterIP: 10.0.0.1, ports", 1))
		updated, err := c.of(o).Update(c.ctx, object(t, strings.Replace(service, "port: 80", "port: 81", 1)), metav1.UpdateOptions{})
		if err != nil || !reflect.DeepEqual(value(updated, "spec", "clusterIPs"), []any{"10.0.0.1"}) {
			t.Errorf("of %v it makes %v, %v", o, updated, err)
		}
		if ip := text(c.create(strings.Replace(service, "name: a", "name: b", 1)), "spec", "clusterIP"); !strings.HasPrefix(ip, "10.") {
			t.Errorf("another one has the IP %q", ip)
		}
	})
}

func TestNoOp(t *testing.T) {
	for _, text := range []string{configMap, deployment, widget, lease, service} {
		inCluster(t, Options{Without: []Controller{DeploymentController}}, Reliable{}, func(c *cluster) {
			o := c.create(text)
			advance(time.Hour) // The managed fields have times.
			updated, err := c.of(o).Update(c.ctx, o, metav1.UpdateOptions{})
			if err != nil || updated.GetResourceVersion() != o.GetResourceVersion() {
				t.Errorf("an update of %s without a change makes %v of %v, %v", o.GetKind(), updated, o, err)
			}
		})
	}
}

func TestGenerateName(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		text := strings.Replace(configMap, "name: a", "generateName: x-", 1)
		a, b := c.create(text).GetName(), c.create(text).GetName()
		if a == b || !strings.HasPrefix(a, "x-") || len(a) != len("x-")+5 {
			t.Errorf("the names are %q and %q", a, b)
		}
	})
}

// TestToleratedValue has a custom resource that an older version of its schema allowed: it can be changed, but for what is invalid.
func TestToleratedValue(t *testing.T) {
	inCluster(t, Options{}, Reliable{}, func(c *cluster) {
		o := object(t, strings.Replace(widget, "red", "pink", 1))
		if err := c.Client("older").Store(o); err != nil {
			t.Fatal(err)
		}
		c.merge(o, "spec: {size: 2}")
		c.merge(o, "status: {size: 2}", "status")
		_, err := c.patch(o, types.MergePatchType, "spec: {color: brown}")
		expectError(t, err, metav1.StatusReasonInvalid, "spec.color")
	})
}

func TestScale(t *testing.T) {
	for _, test := range []struct {
		text, selector, want string
		reason               metav1.StatusReason
	}{
		{deployment, "l=a", "spec.replicas", ""},
		{stateful, "l=a", "spec.replicas", ""},
		{widget, "x=z", "spec.size", metav1.StatusReasonInvalid},
	} {
		inCluster(t, Options{}, Reliable{}, func(c *cluster) {
			o := c.create(test.text)
			if o.GetKind() == "Widget" {
				c.merge(o, "status: {size: 1, selector: x=z}", "status")
			}
			advance(time.Second)
			scale, err := c.of(o).Get(c.ctx, "a", metav1.GetOptions{}, "scale")
			if err != nil {
				t.Fatal(err)
			}
			c.expect(scale, map[string]string{"kind": "Scale", "spec.replicas": "1", "status": "{replicas: 1, selector: " + test.selector + "}"})
			set(scale, int64(4), "spec", "replicas")
			if _, err := c.of(o).Update(c.ctx, scale, metav1.UpdateOptions{}, "scale"); err != nil {
				t.Fatal(err)
			}
			c.expect(c.get(o), map[string]string{test.want: "4", "metadata.generation": "2"})
			if names, fields := managers(c.get(o), "program Update scale"); !strings.Contains(fields, strings.TrimPrefix(test.want, "spec.")) {
				t.Errorf("the managers are %q, with the fields %s of the scale", names, fields)
			}
			_, err = c.of(o).Update(c.ctx, scale, metav1.UpdateOptions{}, "scale")
			expectError(t, err, metav1.StatusReasonConflict, "")
			_, err = c.patch(o, types.MergePatchType, "spec: {replicas: -1}", "scale")
			expectError(t, err, metav1.StatusReasonInvalid, "spec.replicas")
			_, err = c.patch(o, types.MergePatchType, "spec: {replicas: 11}", "scale")
			expectError(t, err, test.reason, "")
		})
	}
}

// TestUnknownField has a field of a newer API server: a client that writes all that it knows of an object drops it, and a patch does not.
func TestUnknownField(t *testing.T) {
	for _, text := range []string{deployment, widget} {
		inCluster(t, Options{UnknownField: true}, Reliable{}, func(c *cluster) {
			o := c.create(text)
			c.expect(c.merge(o, "metadata: {labels: {a: b}}"), map[string]string{"spec.unknownField": "default", "metadata.generation": "1"})
			c.expect(c.apply(o, "one", "metadata: {labels: {c: c}}"), map[string]string{"spec.unknownField": "default"})
			o = c.get(o)
			takeUnknown(o)
			if _, err := c.of(o).Update(c.ctx, o, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			c.expect(c.get(o), map[string]string{"spec.unknownField": "null", "metadata.generation": "2"})
		})
	}
}
