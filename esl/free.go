package esl

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
)

// Room is a node as the decision of a policy leaves it: what is stored, less what the decision
// has given away. What fits, and which devices and ports it gets, is as the scheduler decides:
// see package match.
type Room struct{ match.Room }

// NewRoom returns a node as it is stored.
func NewRoom(v *cluster.View, n *cluster.Node) *Room { return &Room{match.On(v, n)} }

// Rooms returns the rooms of the nodes that tasks may be bound to, by name.
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

// Take gives away what is asked for. Cluster-wide resources are not considered.
func (r *Room) Take(needs []cluster.Need) { r.Hold(r.Pick(needs)) }

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
