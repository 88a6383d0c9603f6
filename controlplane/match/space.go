package match

import (
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Space is the free capacity of several nodes and of cluster-wide resources. It says whether a gang
// fits before anything is held for it.
type Space struct {
	view   *cluster.View
	empty  bool
	grant  *types.Grant
	limits map[types.ResourceID]types.Quantity
}

// Present is the current space of a view.
func Present(v *cluster.View) Space { return Space{view: v} }

// Empty is the space of a view with nothing allocated and all devices healthy.
func Empty(v *cluster.View) Space { return Space{view: v, empty: true} }

// With is the space with a grant returned; nil returns nothing.
func (s Space) With(g *types.Grant) Space {
	s.grant = g
	return s
}

// Limited is the space in which each node has exactly the given amounts of some resources free;
// types.Inf means no limit.
func (s Space) Limited(limits map[types.ResourceID]types.Quantity) Space {
	s.limits = limits
	return s
}

// Fit returns how many of needs, each of one task or bundle, fit together: in order, each on the
// first node where it fits. It does not retry nodes on which an equal need just failed.
func (s Space) Fit(nodes []*cluster.Node, needs [][]cluster.Need) int {
	f := filling{Space: s, rooms: make([]*Room, len(nodes)), pools: make(map[types.ResourceID]types.Quantity), used: make(map[limited]types.Quantity)}
	n, from := 0, 0
	var rest []cluster.Need
	for i, all := range needs {
		if i == 0 || !slices.Equal(all, needs[i-1]) {
			from = 0
			rest = slices.DeleteFunc(slices.Clone(all), func(x cluster.Need) bool { _, is := s.limits[x.ID]; return is })
		}
		for ; from < len(nodes); from++ {
			if f.take(nodes, from, all, rest) {
				n++
				break
			}
		}
	}
	return n
}

// filling is a space that is being filled.
type filling struct {
	Space
	rooms []*Room
	pools map[types.ResourceID]types.Quantity
	used  map[limited]types.Quantity
}

// limited is a resource on one of the nodes.
type limited struct {
	at int
	id types.ResourceID
}

// take takes needs from a node and reports whether they fit; rest are the needs without a limit.
func (f *filling) take(nodes []*cluster.Node, at int, all, rest []cluster.Need) bool {
	for _, x := range all {
		if limit, ok := f.limits[x.ID]; ok && f.used[limited{at, x.ID}].Add(x.Amount) > limit && limit != types.Inf {
			return false
		}
	}
	for _, x := range rest {
		if f.view.Pool(x.ID) != nil && f.pool(x.ID) < x.Amount {
			return false
		}
	}
	if f.rooms[at] == nil {
		f.rooms[at] = f.room(nodes[at])
	}
	if !f.rooms[at].Fits(rest) {
		return false
	}
	f.rooms[at].Take(rest)
	for _, x := range all {
		if _, ok := f.limits[x.ID]; ok {
			f.used[limited{at, x.ID}] = f.used[limited{at, x.ID}].Add(x.Amount)
		} else if f.view.Pool(x.ID) != nil {
			f.pools[x.ID] = f.pools[x.ID].Add(x.Amount)
		}
	}
	return true
}

// pool returns the remaining amount of a cluster-wide resource.
func (f *filling) pool(id types.ResourceID) types.Quantity {
	pool := f.view.Pool(id)
	if f.empty {
		return pool.Capacity().Minus(f.pools[id])
	}
	free := pool.Free()
	if f.grant != nil {
		for _, on := range f.grant.Nodes {
			for _, h := range on.Holds {
				if h.Resource == id {
					free = free.Add(h.Amount)
				}
			}
		}
	}
	return free.Minus(f.pools[id])
}

// room returns a node of the space.
func (s *Space) room(n *cluster.Node) *Room {
	if s.empty {
		r := emptied(s.view, n)
		return &r
	}
	r := On(s.view, n)
	if s.grant != nil {
		if holds := s.grant.On(n.Name); len(holds) > 0 {
			r.Return(holds)
		}
	}
	return &r
}

// emptied returns a node as if nothing were in use and all devices were healthy.
func emptied(v *cluster.View, n *cluster.Node) Room {
	return Room{Node: healthy(n), view: v, empty: true}
}

// healthy returns a node as if all its devices were healthy.
func healthy(n *cluster.Node) *cluster.Node {
	if n.Devices.V == nil || !slices.ContainsFunc(n.Devices.V.Devices, func(d types.Device) bool { return d.Unhealthy != "" }) {
		return n
	}
	c, devices := *n, *n.Devices.V
	devices.Devices = slices.Clone(devices.Devices)
	for i := range devices.Devices {
		devices.Devices[i].Unhealthy = ""
	}
	c.Devices.V = &devices
	return &c
}
