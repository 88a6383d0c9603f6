package esltest

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/types"
)

// NodesUsed checks that all tasks of jobs run, on a number of nodes.
func (s *Site) NodesUsed(want int, jobs ...controlplane.Launched) {
	s.Helper()
	running := hollow.Running(s.Snapshot(), "d")
	used := make(map[string]bool)
	for _, job := range jobs {
		for _, id := range job.Tasks {
			if running[id] == "" {
				s.Errorf("%s does not run: %s", id, s.Why(id))
			}
			used[running[id]] = true
		}
	}
	if len(used) != want {
		s.Errorf("they run on %d nodes, want %d: %v", len(used), want, used)
	}
}

// OpenNodes is the number of nodes with some of a resource.
func (s *Site) OpenNodes(id types.ResourceID) int {
	s.Helper()
	v, n := s.Snapshot(), 0
	for _, x := range v.At(id) {
		if q, _ := v.Capacity(x, id); q > 0 {
			n++
		}
	}
	return n
}
