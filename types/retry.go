package types

import "time"

// The waits before a failed run starts again: a task on any node, a process in place.
const (
	// RestartDelay is the first wait.
	RestartDelay = time.Second
	// MaxRestartDelay is the longest wait.
	MaxRestartDelay = 5 * time.Minute
	// LongRun is the run time after which a failure counts as unrelated to earlier ones. The next
	// wait is then the first one again.
	LongRun = 10 * time.Minute
)

// Next returns the wait before the next run of a process. ran is the time of its last run, and last
// the wait before that run; 0 means none. The wait is Delay, doubled each time, up to MaxDelay.
func (r *Restart) Next(last, ran time.Duration) time.Duration {
	first, most := r.Delay, r.MaxDelay
	if first <= 0 {
		first = RestartDelay
	}
	if most <= 0 {
		most = max(first, MaxRestartDelay)
	}
	if last <= 0 || ran >= LongRun {
		return min(first, most)
	}
	return min(2*last, most)
}

// RetryDelay returns how long a task waits after a failed attempt, given its number of failures and
// the run time of the last attempt. The waits are those of a Restart without delays.
func RetryDelay(failures int, ran time.Duration) time.Duration {
	var r Restart
	delay := r.Next(0, ran)
	for ; failures > 1 && ran < LongRun && delay < MaxRestartDelay; failures-- {
		delay = r.Next(delay, ran)
	}
	return delay
}

// validateRetries checks the number of further attempts.
func (t *Task) validateRetries() error {
	if t.Retries < 0 {
		return Errorf(Invalid, "retries: %d is negative: give the number of attempts after failed ones, or 0 for none", t.Retries)
	}
	if t.Retries > MaxCount {
		return Errorf(Invalid, "retries: %d is too large: give at most %d", t.Retries, MaxCount)
	}
	return nil
}
