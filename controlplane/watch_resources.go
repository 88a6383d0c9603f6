package controlplane

import (
	"context"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/types"
)

// ResourceUpdate is what changed of the ephemeral resources of a namespace up to
// Revision. The fields are those of StatusUpdate.
type ResourceUpdate struct {
	Revision int64
	Changes  []ResourceChange
	Synced   bool
}

// ResourceChange is a resource at one place after a change.
type ResourceChange struct {
	Name string
	// Where is a node, types.EveryNode or types.ClusterWide.
	Where string
	// Revision is that of the change.
	Revision int64
	// Resource is nil when it was removed, or cannot be read.
	Resource *types.Resource
}

// WatchResources calls handle with the ephemeral resources of the namespace as they are
// set, and then with every change, in order, until ctx is done or handle returns an
// error, which it returns. What tasks provide is not among them.
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
