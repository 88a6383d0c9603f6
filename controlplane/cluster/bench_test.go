package cluster_test

import (
	"runtime"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/cluster/clustertest"
)

// live returns the bytes in use.
func live() int64 {
	runtime.GC()
	runtime.GC() // frees what the first one finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// copied returns copies of events that share no memory with them, like those of a store.
func copied(events []controlplane.Event) []controlplane.Event {
	out := make([]controlplane.Event, len(events))
	for i, e := range events {
		out[i] = e
		out[i].Key, out[i].Value = string([]byte(e.Key)), append([]byte(nil), e.Value...)
	}
	return out
}

// fill applies events in parts, as they come.
func fill(t testing.TB, v *cluster.View, events []controlplane.Event) {
	t.Helper()
	const part = 1000
	for i := 0; i < len(events); i += part {
		for _, e := range copied(events[i:min(i+part, len(events))]) {
			if _, _, err := v.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestViewMemory checks that a million tasks fit into the memory of a scheduler: bound, each
// waiting for a resource of its own, or ended.
func TestViewMemory(t *testing.T) {
	const tasks = 20_000
	for _, test := range []struct {
		name    string
		kvs     []controlplane.KV
		room    int64
		compact bool
	}{
		{"bound", clustertest.Bound(tasks/100, tasks), 600, false},
		{"waiting", clustertest.Waiting(tasks), 710, false},
		{"compacted", clustertest.Waiting(tasks), 330, true},
		{"ended", clustertest.Ended(tasks), 400, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			events := clustertest.Events(test.kvs)
			before := live()
			v := cluster.New()
			fill(t, v, events)
			for task := range v.Tasks() {
				if test.compact {
					v.Compact(task)
				}
			}
			size := (live() - before) / tasks
			runtime.KeepAlive(events)
			if v.NumTasks() != tasks {
				t.Fatalf("%d tasks", v.NumTasks())
			}
			if t.Logf("%d bytes for each task", size); size > test.room {
				t.Errorf("%d bytes for each task, at most %d are to be", size, test.room)
			}
		})
	}
}

// BenchmarkApply measures a new change, and a change that was applied ahead of the watch.
func BenchmarkApply(b *testing.B) {
	events := clustertest.Events(clustertest.Bound(1000, 100_000))
	b.Run("news", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; i < b.N; {
			b.StopTimer()
			v, fresh := cluster.New(), copied(events)
			b.StartTimer()
			for k := 0; k < len(fresh) && i < b.N; k, i = k+1, i+1 {
				if _, _, err := v.Apply(fresh[k]); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("known", func(b *testing.B) {
		v := cluster.New()
		fill(b, v, events)
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			if _, _, err := v.Apply(events[i%len(events)]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
