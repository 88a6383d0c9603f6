package taskset

import (
	"strconv"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Capacity being reserved for tasks: a policy whose resource is on nodes with free capacity puts it
// there, too, or the tasks could not begin when the reservation is complete.

// Reserved is the capacity being reserved on a node for tasks that request some of a resource: how
// much of it is asked for, and held by now.
type Reserved struct{ Asked, Held types.Quantity }

// IsReserving reports whether a reservation is collecting capacity for waiting tasks.
func IsReserving(r *cluster.Reservation) bool {
	if r.Info.V == nil || !r.Info.V.HandsOver() {
		return false
	}
	return r.Grant.V == nil || r.Current() && r.Grant.V.Phase == types.Collecting
}

// Numbered returns the present ones of the first most numbered reservations of a policy, and the free
// ids for more.
func Numbered(s *esl.State, most int) (present []*cluster.Reservation, free []string) {
	for i := range most {
		id := s.Own(strconv.Itoa(i))
		switch r := s.Reservation(id); {
		case Locked(r):
			present = append(present, r)
		case r == nil || r.Grant.V == nil:
			free = append(free, id)
		}
	}
	return present, free
}

// ReservedFor returns the capacity being reserved for tasks that request a resource of the policy's
// namespace, by node.
func ReservedFor(s *esl.State, name string) map[string]Reserved {
	return AllReserved(s, func(n string) bool { return n == name })[name]
}

// AllReserved is ReservedFor for all resources whose names match, by name.
func AllReserved(s *esl.State, does func(name string) bool) map[string]map[string]Reserved {
	var out map[string]map[string]Reserved
	for id, r := range s.View.Reservations {
		if id.Namespace != s.Namespace || !IsReserving(r) {
			continue
		}
		for _, b := range r.Info.V.Bundles {
			for _, x := range b.Requests {
				if !does(x.Name) {
					continue
				}
				if out == nil {
					out = make(map[string]map[string]Reserved)
				}
				if out[x.Name] == nil {
					out[x.Name] = make(map[string]Reserved)
				}
				at := out[x.Name][b.Node]
				at.Asked += x.Amount
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
					at.Held += h.Amount
					nodes[on.Node] = at
				}
			}
		}
	}
	return out
}
