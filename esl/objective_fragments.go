package esl

import (
	"cmp"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// fragments is how much GPU of a node the tasks cannot use: for each kind of task, by how
// frequent it is, what is free of the devices that it could not be given. A task without
// GPU uses none of it, and one that the node has no room for, none there.
// (Q. Weng et al., "Beware of Fragmentation", ATC 2023.)
type fragments struct {
	kinds []fragmentKind
	// before is what rooms have of it as they are.
	before map[*Room]fragmentsAt
}

// fragmentKind is tasks that ask for the same, and what part of all they are.
type fragmentKind struct {
	cpu, memory, gpu types.Quantity
	models           string
	part             float64
	devices          *types.DeviceRequest
}

// fragmentsAt is what a room has of fragments, and of what it was computed.
type fragmentsAt struct {
	space  fragmentSpace
	amount float64
}

// fragmentSpace is what is free in a room, of what counts.
type fragmentSpace struct {
	cpu, memory types.Quantity
	devices     []deviceRoom
}

// newFragments goes by what all tasks that the policy is about have asked for, those that
// have ended too.
func newFragments(s *State) *fragments {
	counted := make(map[fragmentKind]int)
	devices := make(map[string]*types.DeviceRequest)
	all := 0
	for _, t := range s.concerned() {
		if t.Info.V == nil {
			continue
		}
		k := fragmentKind{cpu: t.Info.V.Requests.Get(string(types.CPU)), memory: t.Info.V.Requests.Get(string(types.Memory)), gpu: t.Info.V.Requests.Get(string(types.GPU))}
		for i, d := range t.Info.V.Devices {
			if types.ResourceID(d.Resource) == types.GPU {
				k.models = strings.Join(d.Models, "|")
				devices[k.models] = &t.Info.V.Devices[i]
			}
		}
		counted[k]++
		all++
	}
	f := &fragments{before: make(map[*Room]fragmentsAt)}
	for k, n := range counted {
		k.part, k.devices = float64(n)/float64(all), devices[k.models]
		f.kinds = append(f.kinds, k)
	}
	// The order of a sum counts for its last digits.
	slices.SortFunc(f.kinds, func(a, b fragmentKind) int {
		return cmp.Or(cmp.Compare(a.gpu, b.gpu), cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.memory, b.memory), cmp.Compare(a.models, b.models))
	})
	return f
}

// score is by how much fragments become more when a task is there.
func (f *fragments) score(needs []cluster.Need, r *Room) float64 {
	is := fragmentSpaceOf(r)
	was, ok := f.before[r]
	if !ok || !was.space.equal(is) {
		was = fragmentsAt{space: is, amount: f.amount(is)}
		f.before[r] = was
	}
	then := is
	then.devices = slices.Clone(is.devices)
	then.cpu -= amountOf(needs, types.CPU)
	then.memory -= amountOf(needs, types.Memory)
	for i := range needs {
		if needs[i].ID == types.GPU {
			r.pick(is.devices, &needs[i], func(at int) { then.devices[at].free -= min(needs[i].Amount, One) })
		}
	}
	return f.amount(then) - was.amount
}

func (s fragmentSpace) equal(t fragmentSpace) bool {
	return s.cpu == t.cpu && s.memory == t.memory && slices.Equal(s.devices, t.devices)
}

// fragmentSpaceOf returns what is free in a room. Where GPU is not made of devices, it counts as
// whole ones and a rest.
func fragmentSpaceOf(r *Room) fragmentSpace {
	var s fragmentSpace
	s.cpu, _ = r.Free(types.CPU)
	s.memory, _ = r.Free(types.Memory)
	if s.devices = slices.Clone(r.devicesOf(types.GPU)); len(s.devices) == 0 {
		for free, _ := r.Free(types.GPU); free > 0; free -= One {
			s.devices = append(s.devices, deviceRoom{free: min(free, One)})
		}
	}
	return s
}

// amount is how much of a space no task, in the mean, can use.
func (f *fragments) amount(s fragmentSpace) float64 {
	var free types.Quantity
	for _, d := range s.devices {
		free += max(d.free, 0)
	}
	if free == 0 {
		return 0
	}
	sum := 0.0
	for i := range f.kinds {
		k := &f.kinds[i]
		lost := free
		if k.gpu > 0 && k.cpu <= s.cpu && k.memory <= s.memory {
			lost = k.lost(s.devices, free)
		}
		sum += k.part * float64(lost)
	}
	return sum
}

// lost is how much of devices tasks of the kind cannot use: all if they do not fit.
func (k *fragmentKind) lost(devices []deviceRoom, free types.Quantity) types.Quantity {
	each := min(k.gpu, One)
	var lost types.Quantity
	enough := types.Quantity(0)
	for _, d := range devices {
		switch {
		case d.free < each, k.devices != nil && d.device != nil && !k.devices.Takes(d.device):
			lost += max(d.free, 0)
		default:
			enough += each
		}
	}
	if enough < k.gpu {
		return free
	}
	return lost
}
