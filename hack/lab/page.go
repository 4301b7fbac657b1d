// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"k8s.io/sample-controller/hack/variants"
)

//go:embed page
var embedded embed.FS

// recordingFile and exercisesFile are files of the page.
const (
	recordingFile = "recording.jsonl"
	exercisesFile = "exercises.json"
)

// recordedVariants are the variants whose scenarios are recorded, in the directory variants of the page.
var recordedVariants = []string{"no-done", "no-tombstone", "no-ensure-ready"}

// pageFiles returns the files of the page.
func pageFiles() fs.FS {
	files, err := fs.Sub(embedded, "page")
	if err != nil {
		panic(err) // The directory is embedded.
	}
	return files
}

var (
	scripts = regexp.MustCompile(`<script src="([^"]+)"></script>`)
	styles  = regexp.MustCompile(`<link rel="stylesheet" href="([^"]+)">`)
)

// inlinePage returns the page with everything that it needs in a single file, which works without a server.
func inlinePage(files fs.FS, catalogue, terms string, recorded []string) (string, error) {
	var failed error
	read := func(name string) string {
		content, err := fs.ReadFile(files, name)
		if err != nil && failed == nil {
			failed = err
		}
		return string(content)
	}
	// In JSON, the only way to a < that HTML does not see.
	data := func(id, mediaType, content string) string {
		return fmt.Sprintf("<script type=%q id=%q>%s</script>\n", mediaType, id, strings.ReplaceAll(content, "<", `\u003c`))
	}
	const jsonType, linesType = "application/json", "application/x-ndjson"
	html := styles.ReplaceAllStringFunc(read("index.html"), func(tag string) string {
		return "<style>\n" + read(styles.FindStringSubmatch(tag)[1]) + "</style>"
	})
	isFirst := true
	html = scripts.ReplaceAllStringFunc(html, func(tag string) string {
		inlined := "<script>\n" + read(scripts.FindStringSubmatch(tag)[1]) + "</script>"
		if isFirst {
			all := data("lab-recording", linesType, read(recordingFile)) + data("lab-exercises", jsonType, read(exercisesFile)) +
				data("lab-variants", jsonType, catalogue) + data("lab-glossary", jsonType, terms)
			for _, id := range recorded {
				all += data("lab-variant-"+id, linesType, read("variants/"+id+".jsonl"))
			}
			inlined = all + inlined
			isFirst = false
		}
		return inlined
	})
	return html, failed
}

// writeDocs writes what docs has of the lab to dir: the page as a single file, and the exercises. The glossary is that of the project in root.
func writeDocs(root, dir string) error {
	catalogued, err := variants.All()
	if err != nil {
		return err
	}
	catalogue, err := json.Marshal(catalogued)
	if err != nil {
		return err
	}
	glossary, err := readGlossary(root)
	if err != nil {
		return err
	}
	terms, err := json.Marshal(glossary)
	if err != nil {
		return err
	}
	html, err := inlinePage(pageFiles(), string(catalogue), string(terms), recordedVariants)
	if err != nil {
		return err
	}
	all, err := readExercises()
	if err != nil {
		return err
	}
	for name, content := range map[string]string{"lab.html": html, "exercises.md": exercisesMarkdown(all, variants.Anchors(catalogued))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
