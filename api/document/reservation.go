package document

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Reservation is a reservation with its grant.
type Reservation struct {
	ID string `json:"id"`
	// Phase is that of the grant, or pending.
	Phase   string         `json:"phase"`
	Bundles []types.Bundle `json:"bundles,omitempty"`
	// Nodes are the nodes of the bundles, in their order.
	Nodes []string `json:"nodes,omitempty"`
}

// ReservationOf returns the document of a reservation.
func ReservationOf(id cluster.ID, r *cluster.Reservation) Reservation {
	out := Reservation{ID: id.ID, Phase: string(types.Pending)}
	if r.Info.V != nil {
		out.Bundles = r.Info.V.Bundles
	}
	if g := r.Grant.V; g != nil {
		out.Phase, out.Nodes = string(g.Phase), g.Bundles
		if !r.Current() {
			out.Phase = string(types.Releasing) // even if its grant does not say so yet
		}
	}
	return out
}

// OfTask reports whether a reservation belongs to a task that collects capacity by itself.
func OfTask(r *cluster.Reservation) bool {
	return r.Info.Absent() && r.Grant.V != nil && r.Grant.V.Task != 0
}

// Resource is an amount of a resource at one place.
type Resource struct {
	Name string `json:"name"`
	// Where is a node, or * for the cluster.
	Where     string `json:"where"`
	Capacity  string `json:"capacity"`
	Allocated string `json:"allocated"`
	Free      string `json:"free"`
}

// ResourcesOf returns the resources of a namespace's state, by name and place, without those of
// machines.
func ResourcesOf(s *cluster.State) []Resource {
	var all []Resource
	add := func(where string, amounts []cluster.Amounts) {
		for _, a := range amounts {
			if id := types.ResourceID(a.Name); !types.IsPhysical(a.Name) || id.Scoped() {
				all = append(all, Resource{a.Name, where, a.Capacity.Format(id), a.Allocated.Format(id), a.Free.Format(id)})
			}
		}
	}
	add("*", s.Pools)
	for _, n := range s.Nodes {
		add(n.Name, n.Resources)
	}
	slices.SortFunc(all, func(a, b Resource) int { return strings.Compare(a.Key(), b.Key()) })
	return all
}

// Key is the name and the place, by which a list is sorted.
func (r Resource) Key() string { return r.Name + "/" + r.Where }
