package scheduler

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/grants"
)

// settleGrants releases the grants whose reservation is gone. A draft that does so contains nothing
// else.
func (c *Core) settleGrants(d *Transaction) {
	c.reservations.Drain(func(r *cluster.Reservation) bool {
		c.deciding = r
		if c.view.Reservations[r.ID] != r || r.Grant.V == nil || !c.division.Owns(r.ID.Namespace, "") || r.Info.Unread() || r.Current() || grants.ClaimedBy(c.view, r) != nil {
			return true
		}
		if c.waitForGrant(d, r) {
			return true
		}
		return d.Release(r)
	})
	d.closed = !d.Empty()
}

// waitForGrant reports whether anything that the release of a grant changes is in flight; the
// release is then retried later.
func (c *Core) waitForGrant(d *Transaction, r *cluster.Reservation) bool {
	if c.whenUnlocked(r, r) || d.Has(r) {
		return true
	}
	for _, at := range r.Grant.V.Nodes {
		n := c.view.Nodes[at.Node]
		if c.whenUnlocked(n, r) {
			return true
		}
		for _, h := range at.Holds {
			if h.Cluster && c.whenIdle(c.view.PoolOf(h.Resource), r) {
				return true
			}
		}
	}
	return false
}
