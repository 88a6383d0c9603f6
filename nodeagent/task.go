package nodeagent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// task takes care of one attempt, in a goroutine of its own. All fields but the
// first are guarded by Agent.mu.
type task struct {
	a       *Agent
	id      string
	attempt Attempt
	log     *zap.Logger
	wake    chan struct{}

	// binding is nil when there is none.
	binding *types.Binding
	// shares are what it holds of devices; they outlive the binding.
	shares []types.DeviceShare
	spec   *types.Spec
	seen   Seen
	// generation changes with everything that is known of the container.
	generation int
	retry      backoff.BackOff
	// cancelStart gives up the start under way, closeSocket the task socket; nil
	// if there is none.
	cancelStart, closeSocket func()
	// prober makes the checks of the process that runs, or ran last; nil before the first.
	prober *prober
}

// poke has the task look again.
func (t *task) poke() {
	select {
	case t.wake <- struct{}{}:
	default: // It is going to.
	}
}

// run does what Next says until there is nothing left of the attempt, or ctx is done. A
// panic is a failure of the task, not of the agent.
func (t *task) run(ctx context.Context) {
	defer t.unserve()
	for over := false; !over && ctx.Err() == nil; {
		err := supervise.Contain(func() error {
			over = t.step(ctx)
			return nil
		})
		if err != nil {
			t.log.Error("panic", zap.Error(err))
			t.await(ctx, t.ended(err))
		}
	}
}

// step does what Next says. It reports whether there is nothing left of the attempt.
func (t *task) step(ctx context.Context) (over bool) {
	act := t.next()
	switch act.Do {
	case Wait:
		t.await(ctx, act.Until)
	case Forget:
		if t.forget() {
			t.a.noteGone(ctx, "it is not bound here", func(id string) bool { return id != t.id })
			t.dropScratch()
			return true
		}
	default:
		t.perform(ctx, act)
	}
	return false
}

// next asks Next.
func (t *task) next() Action {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	return Next(t.desired(), t.seen, time.Now())
}

// desired returns what is wanted. The caller holds a.mu.
func (t *task) desired() Desired {
	b := t.binding
	if b == nil {
		return Desired{}
	}
	a := t.a
	d := Desired{
		Bound: true, Revision: t.attempt.Revision,
		Void:     b.Session != a.session && b.OnDisconnect != types.Keep,
		StopLost: b.OnDisconnect == types.StopLost, Stop: b.Stop, MaxRun: b.MaxRun, Spec: t.spec, Memory: b.Amount(types.Memory),
	}
	if b.Deadline != 0 {
		d.Deadline = time.Unix(0, b.Deadline)
	}
	if a.fenced && b.OnDisconnect != types.Keep {
		left := a.life.killBy() - a.cfg.BootClock()
		d.KillBy = time.Now().Add(left)
		d.SignalBy = d.KillBy.Add(-min(grace(&d), a.life.ttl/fenceGrace))
	}
	return d
}

// await waits until something changed, or a time.
func (t *task) await(ctx context.Context, until time.Time) {
	var due <-chan time.Time
	if !until.IsZero() {
		// The wall clock may be set meanwhile, and a deadline is by it.
		timer := time.NewTimer(min(time.Until(until), time.Minute))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-t.wake:
	case <-due:
	}
}

// perform does one action.
func (t *task) perform(ctx context.Context, act Action) {
	began := time.Now()
	err := t.do(ctx, act)
	if ctx.Err() != nil {
		return
	}
	level := zap.DebugLevel
	if act.Do == Warn || act.Do == Signal || act.Do == Kill || act.Do == Start {
		level = zap.InfoLevel
	}
	t.log.Log(level, act.Do.String(), zap.String("reason", act.Reason), zap.Duration("duration", time.Since(began)), zap.Error(err))
	t.ended(err)
}

// ended notes how an action ended, and returns when the next one may be tried.
func (t *task) ended(err error) time.Time {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	if err != nil {
		t.failed(err)
	}
	return t.seen.RetryAt
}

// failed notes a failure, after which nothing is tried for a while: longer each
// time, but not while a deadline is near. The caller holds a.mu.
func (t *task) failed(err error) {
	const whileFenced = 100 * time.Millisecond
	wait := t.retry.NextBackOff()
	if t.a.fenced {
		wait = min(wait, whileFenced)
	}
	trouble := reasonOf(err)
	if t.seen.Trouble != trouble {
		t.note(StepTrouble, "%s", trouble)
		t.log.Warn("to be tried again", zap.String("error", trouble))
	}
	t.seen.Trouble, t.seen.RetryAt = trouble, time.Now().Add(wait)
}

// reasonOf returns an error as the reason of a report, however much its text quotes.
func reasonOf(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\ngoroutine ") // the stack of a panic is for the log
	return types.CutReason(text)
}

// fine notes that something went well. The caller holds a.mu.
func (t *task) fine() {
	t.retry.Reset()
	t.seen.Trouble, t.seen.RetryAt = "", time.Time{}
}

// changed notes something that was learnt of the container, and looks again.
func (t *task) changed(edit func(*Seen)) {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	t.generation++
	edit(&t.seen)
	t.poke()
}

// forget drops the task if it is still without a binding.
func (t *task) forget() bool {
	a := t.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.binding != nil {
		return false
	}
	delete(a.tasks, t.id)
	a.marks.drop(t.id)
	t.note(StepReleased, "nothing is left of it")
	return true
}

// String returns the name of the verb.
func (v Verb) String() string {
	names := [...]string{
		Wait: "wait", Look: "look", Fetch: "fetch", Start: "start", CancelStart: "cancel start", Adopt: "adopt",
		Serve: "serve", Probe: "probe", Warn: "warn", Signal: "signal", Kill: "kill", Send: "report", Remove: "remove", Forget: "forget",
	}
	if v < 0 || int(v) >= len(names) {
		return fmt.Sprintf("verb %d", int(v))
	}
	return names[v]
}
