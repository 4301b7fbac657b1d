// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/mod/module"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/gengo/v2/namer"
	gengotypes "k8s.io/gengo/v2/types"
)

// names are the names of the new controller and its parts. The examples are for the kind BackupPlan.
type names struct {
	module string // example.com/backup-controller
	name   string // backup-controller
	group  string // backup.example.com

	groupPackage string // backup: the directory, the package and its aliases

	kind      string // BackupPlan
	kinds     string // BackupPlans
	variable  string // backupPlan
	variables string // backupPlans
	singular  string // backupplan
	plural    string // backupplans: the resource

	taken map[string]bool // the identifiers with a suffix
}

// newNames derives all names. It returns an error of one line if a name is invalid in Go or Kubernetes.
func newNames(modulePath, group, kind, plural string) (names, error) {
	n := names{module: modulePath, name: path.Base(modulePath), group: group, kind: kind, singular: strings.ToLower(kind), plural: plural}
	if err := n.checkModule(); err != nil {
		return n, fmt.Errorf("MODULE=%s: %w", modulePath, err)
	}
	label, _, _ := strings.Cut(group, ".")
	n.groupPackage = strings.ReplaceAll(label, "-", "")
	if err := n.checkGroup(); err != nil {
		return n, fmt.Errorf("GROUP=%s: %w", group, err)
	}
	if !regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`).MatchString(kind) {
		return n, fmt.Errorf("KIND=%s: must be in CamelCase, such as Database or BackupPlan", kind)
	}
	byRule := namer.NewPublicPluralNamer(nil).Name(&gengotypes.Type{Name: gengotypes.Name{Name: kind}})
	if n.plural == "" {
		n.plural = strings.ToLower(byRule)
	}
	n.kinds = camelPlural(kind, byRule, n.plural)
	n.variable, n.variables = lowerCamel(kind), lowerCamel(n.kinds)
	if err := n.checkKind(); err != nil {
		return n, fmt.Errorf("KIND=%s: %w", kind, err)
	}
	if err := n.checkPlural(); err != nil {
		return n, fmt.Errorf("PLURAL=%s: %w", n.plural, err)
	}
	return n, nil
}

func (n names) checkModule() error {
	if err := module.CheckPath(n.module); err != nil {
		var invalid *module.InvalidPathError
		if errors.As(err, &invalid) {
			err = invalid.Err
		}
		return fmt.Errorf("invalid module path: %w", err)
	}
	if _, major, _ := module.SplitPathVersion(n.module); major != "" {
		return fmt.Errorf("must not have a major version suffix, leave out %s", major)
	}
	if problems := validation.IsDNS1035Label(n.name); len(problems) > 0 {
		return fmt.Errorf("the last element %s is also the name of a namespace and a Service: %s", n.name, problems[0])
	}
	// The longest derived name is that of the metrics Service.
	if longest := validation.DNS1035LabelMaxLength - len("-metrics"); len(n.name) > longest {
		return fmt.Errorf("the last element is also part of the name of a Service and must be no more than %d characters", longest)
	}
	if n.name == "default" || strings.HasPrefix(n.name, "kube-") {
		return fmt.Errorf("the last element is also the name of a namespace, and %s is reserved for Kubernetes", n.name)
	}
	// The other binaries in .build/bin.
	if slices.Contains([]string{"cluster", "image", "lab", "release", "kubernetes", "etcd", "kwok", "kubectl"}, n.name) {
		return fmt.Errorf("the last element is also the name of the binary, and the project builds another one named %s", n.name)
	}
	return nil
}

func (n names) checkGroup() error {
	if problems := validation.IsDNS1123Subdomain(n.group); len(problems) > 0 {
		return fmt.Errorf("invalid API group: %s", problems[0])
	}
	if !strings.Contains(n.group, ".") {
		return errors.New("must be a domain with at least one dot, such as db.example.com")
	}
	for _, reserved := range []string{"k8s.io", "kubernetes.io"} {
		if n.group == reserved || strings.HasSuffix(n.group, "."+reserved) {
			return fmt.Errorf("groups in %s need the approval of the Kubernetes project; use a domain that you own", reserved)
		}
	}
	// The last five have a special meaning for the go command or the compiler.
	if !token.IsIdentifier(n.groupPackage) || types.Universe.Lookup(n.groupPackage) != nil ||
		slices.Contains([]string{"documentation", "internal", "main", "testdata", "vendor"}, n.groupPackage) {
		return fmt.Errorf("the first label is also the name of a Go package, which cannot be %s", n.groupPackage)
	}
	return nil
}

func (n names) checkKind() error {
	// The longest derived name is that of the example, which becomes the value of a label.
	if longest := validation.LabelValueMaxLength - len("example-"); len(n.kind) > longest {
		return fmt.Errorf("must be no more than %d characters, because the name of the example contains it", longest)
	}
	if strings.HasSuffix(n.kind, "List") {
		return errors.New("the suffix List is reserved for lists of objects: choose another kind")
	}
	if builtIn(n.singular) {
		return errors.New("is a built-in kind of Kubernetes, and kubectl could not tell the two apart: choose another one")
	}
	return nil
}

func (n names) checkPlural() error {
	if !regexp.MustCompile(`^[a-z][a-z0-9]*$`).MatchString(n.plural) {
		return errors.New("must consist of lowercase letters and digits, and start with a letter, because it is also used in Go identifiers")
	}
	if len(n.plural) > validation.DNS1035LabelMaxLength {
		return fmt.Errorf("must be no more than %d characters", validation.DNS1035LabelMaxLength)
	}
	if crd := n.plural + "." + n.group; len(crd) > validation.DNS1123SubdomainMaxLength {
		return fmt.Errorf("%s, the name of the CRD, must be no more than %d characters", crd, validation.DNS1123SubdomainMaxLength)
	}
	if n.plural == n.singular {
		return errors.New("is the same as the singular, but Go needs different identifiers; set another PLURAL")
	}
	if builtIn(n.plural) {
		return errors.New("is a built-in resource of Kubernetes, and kubectl could not tell the two apart: choose another one")
	}
	return nil
}

// builtIn reports whether Kubernetes has a built-in kind or resource with that name.
func builtIn(name string) bool {
	for gvk := range scheme.Scheme.AllKnownTypes() {
		if plural, singular := meta.UnsafeGuessKindToResource(gvk); plural.Resource == name || singular.Resource == name {
			return true
		}
	}
	// These are not in client-go's scheme.
	return slices.Contains([]string{"customresourcedefinition", "customresourcedefinitions", "apiservice", "apiservices"}, name)
}

// camelPlural capitalizes a plural like the kind: BackupMice for BackupMouse and backupmice. byRule is the plural that the code
// generators derive.
func camelPlural(kind, byRule, plural string) string {
	if plural == strings.ToLower(byRule) {
		return byRule
	}
	common := 0
	for common < min(len(kind), len(plural)) && strings.ToLower(kind)[common] == plural[common] {
		common++
	}
	if common == 0 {
		return strings.ToUpper(plural[:1]) + plural[1:]
	}
	return kind[:common] + plural[common:]
}

// lowerCamel returns the name of a variable for a type: backupPlan for BackupPlan, dnsRecord for DNSRecord, vms for VMs.
func lowerCamel(name string) string {
	capitals := strings.IndexFunc(name, func(r rune) bool { return !unicode.IsUpper(r) })
	switch {
	case capitals < 0 || name[capitals:] == "s":
		return strings.ToLower(name)
	case capitals > 1 && unicode.IsLower(rune(name[capitals])):
		capitals-- // The last capital starts the next word.
	}
	return strings.ToLower(name[:capitals]) + name[capitals:]
}

// article returns the English article for a name, a or an, guessed from its spelling.
func article(name string) string {
	spelledOut := regexp.MustCompile(`^[A-Z]([A-Z]|$)`)
	likeYouOrWon := regexp.MustCompile(`(?i)^(eu|once|one|uni[^mn]|us|ut[ei]|ubi|ura)`)
	vowel := strings.ContainsAny(name[:1], "AEIOUaeiou") && !likeYouOrWon.MatchString(name)
	if spelledOut.MatchString(name) {
		vowel = strings.ContainsAny(name[:1], "AEFHILMNORSX")
	}
	if vowel {
		return "an"
	}
	return "a"
}
