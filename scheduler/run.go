package scheduler

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/lease"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// sessionTTL is how long a dead scheduler still counts as alive for those that share the namespaces
// with it.
const sessionTTL = 5 * time.Second

// beatEvery is the interval at which an idle loop shows that it runs.
const beatEvery = 10 * time.Second

// mostGone is the number of removed node names above which a new Core replaces this one: a Core
// keeps about 1 KB for each name it has seen.
const mostGone = 50_000

// errOutgrown ends the run of a Core that knows more than mostGone removed nodes.
var errOutgrown = errors.New("too many nodes are gone")

// Run schedules until ctx is done: it connects a Core to the store. When a decision of the Core
// panics, its object is set aside until it changes, and another Core continues from the stored
// state. The same replacement happens after many nodes have come and gone.
func Run(ctx context.Context, store controlplane.Store, cfg Config, log *zap.Logger) error {
	return runCores(ctx, store, cfg, log, New)
}

// runCores is Run with the function that makes each Core.
func runCores(ctx context.Context, store controlplane.Store, cfg Config, log *zap.Logger, newCore func(Config) *Core) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg.Limits = store.Limits()
	away, schedule := make(aside), supervise.NewSchedule()
	for {
		began := time.Now()
		r := newRunner(store, newCore(cfg), log, away)
		err := r.run(ctx)
		if ctx.Err() == nil && errors.Is(err, errOutgrown) {
			log.Info("scheduler begins anew: it forgets the nodes that are gone", zap.Int("count", mostGone))
			continue
		}
		if ctx.Err() != nil || !r.setAside(err) {
			return err
		}
		if err := schedule.Pause(ctx, time.Since(began)); err != nil {
			return err
		}
	}
}

// runner is the I/O around a Core. Only its loop touches the core.
type runner struct {
	store   controlplane.Store
	log     *zap.Logger
	core    *Core
	group   *supervise.Group
	updates chan update
	answers chan answer
	// handed is closed once the last part of a listing that was passed on is applied. Only watch
	// uses it.
	handed chan struct{}
	// synced reports whether the state was listed and no listing is under way.
	synced bool
	// panicked reports whether the loop panicked.
	panicked bool
}

func newRunner(store controlplane.Store, core *Core, log *zap.Logger, away aside) *runner {
	r := &runner{
		store:   store,
		log:     log,
		core:    core,
		updates: make(chan update, 64),
		answers: make(chan answer, 64),
	}
	// A restarted scheduler must not repeat ids: the id of its transaction identifies an unanswered
	// commit.
	r.core.newBatch = controlplane.NewBatch
	r.core.aside = away
	return r
}

// run schedules until ctx is done, or something fails.
func (r *runner) run(ctx context.Context) error {
	g, ctx := supervise.WithContext(ctx)
	r.group = g
	if cfg := r.core.cfg; cfg.Shared {
		g.Go(func() error {
			return lease.Hold(ctx, r.store, controlplane.SchedulerKey(cfg.Name), &types.Leader{Holder: cfg.Name, Version: cfg.Version}, sessionTTL, nil)
		})
	}
	g.Go(func() error { return r.watch(ctx) })
	g.Go(func() error {
		r.panicked = true
		err := r.loop(ctx)
		r.panicked = false
		return err
	})
	return g.Wait()
}

// setAside sets aside the object of the decision that panicked with err. It reports whether there
// was one, and not the same as before.
func (r *runner) setAside(err error) bool {
	if !r.panicked {
		return false
	}
	key, mod, ok := r.core.suspect()
	if !ok || r.core.aside[key] == mod {
		return false
	}
	r.core.aside[key] = mod
	r.log.Error("deciding panicked: its item is set aside until it changes", zap.String("path", key), zap.Int64("revision", mod), zap.Error(err))
	if m := r.core.cfg.Metrics; m != nil {
		m.aside.Inc()
	}
	return true
}

// update is a change; taken, unless nil, is closed when it is applied.
type update struct {
	controlplane.Update
	taken chan struct{}
}

// answer is the result of a draft.
type answer struct {
	draft *Transaction
	res   controlplane.Result
	err   error
	took  time.Duration
}

// overtook reports whether the draft was refused because a pool differs from what the previous
// draft leaves.
func (a answer) overtook() bool {
	return a.err == nil && !a.res.Committed && a.res.Read == nil && a.draft.follows
}

// watch passes changes to the loop. It omits what a scheduler does not use: specs, which are large,
// and histories.
func (r *runner) watch(ctx context.Context) error {
	specs, histories := controlplane.Prefix(controlplane.Specs), controlplane.Prefix(controlplane.Histories)
	opts := controlplane.ListWatchOptions{
		Prefix: controlplane.Root, Log: r.log, Parts: true,
		Skip: func(key string) bool { return strings.HasPrefix(key, specs) || strings.HasPrefix(key, histories) },
	}
	if beat := r.core.cfg.Beat; beat != nil {
		opts.Heard = func() { beat(true) }
	}
	return controlplane.ListWatch(ctx, r.store, opts, func(u controlplane.Update) error { return r.hand(ctx, u) })
}

// hand passes an update to the loop. At most two parts of a large listing are in flight. hand waits
// for the last part to be applied, because its content is valid only until then.
func (r *runner) hand(ctx context.Context, u controlplane.Update) error {
	x := update{Update: u}
	if u.Synced {
		x.taken = make(chan struct{})
	}
	if err := r.await(ctx); err != nil {
		return err
	}
	select {
	case r.updates <- x:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.handed = x.taken
	if u.Has == nil {
		return nil
	}
	return r.await(ctx)
}

// await waits until the last part of a listing that was passed on is applied.
func (r *runner) await(ctx context.Context) error {
	if r.handed == nil {
		return nil
	}
	select {
	case <-r.handed:
		r.handed = nil
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// loop owns the core: it applies what has arrived, then sends new transactions. Changes that arrive
// while transactions are in flight make the next ones larger.
func (r *runner) loop(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case u := <-r.updates:
			r.apply(u)
		case a := <-r.answers:
			r.done(a)
		case <-timer.C:
		case <-beat.C:
		}
		if r.core.cfg.Beat != nil {
			r.core.cfg.Beat(false)
		}
		if r.takeIn(); !r.synced {
			continue
		}
		if r.core.view.GoneNodes(mostGone) {
			return errOutgrown
		}
		r.send(ctx)
		if at := r.core.Wake(); !at.IsZero() {
			timer.Reset(time.Until(at))
		}
	}
}

// takeIn applies what has arrived, without waiting for more.
func (r *runner) takeIn() {
	for {
		select {
		case u := <-r.updates:
			r.apply(u)
		case a := <-r.answers:
			r.done(a)
		default:
			return
		}
	}
}

// send commits the pending transactions, each while the next one is decided.
func (r *runner) send(ctx context.Context) {
	start, n := time.Now(), 0
	for d := r.core.nextOne(start); d != nil; d = r.core.nextOne(start) {
		var before []chan struct{}
		for _, h := range d.after {
			before = append(before, h.gone)
		}
		r.group.Go(func() error { return r.commit(ctx, d, before, d.gone) })
		n++
	}
	if m := r.core.cfg.Metrics; m != nil {
		m.looked(r.core, n, time.Since(start))
	}
}

func (r *runner) apply(u update) {
	r.synced = !u.More
	r.core.ApplyUpdate(u.Update, time.Now())
	if u.taken != nil {
		close(u.taken)
	}
	for _, err := range r.core.Unread() {
		r.log.Error("value cannot be read: its key counts as absent", zap.Error(err))
	}
	if tell := r.core.cfg.Quarantined; tell != nil {
		tell(r.core.view.Quarantined())
	}
}

func (r *runner) done(a answer) {
	now := time.Now()
	if m := r.core.cfg.Metrics; m != nil {
		m.answered(a, now)
	}
	for _, b := range a.draft.Binds {
		if a.res.Committed {
			r.log.Debug("bound", zap.Stringer("task", b.Task), zap.String("node", b.Node), zap.Int("attempt", b.Attempt),
				zap.Int64("revision", a.res.Revision), zap.Duration("duration", a.took))
		}
	}
	switch {
	case a.err != nil && a.draft.Len() > 1:
		r.log.Info("transaction can never be committed: deciding about less at once", zap.Int("count", a.draft.Len()), zap.Error(a.err))
	case a.err != nil:
		r.log.Error("transaction can never be committed: its item is set aside until it changes",
			zap.String("path", a.draft.subject()), zap.Error(a.err))
		if m := r.core.cfg.Metrics; m != nil {
			m.aside.Inc()
		}
	case a.overtook():
		r.log.Debug("refused as a pool is not as the transaction before is to leave it", zap.Int("count", len(a.draft.Binds)),
			zap.Int64("revision", a.res.Revision))
	case !a.res.Committed:
		r.log.Info("conflict: deciding anew", zap.Int("count", len(a.draft.Binds)), zap.Int64("revision", a.res.Revision),
			zap.String("reason", refusal(a.draft.Change.Txn(), a.res)))
	}
	r.core.Done(a.draft, a.res, a.err, now)
}

// commit commits a draft, once its predecessors are on their way, and passes its answer to the
// loop. It sends again if the store is full or unreachable; an error means that the store can never
// accept the draft.
func (r *runner) commit(ctx context.Context, d *Transaction, before []chan struct{}, gone chan struct{}) error {
	for _, gone := range before {
		select {
		case <-gone:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	txn := d.Change.Txn()
	if gone != nil {
		txn.Sent = sync.OnceFunc(func() { close(gone) })
		defer txn.Sent() // even if it was never sent
	}
	start := time.Now()
	retry := controlplane.RetryPolicy()
	for {
		res, err := controlplane.Commit(ctx, r.store, txn)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil || types.Is(err, types.Invalid) {
			select {
			case r.answers <- answer{d, res, err, time.Since(start)}:
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		r.log.Warn("transaction was not taken: trying again", zap.Error(err))
		if err := supervise.Pause(ctx, retry.NextBackOff()); err != nil {
			return err
		}
	}
}

// refusal names the first compare that failed.
func refusal(txn controlplane.Txn, res controlplane.Result) string {
	for i, x := range txn.Compares {
		if i >= len(res.Read) {
			break
		}
		got := res.Read[i]
		switch {
		case x.Holds(got):
		case x.Target == controlplane.Newest:
			return types.Errorf(types.Conflict, "%s changed at %d, after %d", got.Key, got.ModRevision, x.Revision).Error()
		case x.Target == controlplane.CreateRevision:
			return types.Errorf(types.Conflict, "%s moved %d→%d", x.Key, x.Revision, got.CreateRevision).Error()
		default:
			return types.Errorf(types.Conflict, "%s moved %d→%d", x.Key, x.Revision, got.ModRevision).Error()
		}
	}
	return "unknown"
}
