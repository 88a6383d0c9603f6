package audit

import (
	"maps"
	"slices"

	"github.com/escher-sched/escher/types"
)

// gangAtomic validates GangAtomic: a granted reservation has a node for every bundle, the requested
// one if any, and holds the bundles' requests there. Only reservations that collect, or are being
// granted in several transactions, hold a part: see directed. Only a deleted
// reservation is releasing.
func (s *state) gangAtomic(r *reservation, found finder) {
	g := r.grant.V
	if g == nil {
		return
	}
	if g.Task != 0 && (g.Phase != types.Collecting || len(g.Bundles) != 1 || len(g.Nodes) > 1) {
		found(r.object(), "belongs to a task, but is %s with %d bundles on %d nodes: no task could draw on it", g.Phase, len(g.Bundles), len(g.Nodes))
		return
	}
	switch g.Phase {
	case types.Granted:
		if i := slices.Index(g.Bundles, ""); i >= 0 {
			found(r.object(), "is granted, but bundle %d has no node", i)
		}
		if r.current() {
			s.bundlesHeld(r, moment{}, nil, found)
		}
	case types.Collecting:
		if g.Task == 0 && r.current() && !r.info.V.Accumulate && !r.info.V.Directed() {
			found(r.object(), "holds a part, but its reservation may not collect")
		}
	case types.Granting:
		// Legal while it lasts.
	case types.HandedOver:
		if r.current() && !r.info.V.HandsOver() {
			found(r.object(), "is handed over, but its reservation is not to be")
		}
		if len(g.Nodes) > 0 {
			found(r.object(), "is handed over, but holds something on %d nodes", len(g.Nodes))
		}
	case types.Releasing:
		if r.current() {
			found(r.object(), "is releasing, but its reservation exists")
		}
	default:
		found(r.object(), "its phase is %q", g.Phase)
	}
}

// bundlesHeld finds requests of bundles that the grant does not hold, with the namespace's
// additional requests as far as the moment m knows them. It skips nodes of the earlier grant was.
func (s *state) bundlesHeld(r *reservation, m moment, was *types.Grant, found finder) {
	g, bundles := r.grant.V, r.info.V.Bundles
	if len(g.Bundles) != len(bundles) {
		found(r.object(), "has nodes for %d of %d bundles", len(g.Bundles), len(bundles))
		return
	}
	asked := make(map[string]map[types.ResourceID]types.Quantity)
	for i, b := range bundles {
		name := g.Bundles[i]
		if name == "" || isAt(was, name) {
			continue
		}
		if b.Node != "" && b.Node != name {
			found(r.object(), "bundle %d is on node %s, but requests node %s", i, name, b.Node)
		}
		if asked[name] == nil {
			asked[name] = make(map[types.ResourceID]types.Quantity)
		}
		for rid, q := range s.needs(r.id.ns, b.Requests, m) {
			asked[name][rid] = asked[name][rid].Add(q)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		for rid, q := range asked[name] {
			if has := amountOf(g.On(name), rid); has < q && !rid.IsPlacement() {
				found(r.object(), "holds %s %s on node %s, but its bundles there request %s", amount(has, rid), rid, name, amount(q, rid))
			}
		}
	}
}

// moved validates GangAtomic for a changed grant. Bundles of lost or drained nodes have another
// node, if the reservation allows moves and no task draws on them there. Everything else is
// unchanged.
func (s *state) moved(r *reservation, was *types.Grant, found finder) {
	is := r.grant.V
	if r.info.V.Lost != types.MoveBundles || len(is.Bundles) != len(was.Bundles) {
		found(r.object(), "changed after it was granted")
		return
	}
	for i, from := range was.Bundles {
		if from != is.Bundles[i] && isAt(is, from) {
			found(r.object(), "bundle %d moved from node %s without the others there", i, from)
		}
	}
	for _, at := range was.Nodes {
		if isAt(is, at.Node) {
			for _, h := range at.Holds {
				if heldOf(is.On(at.Node), h) < h.Amount {
					found(r.object(), "has less %s on node %s than before", h.Resource, at.Node)
				}
			}
			continue
		}
		n := s.node(at.Node)
		if n.alive.V != nil && (n.cordon.V == nil || n.cordon.V.Drain != types.DrainMove && n.cordon.V.Drain != types.DrainFinish) {
			found(r.object(), "left node %s, which is neither gone nor drained", at.Node)
		}
		for _, h := range at.Holds {
			if q := n.drawn(r, h).Amount; q != 0 {
				found(r.object(), "left node %s, where %s %s is drawn from it", at.Node, amount(q, h.Resource), h.Resource)
			}
		}
	}
	s.bundlesHeld(r, moment{at: s.revision, now: true}, was, found)
}

// isAt reports whether a grant, if any, is on a node.
func isAt(g *types.Grant, node string) bool {
	return g != nil && slices.ContainsFunc(g.Nodes, func(at types.GrantNode) bool { return at.Node == node })
}

// oneInPart validates GangAtomic: at most one reservation is being granted in several transactions.
// So two never hold what the other needs.
func (s *state) oneInPart(found finder) {
	var names []string
	for r := range s.inPart {
		names = append(names, r.id.String())
	}
	if len(names) > 1 {
		slices.Sort(names)
		found("grants", "%v are %s at once", names, types.Granting)
	}
}

// directed validates GangAtomic for a changed grant that collects: it takes more only on nodes to
// which its object is directed at that moment.
func (s *state) directed(r *reservation, was *types.Grant, to *types.Collect, found finder) {
	for _, at := range r.grant.V.Nodes {
		if to != nil && slices.Contains(to.On, at.Node) {
			continue
		}
		for _, h := range at.Holds {
			if was == nil || heldOf(was.On(at.Node), h) < h.Amount {
				found(r.object(), "takes %s on node %s, where it is not directed to collect", h.Resource, at.Node)
				break
			}
		}
	}
}

// grantSteps validates GangAtomic for a change. A grant belongs to the present reservation, and
// becomes complete at once or after collecting. It then stays unchanged, and goes only after its
// reservation, when no task draws on it.
func (s *state) grantSteps(r *reservation, found finder) {
	if r.grant.Mod != s.revision {
		return
	}
	was, is := r.grant.old, r.grant.V
	switch {
	case is == nil && was == nil:
	case is == nil:
		s.grantGoes(r, was, found)
	case is.Task != 0:
		s.claimSteps(r, was, found)
	case is.Phase == types.Releasing:
		if was == nil {
			found(r.object(), "is releasing, but was never granted")
		}
	case !r.current():
		found(r.object(), "belongs to a deleted reservation")
	case was != nil && was.Reservation != is.Reservation:
		found(r.object(), "replaces the grant of an earlier reservation")
	case was != nil && (was.Phase == types.Releasing || was.Phase == types.HandedOver), was != nil && was.Phase == types.Granted && is.Phase != types.Granted:
		found(r.object(), "went from %s to %s", was.Phase, is.Phase)
	case was != nil && was.Phase == types.Granted && !sameGrant(was, is):
		s.moved(r, was, found)
	case is.Phase == types.Granted:
		s.bundlesHeld(r, moment{at: s.revision, now: true}, nil, found)
	case is.Phase == types.Collecting:
		s.directed(r, was, r.info.V.Collect, found)
	}
}

// claimSteps validates GangAtomic for the grant of a collecting task. The task exists, may collect,
// and waits; the grant holds no more than it requests.
func (s *state) claimSteps(r *reservation, was *types.Grant, found finder) {
	is, t := r.grant.V, s.tasks[r.id]
	switch {
	case was != nil && was.Task != is.Task:
		found(r.object(), "replaces the grant of another task")
		return
	case t == nil || t.info.V == nil || t.info.Create != is.Task:
		found(r.object(), "belongs to a deleted task")
		return
	case !t.info.V.Accumulate:
		found(r.object(), "holds a part, but its task may not collect")
	case t.status.V != nil && t.status.V.Phase != types.Pending:
		found(r.object(), "holds a part, but its task is %s", t.status.V.Phase)
	}
	s.directed(r, was, t.info.V.Collect(), found)
	asked := s.needs(r.id.ns, t.info.V.Requests, moment{at: s.revision, now: true})
	for _, at := range is.Nodes {
		for _, h := range at.Holds {
			if q := asked[h.Resource]; h.Amount > q && (was == nil || heldOf(was.On(at.Node), h) < h.Amount) {
				found(r.object(), "holds %s %s, but its task requests %s", amount(h.Amount, h.Resource), h.Resource, amount(q, h.Resource))
			}
		}
	}
}

// heldOf returns the amount of h's resource in holds.
func heldOf(holds []types.Holding, h types.Holding) types.Quantity {
	var sum types.Quantity
	for _, x := range holds {
		if x.Resource == h.Resource && x.Cluster == h.Cluster {
			sum = sum.Add(x.Amount)
		}
	}
	return sum
}

func (s *state) grantGoes(r *reservation, was *types.Grant, found finder) {
	// No task draws on an incomplete grant yet, so it may be given up.
	if r.info.V != nil && r.info.Create == was.Reservation && was.Phase != types.Collecting && was.Phase != types.Granting {
		found(r.object(), "is gone, but its reservation exists")
	}
	for _, at := range was.Nodes {
		n := s.node(at.Node)
		for _, h := range at.Holds {
			if q := n.drawn(r, h).Amount; q != 0 {
				found(r.object(), "is gone, but %s %s is drawn from it on node %s", amount(q, h.Resource), h.Resource, at.Node)
			}
		}
	}
}

func sameGrant(a, b *types.Grant) bool {
	return slices.Equal(a.Bundles, b.Bundles) && slices.EqualFunc(a.Nodes, b.Nodes, func(x, y types.GrantNode) bool {
		return x.Node == y.Node && slices.EqualFunc(x.Holds, y.Holds, func(g, h types.Holding) bool {
			return g.Resource == h.Resource && g.Amount == h.Amount && g.Cluster == h.Cluster && slices.Equal(g.Devices, h.Devices)
		})
	})
}

// grantedWhereEligible validates BoundImpliesEligible for the nodes of new holdings of a grant, and
// DeviceExclusive for their devices.
func (s *state) grantedWhereEligible(r *reservation, eligible, devices finder) {
	g, was := r.grant.V, r.grant.before(s.revision)
	if r.grant.Mod != s.revision || g == nil || g.Phase == types.Releasing {
		return
	}
	for _, at := range g.Nodes {
		n, before := s.node(at.Node), []types.Holding(nil)
		if was != nil {
			before = was.On(at.Node)
		}
		rises := false
		s.rises(n, before, at.Holds, func(rise) { rises = true })
		if rises {
			s.nodeEligible(n, moment{at: s.revision, now: true}, r.object(), eligible)
			if !isAt(was, at.Node) {
				s.bundlesPlaced(r, n, eligible)
			}
			s.deviceGiven(n, before, at.Holds, r.object(), devices)
		}
	}
}

// bundlesPlaced finds bundles on a node that is not where they request. After that the labels of the
// node may change.
func (s *state) bundlesPlaced(r *reservation, n *node, found finder) {
	if !r.current() || n.info.V == nil {
		return
	}
	for i, b := range r.info.V.Bundles {
		if i >= len(r.grant.V.Bundles) || r.grant.V.Bundles[i] != n.name {
			continue
		}
		for _, x := range b.Requests {
			if rid := types.Resolve(r.id.ns, x.Name); rid.IsPlacement() && !n.isAt(rid) {
				found(r.object(), "bundle %d is on node %s, and not on %s, which it requests", i, n.name, rid)
			}
		}
	}
}
