package audit

import (
	"maps"
	"math"
	"slices"

	"github.com/escher-sched/escher/types"
)

// allocatedIsSum validates AllocatedIsSum: the allocated amount of each resource is the sum over
// bindings and grants, devices included. The stored list is sorted by resource and has no zeros,
// because readers search it.
func allocatedIsSum(a *account, held map[types.ResourceID]usage, found finder) {
	var stored []types.Holding
	if a.allocated.V != nil {
		stored = a.allocated.V.Holds
	}
	matched := 0
	for i, h := range stored {
		if i > 0 && stored[i-1].Resource >= h.Resource {
			found(a.resource(h.Resource), "allocated is not sorted: %s comes after %s", h.Resource, stored[i-1].Resource)
		}
		u, ok := held[h.Resource]
		if ok {
			matched++
		}
		switch {
		case h.Amount == 0 && len(h.Devices) == 0:
			found(a.resource(h.Resource), "a zero amount is stored")
		case h.Amount != u.amount:
			found(a.resource(h.Resource), "%s allocated, %s held", amount(h.Amount, h.Resource), amount(u.amount, h.Resource))
		case !sameDevices(h.Devices, u.devices):
			found(a.resource(h.Resource), "devices %v allocated, %v held", h.Devices, u.devices)
		}
	}
	if matched == len(held) {
		return
	}
	for _, rid := range slices.Sorted(maps.Keys(held)) {
		if !slices.ContainsFunc(stored, func(h types.Holding) bool { return h.Resource == rid }) {
			found(a.resource(rid), "0 allocated, %s held", amount(held[rid].amount, rid))
		}
	}
}

func sameDevices(stored []types.DeviceShare, held map[string]types.Quantity) bool {
	for _, d := range stored {
		if held[d.ID] != d.Share {
			return false
		}
	}
	return len(stored) == len(held)
}

// rise is a resource with a higher held amount.
type rise struct {
	at  *account
	rid types.ResourceID
}

// checkRises validates NoOversubscription: where a holder takes more, the held amount is at most
// the capacity at that revision. After a capacity is lowered, holders keep their amounts, and none
// takes more.
func (c *Checker) checkRises() {
	s := c.s
	holders := make(map[rise]string)
	for _, b := range s.touched.bindings {
		if b.info.Mod == s.revision && b.info.V != nil {
			var before []types.Holding
			if b.info.old != nil {
				before = b.info.old.Holds
			}
			s.rises(b.node, before, b.info.V.Holds, func(x rise) { holders[x] = b.String() })
		}
	}
	for _, r := range s.touched.reservations {
		s.grantRises(r, func(x rise) { holders[x] = r.object() })
	}
	if len(holders) == 0 {
		return
	}
	found := c.change(NoOversubscription)
	for x, holder := range holders {
		held, capacity := s.held(x.at)[x.rid].amount, s.capacity(x.at.node, x.rid)
		if held > capacity {
			found(x.at.resource(x.rid), "%s makes it %s of %s held", holder, amount(held, x.rid), amount(capacity, x.rid))
		}
	}
}

// rises calls f for each resource that is held more on n than before.
func (s *state) rises(n *node, before, after []types.Holding, f func(rise)) {
	for i, h := range after {
		// Usually there was no holding before, or the same.
		if len(before) == len(after) && before[i].Resource == h.Resource && before[i].Cluster == h.Cluster && before[i].Amount >= h.Amount {
			continue
		}
		if held(after, h) > held(before, h) {
			f(rise{s.accountFor(n, h), h.Resource})
		}
	}
}

// held returns the amount of h's resource in holds.
func held(holds []types.Holding, h types.Holding) types.Quantity {
	var sum types.Quantity
	for _, x := range holds {
		if x.Resource == h.Resource && x.Cluster == h.Cluster {
			sum += x.Amount
		}
	}
	return sum
}

func (s *state) grantRises(r *reservation, f func(rise)) {
	g, old := r.grant.V, r.grant.before(s.revision)
	if r.grant.Mod != s.revision || g == nil || g.Phase == types.Releasing {
		return
	}
	for _, at := range g.Nodes {
		var before []types.Holding
		if old != nil && old.Phase != types.Releasing {
			before = old.On(at.Node)
		}
		s.rises(s.node(at.Node), before, at.Holds, f)
	}
}

// oversubscribed finds, from the state alone, physical and cluster-wide resources with more held
// than capacity, although the capacity has not changed since the last holder came.
func (s *state) oversubscribed(found finder) {
	for x, last := range s.newestHolders() {
		var mod int64
		switch {
		case x.at.node == nil && s.pooled(x.rid):
			mod = s.pools[x.rid].info.Mod
		case x.at.node != nil && x.at.node.info.V != nil && x.rid.Physical():
			mod = x.at.node.info.Mod
		}
		if mod == 0 || mod > last || last == unknown {
			continue
		}
		held, capacity := s.held(x.at)[x.rid].amount, s.capacity(x.at.node, x.rid)
		if held > capacity {
			found(x.at.resource(x.rid), "%s of %s held since revision %d", amount(held, x.rid), amount(capacity, x.rid), last)
		}
	}
}

// unknown is the time when a grant made in parts came to hold a resource.
const unknown = math.MaxInt64

// newestHolders returns the revision of the newest holder of each held resource.
func (s *state) newestHolders() map[rise]int64 {
	newest := make(map[rise]int64)
	note := func(n *node, holds []types.Holding, at int64) {
		for _, h := range holds {
			x := rise{s.accountFor(n, h), h.Resource}
			newest[x] = max(newest[x], at)
		}
	}
	for _, n := range s.nodes {
		for _, b := range n.bindings {
			if b.info.V != nil {
				note(n, b.info.V.Holds, b.info.Create)
			}
		}
	}
	for _, r := range s.reservations {
		g := &r.grant
		if g.V == nil || g.V.Phase == types.Releasing {
			continue
		}
		at := g.Create
		if g.Mod != g.Create {
			at = unknown
		}
		for _, x := range g.V.Nodes {
			note(s.node(x.Node), x.Holds, at)
		}
	}
	return newest
}
