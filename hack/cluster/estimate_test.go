// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestEstimate(t *testing.T) {
	const perWeight = 10 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		// Many packages without dependencies, then as many that depend on them and take most of the time.
		const packages = 100
		weights, order := map[string]int{}, []string{}
		for _, deps := range []int{0, 1000} {
			for i := range packages {
				pkg := fmt.Sprintf("%d/%d", deps, i)
				weights[pkg] = weight(1, deps)
				order = append(order, pkg)
			}
		}
		durations := make([]time.Duration, len(order))
		var total time.Duration
		for i, pkg := range order {
			durations[i] = time.Duration(weights[pkg]) * perWeight
			total += durations[i]
		}

		e := newEstimate(weights)
		want := map[int]string{
			0:   "", // too early
			5:   "", // too early
			50:  ", about 19 min left",
			100: ", about 18 min left",
			190: ", about 2 min left",
			198: ", less than 1 min left",
		}
		for i, pkg := range order {
			if !e.compile(pkg) || e.compile(pkg) {
				t.Errorf("compile(%q) is not true once", pkg)
			}
			time.Sleep(durations[i]) // The clock of the bubble is fake: it advances, and no time passes.
			if want, ok := want[e.compiled()-1]; ok && e.String() != want {
				t.Errorf("after %v of %v and %d packages, the estimate is %q, want %q", time.Since(e.start), total, i+1, e, want)
			}
		}
		if e.compile("unknown") {
			t.Error("an unknown package was recorded")
		}
	})
}

func TestProgress(t *testing.T) {
	show := func(p *progress) {
		p.print("start")
		for i := range 60 {
			p.show("compiling %d: %s", i, strings.Repeat("x", 100))
			time.Sleep(time.Second) // By the fake clock of a bubble.
		}
		p.end()
	}
	t.Run("log", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			show(newProgress(&out))
			if got, want := strings.Count(out.String(), "\n"), 1+4; got != want {
				t.Errorf("got %d lines, want %d:\n%s", got, want, &out)
			}
		})
	})
	t.Run("terminal", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			show(&progress{out: &out, terminal: true})
			if got, want := strings.Count(out.String(), "\n"), 2; got != want {
				t.Errorf("got %d line ends, want %d: %q", got, want, &out)
			}
			for rewritten := range strings.SplitSeq(out.String(), "\r\x1b[K") {
				if len(rewritten) > maxProgressWidth+len("\n") {
					t.Errorf("%q is too long", rewritten)
				}
			}
		})
	})
}
