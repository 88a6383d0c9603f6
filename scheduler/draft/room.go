package draft

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/types"
)

// whole is one entire device.
const whole = match.Whole

// RoomOn returns a node as the draft leaves it.
func (d *Draft) RoomOn(n *cluster.Node) match.Room {
	o := match.Overlay{Granted: d.granted}
	if p := d.places[n]; p != nil {
		o.Allocated, o.Offered, o.Ended, o.Bound = p.alloc, p.extra, p.ended, p.binds
	}
	return match.Over(d.view, n, o)
}

// Fits reports whether a node has free capacity for needs. If not, short is the first resource it
// lacks.
func (d *Draft) Fits(n *cluster.Node, needs []cluster.Need) (short types.ResourceID, ok bool) {
	r := d.RoomOn(n)
	return r.Short(needs)
}

// Hold returns what a binding or grant with needs, which fit, holds on n.
func (d *Draft) Hold(n *cluster.Node, needs []cluster.Need) []types.Holding {
	r := d.RoomOn(n)
	return r.Pick(needs)
}

// Free returns how much of rid is Free on n.
func (d *Draft) Free(n *cluster.Node, rid types.ResourceID) (types.Quantity, bool) {
	r := d.RoomOn(n)
	return r.Free(rid)
}

// used returns the allocated devices of a resource on n.
func (d *Draft) used(n *cluster.Node, rid types.ResourceID) []types.DeviceShare {
	r := d.RoomOn(n)
	return r.Used(rid)
}

// Holds returns the allocated amounts on n.
func (d *Draft) Holds(n *cluster.Node) []types.Holding {
	r := d.RoomOn(n)
	return r.Holds()
}

// Slots appends the devices that make up rid on n to out.
func (d *Draft) Slots(n *cluster.Node, rid types.ResourceID, out []match.Slot) []match.Slot {
	r := d.RoomOn(n)
	return r.Slots(rid, out)
}

// SlotsFor returns the devices on n that qualify for a need.
func (d *Draft) SlotsFor(n *cluster.Node, x cluster.Need) []match.Slot {
	r := d.RoomOn(n)
	return r.SlotsFor(x, nil)
}

// EverSlots is slotsFor on an empty node with healthy devices.
func (d *Draft) EverSlots(n *cluster.Node, x cluster.Need) []match.Slot {
	r := d.RoomOn(n)
	return r.EverSlots(x, nil)
}

// portsFree reports whether no port of h is allocated on n under its other name.
func (d *Draft) portsFree(n *cluster.Node, h types.Holding) bool {
	r := d.RoomOn(n)
	return r.PortsFree(h)
}

// MadeOfDevices reports whether rid is made of devices on n.
func (d *Draft) MadeOfDevices(n *cluster.Node, rid types.ResourceID) bool {
	r := d.RoomOn(n)
	return r.MadeOfDevices(rid)
}

// PoolShort returns the first cluster-wide resource of needs that is short.
func (d *Draft) PoolShort(needs []cluster.Need) (types.ResourceID, bool) {
	for _, x := range needs {
		if p := d.view.Pool(x.ID); p != nil && d.PoolFree(p) < x.Amount {
			return x.ID, true
		}
	}
	return "", false
}

// IsFree reports whether all of holds, on n, is free, including the same devices.
func (d *Draft) IsFree(n *cluster.Node, holds []types.Holding) bool {
	for _, h := range holds {
		if h.Cluster {
			if d.PoolFree(d.view.PoolOf(h.Resource)) < h.Amount {
				return false
			}
			continue
		}
		if free, _ := d.Free(n, h.Resource); free < h.Amount {
			return false
		}
		if match.IsPort(h.Resource) && !d.portsFree(n, h) {
			return false
		}
		used := d.used(n, h.Resource)
		for _, x := range h.Devices {
			if match.ShareOf(used, x.ID)+x.Share > whole {
				return false
			}
		}
	}
	return true
}

// EverHas reports whether n has devices for all of a Want, allocated or not, healthy or not.
func (d *Draft) EverHas(n *cluster.Node, x grants.Want) bool {
	r := d.RoomOn(n)
	slots := r.EverSlots(cluster.Need{ID: x.ID}, nil)
	return match.Divide(slots, types.MaxQuantity, x.Parts()).Sum() == x.Sum()
}

// RoomToCollect reports whether the draft has space for one more resource of a node, and for the
// final compares of that many devices.
func (d *Draft) RoomToCollect(devices int) bool { return d.Room(nodeCompares+2+devices, 2) }

// HoldsAll reports whether a grant holds all of a wanted resource on a node. It returns false for
// devices, because the devices may change: see collectDevices.
func (d *Draft) HoldsAll(at *types.GrantNode, x grants.Want) bool {
	return grants.HeldOf(at.Holds, x.ID) >= x.Sum() && !x.Chooses() && !d.MadeOfDevices(d.view.Nodes[at.Node], x.ID)
}
