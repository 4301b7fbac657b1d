// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package others

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"k8s.io/sample-controller/hack/simulation"
	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// TestCertManager walks with the controllers of cert-manager that issue certificates which sign themselves.
func TestCertManager(t *testing.T) { simulation.Test(t, certManagerConfig(t)) }

func certManagerConfig(t *testing.T) simulation.Config {
	crds, err := CertManagerCRDs()
	if err != nil {
		t.Fatal(err)
	}
	return simulation.Config{
		Program: CertManager, Resync: 10 * time.Hour, Instances: 1, CRDs: crds, Examples: []string{"testdata/certificates.yaml"},
		Validate: validateCertManager,
		Exempt: exempt(
			simulation.OwnObjects, // It approves and signs also CertificateRequests that users have created.
			simulation.NoLeftover, // What it writes events with ends with the process.
			simulation.Truth,      // A Certificate that is issued needs no CertificateRequest.
			// It tries to create what has the name of an object that is not its own for ever, and after a restart: TestKnown.
			simulation.Silence, simulation.Restart, simulation.BoundedWork, simulation.NoResync,
			simulation.LivingOwners, // It reads a Certificate before it creates a Secret for it, and does not look whether that is being deleted.
		),
		ByDesign: func(o *apiserver.Object, _ []*apiserver.Object) bool {
			for _, name := range []string{"nextPrivateKeySecretName", "revision"} {
				unstructured.RemoveNestedField(o.Object, "status", name)
			}
			conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
			conditions = slices.DeleteFunc(conditions, func(c any) bool { // It remains until the certificate is issued: TestKnown.
				return c.(map[string]any)["type"] == "Issuing"
			})
			_ = unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions")
			// Keys are random. Of two Certificates with one Secret, the first one is issued, and none of which a user has what is created for it.
			return o.GetKind() == "Secret" || o.GetKind() == "CertificateRequest" || o.GetKind() == "Certificate" && !isReady(o)
		},
		Own: []simulation.Own{{Name: "a Certificate that can be issued is ready", End: func(c simulation.Cluster) error {
			users := map[string]int{} // of a Secret: only the first one gets it
			for _, certificate := range c.List(certificates) {
				users[text(certificate, "spec", "secretName")]++
			}
			for _, certificate := range c.List(certificates) {
				issuer := c.Get(certificateIssuers, "default", text(certificate, "spec", "issuerRef", "name"))
				if issuer != nil && !hasTakenName(c, certificate) && users[text(certificate, "spec", "secretName")] == 1 && !isReady(certificate) {
					return fmt.Errorf("Certificate %s is not ready", certificate.GetName())
				}
			}
			return nil
		}}},
	}
}

func text(o *apiserver.Object, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

// hasTakenName reports whether users have an object of a name that is made from that of a Certificate: TestKnown.
func hasTakenName(c simulation.Cluster, certificate *apiserver.Object) bool {
	return slices.ContainsFunc(slices.Concat(c.List(secrets), c.List(certificateRequests)), func(o *apiserver.Object) bool {
		return strings.HasPrefix(o.GetName(), certificate.GetName()+"-") && !metav1.IsControlledBy(o, certificate)
	})
}

func isReady(certificate *apiserver.Object) bool {
	conditions, _, _ := unstructured.NestedSlice(certificate.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition := c.(map[string]any)
		return condition["type"] == "Ready" && condition["status"] == "True"
	})
}

// validateCertManager denies what the webhook of cert-manager denies. It denies all values of fields of which users would find none.
func validateCertManager(o, found *apiserver.Object) error {
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	if o.GetKind() == "CertificateRequest" && found != nil && !equality.Semantic.DeepEqual(found.Object["spec"], o.Object["spec"]) {
		return errors.New("cannot change spec after creation")
	}
	if o.GetKind() != "Certificate" {
		return nil
	}
	for _, name := range []string{"keystores", "nameConstraints", "renewal", "renewBeforePercentage", "signatureAlgorithm"} {
		if spec[name] != nil {
			return fmt.Errorf("spec.%s is not for users", name)
		}
	}
	if limit, ok := spec["revisionHistoryLimit"].(int64); ok && limit < 1 {
		return errors.New("spec.revisionHistoryLimit must not be less than 1")
	}
	key, _ := spec["privateKey"].(map[string]any)
	if size, ok := key["size"].(int64); ok && size != 256 || key["algorithm"] == nil || key["algorithm"] == "RSA" { // RSA is the default.
		return fmt.Errorf("spec.privateKey must not have %v", key)
	}
	return nil
}
