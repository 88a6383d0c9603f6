package cluster

import (
	"time"
)

// latestRuns is about how many ended tasks count in the mean of their runs: an earlier one counts the
// less, the more have ended since.
const latestRuns = 500

// longestRun bounds what one task counts: its times are as its agent wrote them.
const longestRun = 365 * 24 * time.Hour

// countRun counts a task that has ended, unless it never ran.
func (v *View) countRun(t *Task) {
	s := t.Status.V
	if s == nil || !s.Phase.Ended() || s.Started <= 0 || s.Ended < s.Started {
		return
	}
	v.runs = min(v.runs+1, latestRuns)
	v.meanRun += (min(time.Duration(s.Ended-s.Started), longestRun).Seconds() - v.meanRun) / float64(v.runs)
}

// MeanRun returns how long the tasks ran that ended of late, on average and in their last attempt, as
// far as their statuses are in the view; 0 if there are none.
func (v *View) MeanRun() time.Duration {
	return time.Duration(v.meanRun * float64(time.Second))
}
