// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package variants

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const introduction = `# Exercises, and what each line is for

Without the lines on this page, the controller would still work, most of the time. In each exercise, one thing is left out:

1. Read the question, and predict what users see.
2. ` + "`make exercise N=1`" + ` copies the project without it, and shows which promise breaks in the [simulation](../reference/testing.md#simulation), and
   which unit tests fail.
3. Edit the copy until the same command says that the exercise is solved. ` + "`HINT=1`" + ` says what users see and where to look, ` + "`SOLUTION=1`" + ` what to
   write.
4. Compare it with the answer here: the promise to users, what happens without the lines, and the lines. The
   [lab](../../hack/learn/lab/README.md) plays both, step by step.

[Exercises 18 to 22](#features) are features to add.

<!-- Generated from hack/learn/variants/catalogue by make exercises-docs. -->
`

// Features are the pages of the features, each of which builds on those before.
var Features = []string{
	"docs/learn/extending/field.md", "docs/learn/extending/service.md", "docs/learn/extending/finalizer.md",
	"docs/learn/extending/reference.md", "docs/learn/extending/version.md",
}

const features = `
## Features

The tests are there, and the code is not: ` + "`make exercise N=18`" + ` shows what fails. Each begins with the solutions of those before it.

18. [A new field in the spec](extending/field.md)
19. [A second kind of object](extending/service.md)
20. [A finalizer](extending/finalizer.md)
21. [A reference to another object](extending/reference.md)
22. [A second version of the API](extending/version.md)
`

const sectionFormat = `
## %d. %s

<details><summary>The answer</summary>

**%s**

%s

` + "```diff\n%s```" + `

Broken promise: *%s*. Test: %s.

</details>
`

// Markdown returns the document that explains what each line is for. root is the repository, which has the tests.
func Markdown(root string) (string, error) {
	all, err := All()
	if err != nil {
		return "", err
	}
	var text strings.Builder
	text.WriteString(introduction)
	for i, v := range all {
		reference, err := v.Test.reference(root)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, sectionFormat, i+1, v.Question, v.Promise, v.Seen, v.Diff, v.Broken, reference)
	}
	return text.String() + features, nil
}

// reference returns the file that declares the test, the test, and the case in it.
func (t Test) reference(root string) (string, error) {
	function, subtest, _ := strings.Cut(t.Name, "/")
	files, err := filepath.Glob(filepath.Join(root, t.Package, "*_test.go"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if !strings.Contains(string(content), "\nfunc "+function+"(") {
			continue
		}
		reference := fmt.Sprintf("`%s: %s`", filepath.ToSlash(filepath.Join(t.Package, filepath.Base(file))), function)
		if subtest != "" {
			reference += ", " + strings.ReplaceAll(subtest, "_", " ")
		}
		return reference, nil
	}
	return "", fmt.Errorf("%s: no file declares %s", t.Package, function)
}
