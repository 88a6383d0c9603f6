package controlplane

import (
	"context"
	"slices"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// An Update is one step of a list-watch. A consumer that has applied it has exactly the state of
// the store at Revision, within the prefix and without skipped keys.
type Update struct {
	// Revision is the revision of the state after this update.
	Revision int64
	// Events are in the order of the transaction, at most one a key. No events mean only that
	// nothing changed up to Revision. The consumer must not modify them.
	Events []Event
	// Synced marks an update made by a listing: the first one, and one after every reload. Its
	// events are the difference to what was delivered before: puts in the order of keys, then
	// deletes. The ModRevision of a put may be less than Revision. A delete bears Revision, because
	// its own is unknown.
	Synced bool
	// More reports, with Parts, that further parts of the same listing follow. All parts together
	// have the meaning of Synced.
	More bool
	// Has is set on the last part, possibly empty, of a reload. It reports whether a key is in the
	// store at Revision. The consumer drops every key for which it is false, because Events lacks
	// those deletes. Has is valid until handle returns. It is always true for a key in the store,
	// and wrongly true for another key less than once in 10^12.
	Has func(key string) bool
}

// ListWatchOptions selects what ListWatch delivers.
type ListWatchOptions struct {
	// Prefix selects all keys that begin with it.
	Prefix string
	// Skip reports whether to leave out a key; nil leaves out none. Its answer for a key must never
	// change.
	Skip func(key string) bool
	// PageSize bounds the keys in one request of a listing; 0 means the default of the store.
	PageSize int
	// Parts delivers a listing part by part, as it is read. The consumer then finds deleted keys
	// itself: see Update.More and Update.Has. It serves consumers of millions of keys, which would
	// otherwise be in memory twice.
	Parts bool
	// Log receives a line when the watch is lost and another when it resumes; nil disables logging.
	Log *zap.Logger
	// Heard, unless nil, is called whenever the store shows that the watch is alive, even with
	// nothing to deliver.
	Heard func()
}

// ListWatch follows a part of the store. It lists the part, watches from there, and calls handle
// with every change, until ctx is done or handle returns an error. No other code lists and watches.
// Its contract:
//
//   - The caller's goroutine calls handle, with one update at a time.
//   - The first update is a listing and has Synced set. The pages of a listing are pinned to one
//     revision. With Parts, a listing is several updates in a row, all with Synced set. After a
//     listing breaks off, the next one delivers the difference to what was already delivered.
//   - Each later revision with a change is one update, complete and in order, without the keys
//     that Skip leaves out.
//   - Updates without events report progress. A consumer that waits until Update.Revision is at
//     least R has seen everything up to R.
//   - Revision never goes back, and only a reload repeats it.
//   - After Unavailable the watch resumes after the revision of the last event or listing: it
//     loses nothing and delivers nothing twice.
//   - After Compacted the loop lists the state again and compares it with what was delivered: a
//     missing key becomes a delete, and an unchanged key is not delivered again.
//   - The loop rejects a batch with a stale, duplicate, unordered or foreign event, or with
//     evidence of a gap. It delivers nothing of that batch and lists the state again.
//   - The loop waits between tries as RetryPolicy says, longer each time. A batch of the watch
//     resets the wait. The loop never gives up.
//   - A store whose history ends before what was delivered was restored from a backup. The loop
//     notices this when a watch begins, or at a listing. It then returns Precondition, because what
//     was delivered may never have happened.
//   - An error of the store of another class ends the loop, which returns it.
//   - An error of handle ends the loop, which returns it unchanged.
//   - When ctx is done the loop returns ctx.Err(). On every return its watch has ended and is
//     drained: no goroutine is left.
func ListWatch(ctx context.Context, s Store, opts ListWatchOptions, handle func(Update) error) error {
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	if opts.Heard == nil {
		opts.Heard = func() {}
	}
	l := &listWatch{store: s, opts: opts, handle: handle, retry: RetryPolicy(), delivered: newMirror(!opts.Parts)}
	err := l.run(ctx)
	if ctx.Err() != nil && l.handled == nil {
		return ctx.Err()
	}
	return err
}

// listWatch is the state of one ListWatch.
type listWatch struct {
	store  Store
	opts   ListWatchOptions
	handle func(Update) error
	retry  backoff.BackOff

	// delivered is the set of keys delivered and not deleted.
	delivered *mirror
	// last is the revision of the last event or listing. seen is that of the last update, which may
	// be ahead because of progress.
	last, seen int64
	// handled is the error of handle.
	handled error
	// lost reports whether the watch is lost and the store has been silent since.
	lost bool
}

// run alternates between listing and watching.
func (l *listWatch) run(ctx context.Context) error {
	listed := false
	for {
		var err error
		if !listed {
			err = l.list(ctx)
			listed = err == nil
		}
		if listed {
			err = l.watch(ctx)
		}
		switch class := types.ClassOf(err); {
		case ctx.Err() != nil, l.handled != nil:
			return err
		case class == types.Unavailable:
		case class == types.Compacted:
			listed = false
		default:
			return err
		}
		wait := l.retry.NextBackOff()
		if !l.lost {
			l.lost = true
			l.opts.Log.Warn("watch lost, retrying", zap.String("path", l.opts.Prefix), zap.Int64("revision", l.last), zap.Error(err))
		}
		if err := supervise.Pause(ctx, wait); err != nil {
			return err
		}
	}
}

// list reads the state and delivers the difference to what was delivered.
func (l *listWatch) list(ctx context.Context) error {
	reload := l.delivered.begin()
	var events []Event
	opts := ListOptions{Prefix: l.opts.Prefix, Limit: l.opts.PageSize}
	revision, err := Scan(ctx, l.store, opts, func(part []KV) error {
		events = l.changed(events, part)
		if !l.opts.Parts || len(events) == 0 {
			return nil
		}
		l.opts.Heard()
		u := Update{Revision: l.seen, Events: events, Synced: true, More: true}
		events = nil
		return l.deliver(u)
	})
	if err != nil {
		return err
	}
	if revision < l.seen {
		return types.Errorf(types.Precondition, "list %s: the store is at revision %d, after revision %d was read: it was restored from a backup: start again",
			l.opts.Prefix, revision, l.seen)
	}
	u := Update{Revision: revision, Events: append(events, l.delivered.finish(revision)...), Synced: true}
	if reload && l.opts.Parts {
		u.Has = l.delivered.has
	}
	l.last = revision
	err = l.deliver(u)
	l.heard()
	return err
}

// changed appends the undelivered keys of a part of a listing to events.
func (l *listWatch) changed(events []Event, part []KV) []Event {
	events = slices.Grow(events, len(part))
	for _, kv := range part {
		if !l.skips(kv.Key) && l.delivered.list(kv) {
			events = append(events, Event{KV: kv})
		}
	}
	return events
}

// heard records that the store answers.
func (l *listWatch) heard() {
	l.opts.Heard()
	if l.lost {
		l.lost = false
		l.opts.Log.Info("watch resumed", zap.String("path", l.opts.Prefix), zap.Int64("revision", l.seen))
	}
}

// watch delivers changes until the watch ends, and returns why.
func (l *listWatch) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	begin := l.last
	batches := l.store.Watch(ctx, WatchOptions{Prefix: l.opts.Prefix, From: begin + 1})
	defer func() {
		cancel()
		for range batches {
			continue
		}
	}()
	for batch := range batches {
		if batch.Err != nil {
			return batch.Err
		}
		if len(batch.Events) == 0 && batch.Revision < begin && l.last == begin {
			// The listing that follows finds out whether the store was restored.
			return types.Errorf(types.Compacted, "watch %s: the store is at revision %d, after revision %d was read", l.opts.Prefix, batch.Revision, begin)
		}
		if err := l.takeBatch(batch); err != nil {
			return err
		}
		l.retry.Reset()
		l.heard()
	}
	return types.Errorf(types.Unavailable, "watch %s: it ended without a reason", l.opts.Prefix)
}

// takeBatch checks a batch and delivers it. It treats an invalid batch like a compaction: the loop
// reads the true state from the store.
func (l *listWatch) takeBatch(batch Batch) error {
	if len(batch.Events) == 0 {
		if batch.Revision <= l.seen {
			return nil
		}
		return l.deliver(Update{Revision: batch.Revision})
	}
	events := l.unskipped(batch.Events)
	if err := l.check(batch, events); err != nil {
		return types.Errorf(types.Compacted, "watch %s: %w", l.opts.Prefix, err)
	}
	l.last = batch.Revision
	l.delivered.apply(events)
	return l.deliver(Update{Revision: batch.Revision, Events: events})
}

// deliver gives an update to the caller.
func (l *listWatch) deliver(u Update) error {
	l.seen = u.Revision
	l.handled = l.handle(u)
	return l.handled
}
