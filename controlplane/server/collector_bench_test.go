package server

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// yes is a store that commits every transaction.
type yes struct{ controlplane.Store }

func (yes) Limits() controlplane.Limits { return controlplane.Limits{Ops: 4096, Bytes: 1536 << 10} }

func (yes) Commit(context.Context, controlplane.Txn) (controlplane.Result, error) {
	return controlplane.Result{Committed: true}, nil
}

// life returns the events of a task for the collector: it comes, is bound, runs and ends.
func life(i int, spec string) []controlplane.Event {
	id := fmt.Sprintf("web-%010d", i)
	key, statusKey := controlplane.TaskKey("team", id), controlplane.StatusKey("team", id)
	rev := int64(10 * i)
	event := func(key string, m types.Message) controlplane.Event {
		rev++
		return controlplane.Event{KV: controlplane.KV{Key: key, Value: types.Encode(7, m), CreateRevision: rev, ModRevision: rev}}
	}
	status := types.Status{Phase: types.Bound, Attempt: 1, Node: "node-00017", Bound: 1000}
	events := []controlplane.Event{
		event(key, &types.Task{Name: "web", Spec: spec, Submitted: 999, Requests: types.Requests{{Name: "cpu", Amount: 100}, {Name: "memory", Amount: 1 << 20}}}),
		event(statusKey, &status),
	}
	status.Phase = types.Running
	events = append(events, event(statusKey, &status))
	status.Phase, status.Ended = types.Succeeded, now().UnixNano()+int64(i)
	return append(events, event(statusKey, &status))
}

// gone returns the events of a deleted task.
func gone(i int) []controlplane.Event {
	id := fmt.Sprintf("web-%010d", i)
	return []controlplane.Event{
		{Delete: true, KV: controlplane.KV{Key: controlplane.TaskKey("team", id), ModRevision: 1 << 40}},
		{Delete: true, KV: controlplane.KV{Key: controlplane.StatusKey("team", id), ModRevision: 1 << 40}},
	}
}

func benchCollector(tb testing.TB, retained int) *Collector {
	c, err := NewCollector(yes{}, nil, DefaultPolicy(), nil, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	for i := range retained {
		for _, e := range life(1_000_000+i, "digest") {
			c.index.apply(e, now())
		}
	}
	return c
}

// BenchmarkCollectTask measures all the work of the collector for a task: its events, the decision,
// the deletion, and the events of that.
func BenchmarkCollectTask(b *testing.B) {
	c := benchCollector(b, 0)
	const each = 4096
	lives, ends := make([][]controlplane.Event, each), make([][]controlplane.Event, each)
	for i := range each {
		lives[i], ends[i] = life(i, "digest"), gone(i)
	}
	b.ReportAllocs()
	for n := 0; n < b.N; n += each {
		for i := range min(each, b.N-n) {
			for _, e := range lives[i] {
				c.index.apply(e, now())
			}
		}
		l := pass{index: c.index, policy: c.policy, now: now().Add(2 * time.Hour), revision: 1 << 40, limit: each, recorded: 1 << 40}
		steps, _ := l.decide()
		if undone, err := c.perform(b.Context(), steps); err != nil || len(undone) > 0 || len(steps) != min(each, b.N-n) {
			b.Fatal(len(steps), len(undone), err)
		}
		for i := range steps {
			for _, e := range ends[i] {
				c.index.apply(e, now())
			}
		}
	}
}

// BenchmarkCollectNothing measures a pass without work over a million ended tasks.
func BenchmarkCollectNothing(b *testing.B) {
	c := benchCollector(b, 1_000_000)
	c.policy.KeepNumber = 2_000_000
	b.ReportAllocs()
	for b.Loop() {
		l := pass{index: c.index, policy: c.policy, now: now(), revision: 1 << 40, limit: maxSteps, recorded: 1 << 40}
		if steps, _ := l.decide(); len(steps) > 0 {
			b.Fatal(len(steps))
		}
	}
}

// TestEndedTasksAreSmall checks the memory of an ended task.
func TestEndedTasksAreSmall(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const n = 50_000
	before := heap()
	c := benchCollector(t, n)
	each := (heap() - before) / n
	runtime.KeepAlive(c)
	t.Logf("%d bytes a task", each)
	if each > 250 {
		t.Errorf("a task that has ended takes %d bytes, want 250 at most", each)
	}
}
