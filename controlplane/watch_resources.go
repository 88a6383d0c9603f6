package controlplane

import (
	"context"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/types"
)

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
