package types

import "time"

// The waits before what failed runs again: a task on any node, a process where it is.
const (
	// RestartDelay is the wait before the first time.
	RestartDelay = time.Second
	// MaxRestartDelay is the longest wait.
	MaxRestartDelay = 5 * time.Minute
	// LongRun is how long a run lasts after which the next wait is the first one again: what
	// ended it is hardly what ended the runs before it.
	LongRun = 10 * time.Minute
)

// Next returns the wait before a process runs again that ran for ran, where last is the wait
// before that run, 0 if there was none. It is Delay, doubled each time, up to MaxDelay.
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

// RetryDelay returns how long a task waits before another attempt, after a number of attempts
// that failed, the last of which ran for ran. The waits are those of a Restart that names none.
func RetryDelay(failures int, ran time.Duration) time.Duration {
	var r Restart
	delay := r.Next(0, ran)
	for ; failures > 1 && ran < LongRun && delay < MaxRestartDelay; failures-- {
		delay = r.Next(delay, ran)
	}
	return delay
}

// validateRetries checks how many more attempts a task is to be given.
func (t *Task) validateRetries() error {
	if t.Retries < 0 {
		return Errorf(Invalid, "retries: %d is negative: give how many more attempts follow those that fail, or 0 for none", t.Retries)
	}
	if t.Retries > MaxCount {
		return Errorf(Invalid, "retries: %d is too large: give at most %d", t.Retries, MaxCount)
	}
	return nil
}
