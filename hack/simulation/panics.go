// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// inBubbles has the walks by the names of their bubbles.
var inBubbles sync.Map

func init() {
	if testing.Testing() {
		// client-go recovers from a panic, as in an event handler, to log it, and then ends the process. Here, only the walk ends.
		utilruntime.ReallyCrash = false
		utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, tellPanic)
	}
}

// tellPanic ends the walk of the caller, whose program panics. Elsewhere, or if that is not judged, the panic goes on.
func tellPanic(_ context.Context, cause any) {
	value, _ := inBubbles.Load(bubbleOfCaller())
	w, _ := value.(*walk)
	if w == nil || !w.story.judges(Health) {
		panic(cause)
	}
	w.violated(Health, "the program panics in %s: %v", panicking(), cause)
}

// panicking returns the function, the file and the line where the caller panics.
func panicking() string {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers)])
	for hasPanicked := false; ; {
		frame, more := frames.Next()
		isRuntime := strings.HasPrefix(frame.Function, "runtime.")
		if hasPanicked && !isRuntime || !more {
			return fmt.Sprintf("%s, %s:%d", frame.Function, filepath.Base(frame.File), frame.Line)
		}
		hasPanicked = hasPanicked || frame.Function == "runtime.gopanic"
	}
}
