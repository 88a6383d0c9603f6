package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// maxStepOps bounds the operations of one transaction: larger ones keep others
// waiting for more than a few milliseconds, and save little.
const maxStepOps = 512

// perform does steps, many in one transaction, and returns those that are not done:
// their conditions do not hold any more, or an error, which is returned too, was in
// the way.
func (c *Collector) perform(ctx context.Context, steps []step) (undone []step, err error) {
	done := make(tally)
	defer func() { c.report(done) }()
	steps, undone = c.withoutFailed(steps)
	puts := func(s step) bool { return s.put != nil }
	// An etcd that is full accepts transactions that only delete.
	deletes := slices.DeleteFunc(slices.Clone(steps), puts)
	others := slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return !puts(s) })
	for len(deletes)+len(others) > 0 {
		next := &deletes
		if len(deletes) == 0 {
			next = &others
		}
		n := c.fitting(*next)
		refused, err := c.commit(ctx, (*next)[:n], done)
		if err != nil {
			return slices.Concat(undone, deletes, others), err
		}
		undone, *next = append(undone, refused...), (*next)[n:]
	}
	return undone, nil
}

// withoutFailed splits off the steps that failed and are not to be tried again yet.
func (c *Collector) withoutFailed(steps []step) (rest, failed []step) {
	if len(c.failed) == 0 {
		return steps, nil
	}
	now := time.Now()
	for _, s := range steps {
		if c.failed.pending(s.key, now) {
			failed = append(failed, s)
		} else {
			rest = append(rest, s)
		}
	}
	return rest, failed
}

// fitting returns how many of the steps go into one transaction; at least one.
func (c *Collector) fitting(steps []step) int {
	limits := c.store.Limits()
	most := min(limits.Ops, maxStepOps)
	ops, compares, bytes := 0, len(c.guard), 0
	for i, s := range steps {
		ops += max(len(s.deletes), 1)
		compares += len(s.compares)
		if s.put != nil {
			bytes += len(types.Encode(0, s.put))
		}
		// The keys take less than the rest of the bytes.
		if i > 0 && (max(ops, compares) > most || bytes > limits.Bytes*3/4) {
			return i
		}
	}
	return len(steps)
}

// commit does steps in one transaction, and if it is refused without those that hold
// it up, which it returns. One that the store can never take, or that panics, is set aside.
func (c *Collector) commit(ctx context.Context, steps []step, done tally) (refused []step, err error) {
	for len(steps) > 0 {
		var txn controlplane.Txn
		var res controlplane.Result
		err := supervise.Contain(func() (err error) {
			txn = c.change(steps).Txn()
			res, err = controlplane.Commit(ctx, c.store, txn)
			return err
		})
		if types.Is(err, types.Invalid) || errors.Is(err, supervise.ErrPanic) {
			return c.halve(ctx, steps, done, refused, err)
		}
		if err != nil {
			return refused, err
		}
		if res.Committed {
			done.add(steps, res.Revision)
			return refused, nil
		}
		failed := failing(txn, res.Read)
		for _, g := range c.guard {
			if failed[g] {
				return refused, types.Errorf(types.Conflict, "collect: %s has changed: another one leads", g.Key)
			}
		}
		var left []step
		for _, s := range steps {
			if slices.ContainsFunc(s.compares, func(x controlplane.Compare) bool { return failed[x] }) {
				refused = append(refused, s)
			} else {
				left = append(left, s)
			}
		}
		if len(left) == len(steps) {
			// An unanswered copy of it was committed.
			return refused, nil
		}
		steps = left
	}
	return refused, nil
}

// halve does each half of some steps by itself, as together they failed. A step that fails
// alone is tried again later.
func (c *Collector) halve(ctx context.Context, steps []step, done tally, refused []step, failed error) ([]step, error) {
	if len(steps) == 1 {
		c.opts.Metrics.setAside("collect")
		if key := steps[0].key; c.failed.failed(key, failed, time.Now()) {
			c.log.Error("cannot be collected: the others go on", zap.String("path", key), zap.String("reason", string(steps[0].why)), zap.Error(failed))
		}
		return append(refused, steps[0]), nil
	}
	for _, half := range [][]step{steps[:len(steps)/2], steps[len(steps)/2:]} {
		more, err := c.commit(ctx, half, done)
		if refused = append(refused, more...); err != nil {
			return refused, err
		}
	}
	return refused, nil
}

// change makes one transaction of steps.
func (c *Collector) change(steps []step) *controlplane.Change {
	change := controlplane.NewChange(controlplane.NewBatch())
	for _, g := range c.guard {
		add(change, g)
	}
	for _, s := range steps {
		for _, x := range s.compares {
			add(change, x)
		}
		for _, key := range s.deletes {
			change.Delete(key)
		}
		if s.put != nil {
			change.Put(s.key, s.put)
		}
	}
	return change
}

func add(change *controlplane.Change, x controlplane.Compare) {
	if x.Target == controlplane.CreateRevision {
		change.IfCreated(x.Key, x.Revision)
		return
	}
	change.IfUnchanged(x.Key, x.Revision)
}

// failing returns the compares of txn that do not hold for what was read.
func failing(txn controlplane.Txn, read []controlplane.KV) map[controlplane.Compare]bool {
	failed := make(map[controlplane.Compare]bool)
	for i, x := range txn.Compares {
		if !x.Holds(read[i]) {
			failed[x] = true
		}
	}
	return failed
}

// tally is what was done at one look, by the reason.
type tally map[why]*deed

// deed is what was done for one reason.
type deed struct {
	count    int
	first    string
	revision int64
}

func (t tally) add(steps []step, revision int64) {
	for _, s := range steps {
		d := t[s.why]
		if d == nil {
			d = &deed{first: s.key}
			t[s.why] = d
		}
		d.count++
		d.revision = revision
	}
}

// report logs what was done, a line a reason.
func (c *Collector) report(done tally) {
	for why, d := range done {
		c.opts.Metrics.collect(why, d.count)
		c.log.Info("collected", zap.String("reason", string(why)), zap.Int("count", d.count), zap.String("path", d.first), zap.Int64("revision", d.revision))
	}
}
