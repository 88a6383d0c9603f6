package scheduler

import (
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// touch looks at what a change of key may have made possible or necessary.
func (c *Core) touch(k controlplane.Key) {
	id := cluster.ID{Namespace: k.Namespace, ID: k.ID}
	switch k.Kind {
	case controlplane.Nodes, controlplane.Alive, controlplane.Cordons, controlplane.Devices:
		c.touchNode(c.view.Nodes[k.Node], k.Kind)
	case controlplane.Allocated:
		c.touchAllocated(k)
	case controlplane.Resources:
		c.touchResource(k)
	case controlplane.Provided:
		c.more(c.view.Nodes[k.Node], types.Resolve(k.Namespace, k.Name))
	case controlplane.Bindings, controlplane.Reports:
		c.touchBinding(k, id)
	case controlplane.Tasks, controlplane.Statuses:
		if t := c.view.Tasks[id]; t != nil {
			c.touchTask(t)
		} else {
			c.queue.remove(entryKey{id: id})
			delete(c.retries, entryKey{id: id})
		}
	case controlplane.Jobs:
		c.touchJob(id)
	case controlplane.Reservations, controlplane.Grants:
		c.touchGrantKey(id)
	case controlplane.Namespaces:
		c.touchNamespace(k.Namespace)
	case controlplane.Schedulers:
		c.touchEverything()
	}
}

// state returns what the core remembers of a node.
func (c *Core) state(n *cluster.Node) *nodeState {
	s := c.states[n]
	if s == nil {
		s = &nodeState{pos: -1}
		c.states[n] = s
	}
	return s
}

func (c *Core) touchNode(n *cluster.Node, kind controlplane.Kind) {
	s := c.state(n)
	if c.register(n, s) || n.Session() != s.session {
		s.session = n.Session()
		c.loss.seen(n, c.now)
		for _, b := range sortedBindings(n) {
			c.bindings.push(b)
		}
	}
	was := s.eligible
	s.eligible = n.Eligible()
	if s.eligible && (!was || kind == controlplane.Nodes || kind == controlplane.Devices) {
		c.wakeNode(n)
	}
}

// register keeps Core.nodes to those that are registered, and reports whether that
// changed them.
func (c *Core) register(n *cluster.Node, s *nodeState) bool {
	switch present := n.Info.V != nil; {
	case present && s.pos < 0:
		s.pos = len(c.nodes)
		c.nodes = append(c.nodes, n)
		return true
	case !present && s.pos >= 0:
		last := c.nodes[len(c.nodes)-1]
		c.nodes[s.pos] = last
		c.states[last].pos = s.pos
		c.nodes = c.nodes[:len(c.nodes)-1]
		s.pos = -1
		return true
	}
	return false
}

// wakeNode wakes what may be placed on a node that became eligible or larger.
func (c *Core) wakeNode(n *cluster.Node) {
	c.log(n)
	c.queue.wake(anyNode)
	for _, r := range n.Info.V.Capacity {
		c.queue.wake(types.ResourceID(r.Name))
	}
	c.queue.wake(types.ResourceID("node/" + n.Name))
	for _, l := range n.Info.V.Labels {
		c.queue.wake(types.ResourceID(l.Name + "/" + l.Value))
	}
	n.Has(c.queue.wake)
	for rid := range c.view.Everywhere {
		c.queue.wake(rid)
	}
}

// more says that there may be more of rid on n.
func (c *Core) more(n *cluster.Node, rid types.ResourceID) {
	c.log(n)
	c.wakeOn(n, rid)
}

// wakeOn wakes what lacks rid and would have enough of it on n: all else still does
// not fit there.
func (c *Core) wakeOn(n *cluster.Node, rid types.ResourceID) {
	if free, ok := c.view.Free(n, rid); ok {
		c.queue.wakeUpTo(rid, free)
	}
}

// log notes that there may be more of something on n than before. The log is kept
// short: who has not read what is dropped looks at all nodes.
func (c *Core) log(n *cluster.Node) {
	if len(c.changed) > 4*len(c.nodes)+1024 {
		drop := len(c.changed) / 2
		c.base += drop
		c.changed = slices.Delete(c.changed, 0, drop)
	}
	c.changed = append(c.changed, n)
}

// touchAllocated wakes what waits for what is in use no longer.
func (c *Core) touchAllocated(k controlplane.Key) {
	c.stuck.drain(func(b *cluster.Binding) bool { c.bindings.push(b); return true })
	if k.Where != "" {
		c.queue.wake(types.Resolve(k.Namespace, k.Name))
		c.accumulateAgain()
		return
	}
	n := c.view.Nodes[k.Node]
	s := c.state(n)
	before, after := s.alloc, n.Allocated.V
	s.alloc = after
	c.touchNode(n, controlplane.Allocated)
	if before == nil {
		return
	}
	if after == nil {
		after = &types.Allocated{}
	}
	logged := false
	for _, h := range before.Holds {
		// The amount may be the same, and of other devices.
		given := without(h.Devices, after.DevicesOf(h.Resource))
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

// wakePorts wakes what waits for the other kind of what is a port no longer in use:
// the range of the node may have changed since it was given out.
func (c *Core) wakePorts(rid types.ResourceID, given []types.DeviceShare) {
	if rid != types.Port {
		if isPort(rid) {
			c.queue.wake(types.Port)
		}
		return
	}
	for _, d := range given {
		c.queue.wake(types.ResourceID(string(types.Port) + "/" + d.ID))
	}
}

// touchReleasing looks at a grant that may have nothing left drawn on it.
func (c *Core) touchReleasing(rid types.ResourceID) {
	if r := c.grantBehind(rid); r != nil {
		c.reservations.push(r)
	}
}

func (c *Core) touchResource(k controlplane.Key) {
	rid := types.Resolve(k.Namespace, k.Name)
	switch k.Where {
	case types.EveryNode, types.ClusterWide:
		// Not one node has more, but any may.
		c.forgetSeen(rid)
		c.queue.wake(rid)
		c.accumulateAgain()
	default:
		c.more(c.view.Nodes[k.Where], rid)
	}
}

// forgetSeen lets what waits for rid look at all nodes again.
func (c *Core) forgetSeen(rid types.ResourceID) {
	for s := range c.queue.waiting[rid] {
		s.seen = -1
	}
}

func (c *Core) touchBinding(k controlplane.Key, id cluster.ID) {
	n := c.view.Nodes[k.Node]
	b := n.Bindings[cluster.Attempt{Task: id, Number: k.Attempt}]
	if b == nil || b.Info.V == nil {
		// A reload may tell of the status before it tells of the binding.
		if t := c.view.Tasks[id]; t != nil {
			c.touchTask(t)
		}
		return
	}
	c.bindings.push(b)
	if b.Info.V.MaxRun > 0 && c.accumulating() != nil {
		c.queue.wake(lendable)
	}
	for _, p := range b.Info.V.Provides {
		if b.Providing(p) {
			c.more(n, types.Resolve(id.Namespace, p.Name))
		}
	}
}

// touchTask queues a task that waits to be placed, and looks at the bindings of
// one that does not.
func (c *Core) touchTask(t *cluster.Task) {
	for _, b := range t.Bindings {
		c.bindings.push(b)
	}
	k := entryKey{id: t.ID}
	if t.Info.V == nil || t.Phase() != types.Pending || !c.view.Visible(t) || !c.mayCancel(t) {
		c.queue.remove(k)
		delete(c.retries, k)
		return
	}
	if t.Info.V.Stop != nil || isOverdue(t.Info.V, c.now) {
		c.queue.remove(k)
		c.tasks.push(t)
		return
	}
	if !c.ownsTask(t) {
		c.queue.remove(k)
		return
	}
	if c.locked(t) || len(t.Bindings) > 0 {
		return
	}
	c.queue.add(&entry{
		id: t.ID, priority: t.Info.V.Priority, submitted: t.Info.V.Submitted, deadline: t.Info.V.Deadline, conflicts: c.retries[k],
	}, taskShape(t.ID.Namespace, t.Info.V))
}

// touchJob queues the tasks that a job made visible.
func (c *Core) touchJob(id cluster.ID) {
	if c.view.Jobs[id] == nil {
		return
	}
	for _, t := range c.view.Members(id) {
		c.touchTask(t)
	}
}

func (c *Core) touchGrantKey(id cluster.ID) {
	r := c.view.Reservations[id]
	if r == nil {
		c.queue.remove(entryKey{id, true})
		delete(c.retries, entryKey{id, true})
		return
	}
	if g := r.Grant.V; g != nil && g.Phase == types.Granted {
		for _, at := range g.Nodes {
			for _, h := range at.Holds {
				c.more(c.view.Nodes[at.Node], h.Resource.Scope(id.Namespace, id.ID))
			}
		}
	}
	if g := r.Grant.V; g != nil && g.Phase == types.Accumulating {
		c.queue.wake(lendable)
	}
	c.touchReservation(r)
}

// touchReservation queues a reservation that waits to be granted, and looks at the
// grant of one that does not.
func (c *Core) touchReservation(r *cluster.Reservation) {
	k := entryKey{r.ID, true}
	if r.Grant.V != nil {
		c.queue.remove(k)
		c.reservations.push(r)
		return
	}
	if r.Info.V == nil || r.Grant.Unread || !c.owns(r.ID.Namespace, "") {
		c.queue.remove(k)
		delete(c.retries, k)
		return
	}
	if c.locked(r) {
		return
	}
	if r.Info.V.Accumulate {
		c.accum.candidates.push(r)
		c.accum.searchedAt = -1
	}
	c.queue.add(&entry{
		id: r.ID, bundles: true, priority: r.Info.V.Priority, submitted: r.Info.V.Submitted, conflicts: c.retries[k],
	}, bundleShape(r.ID.Namespace, r.Info.V))
}

// touchNamespace lets all that waits in a namespace be tried with its new requests.
func (c *Core) touchNamespace(ns string) {
	c.accumulateAgain()
	for _, s := range c.queue.shapes {
		if s.head().id.Namespace == ns {
			s.seen = -1
			c.queue.makeReady(s)
		}
	}
}

// touchEverything looks at all there is: who takes care of it may have changed.
func (c *Core) touchEverything() {
	if !c.cfg.Shared {
		return
	}
	// What has ended is most of it, and nobody's business.
	var live []cluster.ID
	for id, t := range c.view.Tasks {
		if !t.Phase().Ended() || len(t.Bindings) > 0 {
			live = append(live, id)
		}
	}
	slices.SortFunc(live, compareID)
	for _, id := range live {
		c.touchTask(c.view.Tasks[id])
	}
	for _, id := range slices.SortedFunc(maps.Keys(c.view.Reservations), compareID) {
		c.touchReservation(c.view.Reservations[id])
	}
}

// sortedBindings returns the bindings of a node in an order that does not depend on
// chance.
func sortedBindings(n *cluster.Node) []*cluster.Binding {
	return slices.SortedFunc(maps.Values(n.Bindings), func(a, b *cluster.Binding) int {
		if x := compareID(a.Attempt.Task, b.Attempt.Task); x != 0 {
			return x
		}
		return a.Attempt.Number - b.Attempt.Number
	})
}
