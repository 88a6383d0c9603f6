package supervise

import (
	"context"
	"errors"
	"runtime/debug"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/types"
)

// ErrPanic is in the chain of an error made of a panic.
var ErrPanic = errors.New("it panicked")

// Contain calls f and returns its error. A panic of f becomes the error ErrPanic, Internal, with
// the stack of the goroutine.
func Contain(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = types.Errorf(types.Internal, "%w: %v\n%s", ErrPanic, p, debug.Stack())
		}
	}()
	return f()
}

// Group runs functions concurrently, like an errgroup.Group. A panic in one of them becomes its
// error and does not end the process.
type Group struct{ group *errgroup.Group }

// WithContext returns a Group and a context that is canceled when the first function
// returns an error or all have returned.
func WithContext(ctx context.Context) (*Group, context.Context) {
	group, ctx := errgroup.WithContext(ctx)
	return &Group{group}, ctx
}

// Go runs f in its own goroutine.
func (g *Group) Go(f func() error) {
	g.group.Go(func() error { return Contain(f) })
}

// Wait returns the first error once all functions have returned.
func (g *Group) Wait() error { return g.group.Wait() }

// fatal is an error after which this process cannot continue.
type fatal struct{ error }

// Unwrap returns the error.
func (f fatal) Unwrap() error { return f.error }

// Fatal marks an error after which this process cannot continue, such as an unusable data
// directory, because restarting the component would not help.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return fatal{err}
}

// IsFatal reports whether an error was marked by Fatal.
func IsFatal(err error) bool {
	_, marked := errors.AsType[fatal](err)
	return marked
}
