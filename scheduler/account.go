package scheduler

import (
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// What is in use of a pool stands in a key of its own, which outlives the pool for as long
// as anything of it is held. When the pool is gone and nothing is, the key goes too: there
// may be as many pools as there ever were jobs.

// isOver reports whether the account of a pool is of no use any more.
func isOver(p *cluster.Pool) bool {
	return p.Info.Absent() && p.Allocated.V != nil && len(p.Allocated.V.Holds) == 0
}

// touchPool has the account of a pool deleted if it is of no use.
func (c *Core) touchPool(rid types.ResourceID) {
	if p := c.view.Pools[rid]; p != nil && isOver(p) {
		c.accounts.push(rid)
	}
}

// touchPools is touchPool of all.
func (c *Core) touchPools() {
	for _, rid := range slices.SortedFunc(maps.Keys(c.view.Pools), compareResource) {
		c.touchPool(rid)
	}
}

// closeAccounts adds to the draft that accounts of no use are deleted. It compares
// nothing but the account: without it nothing is in use, which is what it says. So the
// pool may come again meanwhile, and need not be locked.
func (c *Core) closeAccounts(d *Draft) {
	c.accounts.drain(func(rid types.ResourceID) bool {
		p := c.view.Pools[rid]
		ns, name, _ := rid.Split()
		if p == nil || !isOver(p) || d.pools[p] != nil || !c.owns(ns, "") || c.whenUnlocked(rid, rid) {
			return true
		}
		if d.closed || d.items >= 2*c.batch || !d.room(1, 1) {
			return false
		}
		d.items++
		d.claim(rid)
		key := controlplane.PoolKey(ns, name)
		d.Change.IfUnchanged(key, p.Allocated.Mod)
		d.remove(key)
		return true
	})
}
