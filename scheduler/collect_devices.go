package scheduler

import (
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/types"
)

// Held devices are not assigned to bundles: bundles move to a node one by one as others lose
// theirs, and devices change. So every pass assigns them again, from the devices alone.

// collectDevices takes the free and wanted devices of a node, and reports whether all of x is held
// then. The held devices stay if no bundle gets less from them than from a new choice. Otherwise
// the new choice replaces them, and unwanted devices are returned.
func (c *Core) collectDevices(d *Draft, r *cluster.Reservation, at *types.GrantNode, x Want) bool {
	n := c.view.Nodes[at.Node]
	if c.locked(n) {
		c.accum.skipped = true
		return false
	}
	held := types.Holding{Resource: x.ID, Amount: HeldOf(at.Holds, x.ID), Devices: devicesIn(at.Holds, x.ID)}
	parts := x.parts()
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
	d.gave = d.gave || held.Amount > now.Amount || len(without(held.Devices, now.Devices)) > 0
	d.keep(n, nil)
	d.compareNode(n)
	for _, k := range d.reliedOn(r.ID.Namespace, n, parts) {
		d.Change.IfUnchanged(k.key, k.mod)
	}
	at.Holds = slices.DeleteFunc(slices.Clone(at.Holds), func(h types.Holding) bool { return h.Resource == x.ID })
	if now.Amount > 0 {
		at.Holds = addHolding(at.Holds, now)
	}
	return now.Amount == x.Sum()
}

// manyDevices is the number of nodes above which one compare covers the devices of all nodes,
// rather than one compare per node.
const manyDevices = 32

// relyOnDevices makes the draft depend on the devices of a complete grant being unchanged since
// they were divided, on nodes where bundles restrict the devices.
func (c *Core) relyOnDevices(d *Draft, r *cluster.Reservation, g *types.Grant) {
	if devicesRelied(c.view, r, g) == 1 && len(g.Nodes) > manyDevices {
		d.Change.If(controlplane.Compare{Key: controlplane.Prefix(controlplane.Devices), Target: controlplane.Newest, Revision: d.view.Revision})
		return
	}
	on := bundlesOn(g)
	for _, at := range g.Nodes {
		if choosesOn(c.view, r, on[at.Node]) {
			d.Change.IfUnchanged(controlplane.DevicesKey(at.Node), c.view.Nodes[at.Node].Devices.Mod)
		}
	}
}

// devicesRelied is the number of compares that relyOnDevices makes.
func devicesRelied(v *cluster.View, r *cluster.Reservation, g *types.Grant) int {
	n := 0
	if !slices.ContainsFunc(r.Info.V.Bundles, func(b types.Bundle) bool { return len(b.Devices) > 0 }) {
		return n
	}
	on := bundlesOn(g)
	for _, at := range g.Nodes {
		if choosesOn(v, r, on[at.Node]) {
			n++
		}
	}
	if n > manyDevices {
		return 1
	}
	return n
}

// choosesOn reports whether bundles that share a node restrict the devices.
func choosesOn(v *cluster.View, r *cluster.Reservation, bundles []int) bool {
	return slices.ContainsFunc(wanted(v, r, bundles), Want.chooses)
}

// parts returns the pieces in which devices are collected: by bundle, because a part of a device
// belongs to one. Restricted devices come first, one by one. Whole devices follow, as they become
// free, then the parts, each at once.
func (w Want) parts() []cluster.Need {
	wholes := types.Quantity(0)
	var chosen, parts []cluster.Need
	for _, y := range w.Needs {
		switch {
		case y.Devices != nil:
			chosen = append(chosen, y)
		case y.Amount%whole == 0:
			wholes = wholes.Add(y.Amount)
		default:
			parts = append(parts, y)
		}
	}
	slices.SortStableFunc(chosen, func(a, b cluster.Need) int { return match.CompareChoice(a.Devices, b.Devices) })
	if wholes > 0 {
		chosen = append(chosen, cluster.Need{ID: w.ID, Amount: wholes})
	}
	return append(chosen, parts...)
}

func devicesIn(holds []types.Holding, rid types.ResourceID) []types.DeviceShare {
	var out []types.DeviceShare
	for _, h := range holds {
		if h.Resource == rid {
			out = append(out, h.Devices...)
		}
	}
	return out
}

// everHas reports whether n has devices for all of a Want, allocated or not, healthy or not.
func (d *Draft) everHas(n *cluster.Node, x Want) bool {
	r := d.RoomOn(n)
	slots := r.EverSlots(cluster.Need{ID: x.ID}, nil)
	return match.Divide(slots, types.MaxQuantity, x.parts()).Sum() == x.Sum()
}
