// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"k8s.io/sample-controller/hack/learn/variants"
)

// recordEntry is a test that is added to the main package of the controller instead of its own tests, so that what the page plays without a live
// lab is recorded from the program itself.
const recordEntry = `package main

import (
	"cmp"
	"context"
	"embed"
	"net/http"
	"os"
	"testing"

	"k8s.io/sample-controller/hack/learn/lab/record"
	"k8s.io/sample-controller/pkg/options"
)

//go:embed *.go pkg/*/*.go artifacts/examples/crd.yaml
var sources embed.FS

func TestRecord(t *testing.T) {
	record.Main(t, sources, func(ctx context.Context, flags []string, transport http.RoundTripper) error {
		o, err := options.Parse(flags, os.Stderr)
		if err != nil {
			return err
		}
		config, namespace, err := o.ClientConfig()
		if err != nil {
			return err
		}
		o.Election.Namespace = cmp.Or(o.Election.Namespace, namespace)
		config.Transport = transport
		return run(ctx, config, o)
	})
}
`

// offline is the scenario of the recording that is played where there is no live lab.
//
//go:embed scenario.json
var offline []byte

// recordingFile returns the file of a recording, by the ID of its variant. The one that is played where there is no live lab has none.
func recordingFile(id string) string {
	if id == "" {
		return "recording.jsonl"
	}
	return filepath.Join("variants", id+".jsonl")
}

// recordAll writes all recordings.
func (b *builder) recordAll(ctx context.Context) error {
	fmt.Fprintln(os.Stderr, "Recording the lab.")
	ids := []string{""}
	for _, v := range b.variants {
		ids = append(ids, v.ID)
	}
	for _, id := range ids {
		if _, err := b.record(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// record writes a recording, unless it has done so before, and returns the path of the file. That of a variant has what the controller does in
// its scenario, and then what the variant does. The error is fs.ErrNotExist if there is no such variant.
func (b *builder) record(ctx context.Context, id string) (string, error) {
	b.recording.Lock()
	defer b.recording.Unlock()
	path := filepath.Join(b.dir, recordingFile(id))
	if b.recorded[id] {
		return path, nil
	}
	play := func() ([]byte, error) { return b.play(ctx, "controller", nil, offline) }
	if id != "" {
		play = func() ([]byte, error) { return b.playBoth(ctx, id) }
	}
	recording, err := play()
	if err != nil {
		return "", err
	}
	written := path + ".new" // Whoever reads the file has all of it.
	if err := os.WriteFile(written, recording, 0o644); err != nil {
		return "", err
	}
	b.recorded[id] = true
	return path, os.Rename(written, path)
}

// playBoth plays the scenario of a variant.
func (b *builder) playBoth(ctx context.Context, id string) (recording []byte, err error) {
	n := slices.IndexFunc(b.variants, func(v variants.Variant) bool { return v.ID == id })
	if n < 0 {
		return nil, fs.ErrNotExist
	}
	v := b.variants[n]
	changed, err := v.Files(b.root)
	if err != nil {
		return nil, err
	}
	var last []byte
	for _, side := range []struct {
		name, program string
		files         map[string][]byte
	}{{"controller", "controller", nil}, {"variant", id, changed}} {
		scenario, err := json.Marshal(map[string]any{
			"variant": id, "side": side.name, "flags": v.Scenario.Flags, "steps": v.Scenario.Steps, "after": json.RawMessage(last),
		})
		if err != nil {
			return nil, err
		}
		steps, err := b.play(ctx, side.program, side.files, scenario)
		if err != nil {
			return nil, err
		}
		recording = append(recording, steps...)
		last = steps[bytes.LastIndexByte(bytes.TrimSpace(steps), '\n')+1:]
	}
	return recording, nil
}

// play plays a scenario on a program, the controller with changed files, and returns the steps.
func (b *builder) play(ctx context.Context, name string, files map[string][]byte, scenario []byte) ([]byte, error) {
	all := map[string][]byte{"controller_test.go": []byte(recordEntry)}
	maps.Copy(all, files)
	// The same files in the same place are compiled once.
	overlay, err := variants.Overlay(b.root, filepath.Join(b.dir, "record", name), all)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "record-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program, input, output := filepath.Join(dir, "record.test"), filepath.Join(dir, "scenario.json"), filepath.Join(dir, "recording.jsonl")
	if err := os.WriteFile(input, scenario, 0o644); err != nil {
		return nil, err
	}
	if err := variants.BuildSimulation(ctx, b.root, overlay, program); err != nil {
		return nil, err
	}
	record := exec.CommandContext(ctx, program, "-test.run=^TestRecord$", "-test.timeout=5m", "-scenario="+input, "-output="+output)
	record.Dir, record.Env = b.root, append(os.Environ(), "KUBECONFIG=") // The credentials of a user's cluster do not fit the lab's transport.
	if text, err := record.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("recording: %w\n%s", err, text)
	}
	return os.ReadFile(output)
}
