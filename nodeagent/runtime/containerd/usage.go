package containerd

import (
	"context"
	"sync"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/types"
)

// Usage implements nodeagent.Runtime. A container whose process has ended keeps an empty cgroup
// until it is removed.
func (r *Runtime) Usage(_ context.Context, id string) (cgroup.Stat, error) {
	s, err := r.counters.Read(r.Cgroups().Path(id))
	if err != nil {
		return cgroup.Stat{}, types.Errorf(types.ClassOf(err), "read what container %s uses: %w", id, err)
	}
	if s.Processes != nil && *s.Processes == 0 {
		return cgroup.Stat{}, types.Errorf(types.NotFound, "read what container %s uses: it does not run", id)
	}
	if s.Memory != nil {
		r.peaks.note(id, s.Memory.WorkingSet)
	}
	return s, nil
}

// used adds to an exit what the process used: its cgroup exists until the task is deleted. The peak of
// memory is that of the samples, because the kernel's counts files that could have been dropped. Of a
// process without a sample, or one that took all there was, it is the kernel's.
func (r *Runtime) used(id string, e *nodeagent.Exit) {
	e.Memory = r.peaks.of(id)
	s, err := r.counters.Read(r.Cgroups().Path(id))
	if err != nil {
		return // The exit is certain, and must not wait for this.
	}
	if s.CPU != nil {
		e.CPU = s.CPU.Used
	}
	if s.Memory != nil && (e.Memory == 0 || e.OOMKilled) {
		e.Memory = s.Memory.Peak
	}
}

// peaks holds the highest memory that was sampled of each container, in bytes.
type peaks struct {
	mu      sync.Mutex
	highest map[string]int64
}

func (p *peaks) note(id string, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.highest == nil {
		p.highest = make(map[string]int64)
	}
	p.highest[id] = max(p.highest[id], bytes)
}

func (p *peaks) of(id string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.highest[id]
}

func (p *peaks) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.highest, id)
}
