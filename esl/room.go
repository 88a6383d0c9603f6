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
