package nodeagent_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// fire is a runtime that fails at random, and the tasks that suffer from it.
type fire struct {
	*bench
	mu     sync.Mutex
	random *rand.Rand
	// calm tells that nothing goes wrong any more; down that the runtime is down.
	calm, down bool
	// lost are the tasks of which a process was lost.
	lost map[string]bool
	// ids are the containers of the tasks.
	ids map[string]string
}

// TestUnderFire lets every call of the runtime fail at random, before it was done or
// after, takes the runtime down, kills processes unseen, and the agent: no process of an
// attempt runs twice, no end is reported of what runs, or of a code that it did not have,
// and all ends come to be reported.
func TestUnderFire(t *testing.T) {
	for seed := range uint64(25) {
		synctest.Test(t, func(t *testing.T) { underFire(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func underFire(t *testing.T, seed uint64) {
	const tasks = 12
	f := &fire{random: rand.New(rand.NewPCG(seed, seed)), lost: make(map[string]bool), ids: make(map[string]string), calm: true}
	f.bench = newBench(t, simruntime.Config{Script: script, Fault: func(simruntime.Op, string) simruntime.Fault { return f.fault() }})
	f.start()
	f.pass(3 * time.Second)
	f.setCalm(false)
	for i := range tasks {
		task := fmt.Sprintf("t%d", i)
		if i%3 == 0 {
			f.ids[task] = f.bind(task, f.runs(func(s *types.Spec) { s.Restart = &types.Restart{When: types.RestartOnFailure, Limit: 2} }))
		} else {
			f.ids[task] = f.bind(task)
		}
		f.disturb()
	}
	for range 20 {
		f.disturb()
	}
	f.setCalm(true)
	f.runtime.SetDown(false)
	f.pass(time.Minute)
	for task := range f.ids {
		if f.report(task).Phase != types.ReportExited && codeOf(task)%4 == 1 { // it runs for ever
			f.stop(task, types.Stop{Reason: "enough", Grace: time.Second})
		}
	}
	f.pass(time.Minute)
	f.look(true)
	for task := range f.ids {
		f.release(task)
	}
	f.pass(time.Minute)
	f.crash()
	f.once()
	f.honest()
	if left := f.left(); left != 0 {
		t.Errorf("%d containers are left", left)
	}
}

// script has every task run for a time and end with a code, both its own; a fourth of
// them run for ever.
func script(c nodeagent.Container) (simruntime.Behaviour, error) {
	code := codeOf(c.Attempt.Task)
	return simruntime.Behaviour{
		Forever: code%4 == 1, Run: time.Duration(code) * time.Second / 2, Code: code, StopAfter: time.Second / 2, StopCode: code,
	}, nil
}

// codeOf is what a task ends with: t7 with 8.
func codeOf(task string) int {
	var n int
	_, _ = fmt.Sscanf(task, "t%d", &n)
	return n + 1
}

func (f *fire) setCalm(calm bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calm = calm
}

// intn returns a number below n.
func (f *fire) intn(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.IntN(n)
}

// fault says what goes wrong with a call.
func (f *fire) fault() simruntime.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calm {
		return simruntime.NoFault
	}
	return []simruntime.Fault{simruntime.NoFault, simruntime.NoFault, simruntime.Refused, simruntime.Unanswered}[f.random.IntN(4)]
}

// disturb lets some time pass and something happen.
func (f *fire) disturb() {
	f.t.Helper()
	f.pass(time.Duration(f.intn(1500)) * time.Millisecond)
	switch f.intn(6) {
	case 0:
		f.down = !f.down
		f.runtime.SetDown(f.down)
	case 1:
		f.crash()
		f.start()
	case 2:
		if running := f.runtime.Running(); len(running) > 0 {
			id := running[f.intn(len(running))]
			for task, of := range f.ids {
				if of == id {
					f.lost[task] = true
				}
			}
			if err := f.runtime.Lose(id); err != nil {
				f.t.Error(err)
			}
		}
	}
	f.look(false)
}

// look compares what is reported with what is so; in the end, all is.
func (f *fire) look(end bool) {
	f.t.Helper()
	running := f.runtime.Running()
	for task, id := range f.ids {
		r := f.report(task)
		switch {
		case r.Phase != types.ReportExited:
			if end {
				f.t.Errorf("the end of %s is not reported: %+v", task, r)
			}
		case slices.Contains(running, id):
			f.t.Errorf("the end of %s is reported, and it runs: %+v", task, r)
		case r.Fenced && !f.lost[task] || r.ExitCode != codeOf(task) && !r.Fenced && !(f.lost[task] && r.Stopped):
			f.t.Errorf("the end of %s is reported as %+v, want code %d", task, r, codeOf(task))
		}
	}
}

// silent is a runtime whose hints are all lost.
type silent struct{ *simruntime.Runtime }

func (silent) Changes(ctx context.Context) <-chan struct{} {
	never := make(chan struct{})
	context.AfterFunc(ctx, func() { close(never) })
	return never
}

// TestHintsAreLost has a container appear that nobody is bound to, as of a start that was
// given up and came to its end late, and no hint of it.
func TestHintsAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, simruntime.Config{})
		b.cfg.Runtime = silent{b.runtime}
		b.start()
		b.pass(time.Minute)
		at := nodeagent.Attempt{Cluster: "c", Node: "n1", Namespace: "d", Task: "late", Number: 1, Revision: 3}
		if _, err := b.runtime.Start(t.Context(), nodeagent.Container{ID: nodeagent.ContainerID(at), Attempt: at}); err != nil {
			t.Fatal(err)
		}
		b.alive(1)
		b.pass(time.Minute)
		b.alive(0)
		b.crash()
	})
}
