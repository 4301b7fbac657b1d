// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package pagetest tests the lab's page: what it computes in a JavaScript engine, and what it shows in a browser.
package pagetest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is a Chromium without a window, with one page.
type browser struct {
	ctx   context.Context
	close context.CancelFunc

	lock   sync.Mutex
	errors []string // of scripts, and what the browser logged as errors
}

// startBrowser starts the browser that CHROMIUM names or else one that it finds, and opens an empty page.
func startBrowser() (*browser, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.Flag("hide-scrollbars", false),
		chromedp.NoSandbox) // A container seldom allows it, and the page is our own.
	if path := os.Getenv("CHROMIUM"); path != "" {
		options = append(options, chromedp.ExecPath(path))
	}
	b := &browser{}
	allocator, endBrowser := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, endPage := chromedp.NewContext(allocator, chromedp.WithListener(b.recordError))
	b.ctx, b.close = ctx, func() { endPage(); endBrowser() }
	if err := chromedp.Do(ctx); err != nil {
		b.close()
		return nil, fmt.Errorf("%w; install Chromium with `apt-get install chromium`, or set CHROMIUM to the path of a Chromium or Chrome", err)
	}
	return b, nil
}

func (b *browser) recordError(event any) {
	b.lock.Lock()
	defer b.lock.Unlock()
	switch event := event.(type) {
	case *runtime.EventExceptionThrown:
		b.errors = append(b.errors, (&chromedp.ExceptionError{ExceptionDetails: event.ExceptionDetails}).Error())
	case *log.EventEntryAdded:
		if event.Entry.Level == log.EntryLevelError {
			b.errors = append(b.errors, event.Entry.Text+" "+event.Entry.URL)
		}
	}
}

// run lets the browser do something, and returns the result.
func run[T any](b *browser, action chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	return chromedp.Run(ctx, action)
}

// open opens a page, as wide and high as given, and waits until it has loaded. scheme is light or dark.
func (b *browser) open(url string, width, height int, scheme string) error {
	var viewport []chromedp.EmulateViewportOption
	if width < 600 {
		viewport = append(viewport, chromedp.EmulateMobile)
	}
	_, err := run(b, chromedp.Steps(
		chromedp.EmulateViewport(int64(width), int64(height), viewport...),
		chromedp.Func(func(ctx context.Context, page *chromedp.Target) error {
			_, err := cdp.Call(ctx, page, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			return err
		}),
		chromedp.Navigate(url)))
	return err
}

// evaluate returns the value of an expression in the page. It waits for a promise.
func (b *browser) evaluate(expression string) (any, error) {
	value, err := run(b, chromedp.Evaluate[any](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		err = fmt.Errorf("%s: %w", expression, err)
	}
	return value, err
}

// screenshot writes a picture of the page to a file.
func (b *browser) screenshot(path string) error {
	content, err := run(b, chromedp.CaptureScreenshot())
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
