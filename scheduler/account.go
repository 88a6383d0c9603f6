package scheduler

import (
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// The allocated amounts of a pool have a key of their own. It outlives the pool as long as tasks
// hold any of it, and is deleted afterwards: there may be as many pools as there ever were jobs.

// isOver reports whether the account of a pool is obsolete.
func isOver(p *cluster.Pool) bool {
	return p.Info.Absent() && p.Allocated.V != nil && len(p.Allocated.V.Holds) == 0
}

// touchPool queues the account of a pool for deletion if it is obsolete.
func (c *Core) touchPool(rid types.ResourceID) {
	if p := c.view.Pools[rid]; p != nil && isOver(p) {
		c.accounts.Push(rid)
	}
}

// touchPools calls touchPool for every pool.
func (c *Core) touchPools() {
	for _, rid := range slices.SortedFunc(maps.Keys(c.view.Pools), compareResource) {
		c.touchPool(rid)
	}
}

// closeAccounts adds the deletion of obsolete accounts to the draft. It compares only the account:
// an absent account says the same, that nothing is allocated. So the pool may return meanwhile and
// needs no lock.
func (c *Core) closeAccounts(d *Transaction) {
	c.accounts.Drain(func(rid types.ResourceID) bool {
		p := c.view.Pools[rid]
		ns, name, _ := rid.Split()
		if p == nil || !isOver(p) || d.Considers(p) || !c.division.Owns(ns, "") || c.whenUnlocked(rid, rid) {
			return true
		}
		if d.closed || d.Len() >= 2*c.batch || !d.Room(1, 1) {
			return false
		}
		d.Decide(rid)
		key := controlplane.PoolKey(ns, name)
		d.Change.IfUnchanged(key, p.Allocated.Mod)
		d.Remove(key)
		return true
	})
}
