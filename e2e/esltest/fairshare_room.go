package esltest

import (
	"time"

	"github.com/escher-sched/escher/controlplane"
)

// BeginsWithin checks that the task of a job begins within a time from now.
func (s *Sharing) BeginsWithin(job controlplane.Launched, most time.Duration) {
	s.T.Helper()
	from := time.Now()
	time.Sleep(most)
	at := Begun(s, job)
	if len(at) != len(job.Tasks) {
		s.T.Errorf("after %s %d of %d have begun: %s", most, len(at), len(job.Tasks), s.Why(job.Tasks[len(job.Tasks)-1]))
		return
	}
	s.T.Logf("begun after %s", at[0].Sub(from))
}
