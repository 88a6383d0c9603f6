package parts

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/types"
)

// Stack is parts that run at the same time, each of which needs those started before
// it: they are stopped in the reverse order, one after the other.
type Stack struct {
	ctx   context.Context
	log   *zap.Logger
	parts []*part
	// Failed yields the error of the first part that ended by itself.
	Failed chan error
}

// part is one of them.
type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// NewStack makes a Stack. That ctx is done does not stop the parts: Unwind does.
func NewStack(ctx context.Context, log *zap.Logger) *Stack {
	return &Stack{ctx: context.WithoutCancel(ctx), log: log, Failed: make(chan error, 1)}
}

// Start runs a part.
func (s *Stack) Start(name string, run func(context.Context) error) {
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
		s.log.Error("part failed", zap.String("component", name), zap.Error(err))
		select {
		case s.Failed <- err:
		default:
		}
	}()
}

// Await returns when ready is closed, ctx is done or a part failed.
func (s *Stack) Await(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case err := <-s.Failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unwind stops all parts and returns what went wrong in that.
func (s *Stack) Unwind() error {
	var errs []error
	for i := len(s.parts) - 1; i >= 0; i-- {
		p := s.parts[i]
		p.cancel()
		<-p.done
		if p.err != nil {
			errs = append(errs, p.err)
		}
		s.log.Info("stopped", zap.String("component", p.name))
	}
	return errors.Join(errs...)
}
