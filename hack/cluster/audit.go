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

// The audit log has an entry when a long-running request starts and one when a request completes, without bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// Request is a request that the API server received.
type Request struct {
	User        string
	UserAgent   string
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection
	APIGroup    string
	Resource    string // plural; empty for a non-resource request
	Subresource string
	Namespace   string
	Name        string
	URI         string
	Code        int  // HTTP status code of the response
	Denied      bool // by authorization; a request rejected by admission is not Denied
	Received    time.Time
	Ended       bool // false for a watch that is still open
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

// auditLog is the part of the API server's audit log that has been read so far.
type auditLog struct {
	mu       sync.Mutex
	offset   int64
	requests []Request
	open     map[string]int // index in requests by audit ID, of requests that have not completed
}

// Requests returns the requests that the API server has responded to so far, in the order of its audit log. A request is
// logged after its response was sent, so that callers have to poll for a request that has just completed.
func (c *Cluster) Requests() ([]Request, error) {
	log, err := os.Open(c.path("audit.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c.auditLog.mu.Lock()
	defer c.auditLog.mu.Unlock()
	if _, err := log.Seek(c.auditLog.offset, io.SeekStart); err != nil {
		return nil, err
	}
	entries, err := io.ReadAll(log)
	if err != nil {
		return nil, err
	}
	if err := c.auditLog.parse(entries); err != nil {
		return nil, err
	}
	return slices.Clone(c.auditLog.requests), nil
}

// entryStart is how each entry of the audit log begins.
var entryStart = []byte(`{"kind":"Event",`)

// parse adds the entries, the last of which may be incomplete. A killed API server leaves an incomplete entry to which its successor
// appends.
func (l *auditLog) parse(entries []byte) error {
	for line := range bytes.Lines(entries) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var event auditEvent
		entry := line[max(0, bytes.LastIndex(line, entryStart)):]
		if err := json.Unmarshal(entry, &event); err != nil {
			return fmt.Errorf("invalid entry in the audit log: %w: %s", err, line)
		}
		l.offset += int64(len(line))
		request := event.request()
		if i, ok := l.open[event.AuditID]; ok {
			l.requests[i] = request
		} else {
			l.open[event.AuditID] = len(l.requests)
			l.requests = append(l.requests, request)
		}
		if request.Ended {
			delete(l.open, event.AuditID)
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
