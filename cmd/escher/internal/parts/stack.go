package parts

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/cmd/escher/internal/ops"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// Stack is the components of a process. They run at the same time, and each needs those started
// before it. So they stop in reverse order, one after the other. A component that ends by itself is
// started again, see supervise.
type Stack struct {
	ctx    context.Context
	log    *zap.Logger
	health *ops.Health
	parts  []*part
	// Metrics shows the components.
	Metrics *supervise.Metrics
	// Failed yields the error of the first component that ended for good.
	Failed chan error
}

// part is one component.
type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// NewStack makes a Stack whose components health shows. The end of ctx does not stop them: Unwind
// does.
func NewStack(ctx context.Context, log *zap.Logger, health *ops.Health) *Stack {
	return &Stack{ctx: context.WithoutCancel(ctx), log: log, health: health, Metrics: supervise.NewMetrics(), Failed: make(chan error, 1)}
}

// Component makes a component that metrics and health show, and that the caller runs.
func (s *Stack) Component(name string, run func(context.Context) error) *supervise.Component {
	c := &supervise.Component{Name: name, Run: run, Log: s.log}
	s.health.Component(name, c.Ready)
	s.health.Warn(name, c.Warning)
	s.Metrics.Add(c)
	return c
}

// Start starts a component, and starts it again when it ends. An error marked as fatal, or a
// mistake in its configuration, ends it for good, and the process with it.
func (s *Stack) Start(name string, run func(context.Context) error) {
	c := s.Component(name, run)
	ctx, cancel := context.WithCancel(s.ctx)
	p := &part{name: name, cancel: cancel, done: make(chan struct{})}
	s.parts = append(s.parts, p)
	go func() {
		defer close(p.done)
		err := c.Keep(ctx)
		if ctx.Err() != nil {
			if !errors.Is(err, context.Canceled) {
				p.err = err
			}
			return
		}
		s.log.Error("component failed for good", zap.String("component", name), zap.Error(err))
		select {
		case s.Failed <- err:
		default:
		}
	}()
}

// StartVital starts a component that the process cannot do without: its end is the end of the
// process.
func (s *Stack) StartVital(name string, run func(context.Context) error) {
	s.Start(name, func(ctx context.Context) error {
		err := supervise.Contain(func() error { return run(ctx) })
		if ctx.Err() != nil {
			return err
		}
		if err == nil {
			err = types.Errorf(types.Internal, "%s ended by itself", name)
		}
		return supervise.Fatal(err)
	})
}

// Await returns when ready is closed, ctx is done or a component ended for good.
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

// Unwind stops all components and returns their errors.
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
