// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// plotAll writes throughput.svg and memory.svg.
func plotAll(dir string, results []measurement) error {
	for _, p := range []struct {
		file, title, unit string
		value             func(measurement) float64
	}{
		{"throughput.svg", "Cold start", "Foos/s", func(m measurement) float64 { return m.cold.rate(m.foos) }},
		{"memory.svg", "Resident memory, steady", "MB", func(m measurement) float64 { return m.steady / 1e6 }},
	} {
		if err := plotOne(filepath.Join(dir, p.file), p.title, p.unit, results, p.value); err != nil {
			return err
		}
	}
	return nil
}

// plotOne plots a value against the number of Foos, with a line per program and number of workers.
func plotOne(file, title, unit string, results []measurement, value func(measurement) float64) error {
	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text, p.Y.Label.Text = "Foos", unit
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{}
	p.Y.Min = 0
	p.Legend.Top = true

	var names []string
	lines := map[string]plotter.XYs{}
	for _, m := range results {
		if math.IsNaN(value(m)) {
			continue
		}
		name := fmt.Sprintf("%s, %d workers", m.program, m.workers)
		if lines[name] == nil {
			names = append(names, name)
		}
		lines[name] = append(lines[name], plotter.XY{X: float64(m.foos), Y: value(m)})
	}
	if len(names) == 0 {
		return nil
	}
	var arguments []any
	for _, name := range names {
		arguments = append(arguments, name, lines[name])
	}
	if err := plotutil.AddLinePoints(p, arguments...); err != nil {
		return err
	}
	return p.Save(7*vg.Inch, 4*vg.Inch, file)
}
