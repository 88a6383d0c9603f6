package esl

import (
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Lifetime returns the lifetime of what the policy creates: that of its job or, if it is shared, until it
// is withdrawn. Capacity 0 leaves it there, closed.
func (s *State) Lifetime() controlplane.SetOptions {
	if s.Job != "" {
		return OfJob(s.Job)
	}
	return controlplane.SetOptions{Declare: true}
}

// InCluster returns the change that sets a cluster-wide resource of the policy.
func (s *State) InCluster(suffix string, capacity types.Quantity) controlplane.Resource {
	return controlplane.Resource{Name: s.Own(suffix), Capacity: capacity, Where: controlplane.InCluster(), Options: s.Lifetime()}
}

// HasInCluster reports whether a cluster-wide resource of the policy exists with a capacity.
func (s *State) HasInCluster(suffix string, capacity types.Quantity) bool {
	p := s.Pool(s.Own(suffix))
	return p != nil && p.Info.V != nil && p.Info.V.Capacity == capacity
}

// TakeTurn adds a counter to a plan with changes. If another plan of the policy was committed after the
// state of this decision, the plan is refused.
func (s *State) TakeTurn(plan *Plan) {
	const turn = "turn"
	if plan.Nothing() {
		return
	}
	count := One
	if p := s.Pool(s.Own(turn)); p != nil {
		count += p.Capacity()
	}
	plan.Set = append(plan.Set, s.InCluster(turn, count))
	s.Unchanged(plan, s.Own(turn), types.ClusterWide)
}

// Unchanged makes a plan depend on a resource at a place: a node, every node, or the cluster.
func (s *State) Unchanged(plan *Plan, name, where string) {
	id, key := types.Resolve(s.Namespace, name), controlplane.ResourceKey(s.Namespace, name, where)
	mod := s.View.UnreadMod(key)
	if p := s.View.Pool(id); p != nil && where == types.ClusterWide {
		mod = p.Info.Mod
	} else if c := s.View.Everywhere[id]; c != nil && where == types.EveryNode {
		mod = c.Mod
	} else if n := s.View.Nodes[where]; n != nil && n.Own[id] != nil {
		mod = n.Own[id].Mod
	}
	if plan.If == nil {
		plan.If = make(controlplane.ReadSet)
	}
	plan.If[key] = mod
}

// Stamp returns a time as the capacity of a resource, in whole seconds since 1970, at least 1.
func Stamp(t time.Time) types.Quantity { return types.Quantity(max(t.Unix(), 1)) * One }

// Stamped returns the time of a Stamp.
func Stamped(capacity types.Quantity) time.Time { return time.Unix(int64(capacity/One), 0) }
