// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// fidelityScenarios say themselves how they are written.
//
//go:embed testdata/fidelity.txt
var fidelityScenarios string

// widgetsFile has CRDs that are nobody's.
const widgetsFile = "testdata/widgets.yaml"

// TestSimulationIsTrue makes the same requests to the local Kubernetes and to a simulated one: clients must see the same responses and
// watch events. No controller of Foos runs.
func TestSimulationIsTrue(t *testing.T) {
	var crds []*apiserver.Object
	for _, file := range []string{crdFile, widgetsFile} {
		raw, err := os.ReadFile(file)
		requireNoError(t, err)
		of, err := apiserver.ReadYAML(raw)
		requireNoError(t, err)
		crds = append(crds, of...)
	}
	registry, err := apiserver.NewRegistry(crds...)
	requireNoError(t, err)
	kubectl(t, "apply", "-f", widgetsFile)
	t.Cleanup(func() { kubectl(t, "delete", "-f", widgetsFile) })
	kubectl(t, "wait", "--for=condition=Established", "-f", widgetsFile, "--timeout=30s")
	for _, scenario := range readScenarios(t, fidelityScenarios) {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			reality := scenario.observe(t, adminConfig, registry, namespace, false)
			synctest.Test(t, func(t *testing.T) {
				server := apiserver.New(registry, apiserver.Options{})
				o := &apiserver.Object{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
				o.SetName(namespace)
				_, err := server.Client("user").Create(o)
				requireNoError(t, err)
				config := server.Connect("user", apiserver.Reliable{}).Config()
				simulated := scenario.observe(t, config, registry, namespace, true)
				if difference := diff.Diff(reality, simulated); difference != "" {
					t.Errorf("the simulation (+) differs from reality (-):\n%s", difference)
				}
			})
		})
	}
}

// scenario is a list of steps.
type scenario struct {
	name  string
	steps []step
}

// step is a request, or something to wait for.
type step struct{ label, refused, verb, path, as, patchType, body string }

var stepPattern = regexp.MustCompile(`^(?:(\w+) = )?(?:REFUSED (\S+) )?([A-Z]+) (\S+)(?: as (\w+))?(?: (json|merge|strategic|apply))?(?: (.+))?$`)

// readScenarios replaces the texts that are defined, too.
func readScenarios(t *testing.T, text string) (scenarios []scenario) {
	texts := map[string]string{}
	for _, line := range strings.Split(strings.ReplaceAll(text, "\n  ", " "), "\n") {
		line = regexp.MustCompile(`\$\w+\b[^.]`).ReplaceAllStringFunc(line+" ", func(name string) string {
			end := len(name) - 1
			if text, ok := texts[name[1:end]]; ok {
				return text + name[end:]
			}
			return name
		})
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "== "); ok {
			scenarios = append(scenarios, scenario{name: name})
		} else if definition, ok := strings.CutPrefix(line, "let "); ok {
			name, text, _ := strings.Cut(definition, " ")
			texts[name] = text
		} else if match := stepPattern.FindStringSubmatch(line); match != nil && len(scenarios) > 0 {
			of := &scenarios[len(scenarios)-1]
			of.steps = append(of.steps, step{match[1], match[2], match[3], match[4], match[5], match[6], match[7]})
		} else if line != "" && line[0] != '#' {
			t.Fatalf("this is no step of a scenario: %s", line)
		}
	}
	return scenarios
}

// observer is a client that makes the requests of a scenario.
type observer struct {
	*testing.T
	ctx         context.Context
	http        *http.Client
	host        string
	registry    *apiserver.Registry
	namespace   string
	isSimulated bool
	labelled    map[string]map[string]any // responses
	created     map[string][]byte         // by the path of a resource, the body that has created the first object
	responses   []seen
}

// seen is a response or an event.
type seen struct {
	what   string
	object map[string]any
}

const (
	initialEvents = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	lastName      = "last" // the name of the object with which each watch ends
)

// observe makes the requests of a scenario in a namespace, and returns what is seen of the responses in their order, and of the events of
// each object in theirs.
func (s scenario) observe(
	t *testing.T, config *rest.Config, registry *apiserver.Registry, namespace string, isSimulated bool,
) map[string][]string {
	ctx, cancel := context.WithTimeout(t.Context(), 5*convergence)
	defer cancel()
	transport, err := rest.TransportFor(config)
	requireNoError(t, err)
	c := &observer{
		T: t, ctx: ctx, http: &http.Client{Transport: transport}, host: strings.TrimSuffix(config.Host, "/"), registry: registry,
		namespace: namespace, isSimulated: isSimulated, labelled: map[string]map[string]any{}, created: map[string][]byte{},
	}
	watches := map[string]chan []seen{}
	for _, s := range s.steps {
		if s.verb != http.MethodPost || s.refused != "" {
			continue
		}
		path, resource := c.resolve(s.path)
		path, _, _ = strings.Cut(path, "?")
		if resource == nil || !resource.Namespaced || resource.Resource == "events" || watches[path] != nil {
			continue // Controllers of Kubernetes create events, too.
		}
		events, stream := make(chan []seen, 1), c.watch(path+initialEvents, "")
		watches[path] = events
		go func() {
			events <- readEvents(stream, func(e seen) bool { return nested(e.object, "metadata", "name") == lastName })
		}()
	}
	for _, s := range s.steps {
		c.take(s)
	}
	var events []seen
	for path, watched := range watches {
		c.createLast(path)
		events = append(events, <-watched...)
	}
	return compared(t, c.responses, events)
}

// resolve returns the path of a URL, and its resource if it names one: configmaps or deployments.apps instead of /apis/….
func (c *observer) resolve(path string) (string, *apiserver.Resource) {
	path = c.replace(path, false)
	name, rest, _ := strings.Cut(strings.Replace(path, "?", "/?", 1), "/")
	for _, r := range c.registry.Resources() {
		if r.Resource != name && r.GroupResource().String() != name {
			continue
		}
		parts := []string{"/apis", r.Group, r.Version}
		if r.Group == "" {
			parts = []string{"/api", r.Version}
		}
		if r.Namespaced {
			parts = append(parts, "namespaces", c.namespace)
		}
		return strings.ReplaceAll(strings.TrimSuffix(strings.Join(append(parts, r.Resource, rest), "/"), "/"), "/?", "?"), r
	}
	return path, nil
}

var references = regexp.MustCompile(`\$(\w+)(?:\.(\w+))?`)

// replace replaces $NS with the namespace, and $label.field with a field of the metadata in the response to a step.
func (c *observer) replace(text string, quotes bool) string {
	return references.ReplaceAllStringFunc(text, func(name string) string {
		match := references.FindStringSubmatch(name)
		value, isText := nested(c.labelled[match[1]], "metadata", match[2]).(string)
		switch {
		case name == "$NS":
			return c.namespace
		case match[2] == "": // a directive of a strategic merge patch
			return name
		case !isText:
			c.Fatalf("%s is not known, and the last response is %v", name, c.responses[len(c.responses)-1])
		case quotes:
			return strconv.Quote(value)
		}
		return value
	})
}

// take takes a step.
func (c *observer) take(s step) {
	c.Helper()
	path, resource := c.resolve(s.path)
	switch body := c.body(s, resource); {
	case s.verb == "WAIT":
		c.labelled[s.label] = c.wait(path, body)
	case s.verb == "WATCH":
		number, err := strconv.Atoi(s.body)
		requireNoError(c.T, err)
		for _, event := range readEvents(c.watch(path, s.as), func(seen) bool { number--; return number == 0 }) {
			c.responses = append(c.responses, seen{"WATCH " + s.path + ": " + event.what, event.object})
		}
	case s.refused != "" && !c.isSimulated: // Reality would do it.
	case s.refused != "":
		if code, object := c.do(s.verb, path, s.as, s.patchType, body); code != http.StatusNotImplemented ||
			!strings.Contains(fmt.Sprint(object["message"]), s.refused) {
			c.Errorf("%s %s: want code 501 and a message about %s, got %d %s", s.verb, s.path, s.refused, code, object["message"])
		}
	default:
		code, object := c.do(s.verb, path, s.as, s.patchType, body)
		if code < http.StatusBadRequest {
			c.labelled[s.label] = object
		}
		c.responses = append(c.responses, seen{fmt.Sprint(s.verb, " ", s.path, ": ", code), object})
		if path, _, _ := strings.Cut(path, "?"); c.created[path] == nil && s.verb == http.MethodPost && code == http.StatusCreated {
			c.created[path] = body
		}
	}
}

// body returns the body of a step as JSON, with the kind of its resource.
func (c *observer) body(s step, resource *apiserver.Resource) []byte {
	c.Helper()
	if s.body == "" {
		return nil
	}
	var body any
	if err := yaml.Unmarshal([]byte(c.replace(s.body, true)), &body); err != nil {
		c.Fatalf("%v in %s", err, s.body)
	}
	isObject := s.verb == http.MethodPost || s.verb == http.MethodPut || s.patchType == "apply"
	if object, ok := body.(map[string]any); ok && isObject && resource != nil && object["kind"] == nil {
		object["apiVersion"], object["kind"] = resource.Kind.GroupVersion().String(), resource.Kind.Kind
	}
	return c.encode(body)
}

func (c *observer) encode(value any) []byte {
	raw, err := json.Marshal(value)
	requireNoError(c.T, err)
	return raw
}

var patchTypes = map[string]types.PatchType{
	"json": types.JSONPatchType, "merge": types.MergePatchType, "strategic": types.StrategicMergePatchType, "apply": types.ApplyYAMLPatchType,
}

// send makes a request.
func (c *observer) send(verb, path, as, patchType string, body []byte) *http.Response {
	c.Helper()
	request, err := http.NewRequestWithContext(c.ctx, verb, c.host+path, bytes.NewReader(body))
	requireNoError(c.T, err)
	accept := "application/json"
	if as != "" {
		accept += ";g=meta.k8s.io;v=v1;as=" + as
	}
	request.Header.Set("Accept", accept)
	request.Header.Set("User-Agent", "user/1") // Its first part is the field manager.
	request.Header.Set("Content-Type", "application/json")
	if patchType != "" {
		request.Header.Set("Content-Type", string(patchTypes[patchType]))
	}
	response, err := c.http.Do(request)
	requireNoError(c.T, err)
	return response
}

func (c *observer) do(verb, path, as, patchType string, body []byte) (code int, object map[string]any) {
	c.Helper()
	response := c.send(verb, path, as, patchType, body)
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	requireNoError(c.T, err)
	if err := json.Unmarshal(raw, &object); err != nil {
		object = map[string]any{"text": string(raw)}
	}
	return response.StatusCode, object
}

// wait waits until an object has some fields and has not changed for a while, or is gone if there are none to have, and returns it.
func (c *observer) wait(path string, fields []byte) (object map[string]any) {
	c.Helper()
	var want any
	if fields != nil {
		requireNoError(c.T, json.Unmarshal(fields, &want))
	}
	last, since := "", time.Now()
	// It takes half a minute until the garbage collector knows the resource of a new CRD.
	eventually(c.T, 3*convergence, func() error {
		var code int
		code, object = c.do(http.MethodGet, path, "", "", nil)
		if want == nil && code == http.StatusNotFound {
			return nil
		}
		if version := versionOf(object); version != last {
			last, since = version, time.Now()
		}
		if want == nil || !has(object, want) || time.Since(since) < 500*time.Millisecond {
			return fmt.Errorf("%s is %d %s, want %s", path, code, c.encode(object), fields)
		}
		return nil
	})
	return object
}

// has reports whether a value has all the fields that another one has.
func has(value, want any) bool {
	fields, isObject := want.(map[string]any)
	if !isObject {
		return reflect.DeepEqual(value, want)
	}
	object, _ := value.(map[string]any)
	for name, field := range fields {
		if !has(object[name], field) {
			return false
		}
	}
	return true
}

// watch begins a watch.
func (c *observer) watch(path, as string) io.ReadCloser {
	c.Helper()
	for {
		response := c.send(http.MethodGet, path, as, "", nil)
		if response.StatusCode == http.StatusOK {
			return response.Body
		}
		response.Body.Close()
		isNew := response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusTooManyRequests // as the CRD may be
		if !isNew || c.ctx.Err() != nil {
			c.Fatalf("GET %s: %s", path, response.Status)
		}
		time.Sleep(100 * time.Millisecond) // The API server is polled.
	}
}

// readEvents reads a watch until the last event.
func readEvents(stream io.ReadCloser, isLast func(event seen) bool) (events []seen) {
	defer stream.Close()
	for decoder := json.NewDecoder(stream); ; {
		var event struct {
			Type   string
			Object map[string]any
		}
		if err := decoder.Decode(&event); err != nil {
			return append(events, seen{err.Error(), nil})
		}
		if event.Type == "BOOKMARK" {
			if nested(event.Object, "metadata", "annotations", "k8s.io/initial-events-end") == nil {
				continue // The API server sends one every minute.
			}
			event.Object = map[string]any{"metadata": map[string]any{"name": "initial events"}}
		}
		events = append(events, seen{event.Type, event.Object})
		if isLast(events[len(events)-1]) {
			return events
		}
	}
}

// createLast creates an object like the first one in the scenario, but for its name.
func (c *observer) createLast(path string) {
	c.Helper()
	object := &unstructured.Unstructured{}
	requireNoError(c.T, json.Unmarshal(c.created[path], &object.Object))
	object.SetName(lastName)
	object.SetFinalizers(nil)
	if code, response := c.do(http.MethodPost, path, "", "", c.encode(object.Object)); code != http.StatusCreated {
		c.Fatalf("POST %s: %v", path, response)
	}
}
