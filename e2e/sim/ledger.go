package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// cell is a key as it is now.
type cell struct {
	key         controlplane.Key
	message     types.Message
	mod, create int64
}

// account is what is in use at one place, added up from bindings and grants.
type account map[types.ResourceID]*usage

type usage struct {
	amount  types.Quantity
	devices map[string]types.Quantity
}

func (a account) add(h types.Holding, sign types.Quantity) {
	u := a[h.Resource]
	if u == nil {
		u = &usage{devices: make(map[string]types.Quantity)}
		a[h.Resource] = u
	}
	u.amount += sign * h.Amount
	for _, d := range h.Devices {
		if u.devices[d.ID] += sign * d.Share; u.devices[d.ID] == 0 {
			delete(u.devices, d.ID)
		}
	}
	if u.amount == 0 && len(u.devices) == 0 {
		delete(a, h.Resource)
	}
}

func (a account) of(rid types.ResourceID) types.Quantity {
	if u := a[rid]; u != nil {
		return u.amount
	}
	return 0
}

// differs says how an allocation is not what the account says, "" if it is.
func (a account) differs(alloc *types.Allocated) string {
	if alloc == nil {
		alloc = &types.Allocated{}
	}
	for i, h := range alloc.Holds {
		u := a[h.Resource]
		switch {
		case i > 0 && alloc.Holds[i-1].Resource >= h.Resource:
			return fmt.Sprintf("%s is not in order", h.Resource)
		case h.Amount == 0:
			return fmt.Sprintf("%s is listed with nothing in use", h.Resource)
		case u == nil || u.amount != h.Amount:
			return fmt.Sprintf("%s has %d allocated, and %d held", h.Resource, h.Amount, a.of(h.Resource))
		case !u.sameDevices(h.Devices):
			return fmt.Sprintf("%s has devices %v allocated, and %v held", h.Resource, h.Devices, u.devices)
		}
	}
	if len(a) == len(alloc.Holds) {
		return ""
	}
	for rid, u := range a {
		if alloc.Of(rid) != u.amount {
			return fmt.Sprintf("%s has %d allocated, and %d held", rid, alloc.Of(rid), u.amount)
		}
	}
	return ""
}

func (u *usage) sameDevices(shares []types.DeviceShare) bool {
	if len(shares) != len(u.devices) {
		return false
	}
	return !slices.ContainsFunc(shares, func(s types.DeviceShare) bool { return u.devices[s.ID] != s.Share })
}

// post adds what a binding or grant holds to the accounts, or takes it away.
func (o *oracle) post(c *cell, sign types.Quantity) {
	if c == nil {
		return
	}
	switch m := c.message.(type) {
	case *types.Binding:
		o.postHolds(c.key.Node, m.Holds, sign)
	case *types.Grant:
		for _, at := range m.Nodes {
			o.touchNode(at.Node)
			set := o.grantsOn[at.Node]
			if set == nil {
				set = make(map[*cell]bool)
				o.grantsOn[at.Node] = set
			}
			if delete(set, c); sign > 0 {
				set[c] = true
			}
			if m.Phase != types.Releasing {
				o.postHolds(at.Node, at.Holds, sign)
			}
		}
	}
}

func (o *oracle) postHolds(node string, holds []types.Holding, sign types.Quantity) {
	for _, h := range holds {
		if h.Cluster {
			o.account(poolPlace(h.Resource)).add(h, sign)
			o.touchedPools[h.Resource] = true
			continue
		}
		o.account(node).add(h, sign)
	}
	o.touchNode(node)
}

func poolPlace(rid types.ResourceID) string { return "*" + string(rid) }

func (o *oracle) account(place string) account {
	a := o.accounts[place]
	if a == nil {
		a = make(account)
		o.accounts[place] = a
	}
	return a
}

// expected returns the account of a node: the sums, and what grants that are being
// released still hold for those who draw on them.
func (o *oracle) expected(node string) account {
	base := o.account(node)
	var sum account
	for c := range o.grantsOn[node] {
		g := c.message.(*types.Grant)
		if g.Phase != types.Releasing {
			continue
		}
		if sum == nil {
			sum = base.clone()
		}
		for _, h := range g.On(node) {
			scoped := base[h.Resource.Scope(c.key.Namespace, c.key.ID)]
			if scoped == nil || h.Cluster {
				continue
			}
			sum.add(types.Holding{Resource: h.Resource, Amount: scoped.amount, Devices: scoped.shares()}, 1)
		}
	}
	if sum == nil {
		return base
	}
	return sum
}

// expectedOfPool is the same for a cluster-wide resource.
func (o *oracle) expectedOfPool(rid types.ResourceID) account {
	sum := o.account(poolPlace(rid)).clone()
	for node, set := range o.grantsOn {
		for c := range set {
			g := c.message.(*types.Grant)
			if g.Phase != types.Releasing {
				continue
			}
			for _, h := range g.On(node) {
				if h.Cluster && h.Resource == rid {
					sum.add(types.Holding{Resource: rid, Amount: o.account(node).of(rid.Scope(c.key.Namespace, c.key.ID))}, 1)
				}
			}
		}
	}
	return sum
}

func (u *usage) shares() []types.DeviceShare {
	var out []types.DeviceShare
	for id, q := range u.devices {
		out = append(out, types.DeviceShare{ID: id, Share: q})
	}
	return out
}

func (a account) clone() account {
	c := make(account, len(a))
	for rid, u := range a {
		c.add(types.Holding{Resource: rid, Amount: u.amount, Devices: u.shares()}, 1)
	}
	return c
}

// capacity returns how much of a resource that is not a pool a node has.
func (o *oracle) capacity(node string, rid types.ResourceID) types.Quantity {
	info, _ := o.get(controlplane.NodeKey(node)).(*types.Node)
	if rid.Physical() {
		if info == nil {
			return 0
		}
		return info.Capacity.Get(string(rid))
	}
	ns, name, reservation := rid.Split()
	if reservation != "" {
		return o.granted(node, rid, controlplane.GrantKey(ns, reservation))
	}
	session := o.session(node)
	sum := types.Quantity(0)
	own, _ := o.get(controlplane.ResourceKey(ns, name, node)).(*types.Resource)
	all, _ := o.get(controlplane.ResourceKey(ns, name, types.EveryNode)).(*types.Resource)
	switch {
	case own != nil && own.NodeSession == session:
		sum = own.Capacity
	case all != nil && info != nil && (all.Selector == nil || all.Selector.Matches(node, info)):
		sum = all.Capacity
	}
	for _, c := range o.bindingsOn[node] {
		sum = sum.Add(o.providedBy(c, ns, name, session))
	}
	if left, ok := o.get(controlplane.ProvidedKey(ns, name, node)).(*types.Provided); ok && left.NodeSession == session {
		sum = sum.Add(left.Amount)
	}
	return sum
}

// granted returns how much of a scoped resource the grant behind it holds on a node
// for anyone to draw.
func (o *oracle) granted(node string, rid types.ResourceID, key string) (sum types.Quantity) {
	g, _ := o.get(key).(*types.Grant)
	if g == nil || g.Phase != types.Granted {
		return 0
	}
	for _, h := range g.On(node) {
		if h.Resource == rid.Unscoped() {
			sum += h.Amount
		}
	}
	return sum
}

// providedBy returns what a binding adds to a resource of its node.
func (o *oracle) providedBy(c *cell, ns, name string, session int64) (sum types.Quantity) {
	b := c.message.(*types.Binding)
	if c.key.Namespace != ns || b.Session != session && b.OnLoss != types.Keep {
		return 0
	}
	for _, p := range b.Provides {
		if p.Name != name {
			continue
		}
		report, _ := o.get(reportKey(c.key)).(*types.Report)
		if p.When == types.WhenBound || p.When == types.WhenRunning && report != nil && report.Phase == types.ReportRunning {
			sum = sum.Add(p.Amount)
		}
	}
	return sum
}

func reportKey(binding controlplane.Key) string {
	binding.Kind = controlplane.Reports
	return binding.String()
}

// labelled reports whether a node is where a placement says.
func labelled(name string, n *types.Node, rid types.ResourceID) bool {
	kind, value, _ := strings.Cut(string(rid), "/")
	if kind == "node" {
		return name == value
	}
	return n.Label(kind) == value
}
