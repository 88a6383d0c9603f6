package audit

import (
	"maps"

	"github.com/escher-sched/escher/types"
)

// account is what is in use at one place, a node or a pool: as it is stored, and as
// the sum of what is held there.
type account struct {
	object string
	// node is the one it is of, nil for a pool, which is of rid.
	node      *node
	rid       types.ResourceID
	allocated cell[types.Allocated]
	// sums are of bindings and of grants that are not releasing.
	sums map[types.ResourceID]usage
	// releasing are the grants here that hold just what is drawn from them.
	releasing map[*reservation]struct{}
	stamp     int64
}

// resource names a resource of the account, for findings.
func (a *account) resource(rid types.ResourceID) string {
	if a.node == nil {
		return a.object
	}
	return a.object + " " + string(rid)
}

// usage is how much is in use of a resource, and of which devices.
type usage struct {
	amount  types.Quantity
	devices map[string]types.Quantity
}

func newAccount(object string) account {
	return account{
		object:    object,
		sums:      make(map[types.ResourceID]usage),
		releasing: make(map[*reservation]struct{}),
	}
}

// add adds a holding to sums, sign times. What is in use no longer is left out.
func add(sums map[types.ResourceID]usage, rid types.ResourceID, h types.Holding, sign types.Quantity) {
	u := sums[rid]
	u.amount += sign * h.Amount
	if len(h.Devices) > 0 && u.devices == nil {
		u.devices = make(map[string]types.Quantity)
	}
	for _, d := range h.Devices {
		if u.devices[d.ID] += sign * d.Share; u.devices[d.ID] == 0 {
			delete(u.devices, d.ID)
		}
	}
	if u.amount == 0 && len(u.devices) == 0 {
		delete(sums, rid)
		return
	}
	sums[rid] = u
}

// place returns the account in which a holding on a node is counted.
func (s *state) place(n *node, h types.Holding) *account {
	if h.Cluster {
		return &s.pool(h.Resource).account
	}
	return &n.account
}

// count adds what a binding holds and provides, sign times.
func (s *state) count(b *binding, sign types.Quantity) {
	if b.info.V == nil {
		return
	}
	for _, h := range b.info.V.Holds {
		a := s.place(b.node, h)
		add(a.sums, h.Resource, h, sign)
		s.touchAccount(a)
		s.touchBehind(b.node, h)
	}
	for _, p := range b.info.V.Provides {
		b.node.provide(types.Resolve(b.task.ns, p.Name), b, sign > 0)
	}
}

// touchBehind touches the account of the pool from which the grant behind a scoped
// holding was taken: a releasing grant holds what is drawn from it.
func (s *state) touchBehind(n *node, h types.Holding) {
	g := s.grantOf(h.Resource)
	if !h.Resource.Scoped() || g == nil {
		return
	}
	for _, x := range g.On(n.name) {
		if x.Cluster && x.Resource == h.Resource.Unscoped() {
			s.touchAccount(s.place(n, x))
		}
	}
}

// provide notes whether a binding provides rid on the node.
func (n *node) provide(rid types.ResourceID, b *binding, does bool) {
	if does && n.providers[rid] == nil {
		n.providers[rid] = make(map[*binding]struct{})
	}
	if does {
		n.providers[rid][b] = struct{}{}
	} else if delete(n.providers[rid], b); len(n.providers[rid]) == 0 {
		delete(n.providers, rid)
	}
}

// countGrant adds what a grant holds, sign times.
func (s *state) countGrant(r *reservation, sign types.Quantity) {
	g := r.grant.V
	if g == nil {
		return
	}
	for _, at := range g.Nodes {
		n := s.node(at.Node)
		// Its scoped resources are judged with the node's.
		s.touchAccount(&n.account)
		for _, h := range at.Holds {
			a := s.place(n, h)
			s.touchAccount(a)
			switch {
			case g.Phase != types.Releasing || at.Whole:
				add(a.sums, h.Resource, h, sign)
			case sign > 0:
				a.releasing[r] = struct{}{}
			default:
				delete(a.releasing, r)
			}
		}
	}
}

// held returns what is held at an account, by resource: nobody may change it.
func (s *state) held(a *account) map[types.ResourceID]usage {
	if len(a.releasing) == 0 {
		return a.sums
	}
	sums := make(map[types.ResourceID]usage, len(a.sums))
	for rid, u := range a.sums {
		sums[rid] = usage{u.amount, maps.Clone(u.devices)}
	}
	for r := range a.releasing {
		for _, at := range r.grant.V.Nodes {
			n := s.node(at.Node)
			for _, h := range at.Holds {
				if !at.Whole && s.place(n, h) == a {
					add(sums, h.Resource, n.drawn(r, h), 1)
				}
			}
		}
	}
	return sums
}

// drawn returns what tasks on the node draw from what grant r holds as h.
func (n *node) drawn(r *reservation, h types.Holding) types.Holding {
	u := n.sums[h.Resource.Scope(r.id.ns, r.id.id)]
	out := types.Holding{Resource: h.Resource, Amount: u.amount}
	for device, share := range u.devices {
		out.Devices = append(out.Devices, types.DeviceShare{ID: device, Share: share})
	}
	return out
}
