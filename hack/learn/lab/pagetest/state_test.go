// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package pagetest

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dop251/goja"
	"github.com/evanw/esbuild/pkg/api"
)

const recording = recordings + "/recording.jsonl"

// newEngine returns a JavaScript engine with the functions of the page that are not about drawing, and the given steps.
func newEngine(t *testing.T, steps []map[string]any) *goja.Runtime {
	t.Helper()
	engine := goja.New()
	runModule(t, engine, "testdata/page.js")
	setJSON(t, engine, "steps", steps)
	evaluate(t, engine, `
		const state = labState.apply(labState.initial(), steps);
		const pod = state.pods.get("a");`)
	return engine
}

// runModule runs a module, and makes variables of what it exports. The engine has no modules of its own.
func runModule(t *testing.T, engine *goja.Runtime, file string) {
	t.Helper()
	bundle := api.Build(api.BuildOptions{EntryPoints: []string{file}, Bundle: true, Format: api.FormatIIFE, GlobalName: "exported"})
	for _, message := range bundle.Errors {
		t.Fatalf("%s: %s", file, message.Text)
	}
	if _, err := engine.RunScript(file, string(bundle.OutputFiles[0].Contents)); err != nil {
		t.Fatal(err)
	}
	evaluate(t, engine, "Object.assign(globalThis, exported)")
}

// setJSON sets a variable. Maps of Go itself would have no order.
func setJSON(t *testing.T, engine *goja.Runtime, name string, value any) {
	t.Helper()
	content, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Set(name, string(content)); err != nil {
		t.Fatal(err)
	}
	evaluate(t, engine, name+" = JSON.parse("+name+")")
}

func evaluate(t *testing.T, engine *goja.Runtime, script string) any {
	t.Helper()
	value, err := engine.RunString(script)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return value.Export()
}

// parseSteps reads steps, one a line. They get a number, a time and a pod if they have none.
func parseSteps(t *testing.T, lines string) []map[string]any {
	t.Helper()
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	var steps []map[string]any
	scanner := bufio.NewScanner(strings.NewReader(lines))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := strings.TrimSpace(scanner.Text())
		if line == "" {
			continue
		}
		step := map[string]any{"seq": len(steps) + 1, "time": began.Add(time.Duration(len(steps)) * time.Millisecond).Format(time.RFC3339Nano), "pod": "a"}
		if err := json.Unmarshal([]byte(line), &step); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		steps = append(steps, step)
	}
	return steps
}

func TestState(t *testing.T) {
	for _, test := range []struct{ name, steps, expression, want string }{
		{"four changes are one key", `
			{"kind":"queueAdd","key":"default/a","priority":"high","why":"added"}
			{"kind":"queueAdd","key":"default/a","priority":"high","merged":"waiting","why":"scaled"}
			{"kind":"queueAdd","key":"default/a","priority":"high","merged":"waiting"}
			{"kind":"queueAdd","key":"default/a","priority":"high","merged":"waiting"}`,
			`pod.waiting.size + " key, " + pod.waiting.get("default/a").changes + " changes"`, "1 key, 4 changes"},
		{"a key moves up to high priority, and not down", `
			{"kind":"queueAdd","key":"default/a","priority":"low"}
			{"kind":"queueAdd","key":"default/b","priority":"high"}
			{"kind":"queueAdd","key":"default/a","priority":"high","merged":"raised"}
			{"kind":"queueAdd","key":"default/b","priority":"low","merged":"waiting"}`,
			`[...pod.waiting.values()].map((item) => item.key + " " + item.priority).join()`, "default/b high,default/a high"},
		{"a key that is added while it is processed waits when that is done", `
			{"kind":"workersStarted","count":2}
			{"kind":"queueAdd","key":"default/a","priority":"high"}
			{"kind":"queueGet","key":"default/a","worker":1}
			{"kind":"queueAdd","key":"default/a","priority":"low","merged":"processing"}
			{"kind":"queueAdd","key":"default/a","priority":"low","merged":"processing"}`,
			`[pod.waiting.size, pod.processing.get("default/a").again, pod.workers[0].key,
				...((item) => [item.changes, item.priority])(labState.apply(state, [{seq: 9, kind: "queueDone", key: "default/a", pod: "a",
				merged: "processing", priority: "low", time: "2026-01-01T12:00:01Z"}]).pods.get("a").waiting.get("default/a"))].join()`, "0,2,default/a,2,low"},
		{"Forget clears the retries, and neither takes the key off the queue nor ends its processing", `
			{"kind":"workersStarted","count":2}
			{"kind":"queueGet","key":"default/a","worker":1}
			{"kind":"queueAddRateLimited","key":"default/a","delay":0.005,"retries":1}
			{"kind":"queueDone","key":"default/a","worker":1}
			{"kind":"queueReady","key":"default/a"}
			{"kind":"queueGet","key":"default/a","worker":1}
			{"kind":"queueAdd","key":"default/a","priority":"high","merged":"processing"}
			{"kind":"queueForget","key":"default/a","retries":1}`,
			`[pod.retries.size, pod.processing.has("default/a"), pod.processing.get("default/a").again].join()`, "0,true,1"},
		{"of several delays of a key with one priority the earliest counts", `
			{"kind":"queueAddAfter","key":"default/a","delay":0.5}
			{"kind":"queueAddAfter","key":"default/a","delay":1,"merged":"delayed"}
			{"kind":"queueAddAfter","key":"default/a","delay":0.4}`,
			`((item) => item.due - Date.parse("2026-01-01T12:00:00Z") + " ms, " + item.changes)([...pod.delayed.values()][0])`, "402 ms, 3"},
		{"a delay of each priority counts", `
			{"kind":"queueAddAfter","key":"default/a","delay":0.5,"priority":"high"}
			{"kind":"queueAddRateLimited","key":"default/a","delay":0.005,"retries":1,"priority":"low"}
			{"kind":"queueReady","key":"default/a","priority":"low"}`,
			`[pod.delayed.size, pod.waiting.get("default/a").priority].join()`, "1,low"},
		{"a key whose delay has elapsed waits with its changes, and moves up to high priority", `
			{"kind":"queueAddAfter","key":"default/a","delay":3,"priority":"high"}
			{"kind":"queueAddAfter","key":"default/a","delay":1,"priority":"high"}
			{"kind":"queueAdd","key":"default/a","priority":"low"}
			{"kind":"queueReady","key":"default/a","priority":"high","merged":"raised"}`,
			`[pod.delayed.size, ...((item) => [item.changes, item.priority])(pod.waiting.get("default/a"))].join()`, "0,3,high"},
		{"the cache is stale until it has the newest resourceVersion", `
			{"kind":"stored","lane":"foos","object":"default/a","resourceVersion":"99","pod":""}
			{"kind":"indexerSet","lane":"foos","object":"default/a","resourceVersion":"99"}
			{"kind":"stored","lane":"foos","object":"default/a","resourceVersion":"100","pod":""}`,
			`[labState.isStale(state, pod, "foos"), labState.isStale(state, pod, "deployments"), pod.lanes.foos.objects.get("default/a"),
				labState.isStale(labState.apply(state, [{kind: "indexerSet", lane: "foos", object: "default/a", resourceVersion: "100", pod: "a"}]), pod, "foos")].join()`, "true,false,99,false"},
		{"the loop of a write", `
			{"kind":"request","verb":"patch","resource":"deployments","object":"default/a","key":"default/a"}
			{"kind":"response","verb":"patch","resource":"deployments","object":"default/a","key":"default/a","status":200,"resourceVersion":"7","request":1}
			{"kind":"watchEvent","lane":"deployments","object":"default/a","resourceVersion":"7","eventType":"MODIFIED"}
			{"kind":"indexerSet","lane":"deployments","object":"default/a","resourceVersion":"7"}
			{"kind":"handler","lane":"deployments","object":"default/a","resourceVersion":"7","eventType":"update"}
			{"kind":"queueAdd","key":"default/a","priority":"high"}
			{"kind":"syncStart","key":"default/a","worker":1}
			{"kind":"syncEnd","key":"default/a","worker":1,"result":"success"}`,
			`labState.loops(state).map((loop) => [loop.request, loop.response, loop.event, loop.indexer, loop.handler, loop.queue, loop.sync, loop.syncEnd]).join("; ")`, "1,2,3,4,5,6,7,8"},
		{"syncs and resyncs since the last request; Lease and watches are no requests", `
			{"kind":"request","verb":"patch","resource":"deployments"}
			{"kind":"response","verb":"patch","resource":"deployments","status":200,"request":1}
			{"kind":"queueAdd","key":"default/a","priority":"low","why":"resync"}
			{"kind":"queueGet","key":"default/a","worker":1}
			{"kind":"syncStart","key":"default/a","worker":1}
			{"kind":"queueAdd","key":"default/b","priority":"high","why":"added"}
			{"kind":"queueGet","key":"default/b","worker":2}
			{"kind":"syncStart","key":"default/b","worker":2}
			{"kind":"request","verb":"update","resource":"leases"}
			{"kind":"request","verb":"watch","resource":"foos","lane":"foos"}`,
			`[pod.requests, pod.quiet.syncs, pod.quiet.resyncs].join()`, "1,2,1"},
		{"a watch that was cut, and the fault until it is healed", `
			{"kind":"watchStart","lane":"deployments"}
			{"kind":"fault","name":"cutWatch","lane":"deployments","pod":""}
			{"kind":"watchEnd","lane":"deployments","why":"cut"}
			{"kind":"watchStart","lane":"deployments"}`,
			`[labState.watchOf(state, pod, "deployments"), labState.watchOf(state, pod, "foos"), [...state.faults.keys()].join(),
				labState.watchOf(labState.apply(state, [{kind: "fault", name: "healWatch"}]), pod, "deployments")].join()`, "cut,none,cutWatch/deployments,watching"},
		{"new processes have new watches", `
			{"kind":"fault","name":"cutWatch","lane":"deployments","pod":""}
			{"kind":"fault","name":"holdWatch","lane":"foos","pod":""}
			{"kind":"fault","name":"slow","why":"milliseconds 500","pod":""}
			{"kind":"fault","name":"replicas","why":"count 2","pod":""}`,
			`[...state.faults.keys()].join()`, "slow"},
		{"a process is frozen until it is thawed or has ended, and a fault that failed is none", `
			{"kind":"podStarted"}
			{"kind":"podStarted","pod":"b"}
			{"kind":"podFrozen"}
			{"kind":"podFrozen","pod":"b"}
			{"kind":"fault","name":"thaw"}
			{"kind":"podThawed"}
			{"kind":"fault","name":"freeze","why":"pod c"}
			{"kind":"fault","name":"revoke"}
			{"kind":"fault","name":"revoke","error":"refused"}`,
			`[[...state.faults.keys()].join(), [...labState.apply(state, [{kind: "podExited", pod: "b"}]).faults.keys()].length].join()`, "freeze/b,0"},
		{"a handler has called Forget", `
			{"kind":"workersStarted","count":2}
			{"kind":"queueGet","key":"default/a","worker":1}
			{"kind":"queueAddRateLimited","key":"default/a","delay":0.005,"retries":1}
			{"kind":"queueDone","key":"default/a","worker":1}
			{"kind":"queueGet","key":"default/a","worker":1}
			{"kind":"syncStart","key":"default/a","worker":1}`,
			`String(pod.retries.size)`, "0"},
		{"a watch that has ended", `
			{"kind":"watchStart","lane":"deployments"}
			{"kind":"watchEnd","lane":"deployments"}`,
			`labState.watchOf(state, pod, "deployments")`, "ended"},
		{"the queue of a process ends with it, and another pod leads", `
			{"kind":"podStarted"}
			{"kind":"leader"}
			{"kind":"podStarted","pod":"b"}
			{"kind":"workersStarted","count":2}
			{"kind":"queueAdd","key":"default/a"}
			{"kind":"podExited"}
			{"kind":"leader","pod":"b"}`,
			`[labState.shown(state), pod.state, pod.leader, pod.waiting.size, pod.workers.length].join()`, "b,exited,false,0,0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := evaluate(t, newEngine(t, parseSteps(t, test.steps)), test.expression); got != test.want {
				t.Errorf("%s\ngot  %v\nwant %v", test.expression, got, test.want)
			}
		})
	}
}

// TestTravel checks the ways that depend on more than the kind of a step.
func TestTravel(t *testing.T) {
	const before = `{"kind":"podStarted"}
		{"kind":"workersStarted","count":2}
		{"kind":"queueGet","key":"default/a","worker":2}
		{"kind":"response","verb":"patch","resource":"deployments","object":"default/a","status":200,"resourceVersion":"8"}
		{"kind":"response","verb":"delete","resource":"deployments","object":"default/b","status":200}
		{"kind":"response","verb":"delete","resource":"deployments","object":"default/c","status":200}
		{"kind":"watchEvent","lane":"deployments","object":"default/c","eventType":"ADDED"}
		{"kind":"request","verb":"create","resource":"deployments","object":"default/written"}`
	for _, test := range []struct{ step, want string }{
		{`{"kind":"watchEvent","lane":"deployments","object":"default/a","eventType":"MODIFIED","resourceVersion":"7"}`, "watch-deployments: MODIFIED a"},
		{`{"kind":"watchEvent","lane":"deployments","object":"default/a","eventType":"MODIFIED","resourceVersion":"8"}`, "watch-deployments: ↺ MODIFIED a"},
		{`{"kind":"indexerSet","lane":"deployments","object":"default/b","eventType":"Deleted","resourceVersion":"9"}`, "set-deployments: ↺ b 9"},
		{`{"kind":"watchEvent","lane":"deployments","object":"default/c","eventType":"DELETED"}`, "watch-deployments: DELETED c"},
		{`{"kind":"watchEvent","lane":"deployments","object":"default/written","eventType":"ADDED"}`, "watch-deployments: ↺ ADDED written"},
		{`{"kind":"queueAdd","key":"default/a","lane":"deployments"}`, "add-deployments: a"},
		{`{"kind":"queueAddAfter","key":"default/a","delay":0.5,"lane":"deployments","why":"rollout of a"}`, "addAfter-deployments: a in 0.5 s"},
		{`{"kind":"queueAddAfter","key":"default/a","delay":1,"why":"stale"}`, "requeueAfter: AddAfter 1 s"},
		{`{"kind":"queueAddAfter","key":"default/a","delay":0.998765432,"why":"DeploymentRejected"}`, "requeueAfter: AddAfter 0.999 s"},
		{`{"kind":"sync","result":"read","lane":"foos","object":"default/a"}`, "read-foos: a"},
		{`{"kind":"sync","result":"same","lane":"foos","object":"default/a"}`, "worker"},
		{`{"kind":"request","verb":"update","resource":"leases"}`, "api-server"},
		{`{"kind":"watchEnd","stop":"reflector","lane":"foos"}`, "reflector-foos"},
	} {
		steps := parseSteps(t, before+"\n"+test.step)
		last := len(steps) - 1
		engine := newEngine(t, steps[:last])
		setJSON(t, engine, "step", steps[last])
		const expression = `(() => { const { arrow, stop, label } = labState.travel(state, step); return arrow ? arrow + ": " + label : stop; })()`
		if got := evaluate(t, engine, expression); got != test.want {
			t.Errorf("%s: %v, want %s", test.step, got, test.want)
		}
	}
}

// violations returns what does not hold in the steps of a real controller, whatever happens in them. Those of a variant are left out.
const violations = `(() => {
	const end = steps.findIndex((step) => step.kind === "variantEnd");
	const ofController = end < 0 ? steps : steps.slice(0, end);
	const found = [], state = labState.initial();
	// merged is what a step must say of a key that is added.
	const merged = ({ key, priority }, pod) => pod.processing.has(key) ? "processing" : !pod.waiting.has(key) ? undefined
		: priority === "high" && pod.waiting.get(key).priority === "low" ? "raised" : "waiting";
	const delayed = ({ key, priority }, pod) => [...pod.delayed.keys()].includes(key + " " + priority);
	const holdsBefore = {
		fifoPop: (step, pod) => ["object", "eventType"].every((field) => pod.lanes[step.lane].fifo[0]?.[field] === step[field]),
		handler: (step, pod) => pod.lanes[step.lane].objects.has(step.object) !== ["delete", "tombstone"].includes(step.eventType),
		queueAdd: (step, pod) => step.merged === merged(step, pod),
		queueAddAfter: (step, pod) => step.merged !== "delayed" || delayed(step, pod),
		queueAddRateLimited: (step, pod) => step.merged !== "delayed" || delayed(step, pod),
		queueReady: (step, pod) => step.merged === merged(step, pod),
		queueGet: (step, pod) => pod.waiting.has(step.key) && !pod.processing.has(step.key),
		sync: (step, pod) => pod.workers.some((worker) => worker.key === step.key),
		queueDone: (step, pod) => pod.processing.has(step.key) && pod.processing.get(step.key).again > 0 === (step.merged === "processing") && pod.workers.some((worker) => worker.key === step.key && worker.number === step.worker),
		response: (step, pod) => pod.open.has(step.request),
	};
	for (const step of ofController) {
		const { arrow, stop } = labState.travel(state, step);
		const isDrawn = new RegExp("create.." + arrow?.replace(step.lane, ".{lane}") + "\\W").test(picture);
		if (!isDrawn && !stop) found.push("no way: " + JSON.stringify(step));
		if (holdsBefore[step.kind]?.(step, state.pods.get(step.pod)) === false) found.push("not before: " + JSON.stringify(step));
		labState.apply(state, [step]);
	}
	const pod = state.pods.get(labState.shown(state));
	for (const lane of labState.lanes) {
		const [cached, stored] = [pod.lanes[lane].objects, state.stored[lane]].map((objects) => JSON.stringify([...objects].sort()));
		if (cached !== stored || labState.isStale(state, pod, lane)) found.push("the cache has " + cached + ", the API server " + stored);
	}
	if (pod.waiting.size + pod.processing.size > 0) return found.join("\n"); // The last loops are not complete.
	const isDecision = (step) => ["queueAdd", "queueAddAfter", "notEnqueued"].includes(step.kind) && step.lane;
	for (const loop of labState.loops(state)) {
		const decision = ofController.find((step) => step.seq > loop.handler && step.pod === loop.pod && isDecision(step))?.seq;
		const sync = ofController.find((step) => step.seq > loop.queue && step.kind === "syncStart" && step.key === loop.key && step.pod === loop.queuePod)?.seq;
		if (!loop.request || !loop.event || !loop.indexer || decision !== (loop.queue || loop.notQueued) || sync !== loop.sync || sync && !loop.syncEnd) {
			found.push("the loop " + JSON.stringify(loop));
		}
	}
	return found.join("\n");
})()`

// TestRecording checks what must hold in recordings of real runs.
func TestRecording(t *testing.T) {
	all := []string{recording}
	for _, v := range catalogue(t) {
		all = append(all, recordingOf(v))
	}
	picture, err := os.ReadFile("../page/picture.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, recording := range all {
		t.Run(filepath.Base(recording), func(t *testing.T) {
			content, err := os.ReadFile(recording)
			if err != nil {
				t.Fatal(err)
			}
			engine := newEngine(t, parseSteps(t, string(content)))
			setJSON(t, engine, "picture", string(picture))
			if found := evaluate(t, engine, violations); found != "" {
				t.Error(found)
			}
		})
	}
}
