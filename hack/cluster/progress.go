// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progressInterval is the interval between lines if the output is not a terminal, for example in a CI job.
const progressInterval = 15 * time.Second

// maxProgressWidth is the width of a narrow terminal: a line that wraps cannot be rewritten.
const maxProgressWidth = 79

const progressPrefix = "local Kubernetes: "

// progress shows the latest message: on a terminal in one line that is rewritten, elsewhere in a line per interval.
type progress struct {
	out      io.Writer
	terminal bool
	next     time.Time // of the next line if the output is not a terminal
	shown    bool      // on the current line of the terminal
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out}
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// print prints a line that stays.
func (p *progress) print(format string, args ...any) {
	p.end()
	fmt.Fprintf(p.out, progressPrefix+format+"\n", args...)
}

// show shows a message until the next one.
func (p *progress) show(format string, args ...any) {
	message := progressPrefix + fmt.Sprintf(format, args...)
	switch {
	case p.terminal:
		const clearLine = "\r\x1b[K"
		fmt.Fprintf(p.out, clearLine+"%.*s", maxProgressWidth, message)
		p.shown = true
	case !time.Now().Before(p.next):
		fmt.Fprintln(p.out, message)
		p.next = time.Now().Add(progressInterval)
	}
}

// end moves the terminal's cursor to the next line.
func (p *progress) end() {
	if p.shown {
		fmt.Fprintln(p.out)
	}
	p.shown = false
}
