package controlplane

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/types"
)

// A StatusUpdate holds the status changes of a namespace up to Revision.
type StatusUpdate struct {
	Revision int64
	// Changes may be empty: the update then only reports the progress of the watch.
	Changes []StatusChange
	// Synced marks the first update, which holds the present statuses, and updates after a gap in
	// the history. They hold only the newest status of each task.
	Synced bool
}

// StatusChange is the status of one task after a change.
type StatusChange struct {
	ID string
	// Revision is the revision of the change.
	Revision int64
	// Status is nil if it was removed or is unreadable.
	Status *types.Status
}

// WatchTasks selects what Watch delivers.
type WatchTasks struct {
	// IDs are full task ids; none means all tasks of the namespace.
	IDs []string
	// After resumes a watch: it is the Revision of the last update. The watch then delivers the
	// newest change of each task since, but no removals.
	After int64
	// Log receives a line when the watch is lost; nil disables logging.
	Log *zap.Logger
}

// Watch calls handle with the present statuses of tasks, and then with every change, in order. It
// ends when ctx is done or handle returns an error, which it returns. It recovers from a lost
// connection: see ListWatch.
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

// A ResourceUpdate holds the changes of the ephemeral resources of a namespace up to Revision. Its
// fields are those of StatusUpdate.
type ResourceUpdate struct {
	Revision int64
	Changes  []ResourceChange
	Synced   bool
}

// ResourceChange is a resource at one location after a change.
type ResourceChange struct {
	Name string
	// Where is a node, types.EveryNode or types.ClusterWide.
	Where string
	// Revision is the revision of the change.
	Revision int64
	// Resource is nil if it was removed or is unreadable.
	Resource *types.Resource
}

// WatchResources calls handle with the ephemeral resources of the namespace, and then with every
// change, in order. It ends when ctx is done or handle returns an error, which it returns. It
// leaves out what tasks provide.
func (c *Client) WatchResources(ctx context.Context, log *zap.Logger, handle func(ResourceUpdate) error) error {
	opts := ListWatchOptions{Prefix: Prefix(Resources, c.ns), Log: log}
	return ListWatch(ctx, c.store, opts, func(u Update) error {
		out := ResourceUpdate{Revision: u.Revision, Synced: u.Synced}
		for _, e := range u.Events {
			out.Changes = append(out.Changes, resourceChange(e))
		}
		return handle(out)
	})
}

func resourceChange(e Event) ResourceChange {
	k, _ := Parse(e.Key)
	change := ResourceChange{Name: k.Name, Where: k.Where, Revision: e.ModRevision}
	if resource := new(types.Resource); !e.Delete && Read(e.KV, resource) {
		change.Resource = resource
	}
	return change
}
