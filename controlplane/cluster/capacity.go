package cluster

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// nodeSet is a set of nodes in the order of their addition.
type nodeSet struct {
	list []*Node
	// pos is the index of each node in list. It is nil for few nodes, because most of the many
	// resources are on one node.
	pos map[*Node]int
}

// fewNodes is the number of nodes up to which a scan finds a node.
const fewNodes = 8

// index returns the index of n in list, -1 if it is absent.
func (s *nodeSet) index(n *Node) int {
	if s.pos == nil {
		return slices.Index(s.list, n)
	}
	if i, ok := s.pos[n]; ok {
		return i
	}
	return -1
}

func (s *nodeSet) add(n *Node) {
	if s.index(n) >= 0 {
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
	i, last := s.index(n), len(s.list)-1
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

// index records whether node n has some of the ephemeral resource rid: by a key of its own, by a
// provider, or left behind.
func (v *View) index(rid types.ResourceID, n *Node) {
	if n.Own[rid] == nil && n.Left[rid] == nil && len(n.providers[rid]) == 0 {
		v.unindex(rid, n)
		return
	}
	v.indexAt(rid, n)
}

func (v *View) indexAt(rid types.ResourceID, n *Node) {
	set := v.nodesWith[rid]
	if set == nil {
		set = &nodeSet{}
		v.nodesWith[rid] = set
	}
	set.add(n)
	n.has[rid] = struct{}{}
}

func (v *View) unindex(rid types.ResourceID, n *Node) {
	delete(n.has, rid)
	set := v.nodesWith[rid]
	if set == nil {
		return
	}
	if set.remove(n); len(set.list) == 0 {
		delete(v.nodesWith, rid)
	}
}

// indexGrant records the nodes of the scoped resources of a grant, present or replaced.
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

// At returns the nodes with some of an ephemeral or scoped resource, apart from Everywhere. The
// caller must not change the list.
func (v *View) At(rid types.ResourceID) []*Node {
	if set := v.nodesWith[rid]; set != nil {
		return set.list
	}
	return nil
}

// Has calls f for every ephemeral or scoped resource of node n, apart from Everywhere, in no order.
func (n *Node) Has(f func(rid types.ResourceID)) {
	for rid := range n.has {
		f(rid)
	}
}

// Pool returns the cluster-wide pool of a resource, nil if there is none. Requests of a resource
// with a pool draw on the pool alone.
func (v *View) Pool(rid types.ResourceID) *Pool {
	if p := v.Pools[rid]; p != nil && p.Info.V != nil {
		return p
	}
	return nil
}

// Capacity returns the capacity of rid on node n; ok is false if the resource does not exist there.
// A resource with a Pool is on no node.
func (v *View) Capacity(n *Node, rid types.ResourceID) (q types.Quantity, ok bool) {
	return v.CapacityWithout(n, rid, nil)
}

// CapacityWithout returns the capacity of rid on node n after some bindings have ended, without
// what they provide.
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

// base returns the key with the capacity of rid on node n: the node's own key if it belongs to the
// present session, else the matching key of all nodes.
func (v *View) base(n *Node, rid types.ResourceID) *Cell[types.Resource] {
	if c := n.Own[rid]; c != nil && c.V.NodeSession == n.Session() {
		return c
	}
	return v.everywhere(n, rid)
}

// everywhere returns the key of rid for all nodes, if its selector matches n.
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

// registered returns the capacity of rid that the node's agent registered.
func (n *Node) registered(rid types.ResourceID) (types.Quantity, bool) {
	capacity := n.Info.V.Capacity
	for i := range capacity {
		if capacity[i].Name == string(rid) {
			return capacity[i].Amount, true
		}
	}
	return 0, false
}

// scoped returns the amount that the grant of a scoped resource holds on n.
func (v *View) scoped(n *Node, rid types.ResourceID) (q types.Quantity, ok bool) {
	for _, h := range v.GrantHolds(n, rid) {
		if h.Resource == rid.Unscoped() {
			q, ok = q.Add(h.Amount), true
		}
	}
	return q, ok
}

// GrantHolds returns what the grant of a scoped resource holds on node n; nothing unless its phase
// is Granted.
func (v *View) GrantHolds(n *Node, rid types.ResourceID) []types.Holding {
	ns, _, reservation := rid.Split()
	r := v.Reservations[ID{ns, reservation}]
	if r == nil || r.Grant.V == nil || r.Grant.V.Phase != types.Granted {
		return nil
	}
	return r.Grant.V.On(n.Name)
}

// Used returns the allocated amount of rid on node n.
func (n *Node) Used(rid types.ResourceID) types.Quantity {
	if n.Allocated.V == nil {
		return 0
	}
	return n.Allocated.V.Of(rid)
}

// Free returns the free amount of rid on node n. It is negative if the capacity was lowered below
// the allocated amount. ok is as in Capacity.
func (v *View) Free(n *Node, rid types.ResourceID) (q types.Quantity, ok bool) {
	q, ok = v.Capacity(n, rid)
	return q.Minus(n.Used(rid)), ok
}

// PoolOf returns the accounts of a cluster-wide resource, even if only allocations of it are left.
func (v *View) PoolOf(rid types.ResourceID) *Pool {
	p := v.Pools[rid]
	if p == nil {
		p = &Pool{ID: rid}
		v.Pools[rid] = p
	}
	return p
}

// Capacity returns the capacity of a pool, 0 if the resource is gone.
func (p *Pool) Capacity() types.Quantity {
	if p.Info.V == nil {
		return 0
	}
	return p.Info.V.Capacity
}

// Free returns the free amount of a pool.
func (p *Pool) Free() types.Quantity {
	if p.Allocated.Unread() {
		return 0
	}
	if p.Allocated.V == nil {
		return p.Capacity()
	}
	return p.Capacity().Minus(p.Allocated.V.Of(p.ID))
}

// Relied calls f for every key that determines the capacity of the ephemeral or scoped resource rid
// on n. mod is the revision of its last change; 0 means absent. A transaction that relies on the
// capacity compares these keys.
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
		// A name is one pool or on nodes, never both: an existing, compared key of a node proves
		// that there is no pool.
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
