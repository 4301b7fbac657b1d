// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulation tests a controller of any kinds with random walks in a simulated cluster, in virtual time. Users create, change and delete
// objects like given examples, everything that can fail fails, and what the controller does is judged by what any controller promises.
package simulation

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"k8s.io/sample-controller/hack/simulation/apiserver"
)

// Program is the program under test. It runs in the cluster of config until ctx is done. With more than one instance, it elects a leader.
type Program func(ctx context.Context, config *rest.Config) error

// Config says what is tested, and how.
type Config struct {
	Program Program
	// CRDs and Examples are YAML files. Users create objects like the examples of custom resources or, if there are none, like all of them.
	// Other examples are there from the beginning.
	CRDs, Examples []string
	// Fixtures are YAML files of further objects, of any kinds, that are there from the beginning. Their status is set, too.
	Fixtures  []string
	Resync    time.Duration // the resync period of the program: 4 minutes if it is 0
	Instances int           // how many run: 2 if it is 0
	Objects   int           // how many objects of each kind users have: 6 if it is 0
	Serial    bool          // The program has global state: one walk runs at a time.
	// SyncsFirst says that the program does not end before its caches have synced: no instance is stopped earlier.
	SyncsFirst bool
	// Without are the built-in controllers that do not run, because the program is one of them.
	Without []apiserver.Controller
	// Mutate is what mutating webhooks do with an object that is to be written. found is nil if it is to be created. It may be nil.
	Mutate func(o, found *apiserver.Object)
	// Validate is what validating webhooks deny, and those rules of CRDs in CEL that are not evaluated. found is nil if the object is to be
	// created. It must not change anything, and may be nil.
	Validate func(o, found *apiserver.Object) error
	// Exempt are the promises that the program does not make, and Strict the strict ones that it makes.
	Exempt, Strict []Promise
	// Own are promises that only this program makes.
	Own []Own
	// Viewer is what opens a recording of a walk, if anything does. It is named beside the file.
	Viewer string
	// Trials are walks in which one certain thing happens. They come before the random ones.
	Trials []Trial
	// ByDesign drops what of an object depends by design on what has happened before, such as which of two objects came first. It changes
	// the object, or reports that all of it does: then the object is not compared with that of a cluster in which nothing has happened before.
	// owners are the objects that own it. It may be nil.
	ByDesign func(o *apiserver.Object, owners []*apiserver.Object) bool
}

var walkCount, firstSeed, soak, shrinkTime, recordDir = new(25), new(uint64(1)), new(time.Duration), new(time.Minute), new(string)

// Flags adds the flags of Test to those of the test binary.
func Flags() {
	flag.IntVar(walkCount, "walks", *walkCount, "how many random walks")
	flag.Uint64Var(firstSeed, "seed", *firstSeed, "seed of the first random walk")
	flag.DurationVar(soak, "soak", *soak, "how long to go on with random walks")
	flag.StringVar(recordDir, "record", *recordDir, "`directory` for a recording of the first walk that breaks a promise, for each")
	flag.DurationVar(shrinkTime, "shrink", *shrinkTime, "how long the first walk that breaks a promise is shrunk at most, for each")
}

// tester is what the walks of a test share.
type tester struct {
	Config
	registry *apiserver.Registry
	kinds    []*userKind
	others   []*object // what is there from the beginning
	sums     *sums     // those of trials, too
}

// sums are those of the walks of a test.
type sums struct {
	lock     sync.Mutex
	counts   map[Promise]int // in how many walks each is broken
	walks    int
	broken   int // how many walks break a promise
	happened int
	virtual  time.Duration
	stories  []string // the first one of each promise
}

// Test tests a program with each probe, with its trials, and with random walks. Each broken promise is told as a story, the first of each, but
// in trials, after it was shrunk. At the end, a table says in how many probes and walks each promise was broken.
func Test(t *testing.T, config Config) {
	percent := debug.SetGCPercent(400) // A walk makes much garbage, and needs little memory.
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	all, err := newTester(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, note := range all.registry.Notes() {
		t.Log("not simulated: " + note)
	}
	for _, k := range all.kinds {
		if len(k.unchanged) > 0 {
			t.Logf("not changed: fields of %s: %s. Users need a value, or another one: add an example that has it", k.Kind.Kind, summarize(k.unchanged))
		}
		if k.unused > 0 {
			t.Logf("not changed: %d fields of %s in parts that no example has", k.unused, k.Kind.Kind)
		}
	}
	name, start := t.Name(), time.Now()
	t.Run("probes", all.testProbes)
	t.Run("trials", all.testTrials)
	for next, more := *firstSeed, true; more; next += uint64(*walkCount) {
		t.Run("walks", func(t *testing.T) {
			for seed := next; seed < next+uint64(*walkCount); seed++ {
				t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
					if !config.Serial {
						t.Parallel()
					}
					all.test(t, all.newScript(seed), fmt.Sprintf("go test -run='^%s$/^walks$' %s -walks=1 -seed=%d", name, directory(), seed))
				})
			}
		})
		more = time.Since(start) < *soak && !t.Failed()
	}
	t.Log(all.sums.summary(time.Since(start)))
}

func newTester(config Config) (*tester, error) {
	crds, err := readFiles(config.CRDs)
	if err != nil {
		return nil, err
	}
	examples, err := readFiles(config.Examples)
	if err != nil {
		return nil, err
	}
	fixtures, err := readFiles(config.Fixtures)
	if err != nil {
		return nil, err
	}
	all := &tester{Config: config, sums: &sums{counts: map[Promise]int{}}}
	all.Instances, all.Objects = cmp.Or(config.Instances, 2), cmp.Or(config.Objects, 6)
	all.Resync = cmp.Or(config.Resync, 4*time.Minute)
	if all.registry, err = apiserver.NewRegistry(crds...); err != nil {
		return nil, err
	}
	all.kinds, all.others, err = kindsOf(all.registry, examples, fixtures)
	return all, err
}

func readFiles(files []string) (objects []*object, err error) {
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		list, err := apiserver.ReadYAML(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		objects = append(objects, list...)
	}
	return objects, nil
}

// commandFor returns the command that runs a test alone.
func commandFor(t *testing.T) string {
	return fmt.Sprintf("go test -run='%s' %s", exactly(t.Name()), directory())
}

// directory returns the directory of the test, in which it runs, as the go command names it in the root of the module.
func directory() string {
	directory, _ := os.Getwd() // Without one, it is not told.
	for root := directory; root != filepath.Dir(root); root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			relative, _ := filepath.Rel(root, directory) // It is below.
			return strings.TrimSuffix("./"+filepath.ToSlash(relative), "/.")
		}
	}
	return "."
}

// exactly returns the pattern of nothing but a test.
func exactly(name string) string { return "^" + strings.ReplaceAll(name, "/", "$/^") + "$" }

// test walks through a script, and tells which promises are broken.
func (all *tester) test(t *testing.T, s script, command string) {
	w := all.walk(t, s, "")
	promises := slices.Sorted(maps.Keys(w.broken))
	first := all.sums.add(w, promises)
	for _, promise := range promises {
		story, shortest := w.broken[promise].String(), s
		if *shrinkTime > 0 && slices.Contains(first, promise) {
			story, shortest = all.shrink(t, s, w, promise)
		}
		if slices.Contains(first, promise) {
			story += all.record(t, promise, shortest.seedName(), func() *walk { return all.newWalk(shortest, promise) })
			all.sums.tell(story)
		}
		t.Errorf("%s\nrepeat it with: %s", story, command)
	}
}

// add adds a walk to the sums, and returns the promises that no earlier one has broken.
func (sums *sums) add(w *walk, promises []Promise) (first []Promise) {
	sums.lock.Lock()
	defer sums.lock.Unlock()
	sums.walks++
	sums.happened += w.happened
	sums.virtual += w.took
	if len(promises) > 0 {
		sums.broken++
	}
	for _, promise := range promises {
		if sums.counts[promise]++; sums.counts[promise] == 1 {
			first = append(first, promise)
		}
	}
	return first
}

// tell keeps a story.
func (sums *sums) tell(story string) {
	sums.lock.Lock()
	defer sums.lock.Unlock()
	sums.stories = append(sums.stories, story)
}

// told returns the stories.
func (sums *sums) told() string {
	sums.lock.Lock()
	defer sums.lock.Unlock()
	return strings.Join(sums.stories, "\n\n")
}

// summary is the table of broken promises, the most frequent first.
func (sums *sums) summary(took time.Duration) string {
	lines := []string{fmt.Sprintf("%d walks and probes with %d actions and faults, %.1f virtual hours, %s a walk; %d break a promise", sums.walks,
		sums.happened, sums.virtual.Hours(), (took / time.Duration(max(1, sums.walks))).Round(time.Millisecond), sums.broken)}
	for _, promise := range slices.SortedFunc(maps.Keys(sums.counts), func(a, b Promise) int {
		return cmp.Or(cmp.Compare(sums.counts[b], sums.counts[a]), cmp.Compare(a, b))
	}) {
		lines = append(lines, fmt.Sprintf("%5d  %s", sums.counts[promise], promise))
	}
	return strings.Join(lines, "\n")
}

// walk walks through a script, until a promise is broken, if it is not empty.
func (all *tester) walk(t *testing.T, s script, until Promise) *walk {
	w := all.newWalk(s, until)
	w.inBubble(t)
	return w
}

// newWalk returns the walk through a script, until a promise is broken.
func (all *tester) newWalk(s script, until Promise) *walk {
	w := newWalk(all, s)
	w.stopAt = until
	w.requestFault, w.eventLag = s.requestFault, s.lag
	return w
}
