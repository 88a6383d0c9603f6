package server

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
)

// usageGap is the least time between two looks at how full the database is, while
// something is written: in that time ten clients write some tens of MiB.
const usageGap = 2 * time.Second

// watch looks how full the database is, unless it has just done so.
func (c *Collector) watch(ctx context.Context) error {
	now := time.Now()
	c.mu.Lock()
	recent := now.Sub(c.watched) < min(usageGap, c.policy.Interval)
	c.mu.Unlock()
	if recent {
		return nil
	}
	usage, err := c.maint.Usage(ctx)
	if err != nil {
		return err
	}
	c.usage = usage
	c.opts.Metrics.full(usage)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = now
	return nil
}

// housekeep looks at the database and the names of the specs, and compacts.
func (c *Collector) housekeep(ctx context.Context) error {
	c.repeat = true
	if err := c.watch(ctx); err != nil {
		return err
	}
	if err := c.listSpecs(ctx); err != nil {
		return err
	}
	// A full database keeps no history. What the last compaction freed is known by now.
	freed := c.compacted >= c.usage.Revision
	if c.usage.Alarm {
		c.history = c.usage.Revision
	}
	if c.history > c.compacted {
		if err := c.maint.Compact(ctx, c.history); err != nil {
			return err
		}
		c.compacted = c.history
	}
	c.history = c.usage.Revision
	if time.Since(c.rewritten.at) < rewriteGap || !cramped(c.usage) && !(freed && c.stuck()) {
		return nil
	}
	c.rewritten = rewritten{time.Now(), c.compacted}
	c.log.Info("defragmenting", zap.String("reason", fmt.Sprintf("%s of its file of %s are in use, and it may have %s",
		size(c.usage.InUse), size(c.usage.File), size(c.usage.Quota))))
	return c.maint.Defragment(ctx)
}

// rewriteGap is the least time between two defragmentations.
const rewriteGap = 15 * time.Second

// rewritten is when the database was defragmented, and up to which revision it had been
// compacted.
type rewritten struct {
	at        time.Time
	compacted int64
}

// fullInterval is Policy.Interval while the store refuses writes.
const fullInterval = 5 * time.Second

// pace returns the time until the next housekeeping.
func (c *Collector) pace() time.Duration {
	if c.usage.Alarm {
		return min(c.policy.Interval, fullInterval)
	}
	return c.policy.Interval
}

// stuckGap is the least time between two attempts to free a database that is full by
// all that is known, while nothing is deleted.
const stuckGap = 10 * time.Minute

// stuck reports whether etcd refuses every write, and all has been deleted that may be:
// it finds out what has become free when it writes, and so does not. To rewrite the
// database, which keeps it from answering for a while, tells.
func (c *Collector) stuck() bool {
	return c.usage.Alarm && c.idle && (c.compacted > c.rewritten.compacted || time.Since(c.rewritten.at) > stuckGap)
}

// specPages bounds how many pages of specs are listed at a time, and specPage how many
// are on one.
const (
	specPages = 10
	specPage  = 1000
)

// listSpecs looks at some of the specs, going on where it ended the last time, and at
// all of them where there are not many.
func (c *Collector) listSpecs(ctx context.Context) error {
	for range specPages {
		c.specs.Prefix, c.specs.KeysOnly, c.specs.Limit = controlplane.Prefix(controlplane.Specs), true, specPage
		page, err := c.store.List(ctx, c.specs)
		if err != nil {
			return err
		}
		c.seeSpecs(page.KVs)
		if !page.More {
			c.specs.After = ""
			return nil
		}
		c.specs.After = page.KVs[len(page.KVs)-1].Key
	}
	return nil
}

func (c *Collector) seeSpecs(kvs []controlplane.KV) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kv := range kvs {
		if k, ok := controlplane.Parse(kv.Key); ok {
			c.index.see(specName{k.Namespace, k.ID}, kv.ModRevision, now)
		}
	}
}
