package audit

import (
	"maps"
	"slices"

	"github.com/escher-sched/escher/types"
)

// wholeDevice is the share of a whole device.
const wholeDevice types.Quantity = 1000

// deviceExclusive validates DeviceExclusive: the shares of a device sum to at most a whole one. The
// shares drawn from a reservation sum to at most its own share.
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
			found(a.object+" device "+device, "%s of it are held", amount(share, types.GPU))
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
			found(n.object+" device "+device, "%s of it are drawn from %s, which has %s", amount(share, types.GPU), rid, amount(has, types.GPU))
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

// deviceGiven validates DeviceExclusive for new holdings of a binding or grant: the devices belong
// to the resource and are healthy.
func (s *state) deviceGiven(n *node, before, after []types.Holding, holder string, found finder) {
	for _, h := range after {
		of := h.Resource.Unscoped()
		for _, d := range h.Devices {
			if d.Share <= shareOf(before, h.Resource, d.ID) {
				continue
			}
			if of == types.Port {
				if !h.Resource.Scoped() {
					n.portGiven(d, holder, found)
				}
				continue
			}
			switch dev := n.device(d.ID); {
			case dev == nil || dev.Resource != of:
				found(holder, "holds device %s as %s, which node %s does not have", d.ID, h.Resource, n.name)
			case dev.Unhealthy != "":
				found(holder, "holds device %s, which is unhealthy: %s", d.ID, dev.Unhealthy)
			}
		}
		if h.Resource.Scoped() && h.Amount != 0 && len(h.Devices) == 0 && s.drawnInDevices(n, h.Resource) {
			found(holder, "holds %s %s without devices", amount(h.Amount, h.Resource), h.Resource)
		}
	}
}

// devicesAddUp validates DeviceExclusive for holdings since the moment m: the devices of a resource
// add up to its amount.
func (n *node) devicesAddUp(holds []types.Holding, m moment, holder string, found finder) {
	for _, h := range holds {
		var sum types.Quantity
		for _, d := range h.Devices {
			sum += d.Share
		}
		if sum != h.Amount && (len(h.Devices) > 0 || n.madeOfDevices(h.Resource, m)) {
			found(holder, "holds %s %s, but devices for %s", amount(h.Amount, h.Resource), h.Resource, amount(sum, h.Resource))
		}
	}
}

// bindingAddsUp is devicesAddUp for a binding.
func bindingAddsUp(b *binding, found finder) {
	if b.info.V != nil {
		b.node.devicesAddUp(b.info.V.Holds, moment{at: b.info.Create}, b.String(), found)
	}
}

// grantAddsUp is devicesAddUp for a grant. An incomplete one may have holdings from before its
// devices were known.
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

// madeOfDevices reports whether the unscoped resource rid is known to have consisted of devices on
// the node at a moment.
func (n *node) madeOfDevices(rid types.ResourceID, m moment) bool {
	if rid == types.Port {
		return true
	}
	return m.knows(n.devices.Mod) && n.devices.V != nil && slices.ContainsFunc(n.devices.V.Devices, func(d types.Device) bool { return d.Resource == rid })
}
