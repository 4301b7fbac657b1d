// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// writeChart writes the Helm chart with the version and the image of the release.
func (r *release) writeChart(image string) error {
	replacements := map[string][2]string{
		"Chart.yaml":  {"version: 0.0.0", fmt.Sprintf("version: %s\nappVersion: %s", strings.TrimPrefix(r.version, "v"), r.version)},
		"values.yaml": {"image: sample-controller:latest", fmt.Sprintf("image: %q", image)},
	}
	var files []archived
	chart := os.DirFS(filepath.Join(r.dir, "artifacts", "chart"))
	err := fs.WalkDir(chart, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(chart, path)
		if err != nil {
			return err
		}
		if replacement, ok := replacements[path]; ok {
			if content, err = replaceLine(content, replacement[0], replacement[1]); err != nil {
				return fmt.Errorf("artifacts/chart/%s: %w", path, err)
			}
		}
		files = append(files, archived{path: name + "/" + path, mode: 0o644, content: content})
		return nil
	})
	if err != nil {
		return err
	}
	archive, err := tarGz(files, r.time)
	if err != nil {
		return err
	}
	return r.writeFile(r.fileName("chart.tgz"), archive)
}

// replaceLine replaces the only line with this content.
func replaceLine(content []byte, line, replacement string) ([]byte, error) {
	before, after := []byte("\n"+line+"\n"), []byte("\n"+replacement+"\n")
	if bytes.Count(content, before) != 1 {
		return nil, fmt.Errorf("want one line %q", line)
	}
	return bytes.Replace(content, before, after, 1), nil
}
