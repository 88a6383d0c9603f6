package nodeagent

import (
	"context"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
)

const (
	// hintGap is the least time between two lists because of hints. Hints are not urgent: the agent
	// waits for the end of every process anyway.
	hintGap = 5 * time.Second
	// lookEvery is the least time between two lists without a hint. Up to as much again is added,
	// so that nodes do not list in step.
	lookEvery = 30 * time.Second
	// callTimeout limits one runtime call that should be short.
	callTimeout = 30 * time.Second
	// failedGap is the least time after a failed list: many tasks request the next one while the
	// runtime is away.
	failedGap = 100 * time.Millisecond
)

// observe keeps the known state of the containers up to date. It lists the containers on request,
// on a hint of the runtime, after a lost connection to the runtime, and at intervals.
func (a *Agent) observe(ctx context.Context) error {
	retry := controlplane.RetryPolicy()
	changes := a.cfg.Runtime.Changes(ctx)
	var last time.Time
	away := false // whether the last list failed; logged once
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case _, ok := <-changes:
			if ok {
				timer.Reset(max(0, time.Until(last.Add(hintGap))))
				continue
			}
			if err := supervise.Pause(ctx, retry.NextBackOff()); err != nil {
				return err
			}
			changes = a.cfg.Runtime.Changes(ctx)
		case <-a.look:
		case <-timer.C:
		}
		looked, err := a.lookNow(ctx)
		switch {
		case err != nil && !away:
			a.log.Warn("the runtime does not list its containers", zap.Error(err))
		case looked && away:
			a.log.Info("the runtime lists its containers again")
		}
		if looked {
			retry.Reset()
		}
		if away = err != nil || away && !looked; err != nil {
			if err := supervise.Pause(ctx, failedGap); err != nil {
				return err
			}
		}
		last = time.Now()
		timer.Reset(lookEvery + rand.N(lookEvery))
	}
}

// lookNow lists the containers of the runtime and updates the tasks. It reports whether it did: not
// before the agent knows the bindings, and not after ctx has ended.
func (a *Agent) lookNow(ctx context.Context) (bool, error) {
	before, synced := a.generations()
	if !synced {
		return false, nil // The agent must not act on the list yet.
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := a.cfg.Runtime.List(call)
	if ctx.Err() != nil {
		return false, nil
	}
	if err != nil {
		a.lookFailed(err)
		return false, err
	}
	a.found(list, before)
	return true, nil
}

// generations returns the generation of every task. A later list is valid only for tasks whose
// generation has not changed.
func (a *Agent) generations() (map[string]int, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make(map[string]int, len(a.tasks))
	for id, t := range a.tasks {
		out[id] = t.generation
	}
	return out, a.synced
}

func (a *Agent) lookFailed(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.tasks {
		if t.seen.Looking {
			t.seen.Looking = false
			t.failed(err)
			t.poke()
		}
	}
}

// found applies a list of the runtime's containers.
func (a *Agent) found(list []Observed, before map[string]int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	listed := make(map[string]bool, len(list))
	for _, o := range list {
		listed[o.ID] = true
		t := a.tasks[o.ID]
		if t == nil {
			if _, was := before[o.ID]; was || o.ID != ContainerID(o.Attempt) {
				continue // It was removed meanwhile, or no agent made it.
			}
			t = a.newTask(o.Attempt)
			t.seen.Container = Unknown
			before[o.ID] = t.generation
		}
		t.observed(&o, before)
	}
	for id, t := range a.tasks {
		if !listed[id] {
			t.observed(nil, before)
		}
	}
	if !a.listed {
		a.listed = true
		close(a.known)
		a.sweep()
	}
}

// observed applies the observed container of a task; nil means there is none. The caller holds
// a.mu.
func (t *task) observed(o *Observed, before map[string]int) {
	generation, ok := before[t.id]
	s := &t.seen
	if !ok || generation != t.generation || s.Container == Starting {
		if s.Looking {
			// The list is outdated for this task: list again.
			t.a.lookSoon()
		}
		return
	}
	was := *s
	s.Looking = false
	if o != nil {
		t.holds(o.Devices)
		s.Restart = o.Restart
		if o.Image != "" {
			s.Image = o.Image
		}
		t.imageCheck = o.Check
		t.useImageCheck()
	}
	switch {
	case o == nil:
		if behind(s) {
			forgetRun(s) // It was removed for a restart, unnoticed.
		}
		s.Container, s.Watched = Absent, false
	case o.Exit != nil:
		s.Started, s.Ran = o.Started, true
		if s.Container != Exited {
			t.over(*o.Exit)
		}
	case o.Running:
		s.Container, s.Started, s.Ran = Running, o.Started, true
	default:
		s.Container = Created
	}
	if s.Container == Running && was.Container == Unknown && !was.Ran {
		t.note(StepAdopted, "it runs since %s", o.Started.Format(time.RFC3339))
	}
	if was.Container != s.Container || was.Looking {
		t.generation++
		t.poke()
	}
}

// sweep deletes files and directories that earlier lives left for attempts that are gone. The
// caller holds a.mu.
func (a *Agent) sweep() {
	a.marks.sweep(func(id string) bool { return a.tasks[id] != nil })
	a.sweepSockets()
	a.sweepScratch()
	a.spawn(func(ctx context.Context) {
		a.noteGone(ctx, "its container is gone", func(id string) bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.tasks[id] != nil
		})
	})
	err := a.state.change(false, func(s *state) {
		s.Keep = filter(s.Keep, func(id string) bool { return a.tasks[id] != nil })
	})
	if err != nil {
		a.log.Error("what was kept is still noted", zap.Error(err))
	}
}

func filter(ids []string, wanted func(string) bool) []string {
	var out []string
	for _, id := range ids {
		if wanted(id) {
			out = append(out, id)
		}
	}
	return out
}
