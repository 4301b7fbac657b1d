// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import "time"

// Step is one step of a key, an object, a request or a process. The README describes the fields and the kinds.
type Step struct {
	Seq             int64     `json:"seq"`
	Time            time.Time `json:"time"`
	Source          string    `json:"source"`
	Stop            string    `json:"stop"`
	Lane            string    `json:"lane,omitempty"`
	Kind            string    `json:"kind"`
	Pod             string    `json:"pod,omitempty"`
	Key             string    `json:"key,omitempty"`
	Object          string    `json:"object,omitempty"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	What            string    `json:"what,omitempty"`
	Why             string    `json:"why,omitempty"`
	Code            string    `json:"code,omitempty"`
	Raw             string    `json:"raw,omitempty"`
	EventType       string    `json:"eventType,omitempty"`
	Verb            string    `json:"verb,omitempty"`
	Resource        string    `json:"resource,omitempty"`
	Status          int       `json:"status,omitempty"`
	Request         int64     `json:"request,omitempty"`
	Priority        string    `json:"priority,omitempty"`
	Merged          string    `json:"merged,omitempty"`
	Delay           float64   `json:"delay,omitempty"`
	Retries         int       `json:"retries,omitempty"`
	Worker          int       `json:"worker,omitempty"`
	Duration        float64   `json:"duration,omitempty"`
	Result          string    `json:"result,omitempty"`
	Count           int       `json:"count,omitempty"`
	Name            string    `json:"name,omitempty"`
	Error           string    `json:"error,omitempty"`
}

// The sources of steps.
const (
	wire     = "wire"
	logged   = "log"
	inferred = "inferred"
)

// The lanes: one for each informer.
const (
	foos        = "foos"
	deployments = "deployments"
	leases      = "leases" // which no informer has
)
