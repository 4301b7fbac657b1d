// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Request is a request for an object, for a list, or for a watch.
type Request struct {
	Client      string // who makes it: the name of a connection, of a user, or of a built-in controller
	Manager     string // the field manager
	Verb        string // get, list, watch, create, update, patch, delete or deletecollection
	Resource    schema.GroupResource
	Subresource string
	Namespace   string
	Name        string
	Query       url.Values
	PatchType   types.PatchType
	Body        []byte // It is JSON.
	Sent        time.Time

	unvalidated  bool
	created      bool // It has created an object.
	metadataOnly bool // The response, or each event, has metadata alone.
}

// IsWrite reports whether the request changes objects.
func (r *Request) IsWrite() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb) && !r.IsDryRun()
}

// IsDryRun reports whether nothing of the request is stored.
func (r *Request) IsDryRun() bool { return r.Query.Has("dryRun") }

// IsApply reports whether the request is a server-side apply.
func (r *Request) IsApply() bool { return r.Verb == "patch" && r.PatchType == types.ApplyPatchType }

// Object returns the object in the body, a copy for each caller. The body of a patch may be none, and that of a deletion are its options.
func (r *Request) Object() (*Object, error) {
	o, err := decode(r.Body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return o, nil
}

// Key returns the namespace and the name of the object.
func (r *Request) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// String returns the verb, the resource with its subresource, and the name.
func (r *Request) String() string {
	resource := strings.TrimSuffix(r.Resource.Resource+"/"+r.Subresource, "/")
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Verb, resource, r.Name))
}

// notSimulated is the error of a request that a real API server might answer.
func notSimulated(format string, args ...any) error {
	return StatusError(http.StatusNotImplemented, "not simulated: "+fmt.Sprintf(format, args...))
}

// StatusError returns what an API server responds with an HTTP status code and a message.
func StatusError(code int32, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
}
