package draft

import (
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/types"
)

// Collect takes the free and wanted capacity of one resource on a node of a grant. It reports whether
// the grant then holds all of it.
func (d *Draft) Collect(r *cluster.Reservation, at *types.GrantNode, x grants.Want) bool {
	n := d.view.Nodes[at.Node]
	if d.MadeOfDevices(n, x.ID) || x.Chooses() {
		return d.collectDevices(r, at, x)
	}
	rest := cluster.Need{ID: x.ID, Amount: x.Sum() - grants.HeldOf(at.Holds, x.ID)}
	if rest.Amount <= 0 {
		return true
	}
	h, ok := d.collectable(n, rest)
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
// is free.
func (d *Draft) collectable(n *cluster.Node, x cluster.Need) (h types.Holding, ok bool) {
	if p := d.view.Pool(x.ID); p != nil {
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

// Held devices are not assigned to bundles: bundles move to a node one by one as others lose
// theirs, and devices change. So every pass assigns them again, from the devices alone.

// collectDevices takes the free and wanted devices of a node, and reports whether all of x is held
// then. The held devices stay if no bundle gets less from them than from a new choice. Otherwise
// the new choice replaces them, and unwanted devices are returned.
func (d *Draft) collectDevices(r *cluster.Reservation, at *types.GrantNode, x grants.Want) bool {
	n := d.view.Nodes[at.Node]
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

// RelyOnDevices makes the draft depend on the devices of a complete grant being unchanged since
// they were divided, on nodes where bundles restrict the devices.
func (d *Draft) RelyOnDevices(r *cluster.Reservation, g *types.Grant) {
	if grants.DevicesRelied(d.view, r, g) == 1 && len(g.Nodes) > grants.ManyDevices {
		d.Change.If(controlplane.Compare{Key: controlplane.Prefix(controlplane.Devices), Target: controlplane.Newest, Revision: d.view.Revision})
		return
	}
	on := grants.BundlesOn(g)
	for _, at := range g.Nodes {
		if grants.ChoosesOn(d.view, r, on[at.Node]) {
			d.Change.IfUnchanged(controlplane.DevicesKey(at.Node), d.view.Nodes[at.Node].Devices.Mod)
		}
	}
}
