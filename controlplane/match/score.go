package match

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Score ranks a node that fits: lower is better, compared element by element.
type Score struct {
	// Distance says how far the devices that would be taken are from one another.
	Distance int
	// Left is how many devices would be left, if that counts.
	Left float64
	// Load is how full the node would be. Negated, it prefers full nodes.
	Load float64
}

// Better reports whether s is preferred to o.
func (s Score) Better(o Score) bool {
	if s.Distance != o.Distance {
		return s.Distance < o.Distance
	}
	if s.Left != o.Left {
		return s.Left < o.Left
	}
	return s.Load < o.Load
}

// Score returns the score of the node with needs.
func (r *Room) Score(needs []cluster.Need) Score {
	return Score{Distance: r.distance(needs), Load: r.load(needs)}
}

// taskLoad is how much a task adds to the load, so that of nodes of one load the one with fewer
// tasks has less.
const taskLoad = 1.0 / (1 << 20)

// load returns how full the node would be: the largest share in use of a physical resource of
// needs, and a little for every task.
func (r *Room) load(needs []cluster.Need) float64 {
	var most float64
	for _, x := range needs {
		if _, fixed := x.ID.FixedPort(); fixed || !x.ID.Physical() || x.ID.IsPlacement() {
			continue // a port by number says nothing about the node
		}
		capacity, _ := r.capacity(x.ID)
		free, _ := r.Free(x.ID)
		most = max(most, share(capacity, free, x.Amount))
	}
	return most + float64(r.Tasks())*taskLoad
}

// Left is Score for packing what requests devices: how many devices of the node would be left, the
// fewest first (best fit). Of nodes with as many left, the one whose cpu and memory are the least
// loaded is better: the devices that are left are of no use without.
func (r *Room) Left(needs []cluster.Need) Score {
	var left, most float64
	for _, x := range needs {
		if _, fixed := x.ID.FixedPort(); fixed || !x.ID.Physical() || x.ID.IsPlacement() {
			continue
		}
		free, _ := r.Free(x.ID)
		if x.ID.OfDevices() {
			left += float64(free-x.Amount) / float64(Whole)
			continue
		}
		capacity, _ := r.capacity(x.ID)
		most = max(most, share(capacity, free, x.Amount))
	}
	return Score{Distance: r.distance(needs), Left: left, Load: most + float64(r.Tasks())*taskLoad}
}

// share returns the share in use of a capacity once an amount more is in use.
func share(capacity, free, amount types.Quantity) float64 {
	if capacity <= 0 || capacity == types.Inf {
		return 0
	}
	return float64(capacity-free+amount) / float64(capacity)
}

// distance returns how far the whole devices that needs would get are from one another, the
// largest of all resources: see layout.distance.
func (r *Room) distance(needs []cluster.Need) int {
	most := 0
	for _, x := range needs {
		if x.Amount <= Whole || x.Amount%Whole != 0 || IsPort(x.ID) || x.ID.IsPlacement() || r.Node.Devices.V == nil {
			continue
		}
		var some someSlots
		slots := r.SlotsFor(x, some[:0])
		if wanted := int(x.Amount / Whole); len(slots) >= wanted {
			var l layout
			l.read(considered(slots))
			most = max(most, l.distance(wanted, TopologyOf(x)))
		}
	}
	return most
}
