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

The controller would be shorter without the lines on this page, and it would still work, most of the time. Each section leaves one thing out.
Read its question, and predict what users see. The answer is folded: the difference in the code, what happens, the unit test that fails, and
the invariant that the [simulation](../reference/testing.md#simulation) finds broken. The traces are excerpts from the
[lab](../../hack/lab/README.md): seconds, the part of the controller, the informer, and what happened there.
` + "`make test-variants`" + ` verifies that the test and the simulation notice each difference.

<!-- Generated from hack/variants/catalogue by make exercises-docs. -->
`

const sectionFormat = `
## %d. %s

**%s**

<details><summary>Without it</summary>

%s

` + "```diff\n%s```" + `

<details><summary>The traces of both</summary>

` + "```text\n%s```" + `

</details>

- The promise: %s
- The invariant: %s
- The test: %s. It says:

` + "```text\n%s\n```" + `

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
		fmt.Fprintf(&text, sectionFormat, i+1, v.Title, v.Question, v.Seen, v.Diff, v.Trace, v.Promise, v.Invariant, reference, v.Test.Says)
	}
	return text.String(), nil
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
