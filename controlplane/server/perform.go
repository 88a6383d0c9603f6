package server

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// maxStepOps bounds the operations of one transaction: larger ones keep others
// waiting, and save nothing.
const maxStepOps = 128

// perform does steps, many in one transaction. Those whose conditions do not hold
// any more are dropped: there is another look at what has changed.
func (c *Collector) perform(ctx context.Context, steps []step) error {
	// An etcd that is full accepts transactions that only delete.
	deletes := slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return s.put != nil })
	puts := slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return s.put == nil })
	for _, kind := range [][]step{deletes, puts} {
		for len(kind) > 0 {
			n := c.fitting(kind)
			if err := c.commit(ctx, kind[:n]); err != nil {
				return err
			}
			kind = kind[n:]
		}
	}
	return nil
}

// fitting returns how many of the steps go into one transaction; at least one.
func (c *Collector) fitting(steps []step) int {
	limit := min(c.store.Limits().Ops, maxStepOps)
	ops, compares := 0, len(c.guard)
	for i, s := range steps {
		ops += max(len(s.deletes), 1)
		compares += len(s.compares)
		if i > 0 && max(ops, compares) > limit {
			return i
		}
	}
	return len(steps)
}

// commit does steps in one transaction, and without those that hold it up if it is
// refused.
func (c *Collector) commit(ctx context.Context, steps []step) error {
	for len(steps) > 0 {
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
		txn := change.Txn()
		res, err := controlplane.Commit(ctx, c.store, txn)
		if err != nil {
			return err
		}
		if res.Committed {
			c.report(steps, res.Revision)
			return nil
		}
		failed := failing(txn, res.Read)
		for _, g := range c.guard {
			if failed[g] {
				return types.Errorf(types.Conflict, "collect: %s has changed: another one leads", g.Key)
			}
		}
		left := slices.DeleteFunc(slices.Clone(steps), func(s step) bool {
			return slices.ContainsFunc(s.compares, func(x controlplane.Compare) bool { return failed[x] })
		})
		if len(left) == len(steps) {
			// An unanswered copy of it was committed.
			return nil
		}
		steps = left
	}
	return nil
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
		found := read[i].ModRevision
		if x.Target == controlplane.CreateRevision {
			found = read[i].CreateRevision
		}
		if found != x.Revision {
			failed[x] = true
		}
	}
	return failed
}

// report logs what was done, a line a reason.
func (c *Collector) report(steps []step, revision int64) {
	count := make(map[why]int)
	for _, s := range steps {
		count[s.why]++
	}
	for why, n := range count {
		c.opts.Metrics.collect(why, n)
		first := steps[slices.IndexFunc(steps, func(s step) bool { return s.why == why })]
		c.log.Info("collected", zap.String("reason", string(why)), zap.Int("count", n), zap.String("path", first.key), zap.Int64("revision", revision))
	}
}
