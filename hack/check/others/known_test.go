// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package others

import (
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"k8s.io/sample-controller/hack/simulation"
	"k8s.io/sample-controller/hack/simulation/apiserver"
)

var (
	secrets             = schema.GroupResource{Resource: "secrets"}
	pods                = schema.GroupResource{Resource: "pods"}
	certificates        = schema.GroupResource{Group: "cert-manager.io", Resource: "certificates"}
	certificateRequests = schema.GroupResource{Group: "cert-manager.io", Resource: "certificaterequests"}
	certificateIssuers  = schema.GroupResource{Group: "cert-manager.io", Resource: "issuers"}
)

// TestKnown makes, one after the other, what the controllers are known to do. README.md has the stories.
func TestKnown(t *testing.T) {
	for _, known := range []struct {
		name   string
		config simulation.Config
		broken simulation.Promise
		run    func(w *simulation.Walk)
	}{
		{"a TTL that is raised late", ttlConfig(), notBefore, func(w *simulation.Walk) {
			w.Delay(2*time.Second, func(r *apiserver.Request) bool { return r.Verb == "delete" })
			w.Create(example(t, "testdata/jobs.yaml", "job-0"))
			w.Sleep(7 * time.Second) // The Job takes one second, and its TTL is five seconds.
			w.Change(simulation.Refer(jobs, "default", "job-0"), "changes", func(o *apiserver.Object) {
				simulation.SetField(o, "spec.ttlSecondsAfterFinished", int64(3600))
			})
			w.Sleep(time.Minute)
		}},
		{"a Pod without labels of a Job that is deleted", jobConfig(), simulation.Soon, func(w *simulation.Walk) {
			w.Create(example(t, "testdata/jobs.yaml", "job-0"))
			w.Sleep(time.Second)
			w.Change(podOf(w), "removes the labels of", func(o *apiserver.Object) { o.SetLabels(nil) })
			w.Sleep(100 * time.Millisecond) // The controller knows of that, and gathers changes for a second.
			w.Delete(simulation.Refer(jobs, "default", "job-0"), metav1.DeletePropagationForeground)
			w.Expect(time.Hour, "the Job is still there", func() bool { return len(w.List(jobs)) == 0 })
		}},
		{"a ReplicaSet that is created again", replicaSetConfig(), simulation.Generations, func(w *simulation.Walk) {
			set := simulation.Refer(replicaSets, "default", "replicaset-0")
			w.Create(example(t, "testdata/replicasets.yaml", "replicaset-0"))
			w.Sleep(5 * time.Second)
			w.Change(set, "changes", func(o *apiserver.Object) { simulation.SetField(o, "spec.replicas", int64(1)) })
			w.Sleep(5 * time.Second)
			w.Hold(w.Instance(0), replicaSets, 5*time.Second)
			w.Recreate(set)
			w.Delete(podOf(w), metav1.DeletePropagationBackground)
			w.Sleep(10 * time.Second)
		}},
		{"a ReplicaSet that is deleted while its watch is late", replicaSetConfig(), simulation.BoundedWork, func(w *simulation.Walk) {
			w.Create(example(t, "testdata/replicasets.yaml", "replicaset-0"))
			w.Sleep(5 * time.Second)
			since := time.Now()
			w.Hold(w.Instance(0), replicaSets, 10*time.Second)
			w.Delete(simulation.Refer(replicaSets, "default", "replicaset-0"), metav1.DeletePropagationBackground)
			w.Sleep(10 * time.Second)
			w.AtMost(20, since, "for a ReplicaSet that is deleted", func(r *apiserver.Request) bool { return r.Verb == "create" && r.Resource == pods })
		}},
		{"a CertificateRequest of that name", certManagerConfig(t), simulation.Soon, func(w *simulation.Walk) {
			w.Create(example(t, "testdata/request.yaml", "certificate-0-1"))
			w.Create(example(t, "testdata/certificates.yaml", "certificate-0"))
			w.Expect(time.Hour, "the status does not say what is wrong", func() bool { return says(w, "certificate-0-1") })
		}},
		{"a new spec while a certificate is issued", certManagerConfig(t), simulation.Soon, func(w *simulation.Walk) {
			ref := simulation.Refer(certificates, "default", "certificate-0")
			w.Create(example(t, "testdata/certificates.yaml", "certificate-0"))
			w.Sleep(5 * time.Second)
			w.Change(ref, "changes", func(o *apiserver.Object) { simulation.SetField(o, "spec.commonName", "other.example.com") })
			w.Expect(time.Hour, "the condition Issuing is about an old generation", func() bool {
				return says(w, "Issuing 2")
			})
		}},
	} {
		t.Run(known.name, func(t *testing.T) {
			known.config.Exempt = nil
			story, broken := known.config.Try(t, simulation.Trial{Name: known.name, Judged: []simulation.Promise{known.broken}, Run: known.run})
			if t.Log(story); broken != known.broken {
				t.Errorf("it breaks %q, want %q", broken, known.broken)
			}
		})
	}
}

// example returns the first object of a file, with a name.
func example(t *testing.T, file, name string) *apiserver.Object {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	list, err := apiserver.ReadYAML(raw)
	if err != nil {
		t.Fatal(err)
	}
	list[0].SetName(name)
	list[0].SetNamespace("default")
	return list[0]
}

// podOf returns where the first Pod is.
func podOf(w *simulation.Walk) simulation.Reference {
	if list := w.List(pods); len(list) > 0 {
		return simulation.Refer(pods, list[0].GetNamespace(), list[0].GetName())
	}
	return simulation.Reference{}
}

// says reports whether a condition of a Certificate has a text in its message, or its type and its generation.
func says(w *simulation.Walk, text string) bool {
	conditions, _, _ := unstructured.NestedSlice(w.List(certificates)[0].Object, "status", "conditions")
	for _, c := range conditions {
		condition := c.(map[string]any)
		if strings.Contains(condition["message"].(string), text) {
			return true
		}
		if n, ok := condition["observedGeneration"].(int64); ok && text == condition["type"].(string)+" "+string(rune('0'+n)) {
			return true
		}
	}
	return false
}
