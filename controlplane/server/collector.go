package server

import (
	"context"
	"math"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// Collector deletes finished objects and objects without an owner, compacts the store's history,
// and closes admission before the database is full.
//
// All its knowledge is in the store, and every write compares what it relied on. So another
// collector may run at the same time, or take over at any moment.
type Collector struct {
	store  controlplane.Store
	maint  controlplane.Maintenance
	policy Policy
	guard  []controlplane.Compare
	log    *zap.Logger
	opts   Options

	wake chan struct{}

	mu    sync.Mutex // guards the fields up to watched
	index *index
	// reached is the revision up to which each kind of keys is known.
	reached map[controlplane.Kind]int64
	// watched is the time of the last look at the size of the database.
	watched time.Time

	// Only the loop uses the fields below.
	usage controlplane.Usage
	// repeat applies to the next pass: see pass.repeat.
	repeat bool
	// idle reports whether the last pass had nothing to do.
	idle bool
	// specs is the position of the listing of specs.
	specs controlplane.ListOptions
	// failed holds the steps that failed, by their keys.
	failed    setbacks
	rewritten rewritten
	// history is the revision of the next compaction, compacted that of the last one.
	history, compacted int64
}

// Options are the optional parts of a Collector.
type Options struct {
	// Metrics counts its work; nil disables counting.
	Metrics *Metrics
	// Beat is called with false whenever the loop runs, at least every Policy.Interval, and with
	// true when the store answers; nil disables it.
	Beat func(heard bool)
	// Recorded returns the revision up to which the history of this process has all ends of tasks. No
	// ended task is deleted, and nothing compacted, beyond it: see awaitsHistory. nil means no history.
	Recorded func() int64
	// Logger logs its work; nil disables logging.
	Logger *zap.Logger
}

// NewCollector returns a Collector to Run. It adds the compares of guard, such as that of a leader
// key, to each of its transactions. Invalid: the error names all that is wrong with policy.
func NewCollector(store controlplane.Store, maint controlplane.Maintenance, policy Policy, guard []controlplane.Compare, opts Options) (*Collector, error) {
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	if opts.Logger == nil {
		opts.Logger = zap.NewNop()
	}
	if opts.Recorded == nil {
		opts.Recorded = func() int64 { return math.MaxInt64 }
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

// followed returns the kinds of keys that the collector follows. Bindings, reports and allocations
// are most of the writes, and none is collected here. Specs are large, so the collector only lists
// their names now and then.
func followed() []controlplane.Kind {
	return []controlplane.Kind{
		controlplane.Admissions, controlplane.Alive, controlplane.Histories, controlplane.Jobs, controlplane.Namespaces, controlplane.Policies, controlplane.Provided, controlplane.Reservations,
		controlplane.Resources, controlplane.Sessions, controlplane.Statuses, controlplane.System,
		controlplane.Tasks,
	}
}

// Run collects until ctx is done, and then returns ctx.Err(). It waits while the store is
// unavailable. Conflict: a compare of the guard no longer holds.
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

// apply applies an update of a kind.
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
		c.requestPass()
	}
	return nil
}

// requestPass makes the loop start another pass, once Gap has passed.
func (c *Collector) requestPass() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// consistent returns the revision up to which everything is known; ok is false until every kind has
// been listed.
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

// loop runs a pass after changes, at most one every Gap. It does the housekeeping every Interval.
func (c *Collector) loop(ctx context.Context) error {
	interval := time.NewTicker(c.policy.Interval)
	defer interval.Stop()
	// due fires when the next pass is due, because of a change or remaining work.
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

// settle logs an error that the next pass may not have, and returns the others: Conflict, and the
// end of ctx. A full database is logged: it accepts deletions, and more once it is rewritten.
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

// maxSteps bounds the steps of one pass, so that compaction and the check of the database's size
// are not delayed.
const maxSteps = 4096

// collect runs one pass and does what is due, or a large part of it.
func (c *Collector) collect(ctx context.Context) (more bool, err error) {
	if err := c.watch(ctx); err != nil {
		return false, err
	}
	return c.runPass(ctx, time.Now())
}

// runPass does what is due at a time, or a large part of it.
func (c *Collector) runPass(ctx context.Context, now time.Time) (more bool, err error) {
	if err := c.sizeSpecs(ctx); err != nil {
		return false, err
	}
	steps, more := c.decide(now)
	undone, err := c.perform(ctx, steps)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range undone {
		if s.of != nil {
			s.of.requeue(c.index)
		}
	}
	// A step that failed needs news first, so no further pass runs at once.
	return more && len(undone) == 0, err
}

// panicked logs a panic about a key. The collector continues with the others.
func (c *Collector) panicked(key string, err error) {
	c.opts.Metrics.setAside("collect")
	c.log.Error("deciding panicked: skipped until it changes", zap.String("path", key), zap.Error(err))
}

func (c *Collector) decide(now time.Time) (steps []step, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	revision, ok := c.consistent()
	if !ok {
		return nil, false
	}
	l := pass{
		index: c.index, policy: c.policy, now: now, revision: revision, tasks: c.reached[controlplane.Tasks],
		usage: c.usage, repeat: c.repeat, limit: maxSteps, recorded: c.recorded(),
		metrics: c.opts.Metrics, failed: c.panicked,
	}
	c.repeat = false
	steps, more = l.decide()
	c.idle = len(steps) == 0
	return inOrder(steps), more
}
