package simruntime

import (
	"maps"
	"slices"
	"syscall"

	"github.com/escher-sched/escher/nodeagent"
)

// Finish ends the process of a container now, as by itself. NotFound when there
// is no such container; nothing happens when it has ended.
func (r *Runtime) Finish(id string, code int) error {
	return r.finish(id, nodeagent.Exit{Code: code})
}

// Lose ends the process of a container now, without anybody seeing how: as when
// the process that watches it is killed.
func (r *Runtime) Lose(id string) error {
	return r.finish(id, lost())
}

func lost() nodeagent.Exit {
	return nodeagent.Exit{Code: 128 + int(syscall.SIGKILL), Reason: "the process was lost", Lost: true}
}

func (r *Runtime) finish(id string, exit nodeagent.Exit) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.containers[id]
	if k == nil {
		return missing("Finish", id)
	}
	r.end(k, exit)
	return nil
}

// Reboot ends every process, as when the machine restarts: the containers are
// there, nobody saw how they ended.
func (r *Runtime) Reboot() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.containers {
		r.end(k, lost())
	}
}

// SetDown takes the runtime down or up. While it is down every call returns
// Unavailable, those that wait too; processes run on.
func (r *Runtime) SetDown(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if down == r.isDown() {
		return
	}
	if !down {
		r.down = make(chan struct{})
		return
	}
	close(r.down)
	for _, cancel := range r.watchers {
		cancel()
	}
}

// Running returns the ids of the containers whose process runs, sorted. Faults
// do not touch it: it is for the test that asks, not for the agent.
func (r *Runtime) Running() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(r.containers)) {
		if r.containers[id].seen.Running {
			ids = append(ids, id)
		}
	}
	return ids
}

// Signals returns the signals that were sent to a container, in order, the stop signal
// as what it stands for.
func (r *Runtime) Signals(id string) []syscall.Signal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.signals[id])
}

// Runs returns how often a process was started for each id that ever was, followed by
// " restart n" for those of the nth restart: an id is one attempt of one task, so more
// than once is a defect of the agent.
func (r *Runtime) Runs() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.runs)
}
