package dev

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/types"
)

// stack is parts that run at the same time, each of which needs those started before
// it: they are stopped in the reverse order, one after the other.
type stack struct {
	ctx   context.Context
	log   *zap.Logger
	parts []*part
	// failed yields the error of the first part that ended by itself.
	failed chan error
}

// part is one of them.
type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// newStack makes a stack. That ctx is done does not stop the parts: unwind does.
func newStack(ctx context.Context, log *zap.Logger) *stack {
	return &stack{ctx: context.WithoutCancel(ctx), log: log, failed: make(chan error, 1)}
}

// start runs a part.
func (s *stack) start(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(s.ctx)
	p := &part{name: name, cancel: cancel, done: make(chan struct{})}
	s.parts = append(s.parts, p)
	go func() {
		defer close(p.done)
		err := run(ctx)
		if ctx.Err() != nil {
			if !errors.Is(err, context.Canceled) {
				p.err = err
			}
			return
		}
		if err == nil {
			err = types.Errorf(types.Internal, "%s ended by itself", name)
		}
		s.log.Error("part failed", zap.String("part", name), zap.Error(err))
		select {
		case s.failed <- err:
		default:
		}
	}()
}

// await returns when ready is closed, ctx is done or a part failed.
func (s *stack) await(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case err := <-s.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unwind stops all parts and returns what went wrong in that.
func (s *stack) unwind() error {
	var errs []error
	for i := len(s.parts) - 1; i >= 0; i-- {
		p := s.parts[i]
		p.cancel()
		<-p.done
		if p.err != nil {
			errs = append(errs, p.err)
		}
		s.log.Info("stopped", zap.String("part", p.name))
	}
	return errors.Join(errs...)
}
