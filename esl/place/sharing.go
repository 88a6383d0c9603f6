package place

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// The engine of policies that choose which tasks share a device. A request names no device, and the
// scheduler takes a part from the device that has the least left. So the free part of a device in use is
// reserved: the seat. A task gets the device when its seat is given up and nothing else on the node fits
// better; it gets a device of its own while all seats are held. One task at a time goes to a node.

// sharing is the state of the devices, for one decision.
type sharing struct {
	s      *esl.State
	phases []string
	least  float64
	// of are the declared lengths of the phases, by job.
	of map[string]lengths
	// devices are those with tasks of the policy, by node and name.
	devices map[deviceID]*shared
	rooms   []*esl.Room
	// busy are the nodes to which a task, or a seat, is on its way.
	busy map[string]bool
	// seats are all reservations of the policy, and nowhere the needs that fit on no node.
	seats   map[string]*cluster.Reservation
	nowhere map[string]bool
	plan    esl.Plan
}

type deviceID struct{ node, device string }

// shared is a device with tasks of the policy.
type shared struct {
	tasks []lengths
	// held is what these tasks hold of it.
	held types.Quantity
	// seats hold the rest.
	seats []*cluster.Reservation
}

// seatTimeout is how long a seat may wait: then something else has the place.
const seatTimeout = 5 * time.Second

// sharingOf returns the state of the devices. of are the declared lengths, by job; a partner must add
// least to what a device does.
func sharingOf(s *esl.State, phases []string, least float64, of map[string]lengths) *sharing {
	d := &sharing{s: s, phases: phases, least: least, of: of, devices: make(map[deviceID]*shared), busy: make(map[string]bool), nowhere: make(map[string]bool)}
	for _, t := range taskset.Tasks(s) {
		for _, b := range t.Bindings {
			if b.Gone() || b.Info.V == nil || t.Info.V == nil {
				continue
			}
			for id, share := range devicesOf(b.Node.Name, b.Info.V.Holds) {
				at := d.at(id)
				at.tasks, at.held = append(at.tasks, of[t.Info.V.Job]), at.held+share
			}
		}
	}
	d.rooms = s.Rooms()
	d.findSeats()
	return d
}

// devicesOf returns the parts of GPUs among holdings on a node.
func devicesOf(node string, holds []types.Holding) map[deviceID]types.Quantity {
	out := make(map[deviceID]types.Quantity)
	for _, h := range holds {
		if h.Resource == types.GPU {
			for _, share := range h.Devices {
				out[deviceID{node, share.ID}] += share.Share
			}
		}
	}
	return out
}

func (d *sharing) at(id deviceID) *shared {
	if d.devices[id] == nil {
		d.devices[id] = &shared{}
	}
	return d.devices[id]
}

// findSeats finds the seats and their devices. Those that have been given up count as free.
func (d *sharing) findSeats() {
	prefix := d.s.Own("seat.")
	d.seats = make(map[string]*cluster.Reservation)
	for id, r := range d.s.View.Reservations {
		if id.Namespace != d.s.Namespace || !strings.HasPrefix(id.ID, prefix) {
			continue
		}
		d.seats[id.ID] = r
		switch {
		case r.Info.V == nil:
			d.giveUp(r) // a task that is on its way there does not have to wait for the scheduler
		case taskset.Granted(r):
			for _, on := range r.Grant.V.Nodes {
				for device := range devicesOf(on.Node, on.Holds) {
					at := d.at(device)
					at.seats = append(at.seats, r)
				}
			}
		default:
			d.busy[r.Info.V.Bundles[0].Node] = true
			if due := time.Unix(0, r.Info.V.Submitted).Add(seatTimeout); d.s.Now.Before(due) {
				d.plan.RequeueAfter = taskset.Earliest(d.plan.RequeueAfter, due)
			} else {
				d.plan.Unreserve = append(d.plan.Unreserve, id.ID)
			}
		}
	}
}

// giveUp counts what a seat holds as free in the rooms.
func (d *sharing) giveUp(r *cluster.Reservation) {
	if r.Grant.V == nil {
		return
	}
	for _, on := range r.Grant.V.Nodes {
		if i := slices.IndexFunc(d.rooms, func(x *esl.Room) bool { return x.Node.Name == on.Node }); i >= 0 {
			d.rooms[i].Return(on.Holds)
		}
	}
}

// choice is where a task may go: a room and, if it is to share a device, that device.
type choice struct {
	room   int
	device deviceID
	shares bool
	adds   float64
}

// pick chooses a device that nothing else uses, else the one to whose work the task adds most.
func (d *sharing) pick(x *assignment, needs []cluster.Need, rooms []*esl.Room) int {
	if x.held {
		return -1 // it keeps no device from others before it can begin
	}
	task := d.of[x.task.Info.V.Job]
	key := fmt.Sprint(taskset.Signature(needs), task)
	if d.nowhere[key] {
		return -1
	}
	best := choice{room: -1}
	for i, r := range rooms {
		if d.busy[r.Node.Name] || r.Node.Name == x.tried {
			continue
		}
		for _, c := range d.choices(i, r, needs, task) {
			if best.room < 0 || best.shares && (!c.shares || c.adds > best.adds) {
				best = c
			}
		}
		if best.room >= 0 && !best.shares {
			break
		}
	}
	if best.room < 0 {
		d.nowhere[key] = true
		return -1
	}
	if best.shares {
		for _, seat := range d.devices[best.device].seats {
			d.plan.Unreserve = append(d.plan.Unreserve, seat.ID.ID)
			d.giveUp(seat)
		}
	}
	d.busy[rooms[best.room].Node.Name] = true
	return best.room
}

// choices returns the devices of a node that a task may get: the one that it gets while all seats are
// held, and those that it gets when their seats are given up.
func (d *sharing) choices(i int, r *esl.Room, needs []cluster.Need, task lengths) (out []choice) {
	try := func(r *esl.Room, want string) {
		device, unused := landing(r, needs)
		at := d.devices[deviceID{r.Node.Name, device}]
		switch {
		case device == "" || want != "" && device != want:
		case unused:
			out = append(out, choice{room: i})
		case at != nil && d.alone(r, device, at):
			if adds := d.adds(at, task); adds >= d.least {
				out = append(out, choice{room: i, device: deviceID{r.Node.Name, device}, shares: true, adds: adds})
			}
		}
	}
	try(r, "")
	if r.Node.Devices.V == nil {
		return out
	}
	for _, device := range r.Node.Devices.V.Devices {
		if at := d.devices[deviceID{r.Node.Name, device.ID}]; at != nil && len(at.seats) > 0 && len(at.tasks) > 0 {
			without := r.Clone()
			for _, seat := range at.seats {
				without.Return(seat.Grant.V.On(r.Node.Name))
			}
			try(without, device.ID)
		}
	}
	return out
}

// landing returns the device that the scheduler would give a part of for needs, and whether nothing of
// it is in use; "" means none.
func landing(r *esl.Room, needs []cluster.Need) (device string, unused bool) {
	if !r.Fits(needs) {
		return "", false
	}
	for _, x := range needs {
		if x.ID == types.GPU {
			if got := r.PickDevices(x); len(got) == 1 {
				return got[0].ID, match.ShareOf(r.Used(types.GPU), got[0].ID) == 0
			}
		}
	}
	return "", false
}

// alone reports whether tasks of the policy hold all that is in use of a device.
func (d *sharing) alone(r *esl.Room, device string, at *shared) bool {
	return match.ShareOf(r.Used(types.GPU), device) == at.held
}

// adds returns how much more work a device does with another task.
func (d *sharing) adds(at *shared, task lengths) float64 {
	return gain(append(slices.Clone(at.tasks), task), len(d.phases)) - gain(at.tasks, len(d.phases))
}

// keepSeats reserves the free parts of devices in use, and gives up seats on others.
func (d *sharing) keepSeats() {
	for _, id := range taskset.SortedKeys(d.seats) {
		r := d.seats[id]
		if !taskset.Granted(r) || r.Info.V == nil || slices.Contains(d.plan.Unreserve, id) {
			continue
		}
		used := false
		for _, on := range r.Grant.V.Nodes {
			for device := range devicesOf(on.Node, on.Holds) {
				used = used || len(d.at(device).tasks) > 0
			}
		}
		if !used && len(d.plan.Unreserve) < taskset.AtOnce {
			d.plan.Unreserve = append(d.plan.Unreserve, id)
		}
	}
	for _, r := range d.rooms {
		if d.busy[r.Node.Name] || r.Node.Devices.V == nil {
			continue // what is on its way there would meet a device with less left
		}
		for _, device := range r.Node.Devices.V.Devices {
			at := d.devices[deviceID{r.Node.Name, device.ID}]
			free := match.Whole - match.ShareOf(r.Used(types.GPU), device.ID)
			if at == nil || len(at.tasks) == 0 || free <= 0 || free >= match.Whole {
				continue
			}
			d.reserve(r, device.ID, free)
		}
	}
}

// reserve reserves the free part of a device, if the scheduler takes it from there.
func (d *sharing) reserve(r *esl.Room, device string, free types.Quantity) {
	needs := []cluster.Need{{ID: types.GPU, Amount: free}}
	if got, _ := landing(r, needs); got != device || len(d.plan.Reserve) >= taskset.AtOnce {
		return
	}
	r.Take(needs)
	d.busy[r.Node.Name] = true
	id := ""
	for i := 0; id == "" || d.seats[id] != nil; i++ {
		id = d.s.Own("seat." + strconv.Itoa(i))
	}
	d.seats[id] = &cluster.Reservation{}
	d.plan.Reserve = append(d.plan.Reserve, controlplane.Reservation{ID: id, Reservation: types.Reservation{
		Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{string(types.GPU): free}), Node: r.Node.Name}},
	}})
}

// rotations returns the plan that creates the rotation of each device that several tasks share, one unit
// for each phase, and removes the others.
func (d *sharing) rotations() esl.Plan {
	plan := esl.Plan{Reason: "other tasks share a device", Idle: "each task that waits has its device, or none is free that suits it"}
	want := make(map[string]map[types.ResourceID]bool)
	for id, at := range d.devices {
		if len(at.tasks) < 2 {
			continue
		}
		if want[id.node] == nil {
			want[id.node] = make(map[types.ResourceID]bool)
		}
		for _, phase := range d.phases {
			want[id.node][types.Resolve(d.s.Namespace, d.s.Own(rotationName(id.device, phase)))] = true
		}
	}
	prefix := string(types.Resolve(d.s.Namespace, d.s.Own(rotation)))
	set := func(id types.ResourceID, node string, capacity types.Quantity, o controlplane.SetOptions) {
		_, name, _ := id.Split()
		plan.Set = append(plan.Set, controlplane.Resource{Name: name, Capacity: capacity, Where: controlplane.OnNode(node), Options: o})
	}
	for _, r := range d.rooms {
		n := r.Node
		for _, id := range slices.Sorted(maps.Keys(n.Own)) {
			if strings.HasPrefix(string(id), prefix) && !want[n.Name][id] && taskset.Capacity(d.s, n, id) > 0 && len(plan.Set) < d.s.MaxChanges() {
				set(id, n.Name, 0, controlplane.SetOptions{})
			}
		}
		for _, id := range slices.Sorted(maps.Keys(want[n.Name])) {
			if taskset.Capacity(d.s, n, id) != esl.One && len(plan.Set) < d.s.MaxChanges() {
				set(id, n.Name, esl.One, d.s.Lifetime())
			}
		}
	}
	return plan
}

// rotation is the beginning of the names of rotations.
const rotation = "turn."

// rotationName returns the suffix of the resource of a phase on a device. It has the last letters and
// digits of the name of the device, so that tasks find it by ESCHER_DEVICES.
func rotationName(device, phase string) string {
	_, name, _ := strings.Cut(device, "=")
	short := strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return -1
	}, name)
	return rotation + short[max(0, len(short)-shortDevice):] + "." + phase
}

// shortDevice is how many letters and digits of the name of a device are in the name of its rotation.
const shortDevice = 12

// next returns the plan for the devices.
func (d *sharing) next() esl.Plan {
	if plan := d.rotations(); !plan.Nothing() {
		return plan
	}
	waiting := assignments(d.s)
	for _, x := range waiting {
		if len(x.on) == 1 && !x.past && !x.held {
			d.busy[x.on[0].Name] = true
		}
	}
	d.keepSeats()
	assigned := Assign{pick: d.pick, Ahead: taskset.AtOnce}.assign(d.s, waiting, d.rooms)
	d.plan.Set, d.plan.Reason = assigned.Set, assigned.Reason
	if !assigned.RequeueAfter.IsZero() {
		d.plan.RequeueAfter = taskset.Earliest(d.plan.RequeueAfter, assigned.RequeueAfter)
	}
	return d.plan
}
