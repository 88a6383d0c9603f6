package nodeagent

import (
	"context"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/types"
)

// Exit codes of what never ran, as shells have them.
const (
	exitCannotRun = 126
	exitNotFound  = 127
)

// do does one action. What takes long is only begun.
func (t *task) do(ctx context.Context, act Action) error {
	switch act.Do {
	case Look:
		t.a.mu.Lock()
		t.seen.Looking = true
		t.a.mu.Unlock()
		t.a.lookSoon()
	case Fetch:
		return t.fetch(ctx)
	case Start:
		return t.begin(ctx)
	case CancelStart:
		t.giveUpStart()
	case Adopt:
		return t.adopt(ctx)
	case Signal:
		return t.signal(ctx, act.Cause)
	case Kill:
		return t.kill(ctx)
	case Send:
		t.send(act.Report)
	case Remove:
		return t.remove(ctx)
	}
	return nil
}

// fetch reads what to run.
func (t *task) fetch(ctx context.Context) error {
	t.a.mu.Lock()
	b := t.binding
	t.a.mu.Unlock()
	if b == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	spec, err := t.a.specs.get(ctx, t.attempt.Namespace, b.Spec)
	switch {
	case err == nil:
	case types.Is(err, types.NotFound) || types.Is(err, types.Invalid):
		t.never(exitCannotRun, err)
		// For one that runs already, as it was adopted, nothing is lost.
		spec = new(types.Spec)
	default:
		return err
	}
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	t.spec = spec
	t.fine()
	return nil
}

// never notes that the attempt can never run; one that runs can.
func (t *task) never(code int, err error) {
	t.changed(func(s *Seen) {
		if s.Container != Running {
			s.Failed = &Exit{Code: code, Reason: err.Error(), At: time.Now()}
		}
	})
}

// begin begins to start the container.
func (t *task) begin(ctx context.Context) error {
	a := t.a
	a.mu.Lock()
	b, spec := t.binding, t.spec
	a.mu.Unlock()
	if b == nil || spec == nil {
		return nil
	}
	if b.OnLoss == types.Keep {
		if err := a.noteKept(t.id); err != nil {
			return err
		}
	}
	if err := t.serve(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	t.changed(func(s *Seen) {
		s.Container = Starting
		if s.Since.IsZero() {
			s.Since = time.Now()
		}
		t.cancelStart = cancel
	})
	c := a.cfg.container(t.id, t.attempt, b, spec)
	a.spawn(func(context.Context) {
		defer cancel()
		err := a.starts.Acquire(ctx, 1)
		if err == nil {
			_, err = a.cfg.Runtime.Start(ctx, c)
			a.starts.Release(1)
		}
		t.started(err)
	})
	return nil
}

// started notes how a start ended.
func (t *task) started(err error) {
	if err != nil {
		t.log.Warn("start failed", zap.Error(err))
	}
	t.changed(func(s *Seen) {
		t.cancelStart, s.Cancelled = nil, false
		switch {
		case err == nil:
			t.fine()
			s.Container, s.Started, s.Ran = Running, time.Now(), true
		case types.Is(err, types.NotFound):
			s.Container, s.Failed = Absent, &Exit{Code: exitNotFound, Reason: err.Error(), At: time.Now()}
		case types.Is(err, types.Invalid):
			s.Container, s.Failed = Absent, &Exit{Code: exitCannotRun, Reason: err.Error(), At: time.Now()}
		default:
			t.failed(err)
			s.Container = Unknown
		}
	})
}

// giveUpStart gives up the start under way.
func (t *task) giveUpStart() {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	t.seen.Cancelled = true
	if t.cancelStart != nil {
		t.cancelStart()
	}
}

// adopt waits for the end of the process, in a goroutine of its own.
func (t *task) adopt(ctx context.Context) error {
	if err := t.serve(ctx); err != nil {
		return err
	}
	t.changed(func(s *Seen) { s.Watched = true })
	t.a.spawn(func(ctx context.Context) {
		exit, err := t.a.cfg.Runtime.Wait(ctx, t.id)
		if ctx.Err() == nil {
			t.exited(exit, err)
		}
	})
	return nil
}

// exited notes how the process ended, or that this is not known.
func (t *task) exited(exit Exit, err error) {
	t.changed(func(s *Seen) {
		s.Watched = false
		switch {
		case s.Container != Running:
		case err == nil:
			s.Container, s.Exit = Exited, exit
			t.log.Info("exited", zap.Int("code", exit.Code), zap.String("reason", exit.Reason))
		default:
			s.Container = Unknown
			t.failed(err)
		}
	})
}

// signal asks the process to end. Why is noted before: what ends at a signal has
// not ended by itself, even if the agent is not there to see it.
func (t *task) signal(ctx context.Context, cause Cause) error {
	if err := t.a.marks.set(t.id, cause); err != nil {
		t.log.Error("after a restart, the end will look like its own", zap.Error(err))
	}
	t.a.mu.Lock()
	t.seen.Cause = cause
	t.a.mu.Unlock()
	return t.tell(ctx, syscall.SIGTERM, func(s *Seen) { s.Signalled = time.Now() })
}

// kill ends the process.
func (t *task) kill(ctx context.Context) error {
	return t.tell(ctx, syscall.SIGKILL, func(s *Seen) { s.Killed = time.Now() })
}

func (t *task) tell(ctx context.Context, signal syscall.Signal, told func(*Seen)) error {
	ctx, cancel := context.WithTimeout(ctx, t.callTimeout())
	defer cancel()
	err := t.a.cfg.Runtime.Signal(ctx, t.id, signal)
	if types.Is(err, types.NotFound) {
		t.changed(func(s *Seen) { s.Container, s.Watched = Unknown, false })
		return nil
	}
	if err == nil {
		t.a.mu.Lock()
		defer t.a.mu.Unlock()
		told(&t.seen)
		t.fine()
	}
	return err
}

// callTimeout is how long a call of the runtime may take: shorter while a deadline
// is near, so that a call that hangs does not use up what is left.
func (t *task) callTimeout() time.Duration {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	if t.a.fenced {
		return t.a.cfg.TTL / fenceGrace / 2
	}
	return callTimeout
}

// remove deletes the container.
func (t *task) remove(ctx context.Context) error {
	t.unserve()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := t.a.cfg.Runtime.Remove(ctx, t.id); err != nil {
		return err
	}
	t.changed(func(s *Seen) {
		s.Container, s.Watched = Absent, false
		t.fine()
	})
	return nil
}

// send hands a report to the outbox.
func (t *task) send(r *types.Report) {
	t.a.mu.Lock()
	t.seen.Sending = r.Phase
	t.a.mu.Unlock()
	t.a.outbox.put(&letter{attempt: t.attempt, report: r, done: func(outcome outcome) { t.sent(r, outcome) }})
}

// sent notes what became of a report.
func (t *task) sent(r *types.Report, o outcome) {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	s := &t.seen
	if s.Sending == r.Phase {
		s.Sending = ""
	}
	switch o {
	case stored:
		s.Reported, s.ReportedTrouble = r.Phase, r.Reason != ""
	case refused:
		s.Refused = true
	}
	t.poke()
}

// noteKept notes that a container outlives sessions, before it is there.
func (a *Agent) noteKept(id string) error {
	return a.state.change(true, func(s *state) {
		s.Keep = append(filter(s.Keep, func(other string) bool { return other != id }), id)
	})
}
