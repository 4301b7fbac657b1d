// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"fmt"
	"slices"
	"strings"
)

// measurementKey are the titles of the columns that identify a measurement.
var measurementKey = []string{"Foos", "workers", "program"}

// tableRow is a row of a Markdown table.
type tableRow struct {
	line  int
	cells map[string]string // by title
}

// measurements returns the rows of those tables of a document that have the columns of measurementKey.
func measurements(d *document) (rows []tableRow) {
	var titles []string
	for i, line := range d.prose {
		if !strings.HasPrefix(line, "|") {
			titles = nil
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		isMeasurement := !slices.ContainsFunc(measurementKey, func(title string) bool { return !slices.Contains(titles, title) })
		switch {
		case titles == nil:
			titles = cells
		case strings.Trim(line, "|-: ") != "" && isMeasurement:
			row := tableRow{line: i + 1, cells: map[string]string{}}
			for column, title := range titles[:min(len(titles), len(cells))] {
				row.cells[title] = cells[column]
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// checkFigures returns the rows in the documents that differ from the measurement of the same key in the results, in a column that both
// have. It also returns the number of figures that are equal.
func checkFigures(results, documents []*document) (equal int, problems []string) {
	measured := map[string]map[string]string{}
	for _, d := range results {
		for _, row := range measurements(d) {
			measured[keyOf(row)] = row.cells
		}
	}
	for _, d := range documents {
		for _, row := range measurements(d) {
			result, exists := measured[keyOf(row)]
			if !exists {
				problems = append(problems, fmt.Sprintf("%s:%d: %s is not in the results of the benchmark", d.path, row.line, keyOf(row)))
				continue
			}
			for title, cell := range row.cells {
				switch want, exists := result[title]; {
				case slices.Contains(measurementKey, title):
				case !exists:
					problems = append(problems, fmt.Sprintf("%s:%d: the results of the benchmark have no column %q", d.path, row.line, title))
				case cell != want:
					problems = append(problems, fmt.Sprintf("%s:%d: %s is %q, but %q was measured", d.path, row.line, title, cell, want))
				default:
					equal++
				}
			}
		}
	}
	return equal, problems
}

func keyOf(row tableRow) string {
	var key []string
	for _, title := range measurementKey {
		key = append(key, title+" "+row.cells[title])
	}
	return strings.Join(key, ", ")
}
