// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"iter"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	samplescheme "k8s.io/sample-controller/pkg/generated/clientset/versioned/scheme"
	"k8s.io/sample-controller/pkg/ownership"
)

var decoder = func() runtime.Decoder {
	types := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(types))
	utilruntime.Must(samplescheme.AddToScheme(types))
	return serializer.NewCodecFactory(types).UniversalDeserializer()
}()

// decoded is what a step shows of an object.
type decoded struct {
	namespace, name, resourceVersion string
	owner                            string // namespace/name of the Foo that controls it, or that it is about
	message                          string // of a Status
	raw                              string
	initialEventsEnd                 bool
}

// decode returns what a step shows of an object in JSON or protobuf.
func decode(content []byte) (decoded, bool) {
	object, _, err := decoder.Decode(content, nil, nil)
	if err != nil {
		return decoded{}, false
	}
	return describe(object), true
}

func describe(object runtime.Object) decoded {
	if status, ok := object.(*metav1.Status); ok {
		return decoded{message: status.Message, raw: summary(status.Status, "reason", status.Reason, "message", status.Message)}
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return decoded{}
	}
	d := decoded{namespace: accessor.GetNamespace(), name: accessor.GetName(), resourceVersion: accessor.GetResourceVersion(),
		initialEventsEnd: accessor.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"}
	switch object := object.(type) {
	case *samplev1alpha1.Foo:
		d.owner = objectName(d.namespace, d.name)
		d.raw = summary("Foo", "generation", object.Generation, "spec", object.Spec, "status", object.Status)
	case *appsv1.Deployment:
		if controller := ownership.ControllerRef(object); controller != nil {
			d.owner = objectName(d.namespace, controller.Name)
		}
		var images []string
		for _, container := range object.Spec.Template.Spec.Containers {
			images = append(images, container.Image)
		}
		d.raw = summary("Deployment", "generation", object.Generation, "controller", d.owner, "replicas", object.Spec.Replicas, "images", images,
			"availableReplicas", object.Status.AvailableReplicas, "observedGeneration", object.Status.ObservedGeneration)
	case *corev1.Event:
		d.owner = objectName(object.InvolvedObject.Namespace, object.InvolvedObject.Name)
		d.raw = summary("Event", "type", object.Type, "reason", object.Reason, "message", object.Message)
	}
	return d
}

// summary returns a kind with names and values as compact JSON.
func summary(kind string, namesAndValues ...any) string {
	var text strings.Builder
	text.WriteString(kind)
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		value, err := json.Marshal(namesAndValues[i+1])
		if err != nil || len(value) == 0 || string(value) == "null" || string(value) == `""` || string(value) == "{}" {
			continue
		}
		text.WriteString(" " + namesAndValues[i].(string) + "=")
		text.Write(value)
	}
	return text.String()
}

// event is an event of a watch.
type event struct {
	decoded
	object    string // namespace/name
	eventType string // ADDED, MODIFIED, DELETED, BOOKMARK or ERROR
}

// frames splits the response to a watch into events.
type frames struct {
	isProtobuf bool
	rest       []byte // without the complete events
}

// split yields the events that are complete with further content.
func (f *frames) split(content []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		f.rest = append(f.rest, content...)
		for size := frameSize(f.rest, f.isProtobuf); size > 0; size = frameSize(f.rest, f.isProtobuf) {
			frame := bytes.Clone(f.rest[:size])
			f.rest = f.rest[size:]
			if !yield(frame) {
				return
			}
		}
	}
}

// frameSize returns the size of the first event of a watch, or 0 if it is not complete.
func frameSize(content []byte, isProtobuf bool) int {
	if !isProtobuf {
		return bytes.IndexByte(content, '\n') + 1
	}
	const header = 4
	if len(content) < header {
		return 0
	}
	size := header + int(binary.BigEndian.Uint32(content))
	if len(content) < size {
		return 0
	}
	return size
}

// decodeEvent returns an event of a watch, framed as it was sent.
func decodeEvent(frame []byte, isProtobuf bool) event {
	var watched metav1.WatchEvent
	if isProtobuf {
		if watched.Unmarshal(frame[4:]) != nil { // after its size
			return event{eventType: "ERROR"}
		}
	} else if json.Unmarshal(frame, &watched) != nil {
		return event{eventType: "ERROR"}
	}
	e := event{eventType: watched.Type}
	if watched.Object.Object != nil {
		e.decoded = describe(watched.Object.Object)
	} else {
		e.decoded, _ = decode(watched.Object.Raw)
	}
	e.object = objectName(e.namespace, e.name)
	return e
}
