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

// Mix is a set of requests, and the number of tasks with each. It measures how much GPU capacity is
// in fragments. For a node and one kind of task, the fragment is
//
//   - all free GPU, if such a task does not fit there, or requests no GPU;
//   - otherwise the free part of each device that cannot give any to such a task.
//
// The fragments of a node are the mean of that over the tasks (Q. Weng et al., "Beware of
// Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
// USENIX ATC 2023, section 3). The paper counts CPU; Mix counts memory, too.
//
// The zero value is a mix without tasks: nothing is a fragment. It is not safe for concurrent use.
type Mix struct {
	tasks int64
	asked []*mixed
	// is and then are buffers of one call: there are very many calls.
	is, then gpuSpace
	// may is a buffer for the devices that a need may get.
	may []match.Slot
}

// mixed are the tasks of a mix with equal GPU requests.
type mixed struct {
	gpu     types.Quantity
	devices *types.DeviceRequest
	wanted  string // devices as text
	besides []mixedBesides
}

// mixedBesides counts the tasks with equal other requests.
type mixedBesides struct {
	cpu, memory types.Quantity
	tasks       int64
}

// gpuSpace is the free capacity of a room, as far as it counts.
type gpuSpace struct {
	cpu, memory types.Quantity
	devices     []match.Slot
}

// Add adds a task with its requests and device requests.
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

// like returns the tasks with a GPU request of such devices, and adds an entry if there is none.
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

// mixOf returns the mix of all tasks of a policy, ended ones included.
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

// descent is fragmentation gradient descent: the node with the least growth of fragments in steps;
// of equal ones, the one with the least left (best fit). Steps avoid that an exact minimum spreads
// tasks over nearly equal nodes. The leftover counts less than one step.
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

// steps converts a growth of fragments, in thousandths of a device, to steps that are finest near
// 0: hundredths of the sigmoid of devices, as in the simulator of the authors
// (hkust-adsl/kubernetes-scheduler-simulator, pkg/simulator/plugin/fgd_score.go).
func steps(growth float64) float64 {
	return -math.Floor(100 / (1 + math.Exp(growth/float64(esl.One))))
}

// growth returns how much the fragments of a room grow when needs, which fit, are taken from it.
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

// read reads the free capacity of a room. GPU without devices counts as whole devices and a rest.
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

// amount returns how much of a space is in fragments, in thousandths of a device.
func (m *Mix) amount(s *gpuSpace) float64 {
	var free types.Quantity
	for i := range s.devices {
		free += max(s.devices[i].Free(), 0)
	}
	if free == 0 || m.tasks == 0 {
		return 0
	}
	var sum int64 // integers, so the order does not matter
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

// lost returns how much of devices such tasks cannot use: all that is free if they do not fit.
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
