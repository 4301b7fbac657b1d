// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package pagetest tests the lab's page: what it computes in a JavaScript engine, and what it shows in a browser.
package pagetest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// recordings is the directory of the recordings.
const recordings = "../../../../.build/lab"

var (
	labBinary   = flag.String("lab", "../../../../.build/bin/lab", "the lab's `program`")
	screenshots = flag.String("screenshots", "", "`directory` for screenshots of what the tests look at")
)

// page is a page in a Chromium without a window.
type page struct {
	*testing.T
	ctx context.Context

	lock   sync.Mutex
	errors []string // of scripts, and what the browser logged as errors
}

// newPage starts the browser that CHROMIUM names or else one that it finds, and opens an empty page. At the end of the test there must have been
// no error in the page.
func newPage(t *testing.T) *page {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.Flag("hide-scrollbars", false),
		chromedp.NoSandbox) // A container seldom allows it, and the page is our own.
	if path := os.Getenv("CHROMIUM"); path != "" {
		options = append(options, chromedp.ExecPath(path))
	}
	p := &page{T: t}
	allocator, endBrowser := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, endPage := chromedp.NewContext(allocator, chromedp.WithListener(p.recordError))
	p.ctx = ctx
	t.Cleanup(func() {
		endPage()
		endBrowser()
		p.lock.Lock()
		defer p.lock.Unlock()
		for _, text := range p.errors {
			t.Errorf("error in the page: %s", text)
		}
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("%v; install Chromium with `apt-get install chromium`, or set CHROMIUM to the path of a Chromium or Chrome", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			p.shoot("failed-" + t.Name())
		}
	})
	return p
}

func (p *page) recordError(event any) {
	p.lock.Lock()
	defer p.lock.Unlock()
	switch event := event.(type) {
	case *runtime.EventExceptionThrown:
		p.errors = append(p.errors, (&chromedp.ExceptionError{ExceptionDetails: event.ExceptionDetails}).Error())
	case *log.EventEntryAdded:
		if event.Entry.Level == log.EntryLevelError {
			p.errors = append(p.errors, event.Entry.Text+" "+event.Entry.URL)
		}
	}
}

// run lets the browser do something, and returns the result.
func run[T any](p *page, what string, action chromedp.Action[T]) T {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 30*time.Second)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil {
		p.Fatalf("%s: %v", what, err)
	}
	return result
}

// open opens a page, as wide and high as given, and waits until it has loaded. scheme is light or dark.
func (p *page) open(url string, width, height int, scheme string) {
	p.Helper()
	var viewport []chromedp.EmulateViewportOption
	if width < 600 {
		viewport = append(viewport, chromedp.EmulateMobile)
	}
	run(p, url, chromedp.Steps(
		chromedp.EmulateViewport(int64(width), int64(height), viewport...),
		chromedp.Func(func(ctx context.Context, page *chromedp.Target) error {
			_, err := cdp.Call(ctx, page, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			return err
		}),
		chromedp.Navigate(url)))
}

// get returns the value of an expression. It waits for a promise.
func (p *page) get(expression string) any {
	p.Helper()
	return run(p, expression, chromedp.Evaluate[any](expression, chromedp.EvalAwaitPromise))
}

// text returns what an element shows.
func (p *page) text(selector string) string {
	p.Helper()
	return fmt.Sprint(p.get(fmt.Sprintf("document.querySelector(%q).innerText", selector)))
}

func (p *page) click(selector string) {
	p.Helper()
	p.get(fmt.Sprintf("document.querySelector(%q).click()", selector))
}

func (p *page) press(key string) {
	p.Helper()
	run(p, key, chromedp.KeyEvent(key))
}

// eventually waits until an expression is true.
func (p *page) eventually(what, expression string) {
	p.Helper()
	for deadline := time.Now().Add(5 * time.Minute); p.get(expression) != true; {
		if time.Now().After(deadline) {
			p.Fatalf("timed out waiting for %s: %s\ncaption: %s", what, expression, p.text("#caption"))
		}
		time.Sleep(20 * time.Millisecond) // The page is polled.
	}
}

// stepUntil goes forward step by step, with the right arrow, until an expression about the picture is true.
func (p *page) stepUntil(what, expression string) {
	p.Helper()
	began := p.get("lab.player.position")
	found := p.get(fmt.Sprintf(`(() => {
		while (!(%s)) {
			if (lab.player.behind === 0 && lab.player.moving === null) return false;
			document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
		}
		return true;
	})()`, expression))
	if found != true {
		p.Fatalf("not in the picture from step %v to %v: %s: %s", began, p.get("lab.player.position"), what, expression)
	}
}

// shoot writes a picture of the page to a file, if there is a directory for that.
func (p *page) shoot(name string) {
	p.Helper()
	if *screenshots == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), run(p, name, chromedp.CaptureScreenshot()), 0o644); err != nil {
		p.Error(err)
	}
}

// shows returns an expression that says whether an element shows a text.
func shows(selector, text string) string {
	return fmt.Sprintf("document.querySelector(%q).innerText.includes(%q)", selector, text)
}

// openRecording opens the page of a lab with the recording.
func (p *page) openRecording(url string, width, height int, scheme string) {
	p.Helper()
	p.open(url+"/?recording", width, height, scheme)
	p.eventually("the recording", "lab.player.steps.length > 0")
}
