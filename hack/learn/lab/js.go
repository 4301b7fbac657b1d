// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

//go:build js

package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"syscall/js"
)

// worker is the Web Worker in which the lab runs. worker.js has the other side of its methods.
type worker struct {
	cancels sync.Map // context.CancelFunc of the requests under way, by ID
}

// post sends a message to the page.
func post(kind string, content any) {
	text, err := json.Marshal(content)
	if err != nil {
		panic(err) // All content is of types that JSON has.
	}
	js.Global().Call("toPage", kind, string(text))
}

// These implement Host.

func (w *worker) Start(pod, variant string, flags []string) {
	post("start", map[string]any{"pod": pod, "variant": variant, "flags": flags})
}
func (w *worker) Kill(pod string)      { post("kill", pod) }
func (w *worker) Terminate(pod string) { post("terminate", pod) }
func (w *worker) Freeze(pod string)    { post("freeze", pod) }
func (w *worker) Thaw(pod string)      { post("thaw", pod) }
func (w *worker) Steps(steps []Step)   { post("steps", steps) }
func (w *worker) State(s State)        { post("state", s) }

// Main runs the lab in a Web Worker. The functions that it gives to JavaScript return at once. sources has the code of this project.
func Main(sources fs.FS) {
	w := &worker{}
	l, err := New(w, sources)
	if err != nil {
		panic(err) // The CRD is embedded.
	}
	functions := map[string]func(args []js.Value){
		// handle(id, path, body) is answered by a message.
		"handle": func(args []js.Value) {
			id, path, body := args[0].Int(), args[1].String(), args[2].String()
			go func() {
				post("response", struct {
					ID int `json:"id"`
					Response
				}{id, l.Handle(path, []byte(body))})
			}()
		},
		"log":    func(args []js.Value) { l.Log(args[0].String(), args[1].String()) },
		"exited": func(args []js.Value) { go l.Exited(args[0].String(), args[1].String()) },
		// request(pod, id, request, respond), where respond(what, value) is called with head, chunk, end or error.
		"request": func(args []js.Value) {
			pod, id, text, respond := args[0].String(), args[1].String(), args[2].String(), args[3]
			ctx, cancel := context.WithCancel(context.Background())
			w.cancels.Store(id, cancel)
			go func() {
				defer w.abort(id)
				if err := l.respond(ctx, pod, text, respond); err != nil {
					respond.Invoke("error", err.Error())
				}
			}()
		},
		"abort": func(args []js.Value) { w.abort(args[0].String()) },
	}
	exported := map[string]any{}
	for name, function := range functions {
		exported[name] = js.FuncOf(func(_ js.Value, args []js.Value) any {
			function(args)
			return nil
		})
	}
	js.Global().Call("serve", exported)
	l.Run(context.Background())
}

// abort ends a request.
func (w *worker) abort(id string) {
	if cancel, ok := w.cancels.LoadAndDelete(id); ok {
		cancel.(context.CancelFunc)()
	}
}

// respond makes a request of an instance, which is in JSON, and passes the response on.
func (l *Lab) respond(ctx context.Context, pod, text string, respond js.Value) error {
	var request struct {
		Method, URL, Body string
		Headers           map[string]string
	}
	if err := json.Unmarshal([]byte(text), &request); err != nil {
		return err
	}
	connection := l.Connection(pod)
	if connection == nil {
		return fmt.Errorf("there is no instance %s", pod)
	}
	r, err := http.NewRequestWithContext(ctx, request.Method, request.URL, strings.NewReader(request.Body))
	if err != nil {
		return err
	}
	for name, value := range request.Headers {
		r.Header.Set(name, value)
	}
	response, err := connection.RoundTrip(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	head, err := json.Marshal(map[string]any{"status": response.StatusCode, "headers": map[string]string{
		"Content-Type": response.Header.Get("Content-Type"), "Retry-After": response.Header.Get("Retry-After"),
	}})
	if err != nil {
		return err
	}
	respond.Invoke("head", string(head))
	chunk := make([]byte, 64<<10)
	for {
		size, err := response.Body.Read(chunk)
		if size > 0 {
			array := js.Global().Get("Uint8Array").New(size)
			js.CopyBytesToJS(array, chunk[:size])
			respond.Invoke("chunk", array)
		}
		if err != nil {
			respond.Invoke("end", js.Null()) // A watch that is cut ends as one that the API server ends.
			return nil
		}
	}
}
