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

// fire is a runtime that fails at random, and the tasks affected.
type fire struct {
	*bench
	mu     sync.Mutex
	random *rand.Rand
	// calm reports whether faults have ended; down, whether the runtime is down.
	calm, down bool
	// lost are the tasks with a lost process.
	lost map[string]bool
	// ids are the containers of the tasks.
	ids map[string]string
}

// TestUnderFire makes calls of the runtime fail at random, before or after they are done. It also
// takes the runtime down, and kills processes and the agent. No process of an attempt runs twice,
// no running process is reported as ended, no report has a wrong exit code, and all ends are
// reported.
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
		if f.report(task).Phase != types.ReportExited && codeOf(task)%4 == 1 { // it runs forever
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

// script makes each task run for its own time and exit with its own code; a fourth of them run
// forever.
func script(c nodeagent.Container) (simruntime.Behaviour, error) {
	code := codeOf(c.Attempt.Task)
	return simruntime.Behaviour{
		Forever: code%4 == 1, Run: time.Duration(code) * time.Second / 2, Code: code, StopAfter: time.Second / 2, StopCode: code,
	}, nil
}

// codeOf returns the exit code of a task: 8 for t7.
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

// fault returns the fault of a call.
func (f *fire) fault() simruntime.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calm {
		return simruntime.NoFault
	}
	return []simruntime.Fault{simruntime.NoFault, simruntime.NoFault, simruntime.Refused, simruntime.Unanswered}[f.random.IntN(4)]
}

// disturb lets some time pass, and then causes a random event.
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

// look compares the reports with the containers; at the end, all must have ended.
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

// silent is a runtime that loses all hints.
type silent struct{ *simruntime.Runtime }

func (silent) Changes(ctx context.Context) <-chan struct{} {
	never := make(chan struct{})
	context.AfterFunc(ctx, func() { close(never) })
	return never
}

// TestHintsAreLost makes a container without a binding appear, like that of a canceled start that
// finished late, without a hint.
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
