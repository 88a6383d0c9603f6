package match

import (
	"cmp"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// A types.DeviceRequest is strict: models and memory leave out devices, a topology leaves out
// sets of them. Among the sets left, layout chooses as it does without a request.

// Restrict takes the capacity from slots whose device a request does not want, or of which
// nothing is known. A nil request wants any.
func Restrict(slots []Slot, r *types.DeviceRequest) {
	if r == nil {
		return
	}
	for i := range slots {
		if d := slots[i].Device; d == nil || !r.Takes(d) {
			slots[i].Capacity = 0
		}
	}
}

// TopologyOf returns the topology that a need asks for.
func TopologyOf(x cluster.Need) types.Topology {
	if x.Devices == nil {
		return types.AnyTopology
	}
	return x.Devices.Topology
}

// anySet reports whether any n devices meet a topology.
func anySet(n int, topology types.Topology) bool { return n < 2 || topology == types.AnyTopology }

// together returns the best set of n unused devices that meet a topology; 0 if there is none.
// Where there are too many sets, it compares those grown from each device, and takes any other
// set only if none of these is large enough.
func (l *layout) together(n int, topology types.Topology) devices {
	if topology == types.OneNUMA && l.unused&l.nowhere != 0 {
		known := *l
		known.unused &^= l.nowhere
		l = &known
	}
	unused := l.unused.count()
	switch {
	case unused < n:
		return 0
	case l.flat && topology == types.OneNUMA:
		return l.unused.firstOf(n)
	case l.flat:
		return 0
	}
	var near *adjacency
	switch topology {
	case types.OneNUMA:
		near = &l.numa
	case types.LinkedDevices:
		near = &l.linked
	default: // of a later version
		return 0
	}
	if choices(unused, n) <= maxChoices {
		return l.bestOf(n, near)
	}
	if s := l.bestGrown(n, near); s != 0 {
		return s
	}
	c := clique{near: near, size: n, steps: cliqueSteps}
	return c.grow(0, l.unused)
}

// cliqueSteps limits the search for a set whose devices are all adjacent. No known machine comes
// near: links are of all devices, of groups, or of a few neighbors.
const cliqueSteps = 1 << 14

// clique is the search for a set of a size whose devices are all adjacent.
type clique struct {
	near  *adjacency
	size  int
	steps int
}

// grow returns such a set: s and others of from; 0 if there is none, or the search ended before.
func (c *clique) grow(s, from devices) devices {
	if s.count() == c.size {
		return s
	}
	for s.count()+from.count() >= c.size {
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

// CompareChoice orders requests by how much choice they leave, the least first; nil leaves all of
// it. A topology comes before a model: a request without a topology prefers adjacent devices,
// and the others may have nothing else.
func CompareChoice(a, b *types.DeviceRequest) int {
	if a == nil || b == nil {
		return cmp.Compare(models(a), models(b))
	}
	return cmp.Or(cmp.Compare(len(b.Topology), len(a.Topology)), cmp.Compare(models(a), models(b)), cmp.Compare(b.MinMemory, a.MinMemory))
}

// models returns how many models a request allows; any counts as more than can be named.
func models(r *types.DeviceRequest) int {
	switch {
	case r == nil:
		return types.MaxModels + 2
	case len(r.Models) == 0:
		return types.MaxModels + 1
	}
	return len(r.Models)
}
