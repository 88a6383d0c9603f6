package cluster

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// nodeSet is a set of nodes in the order in which they came to it.
type nodeSet struct {
	list []*Node
	// pos is where each node is in list; nil while there are few: most resources are on
	// one node, and there are many resources.
	pos map[*Node]int
}

// fewNodes is how many are looked through.
const fewNodes = 8

// at returns where n is in list, -1 if it is not.
func (s *nodeSet) at(n *Node) int {
	if s.pos == nil {
		return slices.Index(s.list, n)
	}
	if i, ok := s.pos[n]; ok {
		return i
	}
	return -1
}

func (s *nodeSet) add(n *Node) {
	if s.at(n) >= 0 {
		return
	}
	s.list = append(s.list, n)
	if s.pos != nil {
		s.pos[n] = len(s.list) - 1
	} else if len(s.list) > fewNodes {
		s.pos = make(map[*Node]int, 2*len(s.list))
		for i, x := range s.list {
			s.pos[x] = i
		}
	}
}

func (s *nodeSet) remove(n *Node) {
	i, last := s.at(n), len(s.list)-1
	if i < 0 {
		return
	}
	s.list[i] = s.list[last]
	if s.pos != nil {
		s.pos[s.list[i]] = i
		delete(s.pos, n)
	}
	s.list[last] = nil
	s.list = s.list[:last]
}

// index notes whether node n has some of the ephemeral resource rid by a key of
// its own, by a provider, or left behind.
func (v *View) index(rid types.ResourceID, n *Node) {
	if n.Own[rid] == nil && n.Left[rid] == nil && len(n.providers[rid]) == 0 {
		v.unindex(rid, n)
		return
	}
	v.indexAt(rid, n)
}

func (v *View) indexAt(rid types.ResourceID, n *Node) {
	set := v.at[rid]
	if set == nil {
		set = &nodeSet{}
		v.at[rid] = set
	}
	set.add(n)
	n.has[rid] = struct{}{}
}

func (v *View) unindex(rid types.ResourceID, n *Node) {
	delete(n.has, rid)
	set := v.at[rid]
	if set == nil {
		return
	}
	if set.remove(n); len(set.list) == 0 {
		delete(v.at, rid)
	}
}

// indexGrant notes where the scoped resources of a grant are; g may be one that
// was replaced.
func (v *View) indexGrant(id ID, g *types.Grant) {
	if g == nil {
		return
	}
	for _, at := range g.Nodes {
		n := v.node(at.Node)
		for _, h := range at.Holds {
			rid := h.Resource.Scope(id.Namespace, id.ID)
			if _, ok := v.scoped(n, rid); ok {
				v.indexAt(rid, n)
			} else {
				v.unindex(rid, n)
			}
		}
	}
}

// At returns the nodes that have some of an ephemeral or scoped resource other
// than by Everywhere. The caller must not change the list.
func (v *View) At(rid types.ResourceID) []*Node {
	if set := v.at[rid]; set != nil {
		return set.list
	}
	return nil
}

// Has calls f for every ephemeral or scoped resource that node n has some of other
// than by Everywhere, in no order.
func (n *Node) Has(f func(rid types.ResourceID)) {
	for rid := range n.has {
		f(rid)
	}
}

// Pool returns the cluster-wide pool of a resource: where there is one, requests
// of the resource draw on it alone.
func (v *View) Pool(rid types.ResourceID) *Pool {
	if p := v.Pools[rid]; p != nil && p.Info.V != nil {
		return p
	}
	return nil
}

// Capacity returns how much of rid node n has; ok is false when the resource is
// unknown there. A resource that has a Pool is not on nodes.
func (v *View) Capacity(n *Node, rid types.ResourceID) (q types.Quantity, ok bool) {
	return v.CapacityWithout(n, rid, nil)
}

// CapacityWithout returns how much of rid node n has once some bindings have ended:
// what they provide is not counted.
func (v *View) CapacityWithout(n *Node, rid types.ResourceID, ended []*Binding) (q types.Quantity, ok bool) {
	if rid.Physical() {
		return n.physical(rid)
	}
	if rid.Scoped() {
		return v.scoped(n, rid)
	}
	if c := v.base(n, rid); c != nil {
		q, ok = c.V.Capacity, true
	}
	for _, b := range n.providers[rid] {
		if slices.Contains(ended, b) {
			continue
		}
		for _, p := range b.Info.V.Provides {
			if types.Resolve(b.Task.ID.Namespace, p.Name) == rid && b.Providing(p) {
				q, ok = q.Add(p.Amount), true
			}
		}
	}
	if c := n.Left[rid]; c != nil && c.V.NodeSession == n.Session() {
		q, ok = q.Add(c.V.Amount), true
	}
	return q, ok
}

// base returns the key that gives node n its capacity of rid: its own if that is
// of the node's present session, else that of all nodes if it matches.
func (v *View) base(n *Node, rid types.ResourceID) *Cell[types.Resource] {
	if c := n.Own[rid]; c != nil && c.V.NodeSession == n.Session() {
		return c
	}
	return v.everywhere(n, rid)
}

// everywhere returns the key that gives all nodes their capacity of rid, if it matches n.
func (v *View) everywhere(n *Node, rid types.ResourceID) *Cell[types.Resource] {
	c := v.Everywhere[rid]
	if c == nil || n.Info.V == nil || c.V.Selector != nil && !c.V.Selector.Matches(n.Name, n.Info.V) {
		return nil
	}
	return c
}

func (n *Node) physical(rid types.ResourceID) (types.Quantity, bool) {
	if n.Info.V == nil {
		return 0, false
	}
	switch rid {
	case types.CPU, types.Memory, types.GPU, types.Disk:
		return n.registered(rid)
	}
	if rid.IsPlacement() {
		kind, value, _ := strings.Cut(string(rid), "/")
		if kind == "node" {
			return types.Inf, value == n.Name
		}
		return types.Inf, n.Info.V.Label(kind) == value
	}
	if q, ok := n.portCapacity(rid); ok || rid == types.Port {
		return q, ok
	}
	return n.registered(rid)
}

// registered returns how much of rid the node's agent registered.
func (n *Node) registered(rid types.ResourceID) (types.Quantity, bool) {
	capacity := n.Info.V.Capacity
	for i := range capacity {
		if capacity[i].Name == string(rid) {
			return capacity[i].Amount, true
		}
	}
	return 0, false
}

// scoped returns what the grant behind a scoped resource holds on n.
func (v *View) scoped(n *Node, rid types.ResourceID) (q types.Quantity, ok bool) {
	for _, h := range v.GrantHolds(n, rid) {
		if h.Resource == rid.Unscoped() {
			q, ok = q.Add(h.Amount), true
		}
	}
	return q, ok
}

// GrantHolds returns what the grant of a scoped resource holds on node n, nothing
// unless the grant is granted.
func (v *View) GrantHolds(n *Node, rid types.ResourceID) []types.Holding {
	ns, _, reservation := rid.Split()
	r := v.Reservations[ID{ns, reservation}]
	if r == nil || r.Grant.V == nil || r.Grant.V.Phase != types.Granted {
		return nil
	}
	return r.Grant.V.On(n.Name)
}

// Used returns how much of rid is allocated on node n.
func (n *Node) Used(rid types.ResourceID) types.Quantity {
	if n.Allocated.V == nil {
		return 0
	}
	return n.Allocated.V.Of(rid)
}

// Free returns how much of rid is free on node n: negative when the capacity was
// lowered below what is held. ok is as of Capacity.
func (v *View) Free(n *Node, rid types.ResourceID) (q types.Quantity, ok bool) {
	q, ok = v.Capacity(n, rid)
	return q.Minus(n.Used(rid)), ok
}

// PoolOf returns the accounts of a cluster-wide resource, also when the resource
// itself is gone and only what is held of it is left.
func (v *View) PoolOf(rid types.ResourceID) *Pool {
	p := v.Pools[rid]
	if p == nil {
		p = &Pool{ID: rid}
		v.Pools[rid] = p
	}
	return p
}

// Capacity returns the capacity of a pool, 0 when the resource is gone.
func (p *Pool) Capacity() types.Quantity {
	if p.Info.V == nil {
		return 0
	}
	return p.Info.V.Capacity
}

// Free returns how much of a pool is free.
func (p *Pool) Free() types.Quantity {
	if p.Allocated.Unread() {
		return 0
	}
	if p.Allocated.V == nil {
		return p.Capacity()
	}
	return p.Capacity().Minus(p.Allocated.V.Of(p.ID))
}

// Relied calls f for every key, with the revision of its last change (0: absent),
// that the capacity of the ephemeral or scoped resource rid on n was derived from:
// what a transaction that relies on it compares.
func (v *View) Relied(n *Node, rid types.ResourceID, f func(key string, mod int64)) {
	ns, name, reservation := rid.Split()
	switch {
	case rid.Physical():
		return
	case reservation != "":
		f(controlplane.GrantKey(ns, reservation), v.Reservations[ID{ns, reservation}].Grant.Mod)
		return
	}
	key := controlplane.ResourceKey(ns, name, n.Name)
	own := n.Own[rid]
	there := own != nil
	if there {
		f(key, own.Mod)
	} else {
		mod := v.UnreadMod(key)
		there = mod != 0
		f(key, mod)
	}
	if own == nil || own.V.NodeSession != n.Session() {
		if c := v.everywhere(n, rid); c != nil {
			there = true
			f(controlplane.ResourceKey(ns, name, types.EveryNode), c.Mod)
		}
	}
	if !there {
		// A name is one pool or on nodes, never both: where a key of nodes is there, and
		// compared, there is no pool.
		pool := controlplane.ResourceKey(ns, name, types.ClusterWide)
		f(pool, v.UnreadMod(pool))
	}
	v.reliedProviders(n, rid, f)
	if c := n.Left[rid]; c != nil && c.V.NodeSession == n.Session() {
		f(controlplane.ProvidedKey(ns, name, n.Name), c.Mod)
	}
}

func (v *View) reliedProviders(n *Node, rid types.ResourceID, f func(key string, mod int64)) {
	for _, b := range n.providers[rid] {
		t := b.Task.ID
		for _, p := range b.Info.V.Provides {
			if types.Resolve(t.Namespace, p.Name) != rid || !b.Providing(p) {
				continue
			}
			f(controlplane.BindingKey(n.Name, t.Namespace, t.ID, b.Number), b.Info.Mod)
			if p.When == types.WhenRunning || p.When == types.WhenHealthy {
				f(controlplane.ReportKey(n.Name, t.Namespace, t.ID, b.Number), b.Report.Mod)
			}
		}
	}
}
