package scheduler

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/grants"
	"github.com/escher-sched/escher/types"
)

// collect takes the free and wanted capacity, as much as fits into the draft. The remainder stays
// reserved for the next draft. The grant is granted once nothing is missing.
func (c *Core) collect(d *Transaction, r *cluster.Reservation, g *types.Grant) {
	devices, on := grants.DevicesRelied(c.view, r, g), grants.BundlesOn(g)
	d.whole = len(on[""]) == 0
	for i := range g.Nodes {
		at := &g.Nodes[i]
		d.whole = d.whole && c.view.Nodes[at.Node].Eligible()
		for _, x := range grants.Wanted(c.view, r, on[at.Node]) {
			switch {
			case !c.view.Nodes[at.Node].Eligible() || d.HoldsAll(at, x):
			case d.RoomToCollect(devices):
				d.whole = c.collectOne(d, r, at, x) && d.whole
			case d.NumNodes() == 0:
				d.whole = false // it will never fit
			default:
				d.whole = false
				c.first, d.closed = true, true
				c.accumulateAgain()
				return
			}
		}
	}
	if d.whole {
		g.Phase = types.Granted
		d.RelyOnDevices(r, g)
	}
}

// collectOn takes the free and wanted capacity on a node of a grant, if it is eligible.
func (c *Core) collectOn(d *Transaction, r *cluster.Reservation, at *types.GrantNode, wanted []grants.Want) {
	if !c.view.Nodes[at.Node].Eligible() {
		return
	}
	for _, x := range wanted {
		c.collectOne(d, r, at, x)
	}
}

// collectOne is Draft.Collect, unless the node or pool is in flight.
func (c *Core) collectOne(d *Transaction, r *cluster.Reservation, at *types.GrantNode, x grants.Want) bool {
	if d.HoldsAll(at, x) {
		return true
	}
	if p := c.view.Pool(x.ID); c.locked(c.view.Nodes[at.Node]) || p != nil && c.locked(p) {
		c.accum.skipped = true
		return false
	}
	return d.Collect(r, at, x)
}
