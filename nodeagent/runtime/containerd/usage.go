package containerd

import (
	"context"

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
