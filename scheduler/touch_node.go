package scheduler

import (
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/grants"
	"github.com/escher-sched/escher/types"
)

// state returns the core's state of a node.
func (c *Core) state(n *cluster.Node) *nodeState {
	for len(c.states) <= n.Serial {
		c.states = append(c.states, nil)
	}
	s := c.states[n.Serial]
	if s == nil {
		s = &nodeState{pos: -1, keys: draft.KeysOf(n), itself: [1]*cluster.Node{n}}
		c.states[n.Serial] = s
	}
	return s
}

func (c *Core) touchNode(n *cluster.Node, kind controlplane.Kind) {
	s := c.state(n)
	changed := c.register(n, s) || n.Session() != s.session
	if changed {
		s.session = n.Session()
		c.loss.seen(n, c.now)
	}
	if dead := n.Dead(); changed || dead != s.dead {
		s.dead = dead
		for _, b := range SortedBindings(n) {
			c.pushBinding(b)
		}
	}
	switch kind {
	case controlplane.Nodes:
		c.relabel(n, s)
	case controlplane.Cordons:
		c.countCordon(n, s)
	}
	if changed || kind == controlplane.Cordons {
		c.touchMoves(n)
	}
	c.note(nil, n)
	was := s.eligible
	s.eligible = n.Eligible()
	if s.eligible && (!was || kind == controlplane.Nodes || kind == controlplane.Devices) {
		c.wakeNode(n)
	}
}

// countCordon maintains the number of cordoned nodes.
func (c *Core) countCordon(n *cluster.Node, s *nodeState) {
	if was := s.cordoned; was != !n.Cordon.Absent() {
		s.cordoned = !was
		if was {
			c.cordons--
		} else {
			c.cordons++
		}
	}
}

// relabel updates the index and the labels to the registration of a node.
func (c *Core) relabel(n *cluster.Node, s *nodeState) {
	for _, id := range s.placements {
		c.labelled[id] = slices.DeleteFunc(c.labelled[id], func(x *cluster.Node) bool { return x == n })
		if len(c.labelled[id]) == 0 {
			delete(c.labelled, id)
		}
	}
	s.placements = s.placements[:0]
	if n.Info.V == nil {
		return
	}
	c.index.AddColumns(n.Info.V)
	for _, l := range n.Info.V.Labels {
		id := types.ResourceID(l.Name + "/" + l.Value)
		if id.IsPlacement() && !slices.Contains(s.placements, id) {
			s.placements = append(s.placements, id)
			c.labelled[id] = append(c.labelled[id], n)
		}
	}
}

// register maintains Core.nodes, and reports whether it changed.
func (c *Core) register(n *cluster.Node, s *nodeState) bool {
	switch present := n.Info.V != nil; {
	case present && s.pos < 0:
		s.pos = len(c.nodes)
		c.nodes = append(c.nodes, n)
		c.index.Grow()
		c.index.SetLocked(s.pos, s.locked)
		return true
	case !present && s.pos >= 0:
		last := c.nodes[len(c.nodes)-1]
		c.index.Remove(s.pos)
		c.nodes[s.pos] = last
		c.state(last).pos = s.pos
		c.nodes = c.nodes[:len(c.nodes)-1]
		s.pos = -1
		return true
	}
	return false
}

// wakeNode wakes the shapes that may fit on a node that became eligible or larger.
func (c *Core) wakeNode(n *cluster.Node) {
	c.log(n)
	c.queue.Wake(grants.AnyNode)
	for _, r := range n.Info.V.Capacity {
		c.queue.Wake(types.ResourceID(r.Name))
	}
	c.queue.Wake(types.ResourceID("node/" + n.Name))
	for _, l := range n.Info.V.Labels {
		c.queue.Wake(types.ResourceID(l.Name + "/" + l.Value))
	}
	n.Has(c.queue.Wake)
	for rid := range c.view.Everywhere {
		c.queue.Wake(rid)
	}
}

// took records what a committed draft took on a node: nothing became free. The index already has
// the free amounts.
func (c *Core) took(n *cluster.Node) {
	s := c.state(n)
	if s.alloc = n.Allocated.V; s.pos >= 0 {
		c.index.SetTasks(s.pos, len(n.Bindings))
	}
}

// touchAllocated wakes the shapes that wait for newly free capacity.
func (c *Core) touchAllocated(k controlplane.Key) {
	c.stuck.drain(func(b *cluster.Binding) bool { c.bindings.push(b); return true })
	if k.Where != "" {
		rid := types.Resolve(k.Namespace, k.Name)
		c.queue.Wake(rid)
		c.accumulateAgain()
		c.touchPool(rid)
		return
	}
	n := c.view.Nodes[k.Node]
	s := c.state(n)
	before, after := s.alloc, n.Allocated.V
	s.alloc = after
	if before == nil || s.eligible != n.Eligible() {
		c.touchNode(n, controlplane.Allocated)
	}
	if before == nil {
		return
	}
	if after == nil {
		after = &types.Allocated{}
	}
	if !c.noteAllocated(n, before, after) {
		return
	}
	logged := false
	for _, h := range before.Holds {
		// The amount may be equal, but on other devices.
		given := grants.Without(h.Devices, after.DevicesOf(h.Resource))
		if after.Of(h.Resource) >= h.Amount && len(given) == 0 {
			continue
		}
		if !logged {
			c.log(n)
			logged = true
		}
		c.wakeOn(n, h.Resource)
		c.wakePorts(h.Resource, given)
		c.touchReleasing(h.Resource)
	}
}

// noteAllocated updates the index with the changed allocations of a node, which are few per change,
// and reports whether any capacity was returned.
func (c *Core) noteAllocated(n *cluster.Node, before, after *types.Allocated) (given bool) {
	if pos := c.state(n).pos; pos >= 0 {
		c.index.SetTasks(pos, len(n.Bindings))
	}
	was, is := before.Holds, after.Holds
	for len(was) > 0 || len(is) > 0 {
		var rid types.ResourceID
		switch {
		case len(is) == 0 || len(was) > 0 && was[0].Resource < is[0].Resource:
			rid, was, given = was[0].Resource, was[1:], true
		case len(was) == 0 || is[0].Resource < was[0].Resource:
			rid, is = is[0].Resource, is[1:]
		default:
			w, x := &was[0], &is[0]
			rid, was, is = w.Resource, was[1:], is[1:]
			if w.Amount == x.Amount && slices.Equal(w.Devices, x.Devices) {
				continue
			}
			given = given || x.Amount < w.Amount || len(grants.Without(w.Devices, x.Devices)) > 0
		}
		c.noteOf(c.blank, n, rid)
	}
	return given
}

// wakePorts wakes the shapes that wait for a freed port under its other name: the range of the node
// may have changed since the port was allocated.
func (c *Core) wakePorts(rid types.ResourceID, given []types.DeviceShare) {
	if rid != types.Port {
		if match.IsPort(rid) {
			c.queue.Wake(types.Port)
		}
		return
	}
	for _, d := range given {
		c.queue.Wake(types.ResourceID(string(types.Port) + "/" + d.ID))
	}
}

// touchReleasing rechecks a grant that may have no more draws on a node.
func (c *Core) touchReleasing(rid types.ResourceID) {
	if r := c.grantBehind(rid); r != nil {
		c.reservations.push(r)
		if r.Grant.V != nil {
			c.queueMove(r)
		}
	}
}

// SortedBindings returns the bindings of a node in a deterministic order.
func SortedBindings(n *cluster.Node) []*cluster.Binding {
	return slices.SortedFunc(slices.Values(n.Bindings), func(a, b *cluster.Binding) int {
		if x := compareID(a.Task.ID, b.Task.ID); x != 0 {
			return x
		}
		return a.Number - b.Number
	})
}
