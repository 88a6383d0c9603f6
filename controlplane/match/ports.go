package match

import (
	"slices"
	"strconv"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// A node gives out the ports of its range by number, like devices, but does not list them: the
// allocated ports determine the free ones. A port outside of the range is a resource of its own,
// requested by number. The range may change while ports are in use, so each kind checks the other.

// IsPort reports whether a resource is one port by number, or ports of the range.
func IsPort(id types.ResourceID) bool {
	if id == types.Port {
		return true
	}
	_, fixed := id.FixedPort()
	return fixed
}

// portsFit reports whether the node has the ports of a need whose amount is free.
func (r *Room) portsFit(x cluster.Need) bool {
	if _, fixed := x.ID.FixedPort(); fixed {
		return x.Amount == Whole && r.PortsFree(types.Holding{Resource: x.ID})
	}
	if x.Amount%Whole != 0 {
		return false
	}
	taken := types.Quantity(len(r.takenInRange()))
	size, _ := r.capacity(types.Port)
	return size-taken*Whole >= x.Amount
}

// PortsFree reports whether no port of h is in use under its other name: as a port of the range,
// or by its number.
func (r *Room) PortsFree(h types.Holding) bool {
	if number, fixed := h.Resource.FixedPort(); fixed {
		return ShareOf(r.Used(types.Port), strconv.Itoa(number)) == 0
	}
	return !slices.ContainsFunc(r.Holds(), func(x types.Holding) bool {
		number, fixed := x.Resource.FixedPort()
		return fixed && x.Amount > 0 && ShareOf(h.Devices, strconv.Itoa(number)) > 0
	})
}

// takenInRange returns the ports of the range that are in use: as ports of the range or, from
// before they were in the range, by number.
func (r *Room) takenInRange() map[int]struct{} {
	taken := make(map[int]struct{})
	add := func(number int) {
		if r.Node.HasInRange(number) {
			taken[number] = struct{}{}
		}
	}
	for _, h := range r.Holds() {
		if number, fixed := h.Resource.FixedPort(); fixed && h.Amount > 0 {
			add(number)
		}
		if h.Resource != types.Port {
			continue
		}
		for _, d := range h.Devices {
			if number, err := strconv.Atoi(d.ID); err == nil {
				add(number)
			}
		}
	}
	return taken
}

// pickPorts returns the lowest free ports of the range; nil if there are not enough.
func (r *Room) pickPorts(amount types.Quantity) []types.DeviceShare {
	taken := r.takenInRange()
	var out []types.DeviceShare
	for number := r.Node.Info.V.PortFirst; amount > 0; number++ {
		if !r.Node.HasInRange(number) {
			return nil
		}
		if _, ok := taken[number]; !ok {
			out = append(out, types.DeviceShare{ID: strconv.Itoa(number), Share: Whole})
			amount -= Whole
		}
	}
	return slices.Clip(out)
}
