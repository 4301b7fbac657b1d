// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestNamesOfAKind(t *testing.T) {
	for _, test := range []struct{ kind, plural, wantKinds, wantVariable, wantVariables, wantPlural, wantArticle string }{
		{"Database", "", "Databases", "database", "databases", "databases", "a"},
		{"BackupPlan", "", "BackupPlans", "backupPlan", "backupPlans", "backupplans", "a"},
		{"AccessPolicy", "", "AccessPolicies", "accessPolicy", "accessPolicies", "accesspolicies", "an"},
		{"Gateway", "", "Gateways", "gateway", "gateways", "gateways", "a"},
		{"Address", "", "Addresses", "address", "addresses", "addresses", "an"},
		{"FieldMouse", "fieldmice", "FieldMice", "fieldMouse", "fieldMice", "fieldmice", "a"},
		{"Person", "humans", "Humans", "person", "humans", "humans", "a"},
		{"DNSRecord", "", "DNSRecords", "dnsRecord", "dnsRecords", "dnsrecords", "a"},
		{"SSHKey", "", "SSHKeys", "sshKey", "sshKeys", "sshkeys", "an"},
		{"VM", "", "VMs", "vm", "vms", "vms", "a"},
		{"Upgrade", "", "Upgrades", "upgrade", "upgrades", "upgrades", "an"},
		{"UserAccount", "", "UserAccounts", "userAccount", "userAccounts", "useraccounts", "a"},
	} {
		t.Run(test.kind, func(t *testing.T) {
			n, err := newNames("example.com/a/my-controller", "my-db.example.com", test.kind, test.plural)
			if err != nil {
				t.Fatal(err)
			}
			if n.kinds != test.wantKinds || n.variable != test.wantVariable || n.variables != test.wantVariables || n.plural != test.wantPlural {
				t.Errorf("names = %+v, want %+v", n, test)
			}
			if got := article(test.kind); got != test.wantArticle {
				t.Errorf("article = %q, want %q", got, test.wantArticle)
			}
			if n.groupPackage != "mydb" || n.name != "my-controller" {
				t.Errorf("package %s, name %s, want mydb and my-controller", n.groupPackage, n.name)
			}
		})
	}
}

func TestImpossibleNamesAreRefused(t *testing.T) {
	const module, group, kind = "example.com/db-controller", "db.example.com", "Database"
	for name, test := range map[string]struct{ module, group, kind, plural, want string }{
		"no module":                            {"", group, kind, "", "MODULE="},
		"a module without a domain":            {"db-controller", group, kind, "", "MODULE="},
		"a module with an impossible letter":   {"example.com/db controller", group, kind, "", "MODULE="},
		"a module that cannot be a namespace":  {"example.com/DB", group, kind, "", "MODULE="},
		"a module that cannot be a Service":    {"example.com/" + strings.Repeat("a", 60), group, kind, "", "MODULE="},
		"a module with a major version":        {"example.com/db-controller/v2", group, kind, "", "leave out /v2"},
		"a module like a namespace that is":    {"example.com/kube-system", group, kind, "", "MODULE="},
		"a module like a program that is":      {"example.com/kubectl", group, kind, "", "MODULE="},
		"no group":                             {module, "", kind, "", "GROUP="},
		"a group without a dot":                {module, "db", kind, "", "at least one dot"},
		"a group in capitals":                  {module, "DB.example.com", kind, "", "GROUP="},
		"a group of Kubernetes":                {module, "db.k8s.io", kind, "", "approval"},
		"a group that cannot be a package":     {module, "3d.example.com", kind, "", "Go does not take 3d"},
		"a group that is a keyword":            {module, "func.example.com", kind, "", "Go does not take func"},
		"a group that only its parent imports": {module, "internal.example.com", kind, "", "Go does not take internal"},
		"no kind":                              {module, group, "", "", "KIND="},
		"a kind in lower case":                 {module, group, "database", "", "CamelCase"},
		"a kind with a hyphen":                 {module, group, "Data-Base", "", "CamelCase"},
		"a kind that is too long":              {module, group, "D" + strings.Repeat("a", 60), "", "characters"},
		"a kind like a list":                   {module, group, "DatabaseList", "", "List"},
		"a kind that Kubernetes has":           {module, group, "Deployment", "", "a kind of Kubernetes"},
		"a kind that every group has":          {module, group, "ListOptions", "", "a kind of Kubernetes"},
		"a plural in capitals":                 {module, group, kind, "Databases", "PLURAL="},
		"a plural with a hyphen":               {module, group, kind, "data-bases", "PLURAL="},
		"a plural that is too long":            {module, group, kind, strings.Repeat("a", 64), "PLURAL="},
		"a plural that is the singular":        {module, group, "Sheep", "sheep", "same as the singular"},
		"a plural that Kubernetes has":         {module, group, kind, "pods", "a resource of Kubernetes"},
		"a definition that is too long":        {module, strings.Repeat("a.", 121) + "example", kind, "databases", "definition"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newNames(test.module, test.group, test.kind, test.plural)
			wantOneLine(t, err, test.want)
		})
	}
}

// wantOneLine fails unless the error is one line with the text in it.
func wantOneLine(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error = %v, want one line with %q", err, text)
	}
}
