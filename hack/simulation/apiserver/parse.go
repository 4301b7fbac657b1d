// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// parse returns the request behind an HTTP request.
func (s *Server) parse(httpRequest *http.Request, client string) (*Request, error) {
	manager, _, _ := strings.Cut(httpRequest.UserAgent(), "/")
	query := httpRequest.URL.Query()
	r := &Request{Client: client, Manager: cmp.Or(query.Get("fieldManager"), manager), Query: query, Sent: time.Now()}
	if err := s.parsePath(r, httpRequest.URL.Path); err != nil && !slices.Contains(alwaysServed, r.Resource.Group) {
		return nil, err
	} else if err != nil {
		r.Verb = strings.ToLower(httpRequest.Method)
		return r, err
	}
	switch isCollection := r.Name == ""; httpRequest.Method {
	case http.MethodGet:
		r.Verb = "get"
		if isCollection {
			r.Verb = "list"
		}
		if isCollection && (query.Get("watch") == "true" || query.Get("watch") == "1") {
			r.Verb = "watch"
		}
	case http.MethodPost:
		r.Verb = "create"
	case http.MethodPut:
		r.Verb = "update"
	case http.MethodPatch:
		mediaType, _, _ := strings.Cut(httpRequest.Header.Get("Content-Type"), ";")
		r.Verb, r.PatchType = "patch", types.PatchType(mediaType)
	case http.MethodDelete:
		r.Verb = "delete"
		if isCollection {
			r.Verb = "deletecollection"
		}
	default:
		return nil, apierrors.NewMethodNotSupported(r.Resource, httpRequest.Method)
	}
	return r, r.parseBody(httpRequest)
}

// alwaysServed are the groups that each API server serves, and this one does not.
var alwaysServed = []string{"apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io"}

// parsePath parses /api/v1/namespaces/<namespace>/<resource>/<name>/<subresource> and its kin.
func (s *Server) parsePath(r *Request, path string) error {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	unknown := apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "not simulated: "+path, 0, true)
	var gv schema.GroupVersion
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		gv, parts = schema.GroupVersion{Version: parts[1]}, parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		gv, parts = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	default:
		return unknown
	}
	if parts[0] == "namespaces" && len(parts) >= 3 && s.Resource(gv.WithResource(parts[2]).GroupResource()) != nil {
		r.Namespace, parts = parts[1], parts[2:]
	}
	resource := s.Resource(gv.WithResource(parts[0]).GroupResource())
	r.Resource = gv.WithResource(parts[0]).GroupResource()
	if resource == nil || resource.Version != gv.Version || len(parts) > 3 {
		return unknown
	}
	for i, part := range []*string{&r.Name, &r.Subresource} {
		if len(parts) > i+1 {
			*part = parts[i+1]
		}
	}
	return nil
}

// parseBody reads the body, which must be JSON, protobuf of a built-in kind, or YAML for server-side apply.
func (r *Request) parseBody(httpRequest *http.Request) (err error) {
	accept := httpRequest.Header.Get("Accept")
	if accept != "" && !strings.Contains(accept, "json") && !strings.Contains(accept, "*/*") {
		return StatusError(http.StatusNotAcceptable, "not simulated: responses of type "+accept+"; use application/json")
	}
	r.metadataOnly = wantsMetadata(accept)
	if httpRequest.Body == nil {
		return nil
	}
	defer httpRequest.Body.Close()
	if r.Body, err = io.ReadAll(httpRequest.Body); err != nil || len(r.Body) == 0 {
		return err
	}
	contentType := httpRequest.Header.Get("Content-Type")
	if strings.Contains(contentType, runtime.ContentTypeProtobuf) {
		if r.Body, err = fromProtobuf(r.Body); err != nil {
			return StatusError(http.StatusUnsupportedMediaType, err.Error())
		}
	} else if contentType != "" && !strings.Contains(contentType, "json") && !r.IsApply() {
		return StatusError(http.StatusUnsupportedMediaType, "not simulated: bodies of type "+contentType+"; use application/json")
	}
	if r.IsApply() && !json.Valid(r.Body) {
		var applied map[string]any
		err = yaml.Unmarshal(r.Body, &applied)
		r.Body = encode(applied)
	}
	if err != nil || !json.Valid(r.Body) {
		return apierrors.NewBadRequest("the body is no JSON")
	}
	if r.Verb == "create" {
		o, err := r.Object()
		if err != nil {
			return err
		}
		r.Name = cmp.Or(r.Name, o.GetName())
	}
	return nil
}

// fromProtobuf returns a body as JSON. Clients of built-in kinds send protobuf unless their configuration names another type.
func fromProtobuf(body []byte) ([]byte, error) {
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(o)
}
