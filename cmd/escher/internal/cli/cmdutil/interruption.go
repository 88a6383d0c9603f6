package cmdutil

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/escher-sched/escher/types"
)

// Interruption is the cause of a context that a signal ended.
type Interruption struct{ Signal os.Signal }

func (e Interruption) Error() string { return "signal: " + e.Signal.String() }

// Is reports whether target is context.Canceled, which the error of the context is.
func (e Interruption) Is(target error) bool { return target == context.Canceled }

// Interruptible returns a context that the first SIGINT or SIGTERM ends. restore gives the signals
// their usual effect again.
func Interruptible(parent context.Context) (ctx context.Context, restore func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			cancel(Interruption{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// InterruptedCode returns the exit code of a command that the end of ctx interrupted.
func InterruptedCode(ctx context.Context) int {
	if e, ok := errors.AsType[Interruption](context.Cause(ctx)); ok && e.Signal == syscall.SIGTERM {
		return types.ExitTerminated
	}
	return types.ExitInterrupted
}
