package esl

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/types"
)

// Room is a node as the decision of a policy leaves it: the stored state, less what the decision
// has allocated. Fit, devices and ports follow the scheduler's rules: see package match.
type Room struct{ match.Room }

// NewRoom returns a node as it is stored.
func NewRoom(v *cluster.View, n *cluster.Node) *Room { return &Room{match.On(v, n)} }

// Rooms returns the rooms of the nodes that accept tasks, sorted by name.
func (s *State) Rooms() []*Room {
	nodes := s.Nodes()
	rooms := make([]*Room, len(nodes))
	for i, n := range nodes {
		rooms[i] = NewRoom(s.View, n)
	}
	return rooms
}

// Seek says which changes matter to a cluster-scoped policy until its next call: those of its own job, of
// the nodes of x, of the set of nodes and their capacity, and of the resources given to NoteLacking. Of the
// policies that want a changed node, the first in rank is called. The next one is called if there is capacity
// left. Without a call of Seek, Next is called after every change.
func (s *State) Seek(x Seeking) {
	if s.Sought != nil {
		*s.Sought = &x
	}
}

// SeekEvery undoes Seek: the policy is called after every change.
func (s *State) SeekEvery() {
	if s.Sought != nil {
		*s.Sought = nil
	}
}

// Left returns a node as it is stored, less what is promised there to others of at least an order. A
// promise lapses after a while. So it may delay a task, and never hold it up.
func (s *State) Left(n *cluster.Node, order int) *Room {
	r := NewRoom(s.View, n)
	for _, p := range s.Promised[n.Name] {
		if p.Order >= order && p.By != (cluster.ID{Namespace: s.Namespace, ID: s.ID}) {
			p.Holds(&r.Room)
		}
	}
	return r
}

// LeftRooms returns what is left of the nodes that accept tasks, sorted by name.
func (s *State) LeftRooms(order int) []*Room {
	nodes := s.Nodes()
	rooms := make([]*Room, len(nodes))
	for i, n := range nodes {
		rooms[i] = s.Left(n, order)
	}
	return rooms
}

// Clone returns a copy, to try something on.
func (r *Room) Clone() *Room { return &Room{r.Room.Clone()} }

// Physical returns those of the requests that count against what the machines have: cpu, memory, devices
// and the like, without ephemeral resources and names of places.
func Physical(r types.Requests) types.Requests {
	amounts := make(map[string]types.Quantity)
	for _, one := range r {
		if id := types.ResourceID(one.Name); types.IsPhysical(one.Name) && !id.Scoped() && !id.IsPlacement() {
			amounts[one.Name] = one.Amount
		}
	}
	return types.NewRequests(amounts)
}
