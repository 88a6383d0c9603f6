// Package gangs is a scheduler of its own, for the tasks that name it. Of a job whose name begins
// with gang, it binds all tasks in one transaction, or none. It binds every other task alone, also
// one that has run before and waits for its next attempt. The ordinary scheduler of the namespace
// releases, loses and stops the attempts.
//
// It shows what a scheduler is made of: a view, kept by ListWatch; a draft of the view; Commit.
package gangs

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/types"
)

// Name is the name of this scheduler in tasks. No key schedulers/framespace exists: with one, the
// ordinary scheduler would leave all attempts to it.
const Name = "framespace"

// pause is the time between two tries to bind a gang while the store is full.
const pause = time.Second

// Run binds tasks until ctx is done, or the store fails for good. It logs a gang about which a
// decision panics, or that the store can never accept, and sets it aside until one of its tasks
// changes.
func Run(ctx context.Context, store controlplane.Store, log *zap.Logger) error {
	return newRunner(store, log).run(ctx)
}

func newRunner(store controlplane.Store, log *zap.Logger) *runner {
	b := &board{view: cluster.New(), gangs: make(map[gangID]*gang), of: make(map[cluster.ID]gangID)}
	return &runner{store: store, log: log, board: b, updates: make(chan controlplane.Update, 64)}
}

func (r *runner) run(ctx context.Context) error {
	g, ctx := supervise.WithContext(ctx)
	g.Go(func() error { return r.watch(ctx) })
	g.Go(func() error { return r.loop(ctx) })
	return g.Wait()
}

// runner is the I/O around a board. Only its loop touches the board.
type runner struct {
	store   controlplane.Store
	log     *zap.Logger
	board   *board
	updates chan controlplane.Update
	// answered is the revision of the last answer of the store. At that revision, the view shows the
	// bound gang, or the cause of the conflict.
	answered int64
}

// watch passes changes to the loop, without specs, which are large and which no scheduler uses.
func (r *runner) watch(ctx context.Context) error {
	specs := func(key string) bool { return strings.HasPrefix(key, controlplane.Prefix(controlplane.Specs)) }
	opts := controlplane.ListWatchOptions{Prefix: controlplane.Root, Skip: specs, Log: r.log}
	return controlplane.ListWatch(ctx, r.store, opts, func(u controlplane.Update) error {
		select {
		case r.updates <- u:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// loop decides whenever something has changed.
func (r *runner) loop(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case u := <-r.updates:
			r.apply(u)
		case <-timer.C:
		}
		if r.board.view.Revision < r.answered {
			continue
		}
		if err := r.decide(ctx, time.Now()); err != nil {
			return err
		}
		timer.Reset(time.Until(time.Unix(0, r.board.wake())))
	}
}

// apply applies an update, and those that have arrived since.
func (r *runner) apply(u controlplane.Update) {
	for {
		for _, err := range r.board.apply(u) {
			r.log.Error("value cannot be read: its key counts as absent", zap.Error(err))
		}
		if len(r.updates) == 0 {
			return
		}
		u = <-r.updates
	}
}

// decide binds the first gang that fits.
func (r *runner) decide(ctx context.Context, now time.Time) error {
	nodes := r.board.nodes()
	for _, g := range r.board.next(now) {
		answered, err := r.try(ctx, g, nodes, now)
		switch {
		case answered || ctx.Err() != nil:
			return ctx.Err()
		case types.Is(err, types.Invalid) || errors.Is(err, supervise.ErrPanic):
			g.aside = true
			r.log.Error("gang is set aside until one of its tasks changes", zap.Stringer("path", g.id), zap.Error(err))
		case err != nil:
			g.at = now.Add(pause).UnixNano()
			r.log.Warn("transaction was not taken: trying again", zap.Duration("duration", pause), zap.Error(err))
		}
	}
	return nil
}

// try binds a gang if it fits, and reports whether the store has answered. Invalid: it can never be
// bound. Any other class: the store is full.
func (r *runner) try(ctx context.Context, g *gang, nodes []*cluster.Node, now time.Time) (answered bool, err error) {
	d, fits := draft.New(r.board.view, r.store.Limits(), controlplane.NewBatch()), false
	err = supervise.Contain(func() (err error) {
		fits, err = r.board.place(d, g, nodes, now)
		return err
	})
	if err != nil || !fits {
		return false, err
	}
	res, err := controlplane.Commit(ctx, r.store, d.Seal())
	if err != nil {
		return false, err
	}
	if r.answered = res.Revision; !res.Committed {
		r.log.Info("conflict: deciding again", zap.Int("count", len(d.Binds)), zap.Int64("revision", res.Revision))
	}
	return true, nil
}
