package esltest

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/hollow"
)

func (s *Site) Running(job controlplane.Launched) map[string]string {
	s.Helper()
	all, out := hollow.Running(s.Snapshot(), "d"), make(map[string]string)
	for _, id := range job.Tasks {
		if all[id] != "" {
			out[id] = all[id]
		}
	}
	return out
}
