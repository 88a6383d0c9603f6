package nodeagent

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// Processes are killed ttl/killMargin before the deadline of a session, and signaled ttl/fenceGrace
// before that at the earliest. So one renewal can fail without any effect.
const (
	killMargin = 15
	fenceGrace = 3
	// watchMargin is the kill margin of the watchdog. The watchdog acts after the agent, because
	// the agent can report why it ends a process.
	watchMargin = 20
)

// lifetime is how long the session lasts for certain: ttl from sent on, the time on the boot clock
// at which the last successful renewal was sent. It never ends later than the lease in the store.
type lifetime struct{ sent, ttl time.Duration }

// next returns when to renew the session, warn when to tell the tasks that it may end, killBy when
// to kill them, and deadline when they must be dead.
func (l lifetime) next() time.Duration     { return l.sent + l.ttl/3 }
func (l lifetime) warn() time.Duration     { return l.killBy() - l.ttl/fenceGrace }
func (l lifetime) killBy() time.Duration   { return l.deadline() - l.ttl/killMargin }
func (l lifetime) deadline() time.Duration { return l.sent + l.ttl }

// watched returns when the watchdog kills remaining processes.
func (l lifetime) watched() time.Duration { return l.deadline() - l.ttl/watchMargin }

// keepAlive renews the session until ctx is done or the session is over: errOver. If renewals fail,
// it raises the fence in time. It logs the first failure and the next success.
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
		// Etcd does not answer during a restore, so check the history after failures.
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

// pauseAwake waits. Timers stop while the machine is suspended, but sessions go on: so it checks
// the clock every second, and raises the fence in time.
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

// renewPolicy returns the backoff of renewals. It retries more often than other calls, because
// little time is left.
func (a *Agent) renewPolicy() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = a.cfg.TTL / 300
	b.MaxInterval = a.cfg.TTL / 30
	return b
}

// renew renews the lease once. If look is set, it also checks that the store's history is still the
// same. It gives up when another try makes more sense.
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
	default: // saveRenewals writes the latest renewal anyway.
	}
	if !look {
		return nil
	}
	epoch, revision, err := a.history(ctx)
	switch {
	case err != nil && types.ClassOf(err).Retryable():
		return nil // The next check follows soon.
	case err != nil:
		return err
	case st.betrayed(epoch, revision):
		return types.Errorf(types.Precondition, "look at the store's history: it was restored from a backup")
	case st.Epoch == "" && epoch != "":
		return a.state.change(true, func(s *state) { s.Epoch = epoch })
	}
	return nil
}

// mayRenew returns an error if the watchdog could not learn of a renewal. Such a session must end:
// the watchdog would kill its processes, and new tasks could not run.
func (a *Agent) mayRenew(ctx context.Context) error {
	if a.deadline == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.TTL/3)
	defer cancel()
	return a.deadline.Check(ctx)
}

// renewed records the time at which a successful renewal was sent, lowers the fence, and returns
// the deadline. The watchdog learns of it first. Unavailable: the watchdog cannot learn of it, so
// the renewal does not count.
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

// saveRenewals writes renewals to the state file, for a restarted agent. It waits for the disk, and
// no other goroutine waits for it.
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

// outlived reports whether a process was killed at or after the watchdog's time, judged by the time
// of its end. Then the watchdog killed it, even if it could not write a mark. The caller holds
// a.mu.
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

// raiseFence tells all tasks that the session may end, if it is time. Each then ends its process
// before the deadline.
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
