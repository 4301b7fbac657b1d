// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault handles a request in place of the proxy. It may call next to have the API server apply the request.
type Fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Reject responds with an error without applying the request.
func Reject(code int, reason metav1.StatusReason) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { respond(w, code, reason) }
}

// FailAfterApply applies the request but responds with an error.
func FailAfterApply(code int, reason metav1.StatusReason) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(httptest.NewRecorder(), r)
		respond(w, code, reason)
	}
}

// DropRequest resets the stream without applying the request.
func DropRequest(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// DropResponse applies the request and resets the stream without a response.
func DropResponse(_ http.ResponseWriter, r *http.Request, next http.Handler) {
	next.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// Before calls a function instead of applying the request, and drops the request.
func Before(call func()) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		call()
		DropRequest(w, r, next)
	}
}

// After applies the request, calls a function and drops the response.
func After(call func()) Fault {
	return func(_ http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(httptest.NewRecorder(), r)
		call()
		panic(http.ErrAbortHandler)
	}
}

// During calls a function before it passes the request on.
func During(call func()) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		call()
		next.ServeHTTP(w, r)
	}
}

func respond(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	// The client may be gone by now, which is one more fault.
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: reason, Code: int32(code), Message: "injected by the tests",
	})
}

// parse returns the attributes of a request.
func parse(r *http.Request) *Request {
	request := &Request{}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch { // api/v1/… or apis/group/version/…
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return request
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	request.Resource = parts[0]
	if len(parts) > 1 {
		request.Name = parts[1]
	}
	if len(parts) > 2 {
		request.Resource += "/" + parts[2]
	}
	switch r.Method {
	case http.MethodPost:
		request.Verb = "create"
	case http.MethodPut:
		request.Verb = "update"
	case http.MethodPatch:
		request.Verb = "patch"
	case http.MethodDelete:
		request.Verb = "delete"
	default:
		request.Verb = "get"
		if r.URL.Query().Has("watch") {
			request.Verb = "watch"
		} else if request.Name == "" {
			request.Verb = "list"
		}
	}
	return request
}
