// Package bounded limits the wait for calls that may hang. A call that waits for a disk, a driver
// or the kernel cannot be interrupted: it runs on alone.
package bounded

import (
	"context"
	"time"
)

// Do returns the result of f. ok is false if ctx is done first: then f runs on until it returns.
func Do[T any](ctx context.Context, f func() T) (result T, ok bool) {
	done := make(chan T, 1)
	go func() { done <- f() }()
	select {
	case result = <-done:
		return result, true
	case <-ctx.Done():
		return result, false
	}
}

// Wait reports whether done is closed within d.
func Wait(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
