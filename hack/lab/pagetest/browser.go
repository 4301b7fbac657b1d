// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package pagetest tests the lab's page: what it computes in a JavaScript engine, and what it shows in a browser.
package pagetest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// errNoBrowser says how to get a browser.
var errNoBrowser = errors.New("no Chromium found: install it with `apt-get install chromium`, or set CHROMIUM to the path of a Chromium or Chrome")

// browser is a Chromium without a window, with one page. It is driven with the DevTools protocol through a pipe.
type browser struct {
	command *exec.Cmd
	to      io.WriteCloser
	session string

	lock    sync.Mutex
	last    int
	answers map[int]chan message
	errors  []string // of scripts, and what the browser logged as errors
	ended   chan struct{}
}

type message struct {
	ID     int             `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
	SessionID string `json:"sessionId,omitempty"`
}

// findBrowser returns the path of a Chromium.
func findBrowser() (string, error) {
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNoBrowser
}

// startBrowser starts a browser, with a profile in dir, and opens an empty page.
func startBrowser(dir string) (*browser, error) {
	path, err := findBrowser()
	if err != nil {
		return nil, err
	}
	in, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b := &browser{to: to, answers: map[int]chan message{}, ended: make(chan struct{})}
	// A container seldom allows the sandbox, and the page is our own.
	b.command = exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-background-timer-throttling", "--remote-debugging-pipe", "--user-data-dir="+dir)
	b.command.ExtraFiles = []*os.File{in, out}
	var stderr bytes.Buffer
	b.command.Stderr = &stderr
	if err := b.command.Start(); err != nil {
		return nil, err
	}
	in.Close()
	out.Close()
	go b.read(from)

	var target struct{ TargetID string }
	if err := b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w\n%s", path, err, stderr.String()), b.close())
	}
	var session struct{ SessionID string }
	if err := b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session); err != nil {
		return nil, errors.Join(err, b.close())
	}
	b.session = session.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		if err := b.call(domain+".enable", nil, nil); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	return b, nil
}

// close ends the browser.
func (b *browser) close() error {
	b.call("Browser.close", nil, nil)
	b.to.Close()
	return b.command.Wait()
}

// read receives the answers, and the errors of the page. Messages end with a zero byte.
func (b *browser) read(from io.ReadCloser) {
	defer close(b.ended)
	defer from.Close()
	for reader := bufio.NewReader(from); ; {
		content, err := reader.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(content[:len(content)-1], &m) != nil {
			continue
		}
		b.lock.Lock()
		if answer := b.answers[m.ID]; answer != nil {
			delete(b.answers, m.ID)
			answer <- m
		}
		if text := errorOf(m); text != "" {
			b.errors = append(b.errors, text)
		}
		b.lock.Unlock()
	}
}

// errorOf returns the text of an event that says that something in the page has failed.
func errorOf(m message) string {
	var params struct {
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
		Entry struct{ Level, Text, URL string }
	}
	if json.Unmarshal(m.Params, &params) != nil {
		return ""
	}
	switch {
	case m.Method == "Runtime.exceptionThrown":
		return params.ExceptionDetails.Text + " " + params.ExceptionDetails.Exception.Description
	case m.Method == "Log.entryAdded" && params.Entry.Level == "error":
		return params.Entry.Text + " " + params.Entry.URL
	}
	return ""
}

// call calls a method of the DevTools protocol.
func (b *browser) call(method string, params, result any) error {
	b.lock.Lock()
	b.last++
	id, answer := b.last, make(chan message, 1)
	b.answers[id] = answer
	b.lock.Unlock()

	content, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	if b.session != "" && !strings.HasPrefix(method, "Browser.") {
		content, err = json.Marshal(map[string]any{"id": id, "method": method, "params": params, "sessionId": b.session})
	}
	if err != nil {
		return err
	}
	if _, err := b.to.Write(append(content, 0)); err != nil {
		return err
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-b.ended:
		return fmt.Errorf("%s: the browser has ended", method)
	case <-time.After(30 * time.Second):
		return fmt.Errorf("%s: no answer", method)
	}
}

// open opens a page, as wide and high as given, and waits until it has loaded. scheme is light or dark.
func (b *browser) open(url string, width, height int, scheme string) error {
	if err := b.call("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil); err != nil {
		return err
	}
	if err := b.call("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil); err != nil {
		return err
	}
	var navigated struct{ ErrorText string }
	if err := b.call("Page.navigate", map[string]any{"url": url}, &navigated); err != nil {
		return err
	}
	if navigated.ErrorText != "" {
		return fmt.Errorf("%s: %s", url, navigated.ErrorText)
	}
	_, err := b.evaluate(`new Promise((loaded) => document.readyState === "complete" ? loaded() : addEventListener("load", loaded))`)
	return err
}

// evaluate returns the value of an expression in the page. It waits for a promise.
func (b *browser) evaluate(expression string) (any, error) {
	var result struct {
		Result           struct{ Value any }
		ExceptionDetails *struct {
			Exception struct{ Description string }
		}
	}
	err := b.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &result)
	if err == nil && result.ExceptionDetails != nil {
		err = fmt.Errorf("%s: %s", expression, result.ExceptionDetails.Exception.Description)
	}
	return result.Result.Value, err
}

// key presses a key, such as ArrowRight.
func (b *browser) key(name string) error {
	codes := map[string]int{"ArrowRight": 39, "ArrowLeft": 37, "ArrowUp": 38, "ArrowDown": 40, "Tab": 9, "Enter": 13, "Escape": 27}
	for _, kind := range []string{"rawKeyDown", "keyUp"} {
		if err := b.call("Input.dispatchKeyEvent", map[string]any{
			"type": kind, "key": name, "code": name, "windowsVirtualKeyCode": codes[name]}, nil); err != nil {
			return err
		}
	}
	return nil
}

// screenshot writes a picture of the page to a file.
func (b *browser) screenshot(path string) error {
	var shot struct{ Data string }
	if err := b.call("Page.captureScreenshot", nil, &shot); err != nil {
		return err
	}
	content, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
