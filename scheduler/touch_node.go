package scheduler

import (
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/types"
)

// state returns the core's state of a node.
func (c *Core) state(n *cluster.Node) *nodeState {
	for len(c.states) <= n.Serial {
		c.states = append(c.states, nil)
	}
	s := c.states[n.Serial]
	if s == nil {
		s = &nodeState{}
		c.states[n.Serial] = s
	}
	return s
}

func (c *Core) touchNode(n *cluster.Node, kind controlplane.Kind) {
	s := c.state(n)
	changed := c.nodes.Register(n) || n.Session() != s.session
	if changed {
		s.session = n.Session()
		c.loss.Seen(n, c.now)
	}
	if dead := n.Dead(); changed || dead != s.dead {
		s.dead = dead
		for _, b := range SortedBindings(n) {
			c.pushBinding(b)
		}
	}
	switch kind {
	case controlplane.Nodes:
		c.nodes.Relabel(n)
	case controlplane.Cordons:
		c.nodes.CountCordon(n)
	}
	if changed || kind == controlplane.Cordons {
		c.touchMoves(n)
	}
	c.nodes.Note(nil, n)
	was := s.eligible
	s.eligible = n.Eligible()
	if s.eligible && (!was || kind == controlplane.Nodes || kind == controlplane.Devices) {
		c.wakeNode(n)
	}
}

// wakeNode wakes the shapes that may fit on a node that became eligible or larger.
func (c *Core) wakeNode(n *cluster.Node) {
	c.nodes.Log(n)
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
	c.state(n).alloc = n.Allocated.V
	c.nodes.NoteTasks(n)
}

// touchAllocated wakes the shapes that wait for newly free capacity.
func (c *Core) touchAllocated(k controlplane.Key) {
	c.stuck.Drain(func(b *cluster.Binding) bool { c.bindings.Push(b); return true })
	if k.Where != "" {
		rid := types.Resolve(k.Namespace, k.Name)
		c.queue.Wake(rid)
		c.collectAgain()
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
			c.nodes.Log(n)
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
	c.nodes.NoteTasks(n)
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
		c.nodes.NoteOf(c.nodes.Blank(), n, rid)
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
		c.reservations.Push(r)
		if r.Grant.V != nil {
			c.queueMove(r)
		}
	}
}

// SortedBindings returns the bindings of a node in a deterministic order.
func SortedBindings(n *cluster.Node) []*cluster.Binding {
	return slices.SortedFunc(slices.Values(n.Bindings), func(a, b *cluster.Binding) int {
		if x := a.Task.ID.Compare(b.Task.ID); x != 0 {
			return x
		}
		return a.Number - b.Number
	})
}
