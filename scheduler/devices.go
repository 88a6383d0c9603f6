package scheduler

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// whole is all of one device.
const whole types.Quantity = 1000

// slot is what may be taken of one device.
type slot struct {
	id             string
	capacity, used types.Quantity
}

// slots returns the devices that rid may be taken from on n; nil when it is not
// made of devices there.
func (d *Draft) slots(n *cluster.Node, rid types.ResourceID) []slot {
	if rid.Scoped() {
		return d.scopedSlots(n, rid)
	}
	if n.Devices.V == nil || !rid.Physical() {
		return nil
	}
	var out []slot
	for _, dev := range n.Devices.V.Devices {
		if dev.Resource == rid {
			s := slot{id: dev.ID, capacity: whole, used: share(d.used(n, rid), dev.ID)}
			if dev.Unhealthy != "" {
				s.capacity = 0
			}
			out = append(out, s)
		}
	}
	return out
}

// scopedSlots returns the devices that the grant behind rid holds.
func (d *Draft) scopedSlots(n *cluster.Node, rid types.ResourceID) []slot {
	var out []slot
	for _, h := range d.grantHolds(n, rid) {
		if h.Resource != rid.Unscoped() {
			continue
		}
		for _, dev := range h.Devices {
			out = append(out, slot{id: dev.ID, capacity: dev.Share, used: share(d.used(n, rid), dev.ID)})
		}
	}
	return out
}

func share(shares []types.DeviceShare, id string) types.Quantity {
	for _, s := range shares {
		if s.ID == id {
			return s.Share
		}
	}
	return 0
}

// devicesFit reports whether x can be made up of devices of n, or need not be.
func (d *Draft) devicesFit(n *cluster.Node, x cluster.Need) bool {
	if isPort(x.ID) {
		return d.portsFit(n, x)
	}
	slots := d.slots(n, x.ID)
	return slots == nil || pick(slots, x.Amount) != nil
}

// pickDevices returns the devices that make up x on n, nil if it needs none.
func (d *Draft) pickDevices(n *cluster.Node, x cluster.Need) []types.DeviceShare {
	if x.ID == types.Port {
		return d.pickPorts(n, x.Amount)
	}
	return pick(d.slots(n, x.ID), x.Amount)
}

// pick makes up amount of slots: whole devices, or a fraction of one, of the one
// with the least room that is enough so that whole ones stay whole. nil if it cannot
// be.
func pick(slots []slot, amount types.Quantity) []types.DeviceShare {
	if amount < whole {
		best := -1
		for i, s := range slots {
			if room := s.capacity - s.used; room >= amount && (best < 0 || room < slots[best].capacity-slots[best].used) {
				best = i
			}
		}
		if best < 0 {
			return nil
		}
		return []types.DeviceShare{{ID: slots[best].id, Share: amount}}
	}
	if amount%whole != 0 {
		return nil
	}
	var out []types.DeviceShare
	for _, s := range slots {
		if s.used == 0 && s.capacity == whole {
			out = append(out, types.DeviceShare{ID: s.id, Share: whole})
			if amount -= whole; amount == 0 {
				return out
			}
		}
	}
	return nil
}
