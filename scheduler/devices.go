package scheduler

import (
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// whole is all of one device.
const whole types.Quantity = 1000

// slot is what may be taken of one device.
type slot struct {
	id             string
	capacity, used types.Quantity
	// device says where it is; nil if that is not known.
	device *types.Device
}

// room is how much of the slot nobody uses.
func (s *slot) room() types.Quantity { return s.capacity - s.used }

// untouched reports whether all of a device is there, and nobody uses any of it.
func (s *slot) untouched() bool { return s.used == 0 && s.capacity == whole }

// someSlots is room for the slots of most nodes, to be had without allocating.
type someSlots [16]slot

// slots returns the devices that rid may be taken from on n, behind those in out; out
// when it is not made of devices there. There is nothing of those that are not healthy.
func (d *Draft) slots(n *cluster.Node, rid types.ResourceID, out []slot) []slot {
	out = d.allSlots(n, rid, out)
	if rid.Scoped() && rid.Unscoped() == types.Port {
		return out // its numbers are not devices of the node
	}
	for i := range out {
		// One that the node does not list is gone, though a grant holds it.
		if dev := out[i].device; dev == nil || dev.Unhealthy != "" {
			out[i].capacity = 0
		}
	}
	return out
}

// allSlots is slots as if all devices were healthy.
func (d *Draft) allSlots(n *cluster.Node, rid types.ResourceID, out []slot) []slot {
	if rid.Scoped() {
		return d.scopedSlots(n, rid, out)
	}
	if n.Devices.V == nil || !rid.Physical() {
		return out
	}
	used := d.used(n, rid)
	devices := n.Devices.V.Devices
	for i := range devices {
		dev := &devices[i]
		if dev.Resource != rid {
			continue
		}
		out = append(out, slot{id: dev.ID, capacity: whole, used: share(used, dev.ID), device: dev})
	}
	return out
}

// scopedSlots is allSlots of the devices that the grant behind rid holds.
func (d *Draft) scopedSlots(n *cluster.Node, rid types.ResourceID, out []slot) []slot {
	if _, name, _ := rid.Split(); name == string(types.CPU) || name == string(types.Memory) {
		return out // nowhere made of devices
	}
	held := d.grantHolds(n, rid)
	if !slices.ContainsFunc(held, func(h types.Holding) bool { return len(h.Devices) > 0 }) {
		return out // as of most grants
	}
	used := d.used(n, rid)
	for _, h := range held {
		if h.Resource != rid.Unscoped() {
			continue
		}
		for _, dev := range h.Devices {
			out = append(out, slot{id: dev.ID, capacity: dev.Share, used: share(used, dev.ID), device: deviceOf(n, dev.ID)})
		}
	}
	return out
}

// eachDevice calls each with how much nobody uses of each device that rid may be taken from on
// n, and whether all of it is there and nobody uses any of it, until that returns false.
// It returns false if rid is not made of devices there.
func (d *Draft) eachDevice(n *cluster.Node, rid types.ResourceID, each func(room types.Quantity, untouched bool) bool) (devices bool) {
	if rid.Scoped() {
		var some someSlots
		slots := d.slots(n, rid, some[:0])
		for i := range slots {
			if !each(slots[i].room(), slots[i].untouched()) {
				break
			}
		}
		return len(slots) > 0
	}
	if n.Devices.V == nil || !rid.Physical() {
		return false
	}
	used := d.used(n, rid)
	for i := range n.Devices.V.Devices {
		dev := &n.Devices.V.Devices[i]
		if dev.Resource != rid {
			continue
		}
		devices = true
		room := -share(used, dev.ID)
		if dev.Unhealthy == "" {
			room += whole
		}
		if !each(room, room == whole) {
			break
		}
	}
	return devices
}

// madeOfDevices reports whether rid is made of devices on n.
func (d *Draft) madeOfDevices(n *cluster.Node, rid types.ResourceID) bool {
	return d.eachDevice(n, rid, func(types.Quantity, bool) bool { return false })
}

// deviceOf returns a device of n, nil if there is none of that id.
func deviceOf(n *cluster.Node, id string) *types.Device {
	if n.Devices.V == nil {
		return nil
	}
	devices := n.Devices.V.Devices
	if i := slices.IndexFunc(devices, func(d types.Device) bool { return d.ID == id }); i >= 0 {
		return &devices[i]
	}
	return nil
}

func share(shares []types.DeviceShare, id string) types.Quantity {
	for i := range shares {
		if shares[i].ID == id {
			return shares[i].Share
		}
	}
	return 0
}

// devicesFit reports whether x can be made up of devices of n, or need not be.
func (d *Draft) devicesFit(n *cluster.Node, x cluster.Need) bool {
	if isPort(x.ID) {
		return d.portsFit(n, x)
	}
	if x.Devices != nil {
		var some someSlots
		slots := d.slotsFor(n, x, some[:0])
		return len(slots) > 0 && canBe(slots, x.Amount, x.Devices.Topology)
	}
	made := makeUp{of: x.Amount}
	return !d.eachDevice(n, x.ID, made.add) || made.enough
}

// makeUp makes up an amount of devices.
type makeUp struct {
	// of is the amount, so what there is of it in whole devices.
	of, so types.Quantity
	enough bool
}

// add adds what there is of a device, and reports whether more is needed. A part of a
// device is of one.
func (m *makeUp) add(room types.Quantity, untouched bool) bool {
	switch {
	case m.of < whole:
		m.enough = room >= m.of
	case untouched && m.of%whole == 0:
		m.so += whole
		m.enough = m.so >= m.of
	}
	return !m.enough
}

// canMakeUp reports whether amount can be made up of slots.
func canMakeUp(slots []slot, amount types.Quantity) bool {
	made := makeUp{of: amount}
	for i := range slots {
		if !made.add(slots[i].room(), slots[i].untouched()) {
			return true
		}
	}
	return false
}

// pickDevices returns the devices that make up x on n, nil if it needs none.
func (d *Draft) pickDevices(n *cluster.Node, x cluster.Need) []types.DeviceShare {
	if x.ID == types.Port {
		return d.pickPorts(n, x.Amount)
	}
	var some someSlots
	return pick(d.slotsFor(n, x, some[:0]), x.Amount, topologyOf(x))
}

// pick makes up amount of slots, whole devices as the topology says; nil if it cannot
// be, never if canBe says that it can. The same slots give the same.
//
// A fraction is taken of the device with the least room that is enough, so that whole
// ones stay whole. Of whole ones, those are taken that are nearest to one another: see
// nearest.
func pick(slots []slot, amount types.Quantity, so types.Topology) []types.DeviceShare {
	if !canMakeUp(slots, amount) {
		return nil
	}
	if amount >= whole {
		return nearest(slots, int(amount/whole), so, whole)
	}
	best := -1
	for i := range slots {
		if room := slots[i].room(); room >= amount && (best < 0 || room < slots[best].room()) {
			best = i
		}
	}
	if slots[best].untouched() {
		return nearest(slots, 1, types.AnyTopology, amount)
	}
	return []types.DeviceShare{{ID: slots[best].id, Share: amount}}
}

// apart is how far the whole devices that needs would be given on n are from one
// another: see layout.apart. 0 unless more than one is asked for.
func (d *Draft) apart(n *cluster.Node, needs []cluster.Need) int {
	most := 0
	for _, x := range needs {
		if x.Amount <= whole || x.Amount%whole != 0 || isPort(x.ID) || x.ID.IsPlacement() || n.Devices.V == nil {
			continue
		}
		var some someSlots
		slots := d.slotsFor(n, x, some[:0])
		if wanted := int(x.Amount / whole); len(slots) >= wanted {
			var l layout
			l.layOut(lookedAt(slots))
			most = max(most, l.apart(wanted, topologyOf(x)))
		}
	}
	return most
}
