package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Collector deletes what is finished or has lost its owner, compacts the store's
// history, and closes the cluster to new tasks before the database is full.
//
// All it knows is in the store, and every write depends on what it was decided on:
// another collector may run at the same time, or take over at any moment.
type Collector struct {
	store  controlplane.Store
	maint  Maintenance
	policy Policy
	guard  []controlplane.Compare
	log    *zap.Logger
	opts   Options

	wake chan struct{}

	mu   sync.Mutex // guards what follows
	view *cluster.View
	// reached is how far each kind of keys is known.
	reached map[controlplane.Kind]int64

	// What follows is of the loop alone.
	since map[string]time.Time
	specs map[cluster.ID]int64
	usage Usage
	// history is the revision that the next compaction goes to, compacted that of
	// the last one.
	history, compacted int64
}

// Options are what a Collector can do without.
type Options struct {
	// Metrics are told what it does, nil: nobody is.
	Metrics *Metrics
	// Beat is called whenever its loop runs, every Policy.Interval at least, and with
	// true when it has heard from the store instead; nil is nobody.
	Beat func(heard bool)
	// Logger is told what it does; nil is nobody.
	Logger *zap.Logger
}

// NewCollector returns a Collector to Run. The compares of guard are added to each
// of its transactions: that of a leader key, while it leads.
// Invalid: the error names all that is wrong with policy.
func NewCollector(store controlplane.Store, maint Maintenance, policy Policy, guard []controlplane.Compare, opts Options) (*Collector, error) {
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	if opts.Logger == nil {
		opts.Logger = zap.NewNop()
	}
	if opts.Beat == nil {
		opts.Beat = func(bool) {}
	}
	return &Collector{
		store: store, maint: maint, policy: policy, guard: guard, log: opts.Logger, opts: opts,
		wake: make(chan struct{}, 1),
		view: cluster.New(), reached: make(map[controlplane.Kind]int64),
	}, nil
}

// followed returns the kinds of keys that it follows. Bindings, reports and what is
// allocated are most of what is written, and nothing of it is the collector's;
// specs are large, and only their names are looked at, now and then.
func followed() []controlplane.Kind {
	return []controlplane.Kind{
		controlplane.Alive, controlplane.Jobs, controlplane.Provided, controlplane.Reservations,
		controlplane.Resources, controlplane.Sessions, controlplane.Statuses, controlplane.System,
		controlplane.Tasks,
	}
}

// Run collects until ctx is done, and returns ctx.Err() then. While the store is
// away it waits. Conflict: a compare of the guard does not hold any more.
func (c *Collector) Run(ctx context.Context) error {
	c.opts.Metrics.lead(true)
	defer c.opts.Metrics.lead(false)
	g, ctx := errgroup.WithContext(ctx)
	for _, kind := range followed() {
		opts := controlplane.ListWatchOptions{Prefix: controlplane.Prefix(kind), Log: c.log, Heard: func() { c.opts.Beat(true) }}
		g.Go(func() error {
			return controlplane.ListWatch(ctx, c.store, opts, func(u controlplane.Update) error { return c.apply(kind, u) })
		})
	}
	g.Go(func() error { return c.loop(ctx) })
	return g.Wait()
}

// apply takes in an update of a kind.
func (c *Collector) apply(kind controlplane.Kind, u controlplane.Update) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range u.Events {
		if _, _, err := c.view.Apply(e); err != nil {
			return err
		}
	}
	c.reached[kind] = u.Revision
	if revision, ok := c.consistent(); ok {
		c.view.Reached(revision)
	}
	if u.Synced || len(u.Events) > 0 && kind != controlplane.Tasks && kind != controlplane.Jobs {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// consistent returns the revision up to which everything is known; ok is false
// until all kinds have been listed.
func (c *Collector) consistent() (revision int64, ok bool) {
	for i, kind := range followed() {
		r, listed := c.reached[kind]
		if !listed {
			return 0, false
		}
		if i == 0 || r < revision {
			revision = r
		}
	}
	return revision, true
}

// loop looks at the state after changes, though not more often than every Gap, and
// every Interval also at what a change does not tell of.
func (c *Collector) loop(ctx context.Context) error {
	interval := time.NewTicker(c.policy.Interval)
	defer interval.Stop()
	// due is when it looks next because something has changed.
	var due <-chan time.Time
	looked := time.Now()
	if err := c.settle(c.housekeep(ctx)); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-interval.C:
			if err := c.settle(c.housekeep(ctx)); err != nil {
				return err
			}
		case <-c.wake:
			if due == nil {
				due = time.After(max(0, c.policy.Gap-time.Since(looked)))
			}
			continue
		case <-due:
			due = nil
		}
		c.opts.Beat(false)
		looked = time.Now()
		if err := c.settle(c.collect(ctx)); err != nil {
			return err
		}
	}
}

// settle logs an error that the next look may not have, and returns the others.
func (c *Collector) settle(err error) error {
	switch {
	case err == nil:
	case types.ClassOf(err).Retryable():
		c.opts.Metrics.trouble()
		c.log.Warn("collection interrupted", zap.Error(err))
	default:
		return err
	}
	return nil
}

// housekeep looks at the database and the names of the specs, and compacts.
func (c *Collector) housekeep(ctx context.Context) error {
	usage, err := c.maint.Usage(ctx)
	if err != nil {
		return err
	}
	c.usage = usage
	c.opts.Metrics.full(usage)
	if c.specs, err = c.listSpecs(ctx); err != nil {
		return err
	}
	if c.history > c.compacted {
		if err := c.maint.Compact(ctx, c.history); err != nil {
			return err
		}
		c.compacted = c.history
	}
	c.history = usage.Revision
	if !usage.Cramped() {
		return nil
	}
	c.log.Info("defragmenting", zap.String("reason", fmt.Sprintf("%s of its file of %s are in use, and it may have %s", size(usage.InUse), size(usage.File), size(usage.Quota))))
	return c.maint.Defragment(ctx)
}

// listSpecs returns all specs with their ModRevision.
func (c *Collector) listSpecs(ctx context.Context) (map[cluster.ID]int64, error) {
	specs := make(map[cluster.ID]int64)
	opts := controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Specs), KeysOnly: true, Limit: 1000}
	for {
		page, err := c.store.List(ctx, opts)
		if err != nil {
			return nil, err
		}
		for _, kv := range page.KVs {
			if k, ok := controlplane.Parse(kv.Key); ok {
				specs[cluster.ID{Namespace: k.Namespace, ID: k.ID}] = kv.ModRevision
			}
		}
		if !page.More {
			return specs, nil
		}
		opts.Revision, opts.After = page.Revision, page.KVs[len(page.KVs)-1].Key
	}
}

// collect looks at the state once and does what is to be done.
func (c *Collector) collect(ctx context.Context) error {
	d, ok := c.decide()
	if !ok {
		return nil
	}
	c.since = d.since
	return c.perform(ctx, d.steps)
}

func (c *Collector) decide() (decision, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	revision, ok := c.consistent()
	if !ok {
		return decision{}, false
	}
	return decide(snapshot{
		now: time.Now(), view: c.view, revision: revision, specs: c.specs, usage: c.usage, since: c.since,
	}, c.policy), true
}
