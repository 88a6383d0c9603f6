package scheduler

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster/clustertest"
)

// Every garbage collection pays again for the memory of each task. The benchmark reports its size,
// its number of objects, and the CPU time of one collection.

// BenchmarkCoreHeap: waiting tasks, each for a missing resource of its own, and bound tasks.
func BenchmarkCoreHeap(b *testing.B) {
	b.Run("waiting", func(b *testing.B) {
		for b.Loop() {
			before := inUse()
			r := newRig(Config{Limits: benchLimits[0], Seed: 1})
			r.nodes(100, kinds())
			r.tasks("waiting", lightly(million, func(i int) string { return fmt.Sprintf("w%d", i) }))
			r.job("waiting")
			r.run(b)
			if n := r.core.Waiting(); n != million {
				b.Fatalf("%d wait", n)
			}
			r.keys, r.echoes = nil, nil
			reportHeap(b, before)
			runtime.KeepAlive(r)
		}
	})
	b.Run("bound", func(b *testing.B) {
		for b.Loop() {
			before := inUse()
			core := New(Config{Limits: benchLimits[0]})
			hear(core, clustertest.Events(clustertest.Bound(million/100, million)))
			reportHeap(b, before)
			runtime.KeepAlive(core)
		}
	})
}

// hear passes a listing to a core, in parts.
func hear(core *Core, events []controlplane.Event) {
	const part = 5000
	now := time.Unix(1000, 0)
	for i := 0; i < len(events); i += part {
		core.ApplyUpdate(controlplane.Update{Events: events[i:min(i+part, len(events))], Synced: true, More: true}, now)
	}
	core.ApplyUpdate(controlplane.Update{Revision: 1 << 30, Synced: true}, now)
}

// inUse returns the memory statistics after garbage collection.
func inUse() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}

func reportHeap(b *testing.B, before runtime.MemStats) {
	after := inUse()
	const turns = 3
	start := processTime(b)
	for range turns {
		runtime.GC()
	}
	took := processTime(b) - start
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/million, "heap-B/task")
	b.ReportMetric(float64(after.HeapObjects-before.HeapObjects)/million, "objects/task")
	b.ReportMetric(float64(took)/turns/million, "collect-ns/task")
	b.ReportMetric(0, "ns/op")
}

// processTime returns the CPU time of the process, in nanoseconds.
func processTime(b *testing.B) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		b.Fatal(err)
	}
	return ts.Nano()
}
