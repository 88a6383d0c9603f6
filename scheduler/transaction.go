package scheduler

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/queue"
)

// Transaction is a draft of a Core: with what it locks while it is in flight, and its place in the
// order of those that draw on the same pools.
type Transaction struct {
	*draft.Draft
	chain
	// collecting is the accumulating grant, if the draft changes it.
	collecting *collecting
	// whole reports whether the grant last collected for holds all that it wants.
	whole bool
	// atOnce is the AtOnce reservation that the draft collects for or hands over.
	atOnce *cluster.Reservation
	// kept are the nodes of a collection: see accumulator.
	kept    []*cluster.Node
	entries []*queue.Entry
	// last is the node of the last task placed; nil if unknown.
	last   *cluster.Node
	closed bool
}

// newDraft makes a draft of the core.
func (c *Core) newDraft(limits controlplane.Limits, batch uint64) *Transaction {
	expected := min(c.queue.ToPlace()+c.bindings.Len()+c.tasks.Len(), c.batch)
	return &Transaction{Draft: draft.NewFor(&c.hooks, c.view, limits, batch, expected)}
}

// draftHooks are the hooks of the core's drafts.
func (c *Core) draftHooks() draft.Hooks {
	return draft.Hooks{
		Keys: c.nodes.Keys,
		Behind: func(p *cluster.Pool) *draft.Draft {
			if h := c.follow(p); h != nil {
				return h.Draft
			}
			return nil
		},
		Noted:   c.nodes.NoteOf,
		Cordons: c.nodes.Cordons,
	}
}
