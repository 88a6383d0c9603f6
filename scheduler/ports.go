package scheduler

import (
	"slices"
	"strconv"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// A node gives out the ports of its range by their numbers, as it does devices, but
// nobody lists them: those that are in use say which are free. A port outside of
// the range is a resource of its own, asked for by its number. The range may change
// while some are in use, so that each kind has to mind the other.

// isPort reports whether rid is a port or some.
func isPort(rid types.ResourceID) bool {
	if rid == types.Port {
		return true
	}
	_, fixed := rid.FixedPort()
	return fixed
}

// portsFit reports whether n has the ports of x, of which there are enough by their
// amount.
func (d *Draft) portsFit(n *cluster.Node, x cluster.Need) bool {
	if _, fixed := x.ID.FixedPort(); fixed {
		return x.Amount == whole && d.portsFree(n, types.Holding{Resource: x.ID})
	}
	if x.Amount%whole != 0 {
		return false
	}
	taken := types.Quantity(len(d.takenInRange(n)))
	size, _ := d.view.Capacity(n, types.Port)
	return size-taken*whole >= x.Amount
}

// portsFree reports whether no port of h, which was held on n, is in use under its other name:
// as one of the range, or by its number.
func (d *Draft) portsFree(n *cluster.Node, h types.Holding) bool {
	if number, fixed := h.Resource.FixedPort(); fixed {
		return share(d.used(n, types.Port), strconv.Itoa(number)) == 0
	}
	return !slices.ContainsFunc(d.holds(n), func(x types.Holding) bool {
		number, fixed := x.Resource.FixedPort()
		return fixed && share(h.Devices, strconv.Itoa(number)) > 0
	})
}

// takenInRange returns the ports of the range of n that are in use, as some of it or,
// from before it was the range, by their numbers.
func (d *Draft) takenInRange(n *cluster.Node) map[int]struct{} {
	taken := make(map[int]struct{})
	add := func(number int) {
		if n.HasInRange(number) {
			taken[number] = struct{}{}
		}
	}
	for _, h := range d.holds(n) {
		if number, fixed := h.Resource.FixedPort(); fixed {
			add(number)
		}
		if h.Resource != types.Port {
			continue
		}
		for _, dev := range h.Devices {
			if number, err := strconv.Atoi(dev.ID); err == nil {
				add(number)
			}
		}
	}
	return taken
}

// pickPorts returns the lowest ports of the range of n that are free, nil if there
// are not as many.
func (d *Draft) pickPorts(n *cluster.Node, amount types.Quantity) []types.DeviceShare {
	taken := d.takenInRange(n)
	var out []types.DeviceShare
	for number := n.Info.V.PortFirst; amount > 0; number++ {
		if !n.HasInRange(number) {
			return nil
		}
		if _, ok := taken[number]; !ok {
			out = append(out, types.DeviceShare{ID: strconv.Itoa(number), Share: whole})
			amount -= whole
		}
	}
	return slices.Clip(out)
}
