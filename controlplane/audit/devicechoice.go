package audit

import (
	"fmt"

	"github.com/escher-sched/escher/types"
)

// devicesBound validates DevicesAsRequested for a binding at the moment m of the bind: its devices
// satisfy the device requests of its task.
func (s *state) devicesBound(b *binding, m moment, found finder) {
	t := b.of.info.V
	if t == nil || len(t.Devices) == 0 || !m.knows(b.of.info.Create) || !m.knows(b.node.devices.Mod) || b.node.devices.V == nil && !m.now {
		return
	}
	for i := range t.Devices {
		r := &t.Devices[i]
		rid := types.Resolve(b.task.ns, r.Resource)
		var given []types.DeviceShare
		for _, h := range b.info.V.Holds {
			if h.Resource == rid {
				given = append(given, h.Devices...)
			}
		}
		if why := b.node.wrongDevices(r, given); why != "" {
			found(b.String(), "must have %s %s, but %s", rid, r, why)
		}
	}
}

// wrongDevices returns why devices of the node do not satisfy r; empty if they do.
func (n *node) wrongDevices(r *types.DeviceRequest, given []types.DeviceShare) string {
	if len(given) == 0 {
		return "holds no device"
	}
	var chosen []*types.Device
	for _, d := range given {
		dev := n.device(d.ID)
		if dev == nil {
			return fmt.Sprintf("holds device %s, which node %s does not have", d.ID, n.name)
		}
		if !r.Takes(dev) {
			return fmt.Sprintf("holds device %s, of model %q with %s memory", d.ID, dev.Model, amount(types.Quantity(dev.MemoryBytes), types.Memory))
		}
		for _, other := range chosen {
			if !r.Joins(dev, other) {
				return fmt.Sprintf("devices %s and %s are not connected that way", other.ID, dev.ID)
			}
		}
		chosen = append(chosen, dev)
	}
	return ""
}

// devicesGranted validates DevicesAsRequested for a new complete grant: its devices on each node
// can be divided so that each bundle's device requests are satisfied.
func (s *state) devicesGranted(r *reservation, found finder) {
	g, was := r.grant.V, r.grant.before(s.revision)
	if r.grant.Mod != s.revision || g == nil || g.Phase != types.Granted || !r.current() || was != nil && was.Phase == types.Granted ||
		len(g.Bundles) != len(r.info.V.Bundles) {
		return
	}
	for _, at := range g.Nodes {
		p := partition{node: s.node(at.Node), steps: partitionSteps, left: make(map[string]types.Quantity)}
		for i, b := range r.info.V.Bundles {
			for j := range b.Devices {
				if g.Bundles[i] == at.Node {
					p.wanted = append(p.wanted, wanted{&b.Devices[j], b.Requests.Get(b.Devices[j].Resource)})
				}
			}
		}
		if len(p.wanted) == 0 {
			continue
		}
		for _, h := range at.Holds {
			for _, d := range h.Devices {
				p.left[d.ID] += d.Share
				p.devices = append(p.devices, d.ID)
			}
		}
		if !p.divide(0) && p.steps > 0 {
			found(r.object(), "holds devices %[2]v on node %[1]s, which cannot satisfy its bundles there", at.Node, p.devices)
		}
	}
}

// wanted is a device request of a bundle, with its amount.
type wanted struct {
	*types.DeviceRequest
	amount types.Quantity
}

// partitionSteps bounds the search for a partition; a longer one counts as success.
const partitionSteps = 1 << 16

// partition is a search for devices of a node for each bundle there.
type partition struct {
	node    *node
	wanted  []wanted
	devices []string
	left    map[string]types.Quantity
	steps   int
}

// divide reports whether the bundles from the i-th on can get devices.
func (p *partition) divide(i int) bool {
	if i == len(p.wanted) {
		return true
	}
	return p.give(i, p.wanted[i].amount, 0, nil)
}

// give tries to give the i-th bundle further devices from an index on, in addition to has, and then
// serves the remaining bundles.
func (p *partition) give(i int, more types.Quantity, from int, has []*types.Device) bool {
	if p.steps--; p.steps <= 0 {
		return false
	}
	if more <= 0 {
		return p.divide(i + 1)
	}
	for at := from; at < len(p.devices); at++ {
		name, share := p.devices[at], min(more, wholeDevice)
		dev := p.node.device(name)
		if p.left[name] < share || dev == nil || string(dev.Resource) != p.wanted[i].Resource || !p.fits(i, dev, has) {
			continue
		}
		p.left[name] -= share
		if p.give(i, more-share, at+1, append(has[:len(has):len(has)], dev)) {
			return true
		}
		p.left[name] += share
	}
	return false
}

// fits reports whether the i-th bundle may have a device together with those in has.
func (p *partition) fits(i int, dev *types.Device, has []*types.Device) bool {
	if !p.wanted[i].Takes(dev) {
		return false
	}
	for _, other := range has {
		if !p.wanted[i].Joins(dev, other) {
			return false
		}
	}
	return true
}
