// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestNewNames(t *testing.T) {
	for _, test := range []struct{ kind, plural, wantKinds, wantVariable, wantVariables, wantPlural, wantArticle string }{
		{"Database", "", "Databases", "database", "databases", "databases", "a"},
		{"BackupPlan", "", "BackupPlans", "backupPlan", "backupPlans", "backupplans", "a"},
		{"AccessPolicy", "", "AccessPolicies", "accessPolicy", "accessPolicies", "accesspolicies", "an"},
		{"Gateway", "", "Gateways", "gateway", "gateways", "gateways", "a"},
		{"Address", "", "Addresses", "address", "addresses", "addresses", "an"},
		{"FieldMouse", "fieldmice", "FieldMice", "fieldMouse", "fieldMice", "fieldmice", "a"},
		{"SQLIndex", "sqlindices", "SQLIndices", "sqlIndex", "sqlIndices", "sqlindices", "an"},
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

func TestNewNamesErrors(t *testing.T) {
	const module, group, kind = "example.com/db-controller", "db.example.com", "Database"
	for name, test := range map[string]struct{ module, group, kind, plural, want string }{
		"no module":                        {"", group, kind, "", "MODULE="},
		"module without domain":            {"db-controller", group, kind, "", "MODULE="},
		"module with invalid character":    {"example.com/db controller", group, kind, "", "MODULE="},
		"module not a namespace name":      {"example.com/DB", group, kind, "", "MODULE="},
		"module not a Service name":        {"example.com/" + strings.Repeat("a", 60), group, kind, "", "MODULE="},
		"module with major version":        {"example.com/db-controller/v2", group, kind, "", "leave out /v2"},
		"module named as system namespace": {"example.com/kube-system", group, kind, "", "MODULE="},
		"module named as other binary":     {"example.com/kubectl", group, kind, "", "MODULE="},
		"no group":                         {module, "", kind, "", "GROUP="},
		"group without dot":                {module, "db", kind, "", "at least one dot"},
		"group in upper case":              {module, "DB.example.com", kind, "", "GROUP="},
		"group of Kubernetes":              {module, "db.k8s.io", kind, "", "approval"},
		"group not a package name":         {module, "3d.example.com", kind, "", "cannot be 3d"},
		"group is keyword":                 {module, "func.example.com", kind, "", "cannot be func"},
		"group is internal":                {module, "internal.example.com", kind, "", "cannot be internal"},
		"no kind":                          {module, group, "", "", "KIND="},
		"kind in lower case":               {module, group, "database", "", "CamelCase"},
		"kind with hyphen":                 {module, group, "Data-Base", "", "CamelCase"},
		"kind too long":                    {module, group, "D" + strings.Repeat("a", 60), "", "characters"},
		"kind named as list":               {module, group, "DatabaseList", "", "suffix List"},
		"built-in kind":                    {module, group, "Deployment", "", "built-in kind"},
		"kind in every group":              {module, group, "ListOptions", "", "built-in kind"},
		"plural in upper case":             {module, group, kind, "Databases", "PLURAL="},
		"plural with hyphen":               {module, group, kind, "data-bases", "PLURAL="},
		"plural too long":                  {module, group, kind, strings.Repeat("a", 64), "PLURAL="},
		"plural equals singular":           {module, group, "Sheep", "sheep", "same as the singular"},
		"built-in resource":                {module, group, kind, "pods", "built-in resource"},
		"CRD name too long":                {module, strings.Repeat("a.", 121) + "example", kind, "databases", "the CRD"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newNames(test.module, test.group, test.kind, test.plural)
			wantOneLine(t, err, test.want)
		})
	}
}

// wantOneLine fails unless the error is one line that contains the text.
func wantOneLine(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error = %v, want one line with %q", err, text)
	}
}
