// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// dashboard is what the tests read of Grafana's model.
type dashboard struct {
	UID        string
	Title      string
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
	Panels []struct {
		ID          int
		Type, Title string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct{ Expr string }
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	content, err := os.ReadFile(root + "/artifacts/components/dashboard/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	decoder := json.NewDecoder(bytes.NewReader(content))
	if err := decoder.Decode(&d); err != nil {
		t.Fatal(err)
	}
	if decoder.More() {
		t.Fatal("there is more than one JSON value")
	}
	return d
}

func TestDashboardPanels(t *testing.T) {
	d := readDashboard(t)
	if d.UID == "" || d.Title == "" || len(d.Panels) == 0 {
		t.Error("the dashboard lacks a UID, a title or panels")
	}
	panels := map[int]string{}
	cells := map[[2]int]string{}
	for _, panel := range d.Panels {
		if other, ok := panels[panel.ID]; ok {
			t.Errorf("%s and %s have the same ID", panel.Title, other)
		}
		panels[panel.ID] = panel.Title
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("%s has no targets", panel.Title)
		}
		pos := panel.GridPos
		if pos.X+pos.W > 24 || pos.W == 0 || pos.H == 0 {
			t.Errorf("%s does not fit the grid", panel.Title)
		}
		for x := pos.X; x < pos.X+pos.W; x++ {
			for y := pos.Y; y < pos.Y+pos.H; y++ {
				if other, ok := cells[[2]int{x, y}]; ok {
					t.Fatalf("%s overlaps %s", panel.Title, other)
				}
				cells[[2]int{x, y}] = panel.Title
			}
		}
	}
}

func TestDashboardSelectsRecordedMetrics(t *testing.T) {
	recordings := readRecordings(t)
	d := readDashboard(t)
	variables := []string{"$__rate_interval", "5m"} // Grafana's own.
	for _, variable := range d.Templating.List {
		variables = append(variables, "$"+variable.Name, namespace)
		if variable.Type == "query" {
			query := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(variable.Query)
			if query == nil {
				t.Fatalf("variable %s: unexpected query %s", variable.Name, variable.Query)
			}
			checkExpr(t, recordings, "count by ("+query[2]+") ("+query[1]+")")
		}
	}
	replacer := strings.NewReplacer(variables...)
	for _, panel := range d.Panels {
		t.Run(panel.Title, func(t *testing.T) {
			for _, target := range panel.Targets {
				checkExpr(t, recordings, replacer.Replace(target.Expr))
			}
		})
	}
}
