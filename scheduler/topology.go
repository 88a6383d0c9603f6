package scheduler

import (
	"bytes"
	"cmp"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// What a request says of its devices, types.DeviceRequest, is strict: the models and the
// memory leave out devices, the topology leaves out sets of them. Among the sets that are
// left the one is chosen that is chosen otherwise: see layout.

// slotsFor returns the devices that x may be taken from on n, behind those in out. There
// is nothing of those that are not as x wants them.
func (d *Draft) slotsFor(n *cluster.Node, x cluster.Need, out []slot) []slot {
	out = d.slots(n, x.ID, out)
	restrict(out, x.Devices)
	return out
}

// restrict leaves nothing of the devices that are not as r wants them, or of which
// nothing is known.
func restrict(slots []slot, r *types.DeviceRequest) {
	if r == nil {
		return
	}
	for i := range slots {
		if dev := slots[i].device; dev == nil || !r.Takes(dev) {
			slots[i].capacity = 0
		}
	}
}

// topologyOf returns how the devices of a need are to lie.
func topologyOf(x cluster.Need) types.Topology {
	if x.Devices == nil {
		return types.AnyTopology
	}
	return x.Devices.Topology
}

// lax reports whether any n devices lie as the topology says.
func lax(n int, so types.Topology) bool { return n < 2 || so == types.AnyTopology }

// canBe reports whether amount can be made up of slots that lie as the topology says.
func canBe(slots []slot, amount types.Quantity, so types.Topology) bool {
	if !canMakeUp(slots, amount) {
		return false
	}
	n := int(amount / whole)
	if lax(n, so) {
		return true
	}
	var l layout
	l.layOut(lookedAt(slots))
	return l.together(n, so) != 0
}

// vicinity is a relation of devices, of the i-th the ones that it is near to, itself
// included.
type vicinity [layoutSize]devices

// joins reports whether each of s is near to each.
func (v *vicinity) joins(s devices) bool {
	for rest := s; rest != 0; rest &= rest - 1 {
		if s&^v[rest.first()] != 0 {
			return false
		}
	}
	return true
}

// choose returns n unused devices: those that cost least, of all or of those that lie as
// the topology says.
func (l *layout) choose(n int, so types.Topology) devices {
	if lax(n, so) {
		return l.nearest(n)
	}
	return l.together(n, so)
}

// together returns n unused devices that lie as the topology says; 0 if there are none.
// Of too many sets those are looked at that are grown from each device, and only if all
// of these come to an end any other.
func (l *layout) together(n int, so types.Topology) devices {
	if so == types.OneNUMA && l.unused&l.nowhere != 0 {
		known := *l
		known.unused &^= l.nowhere
		l = &known
	}
	unused := l.unused.count()
	switch {
	case unused < n:
		return 0
	case l.flat && so == types.OneNUMA:
		return l.unused.firstOf(n)
	case l.flat:
		return 0
	}
	var near *vicinity
	switch so {
	case types.OneNUMA:
		near = &l.numa
	case types.LinkedDevices:
		near = &l.linked
	default: // of a later version
		return 0
	}
	if choices(unused, n) <= allChoices {
		return l.bestOf(n, near)
	}
	if s := l.bestGrown(n, near); s != 0 {
		return s
	}
	c := clique{near: near, of: n, steps: cliqueSteps}
	return c.grow(0, l.unused)
}

// cliqueSteps bounds the search for devices of which each is near to each. No machine is
// known that comes near to it: links are of all, of groups, or of a few neighbours.
const cliqueSteps = 1 << 14

// clique is the search for a set of so many devices of which each is near to each.
type clique struct {
	near  *vicinity
	of    int
	steps int
}

// grow returns such a set of those in s and others of from; 0 if there is none, or none
// was found in time.
func (c *clique) grow(s, from devices) devices {
	if s.count() == c.of {
		return s
	}
	for s.count()+from.count() >= c.of {
		if c.steps--; c.steps < 0 {
			return 0
		}
		i := from.first()
		from &^= 1 << i
		if found := c.grow(s|1<<i, from&c.near[i]); found != 0 {
			return found
		}
	}
	return 0
}

// sameDevices reports whether the same is said of devices.
func sameDevices(a, b []types.DeviceRequest) bool {
	return len(a) == len(b) && (len(a) == 0 || bytes.Equal(appendDevices(nil, a), appendDevices(nil, b)))
}

func firstOf(requests []types.DeviceRequest) *types.DeviceRequest {
	if len(requests) == 0 {
		return nil
	}
	return &requests[0]
}

// byChoice orders requests by how much choice they leave, the least first; nil leaves
// all of it. Those of a topology come before those of a model: what may lie anywhere takes
// what is near to one another where it can, and the others may have nothing else.
func byChoice(a, b *types.DeviceRequest) int {
	if a == nil || b == nil {
		return cmp.Compare(models(a), models(b))
	}
	return cmp.Or(cmp.Compare(len(b.Topology), len(a.Topology)), cmp.Compare(models(a), models(b)), cmp.Compare(b.MinMemory, a.MinMemory))
}

// models is how many models will do, any counting as more than can be named.
func models(r *types.DeviceRequest) int {
	switch {
	case r == nil:
		return types.MaxModels + 2
	case len(r.Models) == 0:
		return types.MaxModels + 1
	}
	return len(r.Models)
}

// everHas reports whether n has devices for all of a wish, in use or not, healthy or not.
func (d *Draft) everHas(n *cluster.Node, x wish) bool {
	slots := d.unusedSlots(n, cluster.Need{ID: x.ID})
	return divide(slots, types.MaxQuantity, x.parts()).sum() == x.sum()
}

// unusedSlots is slotsFor as if nobody used anything, and all devices were healthy.
func (d *Draft) unusedSlots(n *cluster.Node, x cluster.Need) []slot {
	slots := d.allSlots(n, x.ID, nil)
	for i := range slots {
		slots[i].used = 0
	}
	restrict(slots, x.Devices)
	return slots
}
