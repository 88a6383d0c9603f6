package nodeagent

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// Before the deadline of a session, processes are killed by a part of its time to
// live, and before that signalled by another at the earliest: so that one renewal
// can fail without anybody noticing.
const (
	killMargin = 15
	fenceGrace = 3
	// watchMargin is the same for the watchdog: it comes after the agent, which can tell
	// why it ends what it ends.
	watchMargin = 20
)

// lifetime is how long the session is certain to last: ttl from sent on, when the
// last renewal that succeeded was sent, on the boot clock. That is never later than
// the store has it.
type lifetime struct{ sent, ttl time.Duration }

// next is when to renew it, warn when to tell the tasks that it may end, killBy when
// they are to be killed, and deadline when they must be dead.
func (l lifetime) next() time.Duration     { return l.sent + l.ttl/3 }
func (l lifetime) warn() time.Duration     { return l.killBy() - l.ttl/fenceGrace }
func (l lifetime) killBy() time.Duration   { return l.deadline() - l.ttl/killMargin }
func (l lifetime) deadline() time.Duration { return l.sent + l.ttl }

// watched is when the watchdog kills what is still there.
func (l lifetime) watched() time.Duration { return l.deadline() - l.ttl/watchMargin }

// keepAlive renews the session until ctx is done or the session is over: errOver.
// While that fails, the fence is raised in time. That it fails is said once, and that it
// succeeds again.
func (a *Agent) keepAlive(ctx context.Context) error {
	fence := time.AfterFunc(time.Hour, a.raiseFence)
	defer fence.Stop()
	retry := a.renewPolicy()
	failed := 0
	for n := 1; ; n++ {
		life := a.lifetime()
		fence.Reset(max(0, life.warn()-a.cfg.BootClock()))
		wait := life.next() - a.cfg.BootClock()
		if wait <= 0 {
			wait = retry.NextBackOff()
		}
		if err := a.pauseAwake(ctx, wait); err != nil {
			return err
		}
		// Etcd does not answer while it is restored.
		err := a.renew(ctx, failed > 0 || n%historyEvery == 0)
		switch {
		case err == nil && failed > 0:
			a.log.Info("session renewed again", zap.Int("count", failed))
			failed = 0
			retry.Reset()
		case err == nil:
			retry.Reset()
		case ctx.Err() != nil:
			return ctx.Err()
		case types.ClassOf(err).Retryable():
			if failed++; failed == 1 {
				a.log.Warn("session not renewed: trying again", zap.Error(err))
			}
			a.cfg.Metrics.unrenewed.Inc()
		default:
			a.log.Warn("session lost", zap.Error(err))
			return errOver
		}
	}
}

// pauseAwake waits. Timers stand still while the machine is suspended, sessions do
// not: so the clock is looked at each second, and the fence raised if it is time.
func (a *Agent) pauseAwake(ctx context.Context, wait time.Duration) error {
	for until := a.cfg.BootClock() + wait; ; {
		left := until - a.cfg.BootClock()
		if err := supervise.Pause(ctx, min(left, time.Second)); err != nil {
			return err
		}
		a.raiseFence()
		if left <= time.Second {
			return nil
		}
	}
}

// renewPolicy is how a renewal is tried again: more often than other calls, as little
// time is left.
func (a *Agent) renewPolicy() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = a.cfg.TTL / 300
	b.MaxInterval = a.cfg.TTL / 30
	return b
}

// renew renews the lease once, and looks whether the store's history is still the
// same if it is to. It does not wait longer than another try makes sense.
func (a *Agent) renew(ctx context.Context, look bool) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.TTL/3)
	defer cancel()
	st := a.state.get()
	if err := a.mayRenew(ctx); err != nil {
		return err
	}
	sent := a.cfg.BootClock()
	ttl, err := a.cfg.Store.RenewLease(ctx, st.Lease)
	if err != nil {
		return err
	}
	if _, err := a.renewed(ctx, sent, ttl); err != nil {
		return err
	}
	select {
	case a.unsaved <- struct{}{}:
	default: // It writes what holds when it comes to it.
	}
	if !look {
		return nil
	}
	epoch, revision, err := a.history(ctx)
	switch {
	case err != nil && types.ClassOf(err).Retryable():
		return nil // It is looked at again soon.
	case err != nil:
		return err
	case st.betrayed(epoch, revision):
		return types.Errorf(types.Precondition, "look at the store's history: it was restored from a backup")
	case st.Epoch == "" && epoch != "":
		return a.state.change(true, func(s *state) { s.Epoch = epoch })
	}
	return nil
}

// mayRenew tells whether the watchdog could be told of a renewal. A session that goes on
// although that kills what runs would only get tasks that cannot run: it is to end.
func (a *Agent) mayRenew(ctx context.Context) error {
	if a.deadline == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.TTL/3)
	defer cancel()
	return a.deadline.Check(ctx)
}

// renewed notes when a renewal that succeeded was sent, for the watchdog first, lowers the
// fence, and returns the deadline. Unavailable: the watchdog does not know of it, so that it
// counts as none.
func (a *Agent) renewed(ctx context.Context, sent, ttl time.Duration) (time.Duration, error) {
	life := lifetime{sent, min(ttl, a.cfg.TTL)}
	if a.deadline != nil {
		ctx, cancel := context.WithTimeout(ctx, a.cfg.TTL/3)
		defer cancel()
		if err := a.deadline.Set(ctx, life.watched(), a.cfg.BootID); err != nil {
			return 0, err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.life = life
	if a.fenced {
		a.fenced = false
		a.log.Info("session renewed in time again")
		a.wakeAll()
	}
	return life.deadline(), nil
}

// saveRenewals has the state file tell of renewals, for an agent that restarts. It waits for
// the disk, and nobody for it.
func (a *Agent) saveRenewals(ctx context.Context) error {
	failed := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.unsaved:
		}
		deadline := a.lifetime().deadline()
		err := a.state.change(false, func(s *state) { s.Deadline, s.BootID = deadline, a.cfg.BootID })
		if err != nil && !failed {
			a.log.Error("a restart will not know of the last renewals", zap.Error(err))
		}
		failed = err != nil
	}
}

// outlived reports whether a process was killed at the deadline of the session, or after it, as far
// as the time of its end tells: that was the watchdog, even if it could not write so. The
// caller holds a.mu.
func (a *Agent) outlived(exit *Exit) bool {
	now := a.cfg.BootClock()
	at := now
	if !exit.At.IsZero() {
		at -= max(0, time.Since(exit.At))
	}
	return exit.Code == exitKilled && a.life.ttl > 0 && at >= a.life.watched()
}

func (a *Agent) lifetime() lifetime {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.life
}

// raiseFence tells all tasks that the session may end, if it is time: each then ends
// its process before the deadline.
func (a *Agent) raiseFence() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.cfg.BootClock()
	if a.fenced || now < a.life.warn() {
		return
	}
	a.fenced = true
	a.cfg.Metrics.fences.Inc()
	a.log.Warn("the session may end: what must not outlive it is ended", zap.Duration("duration", a.life.deadline()-now))
	for _, t := range a.tasks {
		t.seen.RetryAt = time.Time{}
	}
	a.wakeAll()
}
