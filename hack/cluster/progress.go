// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progressInterval is how often a line appears where lines cannot be redrawn, such as in the log of a CI job.
const progressInterval = 15 * time.Second

// maxProgressWidth keeps a redrawn line on one line of a narrow terminal: one that wraps could not be redrawn.
const maxProgressWidth = 79

// progress shows the newest of many messages: on a terminal as one line that is redrawn, elsewhere now and then.
type progress struct {
	out      io.Writer
	terminal bool
	next     time.Time
	drawn    bool
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out}
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *progress) show(format string, args ...any) {
	message := "local Kubernetes: " + fmt.Sprintf(format, args...)
	switch {
	case p.terminal:
		const clearLine = "\r\x1b[K"
		fmt.Fprintf(p.out, clearLine+"%.*s", maxProgressWidth, message)
		p.drawn = true
	case !time.Now().Before(p.next):
		fmt.Fprintln(p.out, message)
		p.next = time.Now().Add(progressInterval)
	}
}

// end finishes the line that was drawn last, if any.
func (p *progress) end() {
	if p.drawn {
		fmt.Fprintln(p.out)
	}
}
