package simruntime

import (
	"maps"
	"slices"
	"syscall"

	"github.com/escher-sched/escher/nodeagent"
)

// Finish ends the process of a container now, as if by itself. It has no effect if the process has
// ended. NotFound: there is no such container.
func (r *Runtime) Finish(id string, code int) error {
	return r.finish(id, nodeagent.Exit{Code: code})
}

// Lose ends the process of a container now, with an unknown result, as if its watching process were
// killed.
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

// Reboot ends every process, as in a restart of the machine: the containers exist, and how they
// ended is unknown.
func (r *Runtime) Reboot() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.containers {
		r.end(k, lost())
	}
}

// SetDown takes the runtime down or up. While it is down, every call returns Unavailable, waiting
// calls too. Processes run on.
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

// Running returns the ids of the containers with a running process, sorted. It has no faults: tests
// call it, agents do not.
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

// Signals returns the signals sent to a container, in order. A stop signal appears as the signal
// that it stands for.
func (r *Runtime) Signals(id string) []syscall.Signal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.signals[id])
}

// Runs returns how often a process was started, by container id. Restart n adds " restart n" to the
// id. An id is one attempt of one task, so more than once is a defect of the agent.
func (r *Runtime) Runs() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.runs)
}
