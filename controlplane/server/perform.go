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

// maxStepOps bounds the operations of one transaction: larger ones block others for more than a few
// milliseconds, and save little.
const maxStepOps = 512

// perform performs steps, many in one transaction. It returns the steps that it did not perform,
// because their conditions no longer hold, or because of an error, which it also returns.
func (c *Collector) perform(ctx context.Context, steps []step) (undone []step, err error) {
	done := make(tally)
	defer func() { c.report(done) }()
	steps, undone = c.withoutFailed(steps)
	puts := func(s step) bool { return s.put != nil }
	// A full etcd accepts transactions that only delete.
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

// withoutFailed splits off the failed steps that are not due for a retry.
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

// fitting returns the number of steps that fit one transaction, at least one.
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
		// Keys take less than the remaining quarter.
		if i > 0 && (max(ops, compares) > most || bytes > limits.Bytes*3/4) {
			return i
		}
	}
	return len(steps)
}

// commit performs steps in one transaction. If it is refused, it repeats it without the steps whose
// conditions fail, which it returns. It sets aside a step that the store can never accept, or that
// panics.
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

// halve performs each half of some steps that failed together. It retries a step that fails alone
// later.
func (c *Collector) halve(ctx context.Context, steps []step, done tally, refused []step, failed error) ([]step, error) {
	if len(steps) == 1 {
		c.opts.Metrics.setAside("collect")
		if key := steps[0].key; c.failed.failed(key, failed, time.Now()) {
			c.log.Error("cannot be collected: collection continues with others", zap.String("path", key), zap.String("reason", string(steps[0].why)), zap.Error(failed))
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

// change builds one transaction of steps.
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

// failing returns the compares of txn that do not hold for the keys read back.
func failing(txn controlplane.Txn, read []controlplane.KV) map[controlplane.Compare]bool {
	failed := make(map[controlplane.Compare]bool)
	for i, x := range txn.Compares {
		if !x.Holds(read[i]) {
			failed[x] = true
		}
	}
	return failed
}

// tally counts the work of one pass, by reason.
type tally map[why]*deed

// deed is the work for one reason.
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

// report logs the work, one line a reason.
func (c *Collector) report(done tally) {
	for why, d := range done {
		c.opts.Metrics.collect(why, d.count)
		c.log.Info("collected", zap.String("reason", string(why)), zap.Int("count", d.count), zap.String("path", d.first), zap.Int64("revision", d.revision))
	}
}
