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

// names is what the new controller and its parts are called. The examples are those of the kind BackupPlan.
type names struct {
	module string // example.com/backup-controller
	name   string // backup-controller
	group  string // backup.example.com

	groupPackage string // backup: of the folder, the package and its aliases

	kind      string // BackupPlan
	kinds     string // BackupPlans
	variable  string // backupPlan
	variables string // backupPlans
	singular  string // backupplan
	plural    string // backupplans: the resource
}

// newNames derives all names. An error says in one line what neither Go nor Kubernetes would take.
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
		return n, fmt.Errorf("KIND=%s: a kind is in CamelCase, such as Database or BackupPlan", kind)
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
		return fmt.Errorf("no module path: %w", err)
	}
	if _, major, _ := module.SplitPathVersion(n.module); major != "" {
		return fmt.Errorf("a new module has no major version yet, leave out %s", major)
	}
	if problems := validation.IsDNS1035Label(n.name); len(problems) > 0 {
		return fmt.Errorf("its last element %s names a namespace and a Service too: %s", n.name, problems[0])
	}
	// The longest name that is made from it is that of the Service of the metrics.
	if longest := validation.DNS1035LabelMaxLength - len("-metrics"); len(n.name) > longest {
		return fmt.Errorf("its last element names a Service too and must be no more than %d characters", longest)
	}
	if n.name == "default" || strings.HasPrefix(n.name, "kube-") {
		return fmt.Errorf("its last element names a namespace too, and %s is one of Kubernetes' own", n.name)
	}
	// In .build/bin it would overwrite one of these.
	if slices.Contains([]string{"cluster", "image", "controlplane", "kwok", "kubectl"}, n.name) {
		return fmt.Errorf("its last element names the program too, and %s is the name of one that the project builds", n.name)
	}
	return nil
}

func (n names) checkGroup() error {
	if problems := validation.IsDNS1123Subdomain(n.group); len(problems) > 0 {
		return fmt.Errorf("no API group: %s", problems[0])
	}
	if !strings.Contains(n.group, ".") {
		return errors.New("an API group is a domain with at least one dot, such as db.example.com")
	}
	for _, reserved := range []string{"k8s.io", "kubernetes.io"} {
		if n.group == reserved || strings.HasSuffix(n.group, "."+reserved) {
			return fmt.Errorf("groups of %s need the approval of the Kubernetes project; use a domain of yours", reserved)
		}
	}
	// The go command, or the compiler, gives the last five a meaning of their own.
	if !token.IsIdentifier(n.groupPackage) || types.Universe.Lookup(n.groupPackage) != nil ||
		slices.Contains([]string{"documentation", "internal", "main", "testdata", "vendor"}, n.groupPackage) {
		return fmt.Errorf("its first label names a Go package too, and Go does not take %s", n.groupPackage)
	}
	return nil
}

func (n names) checkKind() error {
	// The longest name that is made from it is that of the example, which becomes the value of a label.
	if longest := validation.LabelValueMaxLength - len("example-"); len(n.kind) > longest {
		return fmt.Errorf("it must be no more than %d characters, because the example of it is named after it", longest)
	}
	if strings.HasSuffix(n.kind, "List") {
		return errors.New("kinds that end in List are Kubernetes' own, for lists of objects")
	}
	if builtIn(n.singular) {
		return errors.New("a kind of Kubernetes has that name, and kubectl would take one for the other")
	}
	return nil
}

func (n names) checkPlural() error {
	if !regexp.MustCompile(`^[a-z][a-z0-9]*$`).MatchString(n.plural) {
		return errors.New("a plural is made of lower-case letters and digits, and begins with a letter, because it becomes Go names too")
	}
	if len(n.plural) > validation.DNS1035LabelMaxLength {
		return fmt.Errorf("it must be no more than %d characters", validation.DNS1035LabelMaxLength)
	}
	if definition := n.plural + "." + n.group; len(definition) > validation.DNS1123SubdomainMaxLength {
		return fmt.Errorf("%s, the name of the definition, must be no more than %d characters", definition, validation.DNS1123SubdomainMaxLength)
	}
	if n.plural == n.singular {
		return errors.New("it is the same as the singular, but one object and many need different names in Go; give another as PLURAL")
	}
	if builtIn(n.plural) {
		return errors.New("a resource of Kubernetes has that name, and kubectl would take one for the other")
	}
	return nil
}

// builtIn reports whether Kubernetes itself has a kind or a resource that kubectl knows by that name.
func builtIn(name string) bool {
	for gvk := range scheme.Scheme.AllKnownTypes() {
		if plural, singular := meta.UnsafeGuessKindToResource(gvk); plural.Resource == name || singular.Resource == name {
			return true
		}
	}
	// The scheme of client-go does not have the kinds that extend the API.
	return slices.Contains([]string{"customresourcedefinition", "customresourcedefinitions", "apiservice", "apiservices"}, name)
}

// camelPlural gives a plural the capitals of the kind: BackupMice for BackupMouse and backupmice. byRule is the plural that
// the generators would make.
func camelPlural(kind, byRule, plural string) string {
	if plural == strings.ToLower(byRule) {
		return byRule
	}
	same := 0
	for same < min(len(kind), len(plural)) && strings.ToLower(kind)[same] == plural[same] {
		same++
	}
	if same == 0 {
		return strings.ToUpper(plural[:1]) + plural[1:]
	}
	return kind[:same] + plural[same:]
}

// lowerCamel makes a variable's name of a type's: backupPlan of BackupPlan, dnsRecord of DNSRecord, vms of VMs.
func lowerCamel(name string) string {
	capitals := strings.IndexFunc(name, func(r rune) bool { return !unicode.IsUpper(r) })
	switch {
	case capitals < 0 || name[capitals:] == "s":
		return strings.ToLower(name)
	case capitals > 1 && unicode.IsLower(rune(name[capitals])):
		capitals-- // The last capital begins the next word.
	}
	return strings.ToLower(name[:capitals]) + name[capitals:]
}

// article returns the article that a name has in English, as far as its spelling tells: a or an.
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
