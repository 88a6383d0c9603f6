package audit

import (
	"maps"
	"slices"

	"github.com/escher-sched/escher/types"
)

// wholeDevice is all of a device.
const wholeDevice types.Quantity = 1000

// deviceExclusive validates DeviceExclusive: what is held of a device sums to at
// most all of it, and what is drawn of it from a reservation to at most what that
// holds of it.
func (s *state) deviceExclusive(a *account, held map[types.ResourceID]usage, found finder) {
	var total map[string]types.Quantity
	for rid, u := range held {
		number := portNumber(rid)
		if len(u.devices) == 0 && number == 0 {
			continue
		}
		if rid.Scoped() {
			s.scopedDevices(a.node, rid, u, found)
			continue
		}
		if total == nil {
			total = make(map[string]types.Quantity)
		}
		for device, share := range u.devices {
			total[deviceName(rid, device)] += share
		}
		if number != 0 {
			total[string(rid)] += u.amount
		}
	}
	for _, device := range slices.Sorted(maps.Keys(total)) {
		if share := total[device]; share > wholeDevice || share < 0 {
			found(a.object+" device "+device, "%s of it is held", amount(share, types.GPU))
		}
	}
}

func (s *state) scopedDevices(n *node, rid types.ResourceID, u usage, found finder) {
	var holds []types.Holding
	if g := s.grantOf(rid); g != nil {
		holds = g.On(n.name)
	}
	for device, share := range u.devices {
		if has := shareOf(holds, rid.Unscoped(), device); share > has {
			found(n.object+" device "+device, "%s of it is drawn from %s, which has %s", amount(share, types.GPU), rid, amount(has, types.GPU))
		}
	}
}

func shareOf(holds []types.Holding, rid types.ResourceID, device string) types.Quantity {
	var sum types.Quantity
	for _, h := range holds {
		for _, d := range h.Devices {
			if h.Resource == rid && d.ID == device {
				sum += d.Share
			}
		}
	}
	return sum
}

// deviceGiven validates DeviceExclusive of what a binding or grant came to hold: the
// devices are of the resource, drawn from a reservation or not, and healthy.
func (s *state) deviceGiven(n *node, before, after []types.Holding, who string, found finder) {
	for _, h := range after {
		of := h.Resource.Unscoped()
		for _, d := range h.Devices {
			if d.Share <= shareOf(before, h.Resource, d.ID) {
				continue
			}
			if of == types.Port {
				if !h.Resource.Scoped() {
					n.portGiven(d, who, found)
				}
				continue
			}
			switch dev := n.device(d.ID); {
			case dev == nil || dev.Resource != of:
				found(who, "holds device %s as %s, which node %s does not have", d.ID, h.Resource, n.name)
			case dev.Unhealthy != "":
				found(who, "holds device %s, which is unhealthy: %s", d.ID, dev.Unhealthy)
			}
		}
		if h.Resource.Scoped() && h.Amount != 0 && len(h.Devices) == 0 && s.drawnInDevices(n, h.Resource) {
			found(who, "holds %s %s, and no devices", amount(h.Amount, h.Resource), h.Resource)
		}
	}
}

// devicesAddUp validates DeviceExclusive of what is held since the moment m: the devices of
// a resource that is made of them add up to the amount.
func (n *node) devicesAddUp(holds []types.Holding, m moment, who string, found finder) {
	for _, h := range holds {
		var sum types.Quantity
		for _, d := range h.Devices {
			sum += d.Share
		}
		if sum != h.Amount && (len(h.Devices) > 0 || n.madeOfDevices(h.Resource, m)) {
			found(who, "holds %s %s, and devices for %s", amount(h.Amount, h.Resource), h.Resource, amount(sum, h.Resource))
		}
	}
}

// bindingAddsUp is devicesAddUp of a binding.
func bindingAddsUp(b *binding, found finder) {
	if b.info.V != nil {
		b.node.devicesAddUp(b.info.V.Holds, moment{at: b.info.Create}, b.String(), found)
	}
}

// grantAddsUp is devicesAddUp of a grant. One that is not whole, or not any more, may hold
// what it came to hold before it was known that there are devices.
func (s *state) grantAddsUp(r *reservation, found finder) {
	g := r.grant.V
	if g == nil {
		return
	}
	m := moment{at: r.grant.Mod}
	if g.Phase != types.Granted {
		m = moment{}
	}
	for _, at := range g.Nodes {
		s.node(at.Node).devicesAddUp(at.Holds, m, r.object(), found)
	}
}

func (n *node) device(name string) *types.Device {
	if n.devices.V == nil {
		return nil
	}
	for i := range n.devices.V.Devices {
		if d := &n.devices.V.Devices[i]; d.ID == name {
			return d
		}
	}
	return nil
}

// drawnInDevices reports whether the reservation behind rid holds devices on that node.
func (s *state) drawnInDevices(n *node, rid types.ResourceID) bool {
	g := s.grantOf(rid)
	return g != nil && slices.ContainsFunc(g.On(n.name), func(h types.Holding) bool {
		return h.Resource == rid.Unscoped() && len(h.Devices) > 0
	})
}

// madeOfDevices reports whether it is known that rid, not drawn from a reservation, was
// devices on the node at a moment.
func (n *node) madeOfDevices(rid types.ResourceID, m moment) bool {
	if rid == types.Port {
		return true
	}
	return m.knows(n.devices.Mod) && n.devices.V != nil && slices.ContainsFunc(n.devices.V.Devices, func(d types.Device) bool { return d.Resource == rid })
}
