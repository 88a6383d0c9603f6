package nodeagent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent/peers"
	"github.com/escher-sched/escher/types"
)

// task manages one attempt, in a goroutine. Agent.mu guards binding and all fields after it.
type task struct {
	a       *Agent
	id      string
	attempt Attempt
	log     *zap.Logger
	wake    chan struct{}
	// job is what it knows of its job.
	job *peers.Attempt

	// binding is nil when there is none.
	binding *types.Binding
	// shares are its shares of devices; they outlive the binding.
	shares []types.DeviceShare
	spec   *types.Spec
	// imageCheck is the health check of the image of the container; nil means none.
	imageCheck *types.Check
	seen       Seen
	// generation changes with every change of the known state of the container.
	generation int
	retry      backoff.BackOff
	// cancelStart cancels the start under way, closeSocket closes the task socket; nil if there is
	// none.
	cancelStart, closeSocket func()
	// prober makes the checks of the running or last process; nil before the first.
	prober *prober
}

// poke wakes the task.
func (t *task) poke() {
	select {
	case t.wake <- struct{}{}:
	default: // A wake-up is pending.
	}
}

// run does what Next says until nothing is left of the attempt or ctx is done. A panic fails the
// task, not the agent.
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

// step does what Next says once. It reports whether nothing is left of the attempt.
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

// next calls Next.
func (t *task) next() Action {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	return Next(t.desired(), t.seen, time.Now())
}

// desired returns the desired state. The caller holds a.mu.
func (t *task) desired() Desired {
	b := t.binding
	if b == nil {
		return Desired{}
	}
	a := t.a
	d := Desired{
		Bound: true, Revision: t.attempt.Revision,
		Void:     b.Session != a.session && b.OnDisconnect != types.Keep,
		StopLost: b.OnDisconnect == types.StopLost, Stop: b.Stop, MaxRun: b.MaxRun, Spec: t.spec, Memory: t.spec.MemoryOf(b.Amount(types.Memory)),
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

// await waits for a change or until a time.
func (t *task) await(ctx context.Context, until time.Time) {
	var due <-chan time.Time
	if !until.IsZero() {
		// A deadline is wall-clock time, and the wall clock may be set meanwhile.
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

// perform does one action and logs it.
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

// ended records the result of an action, and returns when the next retry is allowed.
func (t *task) ended(err error) time.Time {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	if err != nil {
		t.failed(err)
	}
	return t.seen.RetryAt
}

// failed records a failure. Retries wait for a growing pause, but not long while a deadline is
// near. The caller holds a.mu.
func (t *task) failed(err error) {
	const whileFenced = 100 * time.Millisecond
	wait := t.retry.NextBackOff()
	if t.a.fenced {
		wait = min(wait, whileFenced)
	}
	trouble := t.a.cfg.reasonOf(err)
	if t.seen.Trouble != trouble {
		t.note(StepTrouble, "%s", trouble)
		t.log.Warn("to be tried again", zap.String("error", trouble))
	}
	t.seen.Trouble, t.seen.RetryAt = trouble, time.Now().Add(wait)
}

// reasonOf returns an error as the reason of a report, cut to the permitted length.
func (c *Config) reasonOf(err error) string {
	text, _, _ := strings.Cut(types.Render(err, c.Say), "\ngoroutine ") // the stack of a panic is for the log
	return types.CutReason(text)
}

// fine records a success. The caller holds a.mu.
func (t *task) fine() {
	t.retry.Reset()
	t.seen.Trouble, t.seen.RetryAt = "", time.Time{}
}

// changed records a change of the container, and wakes the task.
func (t *task) changed(edit func(*Seen)) {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	t.generation++
	edit(&t.seen)
	t.poke()
}

// forget drops the task if it still has no binding.
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
