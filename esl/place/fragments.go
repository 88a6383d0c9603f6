package place

import (
	"math"
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Mix is what tasks ask for, and how many ask for the same: by it one reckons how much GPU
// is in fragments. Of a node, and one kind of task, a fragment is
//
//   - all GPU that is free, if such a task has no room there, or asks for no GPU;
//   - else what is free of the devices of which it could not be given any.
//
// The fragments of a node are the mean of that over the tasks (Q. Weng et al., "Beware of
// Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
// USENIX ATC 2023, section 3). Besides processors, which it goes by there, memory is
// looked at.
//
// The zero value is a mix without tasks, of which nothing is a fragment. It may not be used
// concurrently.
type Mix struct {
	tasks int64
	asked []*mixed
	// is and then are those of one look: there are very many.
	is, then gpuSpace
	// may are the devices of is that a need may get.
	may []match.Slot
}

// mixed is tasks of a mix that ask for the same of GPU.
type mixed struct {
	gpu     types.Quantity
	devices *types.DeviceRequest
	wanted  string // devices, in words
	besides []mixedBesides
}

// mixedBesides is what some of them ask for besides.
type mixedBesides struct {
	cpu, memory types.Quantity
	tasks       int64
}

// gpuSpace is what is free in a room, of what counts.
type gpuSpace struct {
	cpu, memory types.Quantity
	devices     []match.Slot
}

// Add adds a task that asks for this, and for devices of this kind.
func (m *Mix) Add(requests types.Requests, devices ...types.DeviceRequest) {
	m.tasks++
	x := m.like(requests.Get(string(types.GPU)), devices)
	b := mixedBesides{cpu: requests.Get(string(types.CPU)), memory: requests.Get(string(types.Memory)), tasks: 1}
	at := slices.IndexFunc(x.besides, func(y mixedBesides) bool { return y.cpu == b.cpu && y.memory == b.memory })
	if at < 0 {
		x.besides = append(x.besides, b)
		return
	}
	x.besides[at].tasks++
}

// like returns those that ask for so much GPU, of such devices.
func (m *Mix) like(gpu types.Quantity, devices []types.DeviceRequest) *mixed {
	of, wanted := (*types.DeviceRequest)(nil), ""
	for i := range devices {
		if types.ResourceID(devices[i].Resource) == types.GPU {
			of, wanted = &devices[i], devices[i].String()
		}
	}
	at := slices.IndexFunc(m.asked, func(x *mixed) bool { return x.gpu == gpu && x.wanted == wanted })
	if at < 0 {
		at = len(m.asked)
		m.asked = append(m.asked, &mixed{gpu: gpu, devices: of, wanted: wanted})
	}
	return m.asked[at]
}

// mixOf returns what all tasks that a policy is about have asked for, those that have ended
// too.
func mixOf(s *esl.State) *Mix {
	m := new(Mix)
	for _, t := range taskset.Tasks(s) {
		if t.Info.V != nil {
			m.Add(t.Info.V.Requests, t.Info.V.Devices...)
		}
	}
	return m
}

// Fragments returns how much GPU of a room is in fragments, in thousandths of a device.
func (m *Mix) Fragments(r *esl.Room) float64 {
	m.is.read(r)
	return m.amount(&m.is)
}

// descent is fragmentation gradient descent: where fragments grow least, of nodes where they
// grow by the same number of steps, where the least is left (best fit). In steps, as an
// exact minimum spreads tasks over nodes that are next to equal. What is left counts less
// than one.
func (p Objective) descent(s *esl.State) func([]cluster.Need, *esl.Room) float64 {
	mix, most, all := mixOf(s), largest(s), 1.0
	for _, id := range counted() {
		if most[id] > 0 {
			all += p.weight(id)
		}
	}
	left := p.leftover(most)
	return func(needs []cluster.Need, r *esl.Room) float64 {
		return steps(mix.growth(needs, r)) + left(needs, r)/all
	}
}

// steps is a growth of fragments, in thousandths of a device, in steps that are finest about
// 0: hundredths of the sigmoid of devices, as the simulator of the authors has it
// (hkust-adsl/kubernetes-scheduler-simulator, pkg/simulator/plugin/fgd_score.go).
func steps(growth float64) float64 {
	return -math.Floor(100 / (1 + math.Exp(growth/float64(esl.One))))
}

// growth is by how much the fragments of a room grow when that which is asked for is taken
// of it, which it has room for.
func (m *Mix) growth(needs []cluster.Need, r *esl.Room) float64 {
	m.is.read(r)
	m.then.cpu = m.is.cpu - amountOf(needs, types.CPU)
	m.then.memory = m.is.memory - amountOf(needs, types.Memory)
	m.then.devices = append(m.then.devices[:0], m.is.devices...)
	for _, x := range needs {
		if x.ID != types.GPU {
			continue
		}
		m.may = append(m.may[:0], m.is.devices...)
		match.Restrict(m.may, x.Devices)
		match.PickEach(m.may, x.Amount, match.TopologyOf(x), func(at int, q types.Quantity) { m.then.devices[at].Used += q })
	}
	return m.amount(&m.then) - m.amount(&m.is)
}

// read takes what is free in a room. Where GPU is not made of devices, it counts as whole
// ones and a rest.
func (s *gpuSpace) read(r *esl.Room) {
	s.cpu, _ = r.Free(types.CPU)
	s.memory, _ = r.Free(types.Memory)
	if s.devices = r.Slots(types.GPU, s.devices[:0]); len(s.devices) > 0 {
		return
	}
	for free, _ := r.Free(types.GPU); free > 0; free -= match.Whole {
		s.devices = append(s.devices, match.Slot{Capacity: min(free, match.Whole)})
	}
}

// amount is how much of a space is in fragments.
func (m *Mix) amount(s *gpuSpace) float64 {
	var free types.Quantity
	for i := range s.devices {
		free += max(s.devices[i].Free(), 0)
	}
	if free == 0 || m.tasks == 0 {
		return 0
	}
	var sum int64 // whole numbers, so that their order does not matter
	for _, x := range m.asked {
		lost := x.lost(s.devices, free)
		for _, b := range x.besides {
			if b.cpu <= s.cpu && b.memory <= s.memory {
				sum += b.tasks * int64(lost)
			} else {
				sum += b.tasks * int64(free)
			}
		}
	}
	return float64(sum) / float64(m.tasks)
}

// lost is how much of devices such tasks cannot use: all if they do not fit.
func (x *mixed) lost(devices []match.Slot, free types.Quantity) types.Quantity {
	if x.gpu == 0 {
		return free
	}
	each := min(x.gpu, esl.One)
	var lost, enough types.Quantity
	for i := range devices {
		switch d := &devices[i]; {
		case d.Free() < each, x.devices != nil && d.Device != nil && !x.devices.Takes(d.Device):
			lost += max(d.Free(), 0)
		default:
			enough += each
		}
	}
	if enough < x.gpu {
		return free
	}
	return lost
}
