package types

import "time"

// The wait before another attempt of what failed.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
	// ranLong is how long an attempt has run when what made it fail is not taken for
	// what made the ones before it fail.
	ranLong = 10 * time.Minute
)

// RetryDelay returns how long a task of which so many attempts failed waits before it may
// be bound again: a second, doubled for each but the first, up to five minutes. After an
// attempt that ran for ten minutes it is a second.
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
