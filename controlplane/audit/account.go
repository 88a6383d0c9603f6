package audit

import (
	"fmt"
	"maps"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// account holds the amounts in use on one node or of one pool: as stored, and as the sum over the
// holders.
type account struct {
	object string
	// node is the account's node; nil for a pool, which is of rid.
	node      *node
	rid       types.ResourceID
	allocated cell[types.Allocated]
	// sums are those of bindings and of grants that are not releasing.
	sums map[types.ResourceID]usage
	// releasing are grants here that hold only what tasks draw from them.
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

// key returns the key of the allocated amount.
func (a *account) key() string {
	if a.node != nil {
		return controlplane.AllocatedKey(a.node.name)
	}
	ns, name, _ := a.rid.Split()
	return controlplane.PoolKey(ns, name)
}

// differs reports whether the allocated amount of an account is not what is held, and says the first
// difference.
func (s *state) differs(a *account) (text string, differs bool) {
	allocatedIsSum(a, s.held(a), func(object, format string, args ...any) {
		if !differs {
			text, differs = object+": "+fmt.Sprintf(format, args...), true
		}
	})
	return text, differs
}

// usage is the amount in use of a resource, with its devices.
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

// add adds sign times a holding to sums, and drops zeros.
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

// accountFor returns the account that counts a holding on a node.
func (s *state) accountFor(n *node, h types.Holding) *account {
	if h.Cluster {
		return &s.pool(h.Resource).account
	}
	return &n.account
}

// count adds sign times the holds and provided resources of a binding.
func (s *state) count(b *binding, sign types.Quantity) {
	if b.info.V == nil {
		return
	}
	for _, h := range b.info.V.Holds {
		a := s.accountFor(b.node, h)
		add(a.sums, h.Resource, h, sign)
		s.touchAccount(a)
		s.touchBehind(b.node, h)
	}
	for _, p := range b.info.V.Provides {
		b.node.provide(types.Resolve(b.task.ns, p.Name), b, sign > 0)
	}
}

// touchBehind touches the pool account of the grant behind a scoped holding, because a releasing
// grant holds what is drawn from it.
func (s *state) touchBehind(n *node, h types.Holding) {
	g := s.grantOf(h.Resource)
	if !h.Resource.Scoped() || g == nil {
		return
	}
	for _, x := range g.On(n.name) {
		if x.Cluster && x.Resource == h.Resource.Unscoped() {
			s.touchAccount(s.accountFor(n, x))
		}
	}
}

// provide records whether a binding provides rid on the node.
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

// countGrant adds sign times the holds of a grant.
func (s *state) countGrant(r *reservation, sign types.Quantity) {
	g := r.grant.V
	if g == nil {
		return
	}
	for _, at := range g.Nodes {
		n := s.node(at.Node)
		// Its scoped resources are checked with the node's.
		s.touchAccount(&n.account)
		for _, h := range at.Holds {
			a := s.accountFor(n, h)
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

// held returns the sums of an account, by resource. The caller must not change them.
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
				if !at.Whole && s.accountFor(n, h) == a {
					add(sums, h.Resource, n.drawn(r, h), 1)
				}
			}
		}
	}
	return sums
}

// drawn returns what tasks on the node draw from holding h of grant r.
func (n *node) drawn(r *reservation, h types.Holding) types.Holding {
	u := n.sums[h.Resource.Scope(r.id.ns, r.id.id)]
	out := types.Holding{Resource: h.Resource, Amount: u.amount}
	for device, share := range u.devices {
		out.Devices = append(out.Devices, types.DeviceShare{ID: device, Share: share})
	}
	return out
}
