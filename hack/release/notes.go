// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

const changesHeading = `## Changes since %s

`

const firstRelease = `The first release.
`

// ending has the arguments: image, digest, commit, Go version, version and IMAGE.
const ending = `
## Installation

` + "`kubectl apply -f install.yaml`" + ` installs the controller for all namespaces, with the image ` + "`%[1]s`" + `.

## Provenance

Built from commit %[3]s with %[4]s. The digest of the image is ` + "`%[2]s`" + `. The files can be
reproduced from the commit with ` + "`GOTOOLCHAIN=%[4]s make release VERSION=%[5]s IMAGE=%[6]s`" + `.
`

// writeNotes writes the release notes: the subjects of the commits, and what a user needs to know about the files.
func (r *release) writeNotes(image, digest, goVersion string) error {
	var notes strings.Builder
	if r.previous == "" {
		notes.WriteString(firstRelease)
	} else {
		fmt.Fprintf(&notes, changesHeading, r.previous)
	}
	for _, c := range r.changes {
		fmt.Fprintf(&notes, "- %s (%.12s)\n", escape(c.subject), c.commit)
	}
	fmt.Fprintf(&notes, ending, image, digest, r.commit, goVersion, r.version, r.image)
	return r.writeFile("release-notes.md", []byte(notes.String()))
}

// escape returns a text that Markdown shows unchanged.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, "`", "\\`", `*`, `\*`, `_`, `\_`, `[`, `\[`, `<`, `\<`, `&`, `\&`, `~`, `\~`).Replace(text)
}
