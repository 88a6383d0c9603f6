package keep

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// costOf is the most compares or operations that a change takes.
func costOf(x *controlplane.Resource) int {
	base, each := 1, 2 // no pool of that name; the key, and the session of the node
	if x.Options.Owner != "" {
		base++
	}
	switch removed := x.Capacity == 0 && !x.Options.Declare; {
	case removed:
		base, each = 0, 1
	case x.Where.Cluster:
		each = 1
	}
	return base + each*max(1, len(x.Where.Nodes))
}

// part returns the plan, or as much of it as the store takes at once; changes that lower a capacity
// come first. Changes of objects in If are in every part. A plan of several sorts of changes, or a
// Whole one, is not divided.
func part(p esl.Plan, v *cluster.View, ns string, most int) esl.Plan {
	most -= len(p.If)
	others := len(p.Reserve) + len(p.Unreserve) + len(p.Raise) + len(p.Request)
	switch {
	case p.Whole || others > 0:
	case len(p.Set) == 0 && len(p.Evict) == 0:
		p.Stop = p.Stop[:min(len(p.Stop), max(1, most/esl.SetCost))]
	case len(p.Set) == 0 && len(p.Stop) == 0:
		p.Evict = p.Evict[:min(len(p.Evict), max(1, most/esl.SetCost))]
	case len(p.Stop)+len(p.Evict) == 0:
		p.Set = sets(p, v, ns, most)
	}
	return p
}

// sets returns as many of the changes as cost at most most.
func sets(p esl.Plan, v *cluster.View, ns string, most int) []controlplane.Resource {
	cost := 0
	for i := range p.Set {
		cost += costOf(&p.Set[i])
	}
	if cost <= most {
		return p.Set
	}
	var always, lower, raise []controlplane.Resource
	for _, x := range p.Set {
		if _, ok := p.If[key(&x, ns)]; ok {
			always = append(always, x)
			most -= costOf(&x)
			continue
		}
		for _, one := range each(&x) {
			if lowers(&one, v, ns) {
				lower = append(lower, one)
			} else {
				raise = append(raise, one)
			}
		}
	}
	out := make([]controlplane.Resource, 0, len(p.Set))
	for _, x := range append(lower, raise...) {
		if most -= costOf(&x); most < 0 && len(out) > 0 {
			break
		}
		if last := len(out) - 1; last >= 0 && joins(&out[last], &x) {
			out[last].Where.Nodes = append(out[last].Where.Nodes, x.Where.Nodes...)
			continue
		}
		out = append(out, x)
	}
	return append(out, always...)
}

// joins reports whether two changes can be one, on the nodes of both.
func joins(x *controlplane.Resource, y *controlplane.Resource) bool {
	return x.Name == y.Name && x.Capacity == y.Capacity && x.Options == y.Options && len(x.Where.Nodes) > 0 && len(y.Where.Nodes) > 0
}

// key returns the key of a resource in one place; on nodes, that of the first one.
func key(x *controlplane.Resource, ns string) string {
	at := esl.Named(ns, x.Name)
	switch {
	case x.Where.Cluster:
		return controlplane.ResourceKey(at.Namespace, at.ID, types.ClusterWide)
	case len(x.Where.Nodes) > 0:
		return controlplane.ResourceKey(at.Namespace, at.ID, x.Where.Nodes[0])
	}
	return controlplane.ResourceKey(at.Namespace, at.ID, types.EveryNode)
}

// each splits a change of a resource into changes of one node each.
func each(x *controlplane.Resource) []controlplane.Resource {
	if len(x.Where.Nodes) < 2 {
		return []controlplane.Resource{*x}
	}
	out := make([]controlplane.Resource, len(x.Where.Nodes))
	for i, node := range x.Where.Nodes {
		out[i] = *x
		out[i].Where.Nodes = []string{node}
	}
	return out
}

// lowers reports whether a change of one place lowers the capacity.
func lowers(x *controlplane.Resource, v *cluster.View, ns string) bool {
	rid := types.Resolve(ns, x.Name)
	switch pool, every := v.Pool(rid), v.Everywhere[rid]; {
	case x.Where.Cluster:
		return pool != nil && x.Capacity < pool.Capacity()
	case len(x.Where.Nodes) == 1 && v.Nodes[x.Where.Nodes[0]] != nil:
		has, _ := v.Capacity(v.Nodes[x.Where.Nodes[0]], rid)
		return x.Capacity < has
	default:
		return every != nil && x.Capacity < every.V.Capacity
	}
}
