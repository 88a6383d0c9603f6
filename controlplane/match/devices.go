package match

import (
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Whole is all of one device, or one port.
const Whole types.Quantity = 1000

// Slot is a device, or the share of one, that a resource is taken from.
type Slot struct {
	ID string
	// Capacity is how much of the device may be given out, Used how much is in use.
	Capacity, Used types.Quantity
	// Device describes it; nil means that the node does not list it.
	Device *types.Device
}

// Free returns how much of the slot is not in use.
func (s *Slot) Free() types.Quantity { return s.Capacity - s.Used }

// Unused reports whether the slot is a whole device with nothing allocated.
func (s *Slot) Unused() bool { return s.Used == 0 && s.Capacity == Whole }

// someSlots is room for the slots of most nodes, without an allocation.
type someSlots [16]Slot

// Slots appends to out the devices that a resource is taken from; nothing if it is not made of
// devices. An unhealthy device has no capacity.
func (r *Room) Slots(id types.ResourceID, out []Slot) []Slot {
	from := len(out)
	out = r.allSlots(id, out)
	if id.Scoped() && id.Unscoped() == types.Port {
		return out // ports are no devices that the node lists
	}
	for i := range out[from:] {
		// A device that the node does not list is gone, even if a grant holds it.
		if s := &out[from+i]; s.Device == nil || s.Device.Unhealthy != "" {
			s.Capacity = 0
		}
	}
	return out
}

// SlotsFor is Slots for a need: a device that the need does not want has no capacity.
func (r *Room) SlotsFor(x cluster.Need, out []Slot) []Slot {
	from := len(out)
	out = r.Slots(x.ID, out)
	Restrict(out[from:], x.Devices)
	return out
}

// EverSlots is SlotsFor as if nothing were in use and all devices were healthy.
func (r *Room) EverSlots(x cluster.Need, out []Slot) []Slot {
	from := len(out)
	out = r.allSlots(x.ID, out)
	for i := range out[from:] {
		out[from+i].Used = 0
	}
	Restrict(out[from:], x.Devices)
	return out
}

// allSlots is Slots as if all devices were healthy.
func (r *Room) allSlots(id types.ResourceID, out []Slot) []Slot {
	if id.Scoped() {
		return r.scopedSlots(id, out)
	}
	if r.Node.Devices.V == nil || !id.Physical() {
		return out
	}
	used := r.Used(id)
	devices := r.Node.Devices.V.Devices
	for i := range devices {
		if d := &devices[i]; d.Resource == id {
			out = append(out, Slot{ID: d.ID, Capacity: Whole, Used: ShareOf(used, d.ID), Device: d})
		}
	}
	return out
}

// scopedSlots is allSlots of the devices that the grant of a scoped resource holds.
func (r *Room) scopedSlots(id types.ResourceID, out []Slot) []Slot {
	if _, name, _ := id.Split(); name == string(types.CPU) || name == string(types.Memory) {
		return out // never made of devices
	}
	held := r.grantHolds(id)
	if !slices.ContainsFunc(held, func(h types.Holding) bool { return len(h.Devices) > 0 }) {
		return out // most grants hold no devices
	}
	used := r.Used(id)
	for _, h := range held {
		if h.Resource != id.Unscoped() {
			continue
		}
		for _, d := range h.Devices {
			out = append(out, Slot{ID: d.ID, Capacity: d.Share, Used: ShareOf(used, d.ID), Device: DeviceOf(r.Node, d.ID)})
		}
	}
	return out
}

// eachDevice calls each with the free share of each device of a resource, and whether the device
// is whole and unused, until each returns false. It reports whether the resource is made of devices.
func (r *Room) eachDevice(id types.ResourceID, each func(free types.Quantity, unused bool) bool) (devices bool) {
	if id.Scoped() {
		var some someSlots
		slots := r.Slots(id, some[:0])
		for i := range slots {
			if !each(slots[i].Free(), slots[i].Unused()) {
				break
			}
		}
		return len(slots) > 0
	}
	if r.Node.Devices.V == nil || !id.Physical() {
		return false
	}
	used := r.Used(id)
	for i := range r.Node.Devices.V.Devices {
		d := &r.Node.Devices.V.Devices[i]
		if d.Resource != id {
			continue
		}
		devices = true
		free := -ShareOf(used, d.ID)
		if d.Unhealthy == "" {
			free += Whole
		}
		if !each(free, free == Whole) {
			break
		}
	}
	return devices
}

// MadeOfDevices reports whether a resource is made of devices on the node.
func (r *Room) MadeOfDevices(id types.ResourceID) bool {
	return r.eachDevice(id, func(types.Quantity, bool) bool { return false })
}

// DeviceOf returns the device of an id that a node lists, nil if there is none.
func DeviceOf(n *cluster.Node, id string) *types.Device {
	if n.Devices.V == nil {
		return nil
	}
	devices := n.Devices.V.Devices
	if i := slices.IndexFunc(devices, func(d types.Device) bool { return d.ID == id }); i >= 0 {
		return &devices[i]
	}
	return nil
}

// ShareOf returns the share of the device, or port, of an id; 0 if it is not there.
func ShareOf(shares []types.DeviceShare, id string) types.Quantity {
	for i := range shares {
		if shares[i].ID == id {
			return shares[i].Share
		}
	}
	return 0
}

// DevicesFit reports whether the node has the devices or ports of a need whose amount is free. It
// is true for resources without devices.
func (r *Room) DevicesFit(x cluster.Need) bool {
	if IsPort(x.ID) {
		return r.portsFit(x)
	}
	if x.Devices != nil {
		var some someSlots
		slots := r.SlotsFor(x, some[:0])
		return len(slots) > 0 && Possible(slots, x.Amount, x.Devices.Topology)
	}
	sum := sum{of: x.Amount}
	return !r.eachDevice(x.ID, sum.add) || sum.enough
}

// EverHas reports whether the node has room for a need, also as devices or ports, when nothing is in
// use and all devices are healthy.
func (r *Room) EverHas(x cluster.Need) bool {
	if capacity, known := r.capacity(x.ID); !known || capacity < x.Amount {
		return false
	}
	if IsPort(x.ID) {
		return x.Amount%Whole == 0
	}
	if r.Node.Devices.V == nil && x.Devices == nil || x.ID.IsPlacement() {
		return true
	}
	var some someSlots
	slots := r.EverSlots(x, some[:0])
	if len(slots) == 0 {
		return x.Devices == nil
	}
	return Possible(slots, x.Amount, TopologyOf(x))
}

// PickDevices returns the devices or ports that a need gets; nil if it needs none.
func (r *Room) PickDevices(x cluster.Need) []types.DeviceShare {
	if x.ID == types.Port {
		return r.pickPorts(x.Amount)
	}
	var some someSlots
	return Pick(r.SlotsFor(x, some[:0]), x.Amount, TopologyOf(x))
}

// FreeDevices returns the amount of a resource in free whole devices, and the most that one device
// has left; free is the total. Both are free if the resource is not made of devices.
func (r *Room) FreeDevices(id types.ResourceID, free types.Quantity) (wholes, part types.Quantity, devices bool) {
	if r.Node.Devices.V == nil || id == types.CPU || id == types.Memory {
		return free, free, false
	}
	if !r.eachDevice(id, func(q types.Quantity, unused bool) bool {
		if unused {
			wholes += Whole
		}
		part = max(part, q)
		return true
	}) {
		return free, free, false
	}
	return min(free, wholes), min(free, part), true
}

// sum adds devices up to an amount.
type sum struct {
	// of is the amount; whole is what unused devices add up to.
	of, whole types.Quantity
	enough    bool
}

// add adds a device, and reports whether more are needed. A part of a device is of one device.
func (s *sum) add(free types.Quantity, unused bool) bool {
	switch {
	case s.of < Whole:
		s.enough = free >= s.of
	case unused && s.of%Whole == 0:
		s.whole += Whole
		s.enough = s.whole >= s.of
	}
	return !s.enough
}

// adds reports whether slots add up to an amount.
func adds(slots []Slot, amount types.Quantity) bool {
	sum := sum{of: amount}
	for i := range slots {
		if !sum.add(slots[i].Free(), slots[i].Unused()) {
			return true
		}
	}
	return false
}

// Possible reports whether an amount can be taken from slots that meet a topology.
func Possible(slots []Slot, amount types.Quantity, topology types.Topology) bool {
	if !adds(slots, amount) {
		return false
	}
	n := int(amount / Whole)
	if anySet(n, topology) {
		return true
	}
	var l layout
	l.read(considered(slots))
	return l.together(n, topology) != 0
}

// Pick takes an amount from slots: whole devices that meet a topology. It returns nil if that is
// not possible: see Possible. The same slots give the same devices.
//
// A part is taken from the device with the least room that is enough, so that whole devices stay
// whole. Whole devices are chosen by layout.
func Pick(slots []Slot, amount types.Quantity, topology types.Topology) []types.DeviceShare {
	var out []types.DeviceShare
	PickEach(slots, amount, topology, func(i int, q types.Quantity) {
		if out == nil {
			out = make([]types.DeviceShare, 0, max(1, int(amount/Whole)))
		}
		out = append(out, types.DeviceShare{ID: slots[i].ID, Share: q})
	})
	return out
}

// PickEach calls take with the place in slots, and the share, of each device that Pick takes.
func PickEach(slots []Slot, amount types.Quantity, topology types.Topology, take func(i int, q types.Quantity)) {
	if !adds(slots, amount) {
		return
	}
	if amount >= Whole {
		closest(slots, int(amount/Whole), topology, func(i int) { take(i, Whole) })
		return
	}
	best := -1
	for i := range slots {
		if free := slots[i].Free(); free >= amount && (best < 0 || free < slots[best].Free()) {
			best = i
		}
	}
	if slots[best].Unused() {
		closest(slots, 1, types.AnyTopology, func(i int) { take(i, amount) })
		return
	}
	take(best, amount)
}
