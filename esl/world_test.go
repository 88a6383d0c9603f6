package esl_test

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// runs runs a function until the test ends, or stop is called.
func runs(t *testing.T, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}
