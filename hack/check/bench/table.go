// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// column is a column of the table. A cell may depend on the floor's measurement for the same number of Foos and workers, which is zero if
// the floor is not measured.
type column struct {
	title string
	cell  func(m, floor measurement) string
}

// The titles are unique, because the tables in docs repeat some of the columns.
var columns = []column{
	{"Foos", func(m, _ measurement) string { return fmt.Sprint(m.foos) }},
	{"workers", func(m, _ measurement) string { return fmt.Sprint(m.workers) }},
	{"program", func(m, _ measurement) string { return m.program }},
	{"first, s", func(m, _ measurement) string { return fmt.Sprintf("%.1f", m.cold.first.Seconds()) }},
	{"new, Foos/s", func(m, floor measurement) string { return rateCell(m.cold, floor.cold, m.foos) }},
	{"scaled, Foos/s", func(m, floor measurement) string { return rateCell(m.scale, floor.scale, m.foos) }},
	{"requests per new Foo", func(m, _ measurement) string { return m.cold.requests.per(m.foos) }},
	{"requests per scaled Foo", func(m, _ measurement) string { return m.scale.requests.per(m.foos) }},
	{"CPU s, all new", func(m, _ measurement) string { return secondsCell(m.cold) }},
	{"CPU s, all scaled", func(m, _ measurement) string { return secondsCell(m.scale) }},
	{"API server, CPU s, all new", func(m, _ measurement) string { return fmt.Sprintf("%.1f", m.cold.apiServerCPU) }},
	{"CPU s, idle", func(m, _ measurement) string {
		if m.idleRequests == nil {
			return notMeasured
		}
		return fmt.Sprintf("%.2f", m.idleCPU)
	}},
	{"requests, idle", func(m, _ measurement) string {
		if m.idleRequests == nil {
			return notMeasured
		}
		return fmt.Sprint(m.idleRequests.total())
	}},
	{"memory, MB", func(m, _ measurement) string { return megabytes(m.steady) }},
	{"peak, MB", func(m, _ measurement) string { return megabytes(m.peak) }},
	{"MB for as many other Deployments", func(m, _ measurement) string { return megabytes(m.unowned) }},
	{"edit, ms p50/p99", func(m, _ measurement) string { return m.alone.String() }},
	{"edit under load, ms p50/p99", func(m, _ measurement) string { return m.underLoad.String() }},
}

// notMeasured is the cell of a phase that the program, or the number of Foos, does not have.
const notMeasured = "-"

// rateCell returns the number of Foos that converged per second, events included, and its ratio to the floor's. If a round was
// incomplete, it also returns how many Foos got as far as each step.
func rateCell(p, floor phase, foos int) string {
	if p.requests == nil {
		return notMeasured
	}
	cell := fmt.Sprintf("%.0f", p.rate(foos))
	if floor.requests != nil {
		cell += fmt.Sprintf(" (%.2f)", p.rate(foos)/floor.rate(foos))
	}
	for _, part := range []struct {
		name  string
		count int
	}{{"Deployments", p.deployments}, {"statuses", p.statuses}, {"events", p.events}} {
		if part.count < foos {
			cell += fmt.Sprintf(" %d %s", part.count, part.name)
		}
	}
	return cell
}

func secondsCell(p phase) string {
	if p.requests == nil {
		return notMeasured
	}
	return fmt.Sprintf("%.1f", p.cpu)
}

// rate returns the number of Foos that converged per second.
func (p phase) rate(foos int) float64 { return float64(foos) / p.took.Seconds() }

func (r requests) total() int {
	total := 0
	for _, count := range r {
		total += count
	}
	return total
}

// per returns the requests per Foo by verb.
func (r requests) per(foos int) string {
	if r == nil {
		return notMeasured
	}
	var parts []string
	for verb, count := range r {
		parts = append(parts, fmt.Sprintf("%.2f %s", float64(count)/float64(foos), verb))
	}
	slices.Sort(parts)
	slices.Reverse(parts)
	return strings.Join(parts, ", ")
}

func megabytes(bytes float64) string {
	if math.IsNaN(bytes) {
		return notMeasured
	}
	return fmt.Sprintf("%.0f", bytes/1e6)
}

func (l latency) String() string {
	if l == (latency{}) {
		return notMeasured
	}
	return fmt.Sprintf("%.0f/%.0f", milliseconds(l.p50), milliseconds(l.p99))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// printTitles prints the header of a Markdown table.
func printTitles(out io.Writer) {
	var titles, rules []string
	for _, column := range columns {
		titles = append(titles, column.title)
		rules = append(rules, "---")
	}
	printCells(out, titles)
	printCells(out, rules)
}

// printRow prints the row of the latest measurement.
func printRow(out io.Writer, results []measurement) {
	result := results[len(results)-1]
	var floor measurement
	for _, m := range results {
		if m.program == floorName && m.foos == result.foos && m.workers == result.workers {
			floor = m
		}
	}
	var cells []string
	for _, column := range columns {
		cells = append(cells, column.cell(result, floor))
	}
	printCells(out, cells)
}

func printCells(out io.Writer, cells []string) {
	fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
}
