package usage

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/measured"
)

// world is a node whose containers use half a core each.
type world struct {
	*Sampler
	logs *observer.ObservedLogs

	mu      sync.Mutex
	running map[string]nodeagent.Workload
	// hung are containers whose counters cannot be read until the channel is closed, broken those
	// whose reads fail.
	hung   map[string]chan struct{}
	broken map[string]error
	reads  map[string]int
}

// inBubble runs f with a running sampler.
func inBubble(t *testing.T, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.WarnLevel)
		w := &world{
			logs: logs, running: make(map[string]nodeagent.Workload), hung: make(map[string]chan struct{}),
			broken: make(map[string]error), reads: make(map[string]int),
		}
		var err error
		w.Sampler, err = New(Config{Node: "n", Workloads: w.Workloads, Usage: w.Usage, Proc: "testdata/proc", Sys: "testdata/sys", Metrics: NewMetrics(), Log: zap.New(core)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		defer func() {
			stop()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v", err)
			}
			for _, h := range w.hung { // Nothing is left behind in the bubble.
				close(h)
			}
		}()
		f(t, w)
	})
}

// run starts a container.
func (w *world) run(id string) {
	w.set(func() {
		w.running[id] = nodeagent.Workload{Attempt: nodeagent.Attempt{Namespace: "x", Task: id, Number: 1}, Started: time.Now()}
	})
}

func (w *world) set(edit func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	edit()
}

func (w *world) Workloads() map[string]nodeagent.Workload {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.running)
}

func (w *world) Usage(_ context.Context, id string) (cgroup.Stat, error) {
	w.mu.Lock()
	hung, err, started := w.hung[id], w.broken[id], w.running[id].Started
	w.reads[id]++
	w.mu.Unlock()
	if hung != nil {
		<-hung
	}
	if err != nil {
		return cgroup.Stat{}, err
	}
	return cgroup.Stat{CPU: &cgroup.CPU{Used: time.Since(started) / 2}}, nil
}

// readsOf returns how often a container was read.
func (w *world) readsOf(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reads[id]
}

// pass lets time pass, and waits for its effects.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// uses returns the last known usage of a task; nil if there is none.
func (w *world) uses(id string) *measured.Task {
	for _, u := range w.known(time.Time{}) {
		if u.Task == id {
			return &u
		}
	}
	return nil
}

func TestSamples(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.run("a")
		pass(time.Minute)
		u := w.uses("a")
		if u == nil || u.CPUMilli == nil || *u.CPUMilli != 500 || u.OverSeconds != 15 || u.MemoryBytes != nil {
			t.Fatalf("%+v, want half a core over 15 s", u)
		}
		if n := w.readsOf("a"); n > 5 {
			t.Errorf("read %d times in a minute without a reader", n)
		}
		before := w.readsOf("a")
		for range 600 {
			w.Tasks(t.Context(), time.Time{})
			pass(time.Second)
		}
		if n := w.readsOf("a") - before; n < 500 || n > 610 {
			t.Errorf("read %d times in ten minutes with a reader each second", n)
		}
		if all := w.known(time.Unix(1, 0)); len(all[0].History) < 50 || len(all[0].History) > 125 {
			t.Errorf("%d samples are known, want some of 5 minutes", len(all[0].History))
		}
		n := w.knownNode(time.Unix(1, 0))
		if n.Node != "n" || n.Tasks.Running != 1 || *n.Tasks.CPUMilli != 500 || len(n.History) < 50 || n.Pressure == nil || n.Processors < 1 {
			t.Errorf("the node: %+v", n)
		}
		w.set(func() { delete(w.running, "a") })
		if u := w.uses("a"); u != nil || w.failures() != 0 {
			t.Errorf("%+v after its end, %d failures", u, w.failures())
		}
	})
}

// TestAsked tests that a query gets current usage, and that frequent queries do not cause more
// reads.
func TestAsked(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		pass(time.Second)
		w.run("a")
		pass(time.Second)
		all := w.Tasks(t.Context(), time.Time{})
		if len(all) != 1 || all[0].CPUMilli == nil || *all[0].CPUMilli != 500 || !all[0].At.Equal(time.Now()) {
			t.Errorf("%+v, want half a core, now", all)
		}
		for range 100 {
			w.Tasks(t.Context(), time.Time{})
			w.Node(t.Context(), time.Time{})
		}
		synctest.Wait()
		if n := w.readsOf("a"); n > 2 {
			t.Errorf("read %d times at once", n)
		}
	})
}

// TestAskedOfWhatIsNew tests a query right after the last sample, with a container started since.
func TestAskedOfWhatIsNew(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		pass(time.Second)
		w.Tasks(t.Context(), time.Time{})
		pass(100 * time.Millisecond)
		w.run("a")
		if all := w.Tasks(t.Context(), time.Time{}); len(all) != 1 {
			t.Errorf("%+v, want what runs", all)
		}
	})
}

// TestHungRead tests a read that does not return: neither queries nor other tasks wait for it. It
// is logged once, and not repeated until it returns.
func TestHungRead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.set(func() { w.hung["a"] = make(chan struct{}) })
		w.run("a")
		w.run("b")
		pass(time.Minute)
		begin := time.Now()
		w.Tasks(t.Context(), time.Time{})
		if took := time.Since(begin); took > patience {
			t.Errorf("who asks waited %s", took)
		}
		if u := w.uses("b"); u == nil || u.CPUMilli == nil || time.Since(u.At) > 5*time.Second {
			t.Errorf("of the other task: %+v", u)
		}
		if w.uses("a") != nil || w.readsOf("a") != 1 || w.failures() < 4 {
			t.Errorf("%+v of the task that hangs, read %d times, %d failures", w.uses("a"), w.readsOf("a"), w.failures())
		}
		if n := w.logs.Len(); n != 1 {
			t.Errorf("said %d times: %v", n, w.logs.All())
		}
		w.set(func() {
			close(w.hung["a"])
			delete(w.hung, "a")
		})
		pass(30 * time.Second)
		if u := w.uses("a"); u == nil || u.CPUMilli == nil {
			t.Errorf("after that: %+v", u)
		}
		// A read that hangs at the end is left behind.
		w.set(func() { w.hung["b"] = make(chan struct{}) })
		pass(15 * time.Second)
	})
}

func TestFailedReads(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.run("a")
		w.run("b")
		pass(20 * time.Second)
		w.set(func() {
			w.broken["a"] = types.Errorf(types.Unavailable, "the disk is on fire")
			// It has ended, and the agent does not know that yet.
			w.broken["b"] = types.Errorf(types.NotFound, "there is none")
		})
		pass(time.Minute)
		if n := w.logs.Len(); n != 1 || w.failures() != 4 {
			t.Errorf("said %d times, %d failures; want those of the one that failed: %v", n, w.failures(), w.logs.All())
		}
		if u := w.uses("a"); u == nil || time.Since(u.At) < 45*time.Second {
			t.Errorf("%+v, want what was known before", u)
		}
		w.set(func() { clear(w.broken) })
		pass(15 * time.Second)
		w.set(func() { w.broken["a"] = types.Errorf(types.Unavailable, "once more") })
		pass(15 * time.Second)
		if n := w.logs.Len(); n != 2 {
			t.Errorf("said %d times, want once more: %v", n, w.logs.All())
		}
	})
}

func TestValidateEvery(t *testing.T) {
	for _, wrong := range []time.Duration{0, -time.Second, time.Millisecond, time.Hour} {
		if err := ValidateEvery(wrong); !types.Is(err, types.Invalid) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	if _, err := New(Config{Every: time.Millisecond}); !types.Is(err, types.Invalid) {
		t.Error(err)
	}
}
