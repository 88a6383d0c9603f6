package esltest

import (
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
)

// Mean returns the average number of running tasks of a job until now.
func (s *Sharing) Mean(job controlplane.Launched, during time.Duration) float64 {
	s.T.Helper()
	var sum time.Duration
	v := s.Snapshot()
	for _, id := range job.Tasks {
		task := v.Task(cluster.ID{Namespace: "d", ID: id})
		switch {
		case task.Phase().Ended():
			sum += time.Duration(task.Status.V.Ended - task.Status.V.Bound)
		case task.Phase().Held():
			sum += time.Since(time.Unix(0, task.Status.V.Bound))
		}
	}
	return float64(sum) / float64(during)
}
