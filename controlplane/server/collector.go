package server

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// Collector deletes what is finished or has lost its owner, compacts the store's
// history, and closes the cluster to new tasks before the database is full.
//
// All it knows is in the store, and every write depends on what it was decided on:
// another collector may run at the same time, or take over at any moment.
type Collector struct {
	store  controlplane.Store
	maint  controlplane.Maintenance
	policy Policy
	guard  []controlplane.Compare
	log    *zap.Logger
	opts   Options

	wake chan struct{}

	mu    sync.Mutex // guards what follows
	index *index
	// reached is how far each kind of keys is known.
	reached map[controlplane.Kind]int64
	// watched is when the database was looked at last.
	watched time.Time

	// What follows is of the loop alone.
	usage controlplane.Usage
	// repeat is that of the next look.
	repeat bool
	// idle tells that at the last look nothing was to be done.
	idle bool
	// specs is where the listing of specs goes on.
	specs controlplane.ListOptions
	// failed are the steps that failed, by what they are about.
	failed    setbacks
	rewritten rewritten
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
func NewCollector(store controlplane.Store, maint controlplane.Maintenance, policy Policy, guard []controlplane.Compare, opts Options) (*Collector, error) {
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
		wake:  make(chan struct{}, 1),
		index: newIndex(), reached: make(map[controlplane.Kind]int64), failed: make(setbacks),
	}, nil
}

// followed returns the kinds of keys that it follows. Bindings, reports and what is
// allocated are most of what is written, and nothing of it is the collector's;
// specs are large, and only their names are looked at, now and then.
func followed() []controlplane.Kind {
	return []controlplane.Kind{
		controlplane.Admissions, controlplane.Alive, controlplane.Jobs, controlplane.Namespaces, controlplane.Policies, controlplane.Provided, controlplane.Reservations,
		controlplane.Resources, controlplane.Sessions, controlplane.Statuses, controlplane.System,
		controlplane.Tasks,
	}
}

// Run collects until ctx is done, and returns ctx.Err() then. While the store is
// away it waits. Conflict: a compare of the guard does not hold any more.
func (c *Collector) Run(ctx context.Context) error {
	c.opts.Metrics.lead(true)
	defer c.opts.Metrics.lead(false)
	g, ctx := supervise.WithContext(ctx)
	for _, kind := range followed() {
		opts := controlplane.ListWatchOptions{
			Prefix: controlplane.Prefix(kind), Parts: true, Log: c.log, Heard: func() { c.opts.Beat(true) },
		}
		g.Go(func() error {
			return controlplane.ListWatch(ctx, c.store, opts, func(u controlplane.Update) error { return c.apply(kind, u) })
		})
	}
	g.Go(func() error { return c.loop(ctx) })
	return g.Wait()
}

// apply takes in an update of a kind.
func (c *Collector) apply(kind controlplane.Kind, u controlplane.Update) error {
	return c.applyAt(time.Now(), kind, u)
}

func (c *Collector) applyAt(now time.Time, kind controlplane.Kind, u controlplane.Update) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range u.Events {
		if err := supervise.Contain(func() error { c.index.apply(e, now); return nil }); err != nil {
			c.panicked(e.Key, err)
		}
	}
	if u.More {
		return nil
	}
	if u.Has != nil {
		c.index.reduce(kind, u.Has, u.Revision, now)
	}
	c.reached[kind] = u.Revision
	if u.Synced || len(u.Events) > 0 {
		c.poke()
	}
	return nil
}

// poke has the loop look again, though not before Gap has passed.
func (c *Collector) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
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
	// due is when it looks next because something has changed, or more is to be done.
	var due <-chan time.Time
	looked := time.Now()
	if err := c.settle(ctx, c.housekeep(ctx)); err != nil {
		return err
	}
	interval.Reset(c.pace())
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-interval.C:
			if err := c.settle(ctx, c.housekeep(ctx)); err != nil {
				return err
			}
			interval.Reset(c.pace())
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
		more, err := c.collect(ctx)
		if err := c.settle(ctx, err); err != nil {
			return err
		}
		if more {
			due = time.After(0)
		}
	}
}

// settle logs an error that the next look may not have, and returns the others: Conflict,
// and that ctx is done. A database that is full is none of these: it takes deletions, and
// more when it has been rewritten.
func (c *Collector) settle(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case types.Is(err, types.Conflict):
		return err
	}
	c.opts.Metrics.trouble()
	c.log.Warn("collection interrupted", zap.Error(err))
	return nil
}

// maxSteps bounds what is done at one look: then it is seen to whether the history is
// to be compacted, and how full the database is.
const maxSteps = 4096

// collect looks at the state once and does what is to be done, or a good part of it.
func (c *Collector) collect(ctx context.Context) (more bool, err error) {
	if err := c.watch(ctx); err != nil {
		return false, err
	}
	return c.look(ctx, time.Now())
}

// look does what is to be done at a time, or a good part of it.
func (c *Collector) look(ctx context.Context, now time.Time) (more bool, err error) {
	if err := c.sizeSpecs(ctx); err != nil {
		return false, err
	}
	steps, more := c.decide(now)
	undone, err := c.perform(ctx, steps)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range undone {
		if s.of != nil {
			s.of.again(c.index)
		}
	}
	// What could not be done waits for what is to be learned first.
	return more && len(undone) == 0, err
}

// panicked logs that deciding about a key panicked. The collector goes on with the others.
func (c *Collector) panicked(key string, err error) {
	c.opts.Metrics.setAside("collect")
	c.log.Error("deciding panicked: it is passed over until it changes", zap.String("path", key), zap.Error(err))
}

func (c *Collector) decide(now time.Time) (steps []step, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	revision, ok := c.consistent()
	if !ok {
		return nil, false
	}
	l := look{
		index: c.index, policy: c.policy, now: now, revision: revision, tasks: c.reached[controlplane.Tasks],
		usage: c.usage, repeat: c.repeat, limit: maxSteps,
		metrics: c.opts.Metrics, failed: c.panicked,
	}
	c.repeat = false
	steps, more = l.decide()
	c.idle = len(steps) == 0
	return inOrder(steps), more
}
