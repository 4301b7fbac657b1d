// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// sources has where the functions of this project are.
type sources struct {
	Files map[string]source `json:"files"` // by package directory and file name, as in the caller of a log line; in the root by file name alone
}

// source is a file.
type source struct {
	Name      string     `json:"name"` // to show
	Functions []function `json:"functions"`
}

type function struct {
	Name  string `json:"name"`
	First int    `json:"first"` // line
	Last  int    `json:"last"`
}

func (s source) at(line int) string {
	for _, f := range s.Functions {
		if f.First <= line && line <= f.Last {
			return fmt.Sprintf("%s:%d %s", s.Name, line, f.Name)
		}
	}
	return fmt.Sprintf("%s:%d", s.Name, line)
}

// caller returns file, line and function for the caller in a log line, such as consistency/consistency.go:20. It is unchanged if it is not of
// this project.
func (s sources) caller(caller string) string {
	name, number, _ := strings.Cut(caller, ":")
	line, err := strconv.Atoi(number)
	file, ok := s.Files[name]
	if !ok {
		file, ok = s.Files[path.Base(name)]
	}
	if !ok || err != nil {
		return caller
	}
	return file.at(line)
}

// ours returns file, line and name of a function of this project, or the name if there is none.
func (s sources) ours(name string) string {
	for _, file := range s.Files {
		for _, f := range file.Functions {
			if f.Name == name {
				return file.at(f.First)
			}
		}
	}
	return name
}
