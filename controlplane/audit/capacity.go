package audit

import (
	"strings"

	"github.com/escher-sched/escher/controlplane/quotas"
	"github.com/escher-sched/escher/types"
)

// capacity returns the capacity of rid in an account of node n; n is nil for a pool.
func (s *state) capacity(n *node, rid types.ResourceID) types.Quantity {
	switch {
	case n == nil:
		return s.poolCapacity(rid)
	case rid.Physical():
		return n.physical(rid)
	case rid.Scoped():
		return s.granted(n, rid)
	case s.pooled(rid):
		return 0 // requests draw on the pool only
	}
	q := s.base(n, rid)
	for b := range n.providers[rid] {
		q = q.Add(b.provides(rid))
	}
	if left := n.left.get(rid); left != nil && left.NodeSession == n.session() {
		q = q.Add(left.Amount)
	}
	return q
}

func (s *state) poolCapacity(rid types.ResourceID) types.Quantity {
	if !s.pooled(rid) {
		return 0
	}
	return s.pools[rid].info.V.Capacity
}

// pooled reports whether rid is a cluster-wide resource.
func (s *state) pooled(rid types.ResourceID) bool {
	p := s.pools[rid]
	return p != nil && p.info.V != nil
}

// nameIsOneKind validates NameIsOneKind.
func (s *state) nameIsOneKind(rid types.ResourceID, found finder) {
	if s.pooled(rid) && s.onNodes[rid] > 0 {
		found("resource "+string(rid), "is both a pool of the cluster and on nodes")
	}
}

// physical returns the capacity that the agent of the node registered.
func (n *node) physical(rid types.ResourceID) types.Quantity {
	if n.info.V == nil {
		return 0
	}
	if q, ok := n.ports(rid); ok {
		return q
	}
	return n.info.V.Capacity.Get(string(rid))
}

// granted returns the amount that a granted reservation holds for rid.
func (s *state) granted(n *node, rid types.ResourceID) types.Quantity {
	g := s.grantOf(rid)
	if g == nil || g.Phase != types.Granted {
		return 0
	}
	return amountOf(g.On(n.name), rid.Unscoped())
}

func amountOf(holds []types.Holding, rid types.ResourceID) types.Quantity {
	var sum types.Quantity
	for _, h := range holds {
		if h.Resource == rid {
			sum = sum.Add(h.Amount)
		}
	}
	return sum
}

// base returns the capacity set by applications: for the node in its present session, else for all
// nodes that a selector matches.
func (s *state) base(n *node, rid types.ResourceID) types.Quantity {
	if own := n.own.get(rid); own != nil && own.NodeSession == n.session() {
		return own.Capacity
	}
	all := s.everywhere.get(rid)
	if all == nil || n.info.V == nil || all.Selector != nil && !all.Selector.Matches(n.name, n.info.V) {
		return 0
	}
	return all.Capacity
}

// provides returns the amount of rid that the binding adds to its node at present.
func (b *binding) provides(rid types.ResourceID) types.Quantity {
	var sum types.Quantity
	running := b.report.V != nil && b.report.V.Phase == types.ReportRunning
	for _, p := range b.info.V.Provides {
		now := p.When == types.WhenBound || running && (p.When == types.WhenRunning || p.When == types.WhenHealthy && b.report.V.Health.Usable())
		if now && types.Resolve(b.task.ns, p.Name) == rid {
			sum = sum.Add(p.Amount)
		}
	}
	return sum
}

// isAt reports whether the node has a placement.
func (n *node) isAt(rid types.ResourceID) bool {
	kind, value, _ := strings.Cut(string(rid), "/")
	if kind == "node" {
		return value == n.name
	}
	return n.info.V != nil && n.info.V.Label(kind) == value
}

// needs resolves the requests of a namespace, with its additional requests and the draws on its
// quotas. The result is by resource, placements included.
func (s *state) needs(ns string, requests types.Requests, m moment) map[types.ResourceID]types.Quantity {
	out := make(map[types.ResourceID]types.Quantity, len(requests))
	want := func(rid types.ResourceID, q types.Quantity) { out[rid] = out[rid].Add(q) }
	for _, r := range requests {
		want(types.Resolve(ns, r.Name), r.Amount)
	}
	c := s.namespaces[ns]
	if c == nil || !m.knows(c.Mod) {
		return out
	}
	if !quotas.Reserved(requests) {
		for _, r := range c.V.Requests {
			want(types.Resolve(ns, r.Name), r.Amount)
		}
	}
	for _, q := range c.V.Quotas {
		if amount := requests.Get(string(q.Resource)); amount > 0 {
			want(q.Pool, amount)
		}
	}
	return out
}
