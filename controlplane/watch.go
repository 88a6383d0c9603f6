package controlplane

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/types"
)

// StatusUpdate is what changed of the statuses of a namespace up to Revision.
type StatusUpdate struct {
	Revision int64
	// Changes may be empty: then it only tells how far the watch is.
	Changes []StatusChange
	// Synced marks the first update, which tells how things are, and those
	// after a time for which there is no history: they tell only the newest
	// status of each task.
	Synced bool
}

// StatusChange is the status of one task after a change.
type StatusChange struct {
	ID string
	// Revision is that of the change.
	Revision int64
	// Status is nil when it was removed, or cannot be read.
	Status *types.Status
}

// WatchTasks selects what Watch delivers.
type WatchTasks struct {
	// IDs are the tasks, in full; none is all of the namespace.
	IDs []string
	// After resumes a watch: give the Revision of the last update. What changed
	// since is told, but of each task only the newest; not that a status was
	// removed.
	After int64
	// Log is told when the watch is lost; nil is nobody.
	Log *zap.Logger
}

// Watch calls handle with the statuses of tasks as they are, and then with every
// change, in order, until ctx is done or handle returns an error, which it returns.
// What is lost on the way to the store is made up for: see ListWatch.
func (c *Client) Watch(ctx context.Context, opts WatchTasks, handle func(StatusUpdate) error) error {
	lw := ListWatchOptions{Prefix: statusPrefix(c.ns, slices.Values(opts.IDs)), Log: opts.Log}
	if len(opts.IDs) > 0 {
		wanted := make(map[string]bool, len(opts.IDs))
		for _, id := range opts.IDs {
			wanted[StatusKey(c.ns, id)] = true
		}
		lw.Skip = func(key string) bool { return !wanted[key] }
	}
	return ListWatch(ctx, c.store, lw, func(u Update) error {
		out := StatusUpdate{Revision: u.Revision, Synced: u.Synced}
		for _, e := range u.Events {
			if e.ModRevision <= opts.After {
				continue
			}
			out.Changes = append(out.Changes, statusChange(e))
		}
		slices.SortStableFunc(out.Changes, func(a, b StatusChange) int { return int(a.Revision - b.Revision) })
		return handle(out)
	})
}

func statusChange(e Event) StatusChange {
	k, _ := Parse(e.Key)
	change := StatusChange{ID: k.ID, Revision: e.ModRevision}
	if status := new(types.Status); !e.Delete && Read(e.KV, status) {
		change.Status = status
	}
	return change
}
