package controlplane

import (
	"context"
	"slices"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// Update is one step of a list-watch: whoever has applied it holds exactly the
// state of the store at Revision, within the prefix and without what is skipped.
type Update struct {
	// Revision of the state after this update.
	Revision int64
	// Events in the order of the transaction, at most one a key; none tells
	// only that nothing changed up to Revision. They must not be modified.
	Events []Event
	// Synced marks the update that a listing made: the first one, and one
	// after every reload. Its events are the difference to what was delivered
	// before, puts first, in the order of keys; their ModRevision may be less
	// than Revision, and a delete bears Revision, as its own is not known.
	Synced bool
	// More tells, if Parts was asked for, that this is a part of a listing, and others
	// follow: all of them together are what Synced says.
	More bool
	// Has is set on the last part, which may be empty, of a listing before which
	// something had been delivered. It tells whether a key is in the store at Revision: what the
	// consumer has of others is gone, and is not among Events. It may be called until
	// handle returns, and never fails to know a key that is there; of one that is not it
	// says the contrary less often than once in 10^12.
	Has func(key string) bool
}

// ListWatchOptions selects what ListWatch delivers.
type ListWatchOptions struct {
	// Prefix selects all keys that begin with it.
	Prefix string
	// Skip leaves out the keys for which it returns true; nil leaves out none.
	// It must always say the same of a key.
	Skip func(key string) bool
	// PageSize bounds how many keys one request of a listing asks for; 0 leaves that
	// to the store.
	PageSize int
	// Parts has listings delivered part by part, as they are read, and has the
	// consumer find out itself what it has that is gone: see Update.More and
	// Update.Has. It is for who follows millions of keys, and would otherwise hold all of them
	// twice.
	Parts bool
	// Log is told when the watch is lost, once, and when it goes on; nil is nobody.
	Log *zap.Logger
	// Heard, unless nil, is called whenever the store shows that the watch lives,
	// even if there is nothing to deliver.
	Heard func()
}

// ListWatch follows a part of the store: it lists it, watches from there, and
// calls handle with every change, until ctx is done or handle returns an error.
// It is the only such loop there is. Its contract:
//
//   - Handle is called by the caller's goroutine, with one update at a time.
//   - The first update is a listing, read in parts that are all pinned to one
//     revision, and has Synced set. With Parts, a listing is several updates, one
//     after the other, all with Synced set. One that breaks off is followed by another
//     one, whose events are the difference to what was delivered of the first.
//   - Each later revision with a change is one update, whole and in order; what
//     Skip leaves out, an update lacks.
//   - Updates without events tell how far the watch is. Whoever waits until
//     Update.Revision is at least R has seen everything up to R.
//   - Revision never goes back, and only a reload repeats it.
//   - After Unavailable the watch resumes from the revision after that of the last
//     event, or of the listing if there was none since: nothing is lost, nothing
//     delivered twice.
//   - After Compacted the state is listed again and compared with what was
//     delivered: a key that is gone becomes a delete, a key that did not change
//     is not delivered again.
//   - A stream with a stale, duplicate, unordered or foreign event, or one that
//     betrays a gap, is not believed: nothing of that batch is delivered, and the
//     state is listed again.
//   - Between tries it waits as RetryPolicy says, longer each time; a batch of the
//     watch sets that back. It tries for ever.
//   - A store whose history ends before what was delivered was restored from a
//     backup: the loop ends with Precondition, as what was delivered may never
//     have happened.
//   - An error of the store of another class ends the loop, which returns it.
//   - An error of handle ends the loop, which returns it as it is.
//   - When ctx is done the loop returns ctx.Err(). On every return its watch has
//     ended and is drained: nothing runs on.
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

	// delivered is what was delivered and not deleted.
	delivered *mirror
	// last is the revision of the last event or listing, seen that of the last
	// update: progress may be ahead of events.
	last, seen int64
	// handled is the error of handle.
	handled error
	// lost tells that the store has not been heard of since the watch was lost.
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
			l.opts.Log.Warn("watch lost, to be begun again", zap.String("path", l.opts.Prefix), zap.Int64("revision", l.last), zap.Error(err))
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
		return types.Errorf(types.Precondition, "list %s: the store is at revision %d, but %d was seen: it was restored from a backup: start again",
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

// changed appends to events what of a part of a listing was not delivered already.
func (l *listWatch) changed(events []Event, part []KV) []Event {
	events = slices.Grow(events, len(part))
	for _, kv := range part {
		if !l.skips(kv.Key) && l.delivered.list(kv) {
			events = append(events, Event{KV: kv})
		}
	}
	return events
}

// heard notes that the store answers.
func (l *listWatch) heard() {
	l.opts.Heard()
	if l.lost {
		l.lost = false
		l.opts.Log.Info("watch goes on", zap.String("path", l.opts.Prefix), zap.Int64("revision", l.seen))
	}
}

// watch delivers changes until the watch ends, and returns why.
func (l *listWatch) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	batches := l.store.Watch(ctx, WatchOptions{Prefix: l.opts.Prefix, From: l.last + 1})
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
		if err := l.take(batch); err != nil {
			return err
		}
		l.retry.Reset()
		l.heard()
	}
	return types.Errorf(types.Unavailable, "watch %s: it ended without a reason", l.opts.Prefix)
}

// take checks a batch and delivers it. A batch that cannot be believed is treated
// like a compaction: what it should have been is read from the store.
func (l *listWatch) take(batch Batch) error {
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
