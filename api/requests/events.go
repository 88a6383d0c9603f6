package requests

import (
	"encoding/json"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Watch selects what to watch.
type Watch struct {
	// Of is "tasks", "resources", or "" for tasks.
	Of string
	// IDs are full ids of tasks; empty means all of the namespace.
	IDs []string
	// After resumes a watch of tasks: it is the last ID of an event above 0.
	After int64
}

// Event is an event of a watch. Its Kind is "task", "resource" or "synced". Its ID is the revision up to which
// everything was sent; 0 if more of it follows. Its Data is a Status or a Removed, a ResourceChange, or a
// Synced.
type Event = client.Event

// Removed is the event of a removed task, with the revision of that.
type Removed struct {
	ID       string `json:"id"`
	Revision int64  `json:"revision"`
	Removed  bool   `json:"removed"`
}

// ResourceChange is the event of a resource: its capacity at a place, or its removal there.
type ResourceChange struct {
	Name string `json:"name"`
	// Where is a node, "+" for every node, or "*" for the cluster.
	Where    string `json:"where"`
	Capacity string `json:"capacity,omitempty"`
	Removed  bool   `json:"removed,omitempty"`
}

// Synced is the event after the initial state is complete.
type Synced struct {
	Revision int64 `json:"revision"`
}

// taskEvents passes on changes of tasks.
func taskEvents(u controlplane.StatusUpdate, handle func(Event) error) error {
	for i, c := range u.Changes {
		var data any = Removed{ID: c.ID, Revision: c.Revision, Removed: true}
		if c.Status != nil {
			status := statusOf(c.ID, "", c.Status)
			status.Revision = c.Revision
			data = status
		}
		if err := pass(handle, "task", idOf(u.Revision, u.Synced || i < len(u.Changes)-1), data); err != nil {
			return err
		}
	}
	return synced(u.Synced, u.Revision, handle)
}

// resourceEvents passes on changes of resources.
func resourceEvents(u controlplane.ResourceUpdate, handle func(Event) error) error {
	for i, c := range u.Changes {
		out := ResourceChange{Name: c.Name, Where: c.Where, Removed: c.Resource == nil}
		if c.Resource != nil {
			out.Capacity = c.Resource.Capacity.Format(types.ResourceID(c.Name))
		}
		if err := pass(handle, "resource", idOf(u.Revision, u.Synced || i < len(u.Changes)-1), out); err != nil {
			return err
		}
	}
	return synced(u.Synced, u.Revision, handle)
}

// synced passes on that the initial state is complete.
func synced(complete bool, revision int64, handle func(Event) error) error {
	if !complete {
		return nil
	}
	return pass(handle, "synced", revision, Synced{revision})
}

// pass passes on one event. Only the last event of a revision has it as its id, so that a resumed
// watch misses nothing.
func pass(handle func(Event) error, kind string, id int64, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return types.Errorf(types.Internal, "write event: %w", err)
	}
	return handle(Event{Kind: kind, ID: id, Data: text})
}

// idOf returns the id of an event; 0 if more of its revision follow.
func idOf(revision int64, more bool) int64 {
	if more {
		return 0
	}
	return revision
}
