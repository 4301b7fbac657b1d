// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import "testing"

func TestAuditLogOfKilledServer(t *testing.T) {
	const first = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"1","stage":"ResponseComplete","verb":"get"}` + "\n"
	const second = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"2","stage":"ResponseComplete","verb":"list"}` + "\n"
	log := auditLog{open: map[string]int{}}
	entries := first + `{"kind":"Event","apiVer` + second + `{"kind":"Event","api`
	if err := log.parse([]byte(entries)); err != nil {
		t.Fatal(err)
	}
	if len(log.requests) != 2 || log.requests[0].Verb != "get" || log.requests[1].Verb != "list" {
		t.Errorf("the requests are %+v, want get and list", log.requests)
	}
	if rest := len(entries) - int(log.offset); rest != len(`{"kind":"Event","api`) {
		t.Errorf("%d bytes are left for the next call, want those of the last entry", rest)
	}
	if err := log.parse([]byte("no entry\n")); err == nil {
		t.Error("parse() = nil for a line that has no entry")
	}
}
