package audit

import (
	"maps"
	"slices"

	"github.com/escher-sched/escher/types"
)

// gangAtomic validates GangAtomic: what is granted has a place for every bundle of
// its reservation, where the bundle asks for it, and holds there all that the
// bundles ask for. Only a reservation that may accumulate, collects at once or is being
// granted in several transactions holds a part, and only one that is gone is releasing.
func (s *state) gangAtomic(r *reservation, found finder) {
	g := r.grant.V
	if g == nil {
		return
	}
	if g.Task != 0 && (g.Phase != types.Accumulating || len(g.Bundles) != 1 || len(g.Nodes) > 1) {
		found(r.object(), "of a task, is %s, of %d bundles on %d nodes: nobody could draw on it", g.Phase, len(g.Bundles), len(g.Nodes))
		return
	}
	switch g.Phase {
	case types.Granted:
		if i := slices.Index(g.Bundles, ""); i >= 0 {
			found(r.object(), "is granted, and bundle %d is not placed", i)
		}
		if r.current() {
			s.bundlesHeld(r, moment{}, nil, found)
		}
	case types.Accumulating:
		if g.Task == 0 && r.current() && !r.info.V.Accumulate {
			found(r.object(), "holds a part, and its reservation may not accumulate")
		}
	case types.Granting:
		// For the moment that it takes.
	case types.Collecting, types.HandedOver:
		if r.current() && !r.info.V.AtOnce {
			found(r.object(), "is %s, and its reservation does not collect at once", g.Phase)
		}
		if g.Phase == types.HandedOver && len(g.Nodes) > 0 {
			found(r.object(), "is handed over, and holds something on %d nodes", len(g.Nodes))
		}
	case types.Releasing:
		if r.current() {
			found(r.object(), "is releasing, and its reservation is there")
		}
	default:
		found(r.object(), "its phase is %q", g.Phase)
	}
}

// bundlesHeld finds what the bundles of a reservation ask for and its grant does
// not have: with what the namespace adds, as far as the moment m knows it. What was
// granted before, of was, is not looked at.
func (s *state) bundlesHeld(r *reservation, m moment, was *types.Grant, found finder) {
	g, bundles := r.grant.V, r.info.V.Bundles
	if len(g.Bundles) != len(bundles) {
		found(r.object(), "has places for %d of %d bundles", len(g.Bundles), len(bundles))
		return
	}
	asked := make(map[string]map[types.ResourceID]types.Quantity)
	for i, b := range bundles {
		name := g.Bundles[i]
		if name == "" || isAt(was, name) {
			continue
		}
		if b.Node != "" && b.Node != name {
			found(r.object(), "bundle %d is on node %s, and asks for node %s", i, name, b.Node)
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
				found(r.object(), "holds %s %s on node %s, and its bundles there ask for %s", amount(has, rid), rid, name, amount(q, rid))
			}
		}
	}
}

// moved validates GangAtomic of a grant that has changed: bundles whose node is gone, or
// drained, have another one, if their reservation says so and nobody draws on them there.
// All else is as it was.
func (s *state) moved(r *reservation, was *types.Grant, found finder) {
	is := r.grant.V
	if r.info.V.Lost != types.MoveBundles || len(is.Bundles) != len(was.Bundles) {
		found(r.object(), "changed after it was granted")
		return
	}
	for i, from := range was.Bundles {
		if from != is.Bundles[i] && isAt(is, from) {
			found(r.object(), "bundle %d moved from node %s, where others stay", i, from)
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

// isAt reports whether a grant, if there is one, is on a node.
func isAt(g *types.Grant, node string) bool {
	return g != nil && slices.ContainsFunc(g.Nodes, func(at types.GrantNode) bool { return at.Node == node })
}

// oneInPart validates GangAtomic: one reservation at a time accumulates, and one is being
// granted in several transactions, so that two never hold what the other needs.
func (s *state) oneInPart(found finder) {
	names := make(map[types.GrantPhase][]string)
	for r, phase := range s.inPart {
		names[phase] = append(names[phase], r.id.String())
	}
	for _, phase := range slices.Sorted(maps.Keys(names)) {
		if len(names[phase]) > 1 {
			slices.Sort(names[phase])
			found("grants", "%v are %s at once", names[phase], phase)
		}
	}
}

// grantSteps validates GangAtomic of a change: a grant is of the reservation that is
// there, comes whole or after accumulating, stays as granted, and goes only when
// its reservation has gone and nobody draws on it any more.
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
			found(r.object(), "is releasing, and was never granted")
		}
	case !r.current():
		found(r.object(), "is of a reservation that is gone")
	case was != nil && was.Reservation != is.Reservation:
		found(r.object(), "replaces the grant of an earlier reservation")
	case was != nil && (was.Phase == types.Releasing || was.Phase == types.HandedOver), was != nil && was.Phase == types.Granted && is.Phase != types.Granted:
		found(r.object(), "went from %s to %s", was.Phase, is.Phase)
	case was != nil && was.Phase == types.Granted && !sameGrant(was, is):
		s.moved(r, was, found)
	case is.Phase == types.Granted:
		s.bundlesHeld(r, moment{at: s.revision, now: true}, nil, found)
	}
}

// claimSteps validates GangAtomic of what a task has collected: the task is there, may
// collect, and waits; and it holds no more than that asks for.
func (s *state) claimSteps(r *reservation, was *types.Grant, found finder) {
	is, t := r.grant.V, s.tasks[r.id]
	switch {
	case was != nil && was.Task != is.Task:
		found(r.object(), "replaces a grant of another")
		return
	case t == nil || t.info.V == nil || t.info.Create != is.Task:
		found(r.object(), "is of a task that is gone")
		return
	case !t.info.V.Accumulate:
		found(r.object(), "holds a part, and its task may not accumulate")
	case t.status.V != nil && t.status.V.Phase != types.Pending:
		found(r.object(), "holds a part, and its task is %s", t.status.V.Phase)
	}
	asked := s.needs(r.id.ns, t.info.V.Requests, moment{at: s.revision, now: true})
	for _, at := range is.Nodes {
		for _, h := range at.Holds {
			if q := asked[h.Resource]; h.Amount > q && (was == nil || heldOf(was.On(at.Node), h) < h.Amount) {
				found(r.object(), "holds %s %s, and its task asks for %s", amount(h.Amount, h.Resource), h.Resource, amount(q, h.Resource))
			}
		}
	}
}

// heldOf returns how much holds have of what h is of.
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
	// Nobody draws on what collects yet, so that it may be given up.
	if r.info.V != nil && r.info.Create == was.Reservation && was.Phase != types.Accumulating && was.Phase != types.Granting {
		found(r.object(), "is gone, and its reservation is there")
	}
	for _, at := range was.Nodes {
		n := s.node(at.Node)
		for _, h := range at.Holds {
			if q := n.drawn(r, h).Amount; q != 0 {
				found(r.object(), "is gone, and %s %s is drawn from it on node %s", amount(q, h.Resource), h.Resource, at.Node)
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

// grantedWhereEligible validates, of what a grant came to hold, BoundImpliesEligible
// of its nodes and DeviceExclusive of its devices.
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
			s.deviceGiven(n, before, at.Holds, r.object(), devices)
		}
	}
}
