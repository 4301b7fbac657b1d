// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Everything is logged, once when a long-running request starts and once when any request ends, but no bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// Request is one request that the API server got.
type Request struct {
	User        string
	UserAgent   string
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection
	APIGroup    string
	Resource    string // plural; empty if the request was not for a resource
	Subresource string
	Namespace   string
	Name        string
	URI         string
	Code        int  // the HTTP status of the answer
	Denied      bool // RBAC did not allow it; admission, which comes later, may have refused one that is not Denied
	Received    time.Time
	Ended       bool // false for a watch that is still running
}

type auditEvent struct {
	AuditID    string
	Stage      string
	Verb       string
	RequestURI string
	UserAgent  string
	User       struct{ Username string }
	ObjectRef  struct{ APIGroup, Resource, Subresource, Namespace, Name string }

	ResponseStatus           struct{ Code int }
	Annotations              map[string]string
	RequestReceivedTimestamp time.Time
}

// Requests returns the requests that the API server has answered so far, in the order of its audit log, each of them once.
// It writes the log just after the answer: who asks for a request that was answered a moment ago asks again until it is
// there.
func (c *Cluster) Requests() ([]Request, error) {
	log, err := os.ReadFile(c.path("audit.log"))
	if err != nil {
		return nil, err
	}
	return parseAuditLog(log)
}

func parseAuditLog(log []byte) ([]Request, error) {
	var requests []Request
	index := map[string]int{} // of a request by its audit id: a watch has a line for its start and one for its end
	for line := range bytes.Lines(log) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // being written
		}
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("audit log: %w: %s", err, line)
		}
		i, known := index[event.AuditID]
		if !known {
			i = len(requests)
			index[event.AuditID] = i
			requests = append(requests, Request{})
		}
		requests[i] = event.request()
	}
	return requests, nil
}

func (e *auditEvent) request() Request {
	return Request{
		User:        e.User.Username,
		UserAgent:   e.UserAgent,
		Verb:        e.Verb,
		APIGroup:    e.ObjectRef.APIGroup,
		Resource:    e.ObjectRef.Resource,
		Subresource: e.ObjectRef.Subresource,
		Namespace:   e.ObjectRef.Namespace,
		Name:        e.ObjectRef.Name,
		URI:         e.RequestURI,
		Code:        e.ResponseStatus.Code,
		Denied:      e.Annotations["authorization.k8s.io/decision"] == "forbid",
		Received:    e.RequestReceivedTimestamp,
		Ended:       e.Stage != "ResponseStarted",
	}
}
