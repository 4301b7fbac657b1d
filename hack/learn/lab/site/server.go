// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// newHandler serves the page, what was built for it, and variants and recordings, which are built then. It refuses requests with another host or
// origin: a page elsewhere must not make this machine build.
func newHandler(b *builder, host string) http.Handler {
	page := http.FileServer(http.Dir(filepath.Join(b.root, "hack/learn/lab/page")))
	built := http.FileServer(http.Dir(b.dir))
	mux := http.NewServeMux()
	serve := func(w http.ResponseWriter, r *http.Request, id string, build func(ctx context.Context, id string) (string, error)) {
		path, err := build(r.Context(), id)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			http.NotFound(w, r)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			http.ServeFile(w, r, path)
		}
	}
	mux.HandleFunc("GET /variants/{file}", func(w http.ResponseWriter, r *http.Request) {
		file := r.PathValue("file")
		if id, isModule := strings.CutSuffix(file, ".wasm"); isModule {
			serve(w, r, id, b.buildVariant)
		} else if id, isRecording := strings.CutSuffix(file, ".jsonl"); isRecording && id != "" {
			serve(w, r, id, b.record)
		} else {
			http.NotFound(w, r)
		}
	})
	mux.HandleFunc("GET /recording.jsonl", func(w http.ResponseWriter, r *http.Request) { serve(w, r, "", b.record) })
	mux.Handle("GET /docs/", built)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		if info, err := os.Stat(filepath.Join(b.dir, filepath.FromSlash(r.URL.Path))); err == nil && !info.IsDir() {
			built.ServeHTTP(w, r)
			return
		}
		page.ServeHTTP(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); r.Host != host || origin != "" && origin != "http://"+host {
			http.Error(w, "the lab is at http://"+host, http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Security-Policy", "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data:")
		w.Header().Set("Cache-Control", "no-cache")
		mux.ServeHTTP(w, r)
	})
}
