package esl

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Where room is being made for tasks: a policy that has its resource on nodes with room has it
// there, too, or they could not begin when the room is there.

// made is the room that is being made on a node for who asks for some of a resource: how much
// of that is asked for, and collected by now.
type made struct{ asked, held types.Quantity }

// making reports whether a reservation is room that is being made.
func making(r *cluster.Reservation) bool {
	if r.Info.V == nil || !r.Info.V.AtOnce || r.Info.V.ForItself {
		return false
	}
	return r.Grant.V == nil || r.Current() && r.Grant.V.Phase == types.Collecting
}

// madeRoom returns the room that is being made for who asks for some of a resource of the
// policy's namespace, by node.
func (s *State) madeRoom(name string) map[string]made {
	return s.allMadeRoom(func(n string) bool { return n == name })[name]
}

// allMadeRoom is madeRoom of all resources whose names do, by these.
func (s *State) allMadeRoom(does func(name string) bool) map[string]map[string]made {
	var out map[string]map[string]made
	for id, r := range s.View.Reservations {
		if id.Namespace != s.Namespace || !making(r) {
			continue
		}
		for _, b := range r.Info.V.Bundles {
			for _, x := range b.Requests {
				if !does(x.Name) {
					continue
				}
				if out == nil {
					out = make(map[string]map[string]made)
				}
				if out[x.Name] == nil {
					out[x.Name] = make(map[string]made)
				}
				at := out[x.Name][b.Node]
				at.asked += x.Amount
				out[x.Name][b.Node] = at
			}
		}
		if r.Grant.V == nil {
			continue
		}
		for _, on := range r.Grant.V.Nodes {
			for _, h := range on.Holds {
				ns, name, _ := h.Resource.Split()
				if nodes := out[name]; ns == s.Namespace && nodes != nil {
					at := nodes[on.Node]
					at.held += h.Amount
					nodes[on.Node] = at
				}
			}
		}
	}
	return out
}
