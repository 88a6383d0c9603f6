package scheduler

import (
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/scheduler/grants"
	"github.com/escher-sched/escher/types"
)

// Held devices are not assigned to bundles: bundles move to a node one by one as others lose
// theirs, and devices change. So every pass assigns them again, from the devices alone.

// collectDevices takes the free and wanted devices of a node, and reports whether all of x is held
// then. The held devices stay if no bundle gets less from them than from a new choice. Otherwise
// the new choice replaces them, and unwanted devices are returned.
func (c *Core) collectDevices(d *Transaction, r *cluster.Reservation, at *types.GrantNode, x grants.Want) bool {
	n := c.view.Nodes[at.Node]
	if c.locked(n) {
		c.accum.skipped = true
		return false
	}
	held := types.Holding{Resource: x.ID, Amount: grants.HeldOf(at.Holds, x.ID), Devices: grants.Devices(at.Holds, x.ID)}
	parts := x.Parts()
	d.Undo(n, []types.Holding{held})
	free, _ := d.Free(n, x.ID)
	slots := d.Slots(n, x.ID, nil)
	anew := match.Divide(slots, free, parts)
	if as := match.Divide(match.Only(slots, held.Devices), free, parts); as.Sum() == held.Amount && slices.Equal(as.Amounts, anew.Amounts) {
		d.Take(n, []types.Holding{held})
		return as.Sum() == x.Sum()
	}
	now := types.Holding{Resource: x.ID, Amount: anew.Sum(), Devices: anew.Devices}
	d.Take(n, []types.Holding{now})
	if held.Amount > now.Amount || len(grants.Without(held.Devices, now.Devices)) > 0 {
		d.GiveBack(n, nil)
	}
	d.Keep(n, nil)
	d.CompareNode(n)
	d.RelyOn(r.ID.Namespace, n, parts)
	at.Holds = slices.DeleteFunc(slices.Clone(at.Holds), func(h types.Holding) bool { return h.Resource == x.ID })
	if now.Amount > 0 {
		at.Holds = grants.Add(at.Holds, now)
	}
	return now.Amount == x.Sum()
}

// relyOnDevices makes the draft depend on the devices of a complete grant being unchanged since
// they were divided, on nodes where bundles restrict the devices.
func (c *Core) relyOnDevices(d *Transaction, r *cluster.Reservation, g *types.Grant) {
	if grants.DevicesRelied(c.view, r, g) == 1 && len(g.Nodes) > grants.ManyDevices {
		d.Change.If(controlplane.Compare{Key: controlplane.Prefix(controlplane.Devices), Target: controlplane.Newest, Revision: c.view.Revision})
		return
	}
	on := grants.BundlesOn(g)
	for _, at := range g.Nodes {
		if grants.ChoosesOn(c.view, r, on[at.Node]) {
			d.Change.IfUnchanged(controlplane.DevicesKey(at.Node), c.view.Nodes[at.Node].Devices.Mod)
		}
	}
}
