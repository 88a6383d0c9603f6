package esltest

import (
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
)

// Begun returns the bind times of the bound tasks of jobs.
func Begun(s *Sharing, jobs ...controlplane.Launched) []time.Time {
	s.T.Helper()
	v := s.Snapshot()
	var out []time.Time
	for _, job := range jobs {
		for _, id := range job.Tasks {
			if t := v.Task(cluster.ID{Namespace: "d", ID: id}); t.Status.V != nil && t.Status.V.Bound > 0 {
				out = append(out, time.Unix(0, t.Status.V.Bound))
			}
		}
	}
	return out
}
