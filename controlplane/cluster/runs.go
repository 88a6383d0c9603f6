package cluster

import "time"

// longestRun bounds what one task counts: its times are as its agent wrote them.
const longestRun = 365 * 24 * time.Hour

// runs sums up how long ended tasks ran, in their last attempts.
type runs struct {
	seconds float64
	tasks   int
}

// count adds the run of a task to the sum, or takes it off with a sign of -1, if it has ended and ran.
func (r *runs) count(t *Task, sign int) {
	s := t.Status.V
	if s == nil || !s.Phase.Ended() || s.Started <= 0 || s.Ended < s.Started {
		return
	}
	r.tasks += sign
	if r.seconds += float64(sign) * min(time.Duration(s.Ended-s.Started), longestRun).Seconds(); r.tasks == 0 {
		r.seconds = 0 // without what rounding has left
	}
}

// MeanRun returns how long the ended tasks of the view ran, on average; 0 if there are none.
func (v *View) MeanRun() time.Duration {
	if v.runs.tasks == 0 {
		return 0
	}
	return time.Duration(max(0, v.runs.seconds/float64(v.runs.tasks)) * float64(time.Second))
}
