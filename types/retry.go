package types

import "time"

// The wait before another attempt of a failed task.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
	// ranLong is the run time after which a failure counts as unrelated to earlier ones.
	ranLong = 10 * time.Minute
)

// RetryDelay returns how long a task waits after a failed attempt, given its number of failures and
// the run time of the last attempt. It is a second, doubled for each failure but the first, up to
// five minutes. After an attempt that ran for ten minutes it is a second.
func RetryDelay(failures int, ran time.Duration) time.Duration {
	delay := firstRetry
	if ran >= ranLong {
		return delay
	}
	for ; failures > 1 && delay < lastRetry; failures-- {
		delay *= 2
	}
	return min(delay, lastRetry)
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
