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

// Fault is what happens to a request. It may have the API server apply it, by pass.
type Fault func(w http.ResponseWriter, r *http.Request, pass http.Handler)

// Refuse answers with an error and does not apply the request.
func Refuse(code int, reason metav1.StatusReason) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { answer(w, code, reason) }
}

// Misreport applies the request, but answers with an error.
func Misreport(code int, reason metav1.StatusReason) Fault {
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		pass.ServeHTTP(httptest.NewRecorder(), r)
		answer(w, code, reason)
	}
}

// Drop neither applies nor answers the request: its stream is reset.
func Drop(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// LoseAnswer applies the request, and resets its stream instead of an answer.
func LoseAnswer(_ http.ResponseWriter, r *http.Request, pass http.Handler) {
	pass.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// Before calls a function, and then the request is dropped. What the function does happens before it is applied.
func Before(call func()) Fault {
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		call()
		Drop(w, r, pass)
	}
}

// After has the request applied, even if it is given up meanwhile, calls a function, and then the answer is lost.
func After(call func()) Fault {
	return func(_ http.ResponseWriter, r *http.Request, pass http.Handler) {
		pass.ServeHTTP(httptest.NewRecorder(), r)
		call()
		panic(http.ErrAbortHandler)
	}
}

// During calls a function, and then passes the request on.
func During(call func()) Fault {
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		call()
		pass.ServeHTTP(w, r)
	}
}

func answer(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	// A connection that breaks meanwhile is one more fault.
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: reason, Code: int32(code), Message: "injected by the tests",
	})
}

// parse tells what a request is about.
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
		request.Namespace, parts = parts[1], parts[2:]
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
