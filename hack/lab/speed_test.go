// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"k8s.io/sample-controller/hack/cluster"
	"k8s.io/sample-controller/hack/cluster/faults"
)

// BenchmarkFoos measures how long 1,000 Foos take until all have a status, in turns behind a proxy that records nothing, with the default
// log, and in the lab while no page is open; and the CPU time of the controller and of this process, which has the proxy and creates the
// Foos.
func BenchmarkFoos(b *testing.B) {
	for round := range 3 {
		b.Run(fmt.Sprintf("round=%d/lab=false", round+1), func(b *testing.B) { benchmarkFoos(b, startPlain) })
		b.Run(fmt.Sprintf("round=%d/lab=true", round+1), func(b *testing.B) { benchmarkFoos(b, startUnwatched) })
	}
}

// startPlain runs the controller behind a proxy. It returns the process ID of the controller.
func startPlain(b *testing.B, l *lab) (pid int) {
	var err error
	if l.cluster, err = cluster.Start(b.Context(), cluster.Options{BinDir: l.binDir}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.cluster.Stop() })
	if err := l.prepare(b.Context()); err != nil {
		b.Fatal(err)
	}
	kubeconfig, err := l.cluster.KubeconfigFor(user)
	if err != nil {
		b.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		b.Fatal(err)
	}
	proxy, err := faults.Start(config, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(proxy.Close)
	proxy.DiscardRequests()
	proxied := filepath.Join(b.TempDir(), "kubeconfig")
	if err := proxy.WriteKubeconfig(proxied); err != nil {
		b.Fatal(err)
	}
	command := l.cluster.Command(b.Context(), filepath.Join(l.binDir, "sample-controller"), "-kubeconfig="+proxied)
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	return command.Process.Pid
}

// startUnwatched runs a lab that nobody looks at.
func startUnwatched(b *testing.B, l *lab) (pid int) {
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	for !l.isLive() {
		time.Sleep(10 * time.Millisecond) // The state is polled.
	}
	return l.instances[0].process.Pid
}

func benchmarkFoos(b *testing.B, start func(*testing.B, *lab) int) {
	const count, creators = 1000, 8
	l, err := newLab(root)
	if err != nil {
		b.Fatal(err)
	}
	pid := start(b, l)
	synced := func() (synced int) {
		list, err := l.sampleClient.SamplecontrollerV1alpha1().Foos(namespace).List(b.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			b.Fatal(err)
		}
		for _, foo := range list.Items {
			if foo.Status.ObservedGeneration == foo.Generation {
				synced++
			}
		}
		return synced
	}
	create := func(name string) {
		if err := l.create(b.Context(), name, name, 1, nil); err != nil {
			b.Error(err)
		}
	}
	waitFor := func(count int) {
		for synced() < count && !b.Failed() {
			time.Sleep(100 * time.Millisecond) // The API server is polled.
		}
	}
	create("first")
	waitFor(1)

	controller, own := processTime(b, pid), ownTime(b)
	b.ResetTimer()
	var creating sync.WaitGroup
	for n := range creators {
		creating.Go(func() {
			for i := n; i < count; i += creators {
				create(fmt.Sprintf("many-%04d", i))
			}
		})
	}
	creating.Wait()
	waitFor(count + 1)
	b.StopTimer()
	b.ReportMetric(b.Elapsed().Seconds(), "s")
	b.ReportMetric(float64((processTime(b, pid)-controller).Microseconds())/1000/count, "controller-ms/Foo")
	b.ReportMetric(float64((ownTime(b)-own).Microseconds())/1000/count, "lab-ms/Foo")
	b.ReportMetric(0, "ns/op")
}

// ownTime returns the CPU time of this process.
func ownTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// processTime returns the CPU time of another process, which only Linux tells.
func processTime(b *testing.B, pid int) time.Duration {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(content), ") ") // The name of the program may have spaces.
	fields := strings.Fields(after)
	const first, last, ticks = 11, 12, 100
	var sum int
	for _, field := range fields[first : last+1] {
		number, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		sum += number
	}
	return time.Duration(sum) * time.Second / ticks
}
