// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// wantsMetadata reports whether a client prefers objects that have metadata alone, as clients of k8s.io/client-go/metadata do.
func wantsMetadata(accept string) bool {
	for mediaType := range strings.SplitSeq(accept, ",") {
		if strings.Contains(mediaType, "json") {
			return strings.Contains(mediaType, "as=PartialObjectMetadata")
		}
	}
	return false
}

// encodeFor returns an object or a list as the client has asked for it.
func (s *Server) encodeFor(r *Request, result *Object) []byte {
	if !r.metadataOnly || result.GetKind() == "Status" {
		return s.encode(result)
	}
	items, isList := result.Object["items"].([]any)
	if !isList {
		return encode(partial("PartialObjectMetadata", result.Object))
	}
	list, partials := partial("PartialObjectMetadataList", result.Object), make([]any, len(items))
	for i, item := range items {
		partials[i] = partial("PartialObjectMetadata", item.(map[string]any))
	}
	list["items"] = partials
	return encode(list)
}

// encodeEvent returns the object of an event as the client has asked for it.
func encodeEvent(r *Request, event Change) []byte {
	if !r.metadataOnly || event.Type == watch.Error {
		return event.raw
	}
	return encode(partial("PartialObjectMetadata", event.New.Object))
}

// partial returns the metadata of an object, or of a list.
func partial(kind string, of map[string]any) map[string]any {
	return map[string]any{"apiVersion": metav1.SchemeGroupVersion.String(), "kind": kind, "metadata": of["metadata"]}
}
