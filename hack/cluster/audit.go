// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
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

// auditLog is what has been read so far of the API server's audit log, which only grows.
type auditLog struct {
	mu       sync.Mutex
	size     int64 // that has been read
	requests []Request
	running  map[string]int // index of a request by its audit id: a watch has a line for its start and one for its end
}

// Requests returns the requests that the API server has answered so far, in the order of its audit log, each of them once.
// It writes the log just after the answer: who asks for a request that was answered a moment ago asks again until it is
// there.
func (c *Cluster) Requests() ([]Request, error) {
	log, err := os.Open(c.path("audit.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c.auditLog.mu.Lock()
	defer c.auditLog.mu.Unlock()
	if _, err := log.Seek(c.auditLog.size, io.SeekStart); err != nil {
		return nil, err
	}
	added, err := io.ReadAll(log)
	if err != nil {
		return nil, err
	}
	if err := c.auditLog.parse(added); err != nil {
		return nil, err
	}
	return slices.Clone(c.auditLog.requests), nil
}

// parse adds what the log has got since it was read last.
func (l *auditLog) parse(added []byte) error {
	for line := range bytes.Lines(added) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // being written
		}
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return fmt.Errorf("audit log: %w: %s", err, line)
		}
		l.size += int64(len(line))
		request := event.request()
		if i, known := l.running[event.AuditID]; known {
			l.requests[i] = request
		} else {
			l.running[event.AuditID] = len(l.requests)
			l.requests = append(l.requests, request)
		}
		if request.Ended {
			delete(l.running, event.AuditID)
		}
	}
	return nil
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
