package controlplane

import (
	"context"
	"time"

	"github.com/escher-sched/escher/types"
)

// StopOptions describes how to stop a task.
type StopOptions struct {
	// Reason is the cause in words; the status of the task shows it.
	Reason string
	// Grace is the time between stop signal and kill. 0 means the grace of the spec; NoGrace means
	// none.
	Grace time.Duration
}

// NoGrace kills a task as soon as it is signaled. It is not 0, because 0 means the default.
const NoGrace = time.Nanosecond

func (o StopOptions) validate() error {
	return (&types.Stop{Reason: o.Reason, Grace: o.Grace}).Validate()
}

// Stop ends a task for good; id may be a unique prefix. Stop returns once the intent is stored;
// Wait returns when the task has ended. Stopping an ended or stopping task changes nothing, unless
// it shortens its grace.
func (c *Client) Stop(ctx context.Context, id string, opts StopOptions) error {
	if err := opts.validate(); err != nil {
		return err
	}
	id, err := c.Resolve(ctx, id)
	if err != nil {
		return err
	}
	_, err = perform(ctx, c.store, nil, &stop{c: c, id: id, opts: opts})
	return err
}

// Evict ends an attempt of a task, which then waits for its next one; id may be a unique prefix.
// Attempt 0 means the present one. Precondition: that attempt is not on a node.
func (c *Client) Evict(ctx context.Context, id string, attempt int) error {
	if err := validAttempt(attempt); err != nil {
		return err
	}
	id, err := c.Resolve(ctx, id)
	if err != nil {
		return err
	}
	_, err = perform(ctx, c.store, nil, &evict{c: c, id: id, attempt: attempt})
	return err
}

func validAttempt(attempt int) error {
	if attempt < 0 {
		return types.Errorf(types.Invalid, "attempt: %d is negative: count from 1, or give 0 for the present one", attempt)
	}
	return nil
}

// stop is an edit that stops a task.
type stop struct {
	c    *Client
	id   string
	opts StopOptions
}

func (e *stop) verb() string { return "stop task " + e.id }

func (e *stop) draw(ctx context.Context, s Store, change *Change) error {
	t, err := e.c.read(ctx, e.id)
	if err != nil {
		return err
	}
	change.IfUnchanged(TaskKey(e.c.ns, e.id), t.mod)
	if t.Phase().Ended() {
		return nil
	}
	asked := &types.Stop{Reason: e.opts.Reason, Grace: e.opts.Grace}
	if was := t.Task.Leaving(t.Attempt()); was != nil {
		sooner, err := e.c.Sooner(ctx, asked, was, t.Task.Spec)
		if err != nil || !sooner && !was.Evicted {
			return err
		}
		if !sooner {
			asked.Grace = was.Grace
		}
	}
	t.Task.Stop = asked
	change.Put(TaskKey(e.c.ns, e.id), t.Task)
	return nil
}

// Sooner reports whether asked ends a task sooner than was does, by a shorter grace. digest is that
// of the task's spec: unlike types.Stop.Sooner, this method knows the spec's own grace.
func (c *Client) Sooner(ctx context.Context, asked, was *types.Stop, digest string) (bool, error) {
	if was.Grace > 0 || !asked.Sooner(was) {
		return asked.Sooner(was), nil
	}
	spec, err := c.Spec(ctx, digest)
	if err != nil && !types.Is(err, types.NotFound) {
		return false, err
	}
	return asked.Grace < GraceOf(spec), nil
}

func (e *stop) refused(context.Context, Store, []KV) error { return nil }
func (e *stop) once() bool                                 { return false }
func (e *stop) done(int64)                                 {}

// evict is an edit that ends an attempt.
type evict struct {
	c       *Client
	id      string
	attempt int
	reason  string
}

func (e *evict) verb() string { return "evict task " + e.id }

func (e *evict) draw(ctx context.Context, s Store, change *Change) error {
	t, err := e.c.read(ctx, e.id)
	if err != nil {
		return err
	}
	change.IfUnchanged(TaskKey(e.c.ns, e.id), t.mod)
	if e.attempt != 0 && t.Task.Evict == e.attempt {
		return nil
	}
	if !t.Phase().Held() || e.attempt != 0 && t.Status.Attempt != e.attempt {
		return types.Errorf(types.Precondition, "it is %s, at attempt %d: evict a task that is on a node, by its present attempt", t.Phase(), t.Attempt())
	}
	// A new draft must concern the same attempt as the first.
	e.attempt = t.Status.Attempt
	if t.Task.Evict == e.attempt {
		return nil
	}
	t.Task.Evict, t.Task.EvictGrace = e.attempt, 0
	types.UpdateLater(t.Task, func(l *types.Later) { l.EvictReason = e.reason })
	change.Put(TaskKey(e.c.ns, e.id), t.Task)
	return nil
}

func (e *evict) refused(context.Context, Store, []KV) error { return nil }
func (e *evict) once() bool                                 { return false }
func (e *evict) done(int64)                                 {}
