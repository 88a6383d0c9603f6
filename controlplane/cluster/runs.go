package cluster

import "time"

const (
	// longestRun bounds what one task counts: its times are as its agent wrote them.
	longestRun = 365 * 24 * time.Hour
	// latestRuns is after how many ended tasks the earlier ones count half.
	latestRuns = 10_000
)

// runs sums up how long ended tasks ran, in their last attempts. Deleted ones still count: what is
// stored ended within the last hour, and is mostly short.
type runs struct {
	seconds, tasks float64
}

// replace counts the status of a task in place of its former one; nil means none.
func (r *runs) replace(was, now *StatusValue) {
	if now == nil {
		return
	}
	r.add(was, -1)
	r.add(now, 1)
	if r.tasks >= latestRuns {
		r.seconds, r.tasks = r.seconds/2, r.tasks/2
	}
}

// add adds the run of a task that has ended and ran, times a sign.
func (r *runs) add(s *StatusValue, sign float64) {
	if s == nil || !s.Phase.Ended() || s.Started <= 0 || s.Ended < s.Started {
		return
	}
	r.tasks += sign
	r.seconds += sign * min(time.Duration(s.Ended-s.Started), longestRun).Seconds()
}

// MeanRun returns how long the tasks ran whose end the view has seen, on average; 0 if there are none.
// Of many, the latest count most.
func (v *View) MeanRun() time.Duration {
	if v.runs.tasks < 1 {
		return 0
	}
	return time.Duration(min(max(0, v.runs.seconds/v.runs.tasks), longestRun.Seconds()) * float64(time.Second))
}
