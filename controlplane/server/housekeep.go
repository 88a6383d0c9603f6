package server

import (
	"context"
	"fmt"
	"math"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
)

// usageGap is the shortest time between two looks at the size of the database during writes: ten
// clients write some tens of MiB in it.
const usageGap = 2 * time.Second

// watch reads the size of the database, unless it has just done so.
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

// housekeep reads the database's size, lists specs, and compacts.
func (c *Collector) housekeep(ctx context.Context) error {
	c.repeat = true
	if err := c.watch(ctx); err != nil {
		return err
	}
	if err := c.listSpecs(ctx); err != nil {
		return err
	}
	// A full database keeps no history. The effect of the last compaction is known by now.
	freed := c.compacted >= c.usage.Revision
	if c.usage.Alarm {
		c.history = c.usage.Revision
	}
	if until := min(c.history, c.recorded()); until > c.compacted {
		if err := c.maint.Compact(ctx, until); err != nil {
			return err
		}
		c.compacted = until
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

// awaitsHistory is the fraction of the quota in use from which the collector does not wait for the
// history: that must neither close admission nor fill the database.
const awaitsHistory = 0.5

// recorded returns the revision up to which the collector may delete ends of tasks. It does not wait
// for the history if it cannot tell how full the database is.
func (c *Collector) recorded() int64 {
	if u := c.usage; u.Revision != 0 && u.Quota <= 0 || u.Alarm || u.Share() >= awaitsHistory {
		return math.MaxInt64
	}
	return c.opts.Recorded()
}

// rewriteGap is the shortest time between two defragmentations.
const rewriteGap = 15 * time.Second

// rewritten is the time of the last defragmentation, and the revision compacted before it.
type rewritten struct {
	at        time.Time
	compacted int64
}

// fullInterval replaces Policy.Interval while the store refuses writes.
const fullInterval = 5 * time.Second

// pace returns the time until the next housekeeping.
func (c *Collector) pace() time.Duration {
	if c.usage.Alarm {
		return min(c.policy.Interval, fullInterval)
	}
	return c.policy.Interval
}

// stuckGap is the shortest time between two defragmentations of a database that seems full while
// nothing is deleted.
const stuckGap = 10 * time.Minute

// stuck reports whether etcd refuses every write and everything deletable is deleted. etcd notices
// freed pages only when it writes, so it cannot recover by itself. A defragmentation, which makes
// it unavailable for a while, helps.
func (c *Collector) stuck() bool {
	return c.usage.Alarm && c.idle && (c.compacted > c.rewritten.compacted || time.Since(c.rewritten.at) > stuckGap)
}

// specPages bounds the pages of specs listed at a time, and specPage the keys on a page.
const (
	specPages = 10
	specPage  = 1000
)

// listSpecs lists some specs, from where it stopped the last time, or all of them if they are few.
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
