// Package backoff says how long a failed run waits before it starts again.
package backoff

import (
	"time"

	"github.com/escher-sched/escher/types"
)

// The waits before a failed run starts again: a task on any node, a process in place.
const (
	// First is the first wait.
	First = time.Second
	// Max is the longest wait.
	Max = 5 * time.Minute
	// LongRun is the run time after which a failure counts as unrelated to earlier ones. The next
	// wait is then the first one again.
	LongRun = 10 * time.Minute
)

// Next returns the wait before the next run of a process. ran is the time of its last run, and last
// the wait before that run; 0 means none. The wait is Delay, doubled each time, up to MaxDelay.
func Next(r *types.Restart, last, ran time.Duration) time.Duration {
	first, most := r.Delay, r.MaxDelay
	if first <= 0 {
		first = First
	}
	if most <= 0 {
		most = max(first, Max)
	}
	if last <= 0 || ran >= LongRun {
		return min(first, most)
	}
	return min(2*last, most)
}

// Delay returns how long a task waits after a failed attempt, given its number of failures and
// the run time of the last attempt. The waits are those of a Restart without delays.
func Delay(failures int, ran time.Duration) time.Duration {
	var r types.Restart
	delay := Next(&r, 0, ran)
	for ; failures > 1 && ran < LongRun && delay < Max; failures-- {
		delay = Next(&r, delay, ran)
	}
	return delay
}
