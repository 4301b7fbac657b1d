// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// function matches the beginning of a function in formatted Go code.
var function = regexp.MustCompile(`(?m)^func (?:\(.*?\) )?(\w+)`)

// caller returns file, line and function for the caller in a log line, such as consistency/consistency.go:20. It is unchanged if it is not of
// this project, whose code is in sources.
func caller(sources fs.FS, caller string) string {
	name, number, _ := strings.Cut(caller, ":")
	for _, file := range []string{"pkg/" + name, path.Base(name)} {
		content, err := fs.ReadFile(sources, file)
		if line, _ := strconv.Atoi(number); err == nil {
			lines := strings.SplitAfterN(string(content), "\n", line+1)
			before := function.FindAllStringSubmatch(strings.Join(lines[:min(line, len(lines))], ""), -1)
			if len(before) > 0 {
				return fmt.Sprintf("%s:%d %s", file, line, before[len(before)-1][1])
			}
		}
	}
	return caller
}

// code returns the file, line and function of a caller.
func (t *tracer) code(of string) string {
	if _, ok := t.callers[of]; !ok {
		t.callers[of] = caller(t.sources, of)
	}
	return t.callers[of]
}
