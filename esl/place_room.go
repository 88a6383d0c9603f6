package esl

import (
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Room is what is free on a node, less what a decision has given away of it already: for
// policies that choose nodes. It goes by the same numbers as the scheduler, devices
// and ports included, but for how devices lie to one another, and ports of a range that was
// changed while they were in use.
type Room struct {
	// Node is the node.
	Node *cluster.Node

	view    *cluster.View
	taken   map[types.ResourceID]types.Quantity
	devices map[types.ResourceID][]DeviceRoom
}

// DeviceRoom is what is free of a device.
type DeviceRoom struct {
	Device *types.Device
	Free   types.Quantity
}

// Rooms returns the rooms of the nodes that tasks may be bound to, by name.
func (s *State) Rooms() []*Room {
	nodes := s.Nodes()
	rooms := make([]*Room, len(nodes))
	for i, n := range nodes {
		rooms[i] = NewRoom(s.View, n)
	}
	return rooms
}

func NewRoom(v *cluster.View, n *cluster.Node) *Room {
	return &Room{Node: n, view: v} // of most, nothing is ever taken
}

// Clone returns a copy, to try something on.
func (r *Room) Clone() *Room {
	c := &Room{Node: r.Node, view: r.view, taken: maps.Clone(r.taken), devices: maps.Clone(r.devices)}
	for id, list := range c.devices {
		c.devices[id] = slices.Clone(list)
	}
	return c
}

// Free returns how much of a resource is left; ok is false if the node has none.
func (r *Room) Free(id types.ResourceID) (q types.Quantity, ok bool) {
	q, ok = r.view.Free(r.Node, id)
	return q.Minus(r.taken[id]), ok
}

// Capacity returns how much of a resource the node has in all.
func (r *Room) Capacity(id types.ResourceID) types.Quantity {
	q, _ := r.view.Capacity(r.Node, id)
	return q
}

// Devices returns how much is free of each healthy device that a resource is made of, in
// thousandths; ok is false if it is not made of devices.
func (r *Room) Devices(id types.ResourceID) (free []types.Quantity, ok bool) {
	list := r.DevicesOf(id)
	for _, d := range list {
		free = append(free, d.Free)
	}
	return free, len(list) > 0
}

func (r *Room) DevicesOf(id types.ResourceID) []DeviceRoom {
	if list, ok := r.devices[id]; ok || !id.Physical() || r.Node.Devices.V == nil {
		return list
	}
	var used []types.DeviceShare
	if r.Node.Allocated.V != nil {
		used = r.Node.Allocated.V.DevicesOf(id)
	}
	list := []DeviceRoom{}
	for i := range r.Node.Devices.V.Devices {
		d := &r.Node.Devices.V.Devices[i]
		if d.Resource != id {
			continue
		}
		one := DeviceRoom{Device: d}
		if d.Unhealthy == "" {
			one.Free = One
		}
		for _, u := range used {
			if u.ID == d.ID {
				one.Free -= u.Share
			}
		}
		list = append(list, one)
	}
	if r.devices == nil {
		r.devices = make(map[types.ResourceID][]DeviceRoom)
	}
	r.devices[id] = list
	return list
}

// Fits reports whether what is asked for is there. What is of the whole cluster is not
// looked at.
func (r *Room) Fits(needs []cluster.Need) bool {
	for i := range needs {
		if !r.fits(&needs[i]) {
			return false
		}
	}
	return true
}

func (r *Room) fits(x *cluster.Need) bool {
	if r.view.Pool(x.ID) != nil {
		return true
	}
	if free, ok := r.Free(x.ID); !ok || free < x.Amount {
		return false
	}
	list := r.DevicesOf(x.ID)
	return len(list) == 0 || r.Pick(list, x, func(int) {})
}

// Pick calls take with the devices that a need would be given, and reports whether they
// are there: of a fraction the one with the least room, of whole ones the first.
func (r *Room) Pick(list []DeviceRoom, x *cluster.Need, take func(i int)) bool {
	least := -1
	whole := int(x.Amount / One)
	for i, d := range list {
		switch {
		case x.Devices != nil && !x.Devices.Takes(d.Device):
		case x.Amount < One:
			if d.Free >= x.Amount && (least < 0 || d.Free < list[least].Free) {
				least = i
			}
		case d.Free == One && whole > 0:
			whole--
			take(i)
		}
	}
	if x.Amount >= One {
		return whole == 0
	}
	if least >= 0 {
		take(least)
	}
	return least >= 0
}

// Large reports whether the node would do if nothing else were there. What is of the whole
// cluster is not looked at.
func (r *Room) Large(needs []cluster.Need) bool {
	for i := range needs {
		x := &needs[i]
		if r.view.Pool(x.ID) != nil {
			continue
		}
		if q, ok := r.view.Capacity(r.Node, x.ID); !ok || q < x.Amount {
			return false
		}
	}
	return true
}

// Take gives away what is asked for.
func (r *Room) Take(needs []cluster.Need) {
	if r.taken == nil {
		r.taken = make(map[types.ResourceID]types.Quantity)
	}
	for i := range needs {
		x := &needs[i]
		if r.view.Pool(x.ID) != nil {
			continue
		}
		r.taken[x.ID] += x.Amount
		list := r.DevicesOf(x.ID)
		r.Pick(list, x, func(i int) { list[i].Free -= min(x.Amount, One) })
	}
}

// Put takes as many as possible of n that ask for the same, and returns how many.
func (r *Room) Put(needs []cluster.Need, n int) int {
	for i := range n {
		if !r.Fits(needs) {
			return i
		}
		r.Take(needs)
	}
	return n
}
