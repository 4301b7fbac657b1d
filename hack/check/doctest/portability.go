// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// macOS has GNU make 3.81, bash 3.2 and the utilities of BSD. These match what they lack.
var (
	newerMake = regexp.MustCompile(`--(?:output-sync|trace|shuffle|eval)\b|^\s*(?:undefine|private|load) |^\s*define \S+ *\S*=|` +
		`^[\w. -]+(?:!|::|:::)=|^[^\t#]*&:|\.(?:ONESHELL|SHELLFLAGS|SHELLSTATUS|RECIPEPREFIX|EXTRA_PREREQS|NOTINTERMEDIATE|WAIT)\b|` +
		`\$\((?:file|guile|intcmp|let) |` +
		`\$\(shell command [^|&;<>()]*\)`) // Before 4.3, it needs a reason to start a shell, and command is only built into that.
	newerBash = regexp.MustCompile(`\b(?:mapfile|readarray|coproc|BASHPID|EPOCHSECONDS|EPOCHREALTIME|SRANDOM)\b|&>>|\|&|;&|\[\[ -v |` +
		`\b(?:declare|local|readonly|typeset) -\w*[Aglnu]|\$\{\w+(?:\[[@*]\])?(?:,|\^|@\w)|\$\{\w+\[-|\{\d+\.\.\d+\.\.|` +
		`\bread -\w*[iN]|\bshopt -s (?:globstar|inherit_errexit|lastpipe)|\bprintf (?:-v \w+ )?['"]%\(`)
	gnuUtility = regexp.MustCompile("(?:^|[;|&({\"'`@!]|\\b(?:do|else|exec|sudo|then) )\\s*" +
		`(?:flock|gawk|getent|md5sum|nproc|realpath|setsid|sha256sum|shuf|tac|timeout) |` +
		`\bdate [^|;]*%N|\bfind +-|\bfind [^|;]* -(?:executable|printf|regextype)\b|\bhead -\w+ *-\d|\bsleep (?:infinity|[\d.]+[smhd])\b`)

	// withOptions matches a utility, or a subcommand of another program, and its options.
	withOptions = regexp.MustCompile(`(\b(?:docker|git|kubectl) )?\b([a-z0-9]+)((?: +-[\w-]+)+)`)
	// portable are the short options that mean the same to the utilities of GNU and BSD.
	portable = map[string]string{
		"awk": "Ffv", "base64": "", "basename": "", "cat": "u", "chmod": "R", "cp": "fHiLpPR", "cut": "bcdfs", "date": "u", "dirname": "",
		"echo": "", "grep": "ABCEFcefhilnoqrsvwx", "head": "cn", "ln": "fs", "ls": "1AalRrt", "mkdir": "mp", "mktemp": "d", "mv": "fi",
		"paste": "ds", "readlink": "", "rm": "fiRr", "sed": "Een", "sort": "cfkmnrtu", "stat": "", "tail": "cfn", "tee": "a",
		"touch": "acmr", "tr": "cds", "uniq": "cdu", "wait": "", "wc": "clw", "xargs": "0InPpt",
	}
)

// lacking returns what macOS lacks of a line in a makefile, in a shell script, or in Go code that runs one.
func lacking(file, line string) []string {
	found := gnuUtility.FindAllString(line, -1)
	if path.Ext(file) != ".go" {
		found = append(found, newerBash.FindAllString(line, -1)...)
	}
	if file == "Makefile" || path.Ext(file) == ".mk" {
		found = append(found, newerMake.FindAllString(line, -1)...)
	}
	for _, match := range withOptions.FindAllStringSubmatch(line, -1) {
		allowed, known := portable[match[2]]
		if isSubcommand := match[1] != ""; known && !isSubcommand && !areIn(strings.Fields(match[3]), allowed) {
			found = append(found, match[0])
		}
	}
	return found
}

// areIn reports whether the options are -- or of letters that are allowed, or numbers.
func areIn(options []string, allowed string) bool {
	return !slices.ContainsFunc(options, func(option string) bool {
		return option != "--" && strings.Trim(option[1:], allowed+"0123456789") != ""
	})
}
