// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// hangTime is how long in real time virtual time may stand still. Ten seconds of it take a few milliseconds.
const hangTime = 2 * time.Minute

// watchdog ends the test if a walk hangs, and says why, and what other walks have shown. While a goroutine waits for a mutex whose holder
// sleeps, or never waits, virtual time does not pass: no timeout of the walk itself would ever end it. It has to be called outside of a bubble.
func (w *walk) watchdog(t *testing.T) (stop func()) {
	stopped := make(chan struct{})
	go func() {
		isTold := false
		for last, since := w.moments.Load(), time.Now(); ; {
			select {
			case <-stopped:
				return
			case <-time.After(hangTime / 10):
			}
			switch now := w.moments.Load(); {
			case now != last:
				last, since, isTold = now, time.Now(), false
			case time.Since(since) > hangTime:
				panic(w.hangs(t.Name(), strings.Join(waiting(stacks()), "\n\n")))
			case time.Since(since) > hangTime/6 && !isTold:
				isTold = true
				fmt.Fprintf(os.Stderr, "%s: virtual time stands still; if it does so for %s, the test ends, and says why\n", t.Name(), hangTime)
			}
		}
	}()
	return func() { close(stopped) }
}

// hangs says why a walk hangs, after what other walks have shown.
func (w *walk) hangs(test, waiting string) string {
	if strings.Contains(waiting, "runnableGroup).Start") {
		waiting += "\nA Manager that is stopped before its caches have synced does not end (controller-runtime#3440): set SyncsFirst"
	}
	return fmt.Sprintf("%s\n%s hangs: virtual time does not pass while these goroutines wait for a mutex, or run:\n%s\n%s\n"+
		"leave it out with: -skip='%s'", w.sums.told(), w.script.name, waiting, w.last(maxStack), exactly(test))
}

// maxStack is how many lines of a stack are shown.
const maxStack = 24

// stacks returns the stacks of all goroutines.
func stacks() string {
	for size := 1 << 20; ; size *= 2 {
		buffer := make([]byte, size)
		if n := runtime.Stack(buffer, true); n < size {
			return string(buffer[:n])
		}
	}
}

// mutexWait is the first line of the stack of a goroutine in a bubble that waits for a mutex, or that runs without an end.
var mutexWait = regexp.MustCompile(`^goroutine \d+ \[(sync\.(RW)?Mutex|semacquire|running|runnable)[^\]]*synctest bubble`)

// waiting returns the stacks of those goroutines in bubbles that wait for a mutex, or run.
func waiting(stacks string) (list []string) {
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		if mutexWait.MatchString(stack) {
			lines := strings.Split(stack, "\n")
			list = append(list, strings.Join(lines[:min(maxStack, len(lines))], "\n"))
		}
	}
	return list
}

var bubbleName = regexp.MustCompile(`synctest bubble \d+`)

// bubbleOfCaller returns how stacks name the bubble of the calling goroutine.
func bubbleOfCaller() string {
	buffer := make([]byte, 256)
	return bubbleName.FindString(string(buffer[:runtime.Stack(buffer, false)]))
}

// leftIn returns the functions in which the goroutines of a bubble wait.
func leftIn(bubble string) (functions []string) {
	for stack := range strings.SplitSeq(stacks(), "\n\n") {
		lines := strings.Split(stack, "\n")
		if !strings.Contains(lines[0], bubble+"]") {
			continue
		}
		for i := 1; i < len(lines); i += 2 { // Each function is followed by its file.
			name, _, _ := strings.Cut(lines[i], "(")
			if !strings.HasPrefix(name, "runtime.") && !strings.HasPrefix(name, "internal/") && !strings.HasPrefix(name, "sync.") {
				functions = append(functions, lines[i][:strings.LastIndex(lines[i], "(")]) // Without arguments.
				break
			}
		}
	}
	return functions
}
