package nodeagent

import (
	"context"
	"syscall"
	"time"

	"github.com/moby/sys/signal"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent/outbox"
	"github.com/escher-sched/escher/types"
)

// Exit codes of attempts that never ran, as in shells.
const (
	exitCannotRun = 126
	exitNotFound  = 127
	// exitKilled is the exit code after SIGKILL.
	exitKilled = 128 + int(syscall.SIGKILL)
)

// do performs one action. It starts long actions in the background.
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
		t.adopt(ctx)
	case Serve:
		t.serveAgain(ctx)
	case Probe:
		t.probe(ctx)
	case Warn:
		return t.warn(ctx, act.Reason)
	case Signal:
		return t.signal(ctx, act.Cause)
	case Kill:
		return t.kill(ctx)
	case Send:
		t.noteEnd(ctx, act.Report)
		t.send(act.Report)
	case Remove:
		return t.remove(ctx)
	}
	return nil
}

// fetch reads the spec.
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
		// An adopted process runs on, with the default mode of its socket.
		spec = &types.Spec{Socket: types.SocketSelf}
	default:
		return err
	}
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	t.spec = spec
	t.useImageCheck()
	if !t.seen.ServeAt.IsZero() {
		t.seen.ServeAt = time.Now() // serving waited for the mode of the socket
	}
	t.fine()
	return nil
}

// never records that the attempt can never run, unless it has run.
func (t *task) never(code int, err error) {
	t.changed(func(s *Seen) {
		if s.Container != Running && s.Container != Exited {
			t.note(StepFailed, "%s", err)
			s.Failed = &Exit{Code: code, Reason: t.a.cfg.reasonOf(err), At: time.Now()}
		}
	})
}

// adopt waits for the end of the process in a goroutine. It does so even if its socket fails:
// without the wait, the agent would not stop the process.
func (t *task) adopt(ctx context.Context) {
	t.a.mu.Lock()
	known := t.spec != nil
	t.a.mu.Unlock()
	if !known {
		_ = t.fetch(ctx) // The spec has the mode of the socket. Without it, the agent retries both.
	}
	t.serveAgain(ctx)
	restart := 0
	t.changed(func(s *Seen) { s.Watched, restart = true, s.Restart })
	t.a.spawn(func(ctx context.Context) {
		var exit Exit
		err := supervise.Contain(func() (err error) {
			exit, err = t.a.cfg.Runtime.Wait(ctx, t.id)
			return err
		})
		if ctx.Err() == nil {
			t.exited(restart, exit, err)
		}
	})
}

// exited records how the process ended, or that this is unknown.
func (t *task) exited(restart int, exit Exit, err error) {
	t.changed(func(s *Seen) {
		if s.Restart != restart {
			return // It has been restarted already.
		}
		t.endProbes()
		s.Watched = false
		switch {
		case s.Container != Running:
		case err == nil:
			t.over(exit)
		default:
			s.Container = Unknown
			t.failed(err)
		}
	})
}

// over records how the process ended. The caller holds a.mu.
func (t *task) over(exit Exit) {
	t.seen.Container, t.seen.Exit = Exited, exit
	kept := t.binding != nil && t.binding.OnDisconnect == types.Keep
	if t.seen.Cause == "" && (t.a.marks.get(t.id).cause == Fenced || !kept && t.a.outlived(&exit)) {
		t.seen.Cause = Fenced // The watchdog killed it while this process could not.
	}
	d := t.desired()
	t.note(StepExited, "%s", exitText(&d, &exit))
	t.log.Info("exited", zap.Int("code", exit.Code), zap.String("reason", exitReason(&d, &exit)))
	t.a.cfg.Metrics.exited(t.seen.Cause, exit)
}

// warn sends the process its warning, and marks it before. So a restarted agent does not send it
// again, and knows that a stopped process that ends at it did not end by itself.
func (t *task) warn(ctx context.Context, reason string) error {
	t.a.mu.Lock()
	spec := t.spec
	t.a.mu.Unlock()
	if spec == nil || spec.Warn == nil {
		return nil
	}
	number, err := signal.ParseSignal(spec.Warn.Signal)
	if err != nil {
		return types.Errorf(types.Invalid, "warn task %s: %w", t.attempt.Task, err)
	}
	now := time.Now()
	if err := t.a.marks.write(t.id, mark{warned: now}); err != nil {
		t.log.Error("after a restart, it will be warned again", zap.Error(err))
	}
	return t.tell(ctx, number, func(s *Seen) {
		s.Warned = now
		t.note(StepWarned, "%s: %s", spec.Warn.Signal, reason)
	})
}

// signal sends the process its stop signal, and marks the cause before. So an end after the signal
// is not the process's own, even if the agent does not see it.
func (t *task) signal(ctx context.Context, cause Cause) error {
	t.a.mu.Lock()
	k := mark{cause: cause}
	if cause == Unhealthy {
		k.reason = t.seen.Health.Reason
	}
	t.a.mu.Unlock()
	if err := t.a.marks.write(t.id, k); err != nil {
		t.log.Error("after a restart, the end will look like its own", zap.Error(err))
	}
	t.a.mu.Lock()
	t.seen.Cause = cause
	t.a.mu.Unlock()
	return t.tell(ctx, StopSignal, func(s *Seen) {
		s.Signalled = time.Now()
		d := t.desired()
		if g := grace(&d); g > controlplane.NoGrace {
			t.note(StepSignalled, "%s: it has %s to end", cause, g)
		} else {
			t.note(StepSignalled, "%s: it is killed at once", cause)
		}
	})
}

// kill kills the process.
func (t *task) kill(ctx context.Context) error {
	return t.tell(ctx, syscall.SIGKILL, func(s *Seen) {
		s.Killed = time.Now()
		t.note(StepKilled, "it did not end when asked to")
	})
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

// callTimeout returns the time limit of a runtime call. It is shorter while a deadline is near, so
// that a hanging call does not use up the remaining time.
func (t *task) callTimeout() time.Duration {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	if t.a.fenced {
		return t.a.cfg.TTL / fenceGrace / 2
	}
	return callTimeout
}

// remove deletes the container, for a restart or for good.
func (t *task) remove(ctx context.Context) error {
	t.a.mu.Lock()
	again := t.binding != nil && behind(&t.seen)
	if again {
		// Reset before the container is gone: its health is not that of the next one.
		t.renew()
	}
	t.a.mu.Unlock()
	if !again {
		t.unserve()
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := t.a.cfg.Runtime.Remove(ctx, t.id); err != nil {
		return err
	}
	if !again {
		t.dropScratch()
	}
	t.changed(func(s *Seen) {
		s.Container, s.Watched = Absent, false
		t.endProbes()
		if again {
			forgetRun(s)
		}
		t.fine()
	})
	return nil
}

// send hands a report to the outbox.
func (t *task) send(r *types.Report) {
	r.Reason = types.CutReason(r.Reason)
	t.a.mu.Lock()
	t.seen.Sending = r
	if r.Phase == types.ReportRunning && r.Ended != 0 && r.Restarts > t.seen.Reported.Restarts {
		t.note(StepRestarting, "%s", r.Reason)
	}
	if r.Phase == types.ReportExited && t.seen.Container != Exited && t.seen.Failed == nil {
		t.note(StepFailed, "%s", r.Reason) // No process has ended.
	}
	t.a.mu.Unlock()
	t.a.outbox.Put(&outbox.Letter{
		Attempt: controlplane.Key{Kind: controlplane.Bindings, Node: t.attempt.Node, Namespace: t.attempt.Namespace, ID: t.attempt.Task, Attempt: t.attempt.Number},
		Report:  r,
		Done:    func(o outbox.Outcome) { t.sent(r, o) },
	})
}

// sent records the outcome of a report.
func (t *task) sent(r *types.Report, o outbox.Outcome) {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	s := &t.seen
	if s.Sending == r {
		s.Sending = nil
	}
	switch o {
	case outbox.Stored:
		if r.Health != s.Reported.Health && r.Health != types.HealthStarting {
			s.HealthAt = time.Now()
		}
		s.Reported, s.ReportedAt = *r, time.Now()
	case outbox.Refused:
		s.Refused = true
	}
	t.poke()
}

// noteKept stores that a container outlives sessions, before the container exists.
func (a *Agent) noteKept(id string) error {
	return a.state.change(true, func(s *state) {
		s.Keep = append(filter(s.Keep, func(other string) bool { return other != id }), id)
	})
}
