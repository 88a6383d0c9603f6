package bench

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// Where each task requests a resource of one node, the load assigns the node, before the clock
// runs.

// assigned draws a cluster and tasks, and gives each task a node on which it fits with the others:
// of a few nodes, the one with the most free capacity.
func assigned(cfg rig.Config) (*rig.Hollow, error) {
	h, err := rig.NewHollow(cfg)
	if err != nil {
		return nil, err
	}
	for i := range h.Shapes {
		h.Shapes[i] = evenShares(h.Shapes[i])
	}
	rng := rand.New(rand.NewPCG(rig.Seed, uint64(len(h.Nodes))))
	rooms := make([]*nodeRoom, len(h.Nodes))
	for i := range rooms {
		rooms[i] = newRoom(h.Nodes[i], h.Devices[i])
	}
	h.At = make([]int, len(h.Tasks))
	for i, shape := range h.Tasks {
		n := pickRoom(rng, rooms, h.Shapes[shape])
		if n < 0 {
			return nil, types.Errorf(types.Invalid, "tasks: task %d of %d finds no room on %d nodes for %v: use ten tasks a node or more", i+1, len(h.Tasks), len(h.Nodes), h.Shapes[shape])
		}
		rooms[n].take(h.Shapes[shape])
		h.At[i] = n
	}
	return h, nil
}

// evenShares rounds a part of a device to a half, a quarter, or all of it. If parts go to the
// device with the least left, they then fit in any order.
func evenShares(asked types.Requests) types.Requests {
	share := asked.Get(string(types.GPU))
	if share == 0 || share >= rig.WholeDevice {
		return asked
	}
	even := rig.WholeDevice
	switch {
	case share < rig.WholeDevice*3/8:
		even = rig.WholeDevice / 4
	case share < rig.WholeDevice*3/4:
		even = rig.WholeDevice / 2
	}
	out := slices.Clone(asked)
	for i, x := range out {
		// Resources of device models have the same amount.
		if x.Name == string(types.GPU) || x.Amount == share && strings.Contains(x.Name, "/") {
			out[i].Amount = even
		}
	}
	return out
}

// tries is the number of nodes tried for a task before all are.
const tries = 16

// pickRoom returns a node with enough free capacity; -1 if there is none.
func pickRoom(rng *rand.Rand, rooms []*nodeRoom, r types.Requests) int {
	best, most := -1, -1.0
	first := rng.IntN(len(rooms))
	for i := range rooms {
		if i >= tries && best >= 0 {
			break
		}
		n := (first + i) % len(rooms)
		if i < tries {
			n = rng.IntN(len(rooms))
		}
		if left := rooms[n].left(r); left > most && rooms[n].fits(r) {
			best, most = n, left
		}
	}
	return best
}

// nodeRoom is the free capacity of a node.
type nodeRoom struct {
	free, has map[string]types.Quantity
	// devices is the free part of each device.
	devices []types.Quantity
}

func newRoom(n *types.Node, d *types.Devices) *nodeRoom {
	r := &nodeRoom{free: make(map[string]types.Quantity), has: make(map[string]types.Quantity)}
	for _, x := range n.Capacity {
		r.free[x.Name], r.has[x.Name] = x.Amount, x.Amount
	}
	if d != nil {
		for range d.Devices {
			r.devices = append(r.devices, rig.WholeDevice)
		}
	}
	return r
}

// left is the free share of the scarcest resource; less if the node has devices that are not
// requested.
func (r *nodeRoom) left(asked types.Requests) float64 {
	least := 1.0
	if len(r.devices) > 0 && asked.Get(string(types.GPU)) == 0 {
		least = 0
	}
	for _, name := range []string{string(types.CPU), string(types.Memory)} {
		if r.has[name] > 0 {
			least = min(least, float64(r.free[name])/float64(r.has[name]))
		}
	}
	return least
}

func (r *nodeRoom) fits(asked types.Requests) bool {
	for _, x := range asked {
		if r.free[x.Name] < x.Amount {
			return false
		}
	}
	return r.devicesFor(asked, false)
}

func (r *nodeRoom) take(asked types.Requests) {
	for _, x := range asked {
		r.free[x.Name] -= x.Amount
	}
	r.devicesFor(asked, true)
}

// devicesFor reports whether devices are free, and takes them: whole ones, or a part of the one
// with the least left.
func (r *nodeRoom) devicesFor(asked types.Requests, take bool) bool {
	amount := asked.Get(string(types.GPU))
	if amount == 0 || len(r.devices) == 0 {
		return true
	}
	if amount < rig.WholeDevice {
		best := -1
		for i, free := range r.devices {
			if free >= amount && (best < 0 || free < r.devices[best]) {
				best = i
			}
		}
		if take && best >= 0 {
			r.devices[best] -= amount
		}
		return best >= 0
	}
	for i, free := range r.devices {
		if amount == 0 {
			break
		}
		if free == rig.WholeDevice {
			amount -= rig.WholeDevice
			if take {
				r.devices[i] = 0
			}
		}
	}
	return amount == 0
}
