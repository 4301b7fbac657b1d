// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func archivePlanNames(t *testing.T) names {
	t.Helper()
	n, err := newNames("example.com/my-controller", "backup.example.com", "ArchivePlan", "")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRenamed(t *testing.T) {
	for name, test := range map[string]struct{ path, content, wantPath, want string }{
		"path": {"pkg/apis/samplecontroller/example-foo.yaml", "", "pkg/apis/backup/example-archiveplan.yaml", ""},
		"text": {
			"a.yaml", "foos.samplecontroller.k8s.io, Foo, FooList, sample_controller_syncs\n",
			"a.yaml", "archiveplans.backup.example.com, ArchivePlan, ArchivePlanList, my_controller_syncs\n",
		},
		"OpenAPI names": {
			"a.go", "// +k8s:openapi-model-package=io.k8s.sample-controller.pkg.apis.samplecontroller.v1alpha1\npackage a\n",
			"a.go", "// +k8s:openapi-model-package=com.example.my-controller.pkg.apis.backup.v1alpha1\npackage a\n",
		},
		"articles": {"a.yaml", "A Foo, a `Foo`, # a\n# Foo, another Foo, #a-foo\n", "a.yaml", "An ArchivePlan, an `ArchivePlan`, # an\n# ArchivePlan, another ArchivePlan, #an-archiveplan\n"},
		"identifiers and strings": {
			"foo.go", "package foostatus\n\n// fooInformer is of foo.\nvar fooInformer, foo = sampleClient, \"foo\"\n",
			"archiveplan.go", "package archiveplanstatus\n\n// archivePlanInformer is of archiveplan.\nvar archivePlanInformer, archivePlan = backupClient, \"archiveplan\"\n",
		},
		"sorted imports": {
			"a.go", "package a\n\nimport (\n\t_ \"fmt\"\n\t_ \"k8s.io/sample-controller/pkg/a\"\n)\n",
			"a.go", "package a\n\nimport (\n\t_ \"example.com/my-controller/pkg/a\"\n\t_ \"fmt\"\n)\n",
		},
		"code in Markdown": {"a.md", "foo\n```go\nfoo(\"foo\")\n```\nfoo\n", "a.md", "archiveplan\n```go\narchivePlan(\"archiveplan\")\n```\narchiveplan\n"},
		"columns in Markdown": {
			"a.md", "```console\n$ kubectl get foos\nNAME          READY   AGE\nexample-foo   True    1s\na             True    1s\n\nNAME    AGE\nfoo-ä   1s\n```\n",
			"a.md", "```console\n$ kubectl get archiveplans\nNAME                  READY   AGE\nexample-archiveplan   True    1s\n" +
				"a                     True    1s\n\nNAME            AGE\narchiveplan-ä   1s\n```\n",
		},
		"empty cells in Markdown": {
			"a.md", "```text\n  0.000  queue  foos         queued\n  0.001  act                 Delete a Foo\n 10.002  sync   deployments  ends\n```\n",
			"a.md", "```text\n  0.000  queue  archiveplans  queued\n  0.001  act                  Delete an ArchivePlan\n 10.002  sync   deployments   ends\n```\n",
		},
		"comments in Markdown": {
			"a.md", "```shell\nkubectl get foo/foo    # A\nkubectl get all\n                       # B\nkubectl apply -f long  # C\n```\n",
			"a.md", "```shell\nkubectl get archiveplan/archiveplan  # A\nkubectl get all\n                                     # B\n" +
				"kubectl apply -f long                # C\n```\n",
		},
		"indentation in Markdown": {"a.md", "```text\nfoo:  1\n      2\n```\n", "a.md", "```text\narchiveplan:  1\n      2\n```\n"},
		"diffs in Markdown": {
			"a.md", "```diff\n--- a/foo.yaml\n+++ b/foo.yaml\n@@ syncFoo @@\n+foo: # foo's\n+++ b/foo.go\n+\tfoo(\"foo\") // A foo\n+\treturn foo\n```\nfoo\n",
			"a.md", "```diff\n--- a/archiveplan.yaml\n+++ b/archiveplan.yaml\n@@ syncArchivePlan @@\n+archiveplan: # archiveplan's\n+++ b/archiveplan.go\n+\tarchivePlan(\"archiveplan\") // An archiveplan\n+\treturn archivePlan\n```\narchiveplan\n",
		},
		"diff":      {"a.diff", "--- a/foo.go\n+++ b/foo.go\n@@\n-\tfoo(\"foo\")\n", "a.diff", "--- a/archiveplan.go\n+++ b/archiveplan.go\n@@\n-\tarchivePlan(\"archiveplan\")\n"},
		"checksums": {"1.35.sum", "h1:foobar\n", "1.35.sum", "h1:foobar\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := file{path: test.path, content: []byte(test.content)}.renamed(archivePlanNames(t))
			if err != nil {
				t.Fatal(err)
			}
			if got.path != test.wantPath || string(got.content) != test.want {
				t.Errorf("got %s:\n%s\nwant %s:\n%s", got.path, got.content, test.wantPath, test.want)
			}
		})
	}
}

func TestOmit(t *testing.T) {
	const text = "1\n# new: leave out\n2\n# new: end\n3\nsee hack/start/newcontroller\n4\n\n[link](../learn/tutorial/a.md#b)\n\n[5](b.md)\n\n\n"
	if got, err := omit("docs/reference/a.md", text); got != "1\n3\n4\n\n[5](b.md)\n\n\n" || err != nil {
		t.Errorf("omit() = %q, %v, want what is not left out", got, err)
	}
	for text, want := range map[string]string{
		"new: leave out\n":                  "without",
		"new: end\n":                        "alternate",
		"new: end\nnew: leave out\n":        "alternate",
		"new: leave out\nnew: leave out\n":  "alternate",
		"foo: {" + groupApproval + ": a}\n": "line of its own",
	} {
		_, err := omit("a.md", text)
		wantOneLine(t, err, want)
	}
}

func TestRenamedErrors(t *testing.T) {
	for content, want := range map[string]string{
		"a sample of it":   `"sample"`,
		"buffoon":          `"buffoon"`,
		"food":             `"food"`,
		"FOO=1":            `"FOO"`,
		"SampleController": `"SampleController"`,
	} {
		for path, content := range map[string]string{"a.yaml": content, "a.md": "```console\n\n" + content + "\n```\n"} {
			_, err := file{path: path, content: []byte(content)}.renamed(archivePlanNames(t))
			wantOneLine(t, err, want)
		}
	}
}
