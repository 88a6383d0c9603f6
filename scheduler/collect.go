package scheduler

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
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
		c.relyOnDevices(d, r, g)
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

// collectOne takes the free and wanted capacity of one resource on a node of a grant. It reports
// whether the grant then holds all of it.
func (c *Core) collectOne(d *Transaction, r *cluster.Reservation, at *types.GrantNode, x grants.Want) bool {
	n := c.view.Nodes[at.Node]
	if d.MadeOfDevices(n, x.ID) || x.Chooses() {
		return c.collectDevices(d, r, at, x)
	}
	rest := cluster.Need{ID: x.ID, Amount: x.Sum() - grants.HeldOf(at.Holds, x.ID)}
	if rest.Amount <= 0 {
		return true
	}
	h, ok := c.collectable(d, n, rest)
	if ok {
		d.Take(n, []types.Holding{h})
		d.Keep(n, []types.Holding{h})
		d.CompareNode(n)
		d.RelyOn(r.ID.Namespace, n, []cluster.Need{rest})
		at.Holds = grants.Add(at.Holds, h)
	}
	return ok && h.Amount == rest.Amount
}

// collectable returns the free part of x, which is not made of devices, on n. ok is false if none
// is free or it is in flight.
func (c *Core) collectable(d *Transaction, n *cluster.Node, x cluster.Need) (h types.Holding, ok bool) {
	p := c.view.Pool(x.ID)
	if c.locked(n) || p != nil && c.locked(p) {
		c.accum.skipped = true
		return h, false
	}
	if p != nil {
		h = types.Holding{Resource: x.ID, Amount: min(x.Amount, d.PoolFree(p)), Cluster: true}
		return h, h.Amount > 0
	}
	free, _ := d.Free(n, x.ID)
	amount, step := min(x.Amount, free), types.Quantity(1)
	if match.IsPort(x.ID) {
		step = match.Whole
	}
	for amount -= amount % step; amount > 0; amount -= step {
		y := cluster.Need{ID: x.ID, Amount: amount}
		if r := d.RoomOn(n); r.DevicesFit(y) {
			return types.Holding{Resource: x.ID, Amount: amount, Devices: r.PickDevices(y)}, true
		}
	}
	return h, false
}
