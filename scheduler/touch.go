package scheduler

import (
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
)

// touch rechecks what a change of key may have made possible or necessary.
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
		if t := c.view.Task(id); t != nil {
			c.touchTask(t)
		} else {
			c.queue.Remove(queue.Key{ID: id})
			delete(c.retries, queue.Key{ID: id})
			c.later.Forget(id)
			c.touchClaim(id)
		}
	case controlplane.Jobs:
		c.touchJob(id)
	case controlplane.Reservations, controlplane.Grants:
		c.touchGrantKey(id)
	case controlplane.Namespaces:
		c.touchNamespace(k.Namespace)
	case controlplane.Schedulers:
		c.touchScheduler(k.ID)
	case controlplane.Leaders:
		c.queue.Unstall() // another reservation may start to be granted in parts
	}
}

// more records that more of rid may be free on n.
func (c *Core) more(n *cluster.Node, rid types.ResourceID) {
	if !rid.Scoped() { // scoped requests search the nodes of their reservation only
		c.nodes.Log(n)
	}
	c.wakeOn(n, rid)
}

// wakeOn wakes the shapes that lack rid and would have enough of it on n: no other shape can newly
// fit there.
func (c *Core) wakeOn(n *cluster.Node, rid types.ResourceID) {
	free, ok := c.view.Free(n, rid)
	if !ok {
		return
	}
	collecting := c.collectingOn(n)
	for _, x := range collecting {
		free = free.Add(grants.HeldOf(x.Grant.V.On(n.Name), rid))
	}
	steers := c.nodes.OnlyAt(rid) == n
	c.queue.WakeIf(rid, free, func(s *queue.Shape) bool {
		if !c.nodes.MayFit(s, n) && !slices.ContainsFunc(collecting, func(x claimant) bool {
			return x.outrankedBy(s.Head()) && c.fitsAny(c.nodes.Blank(), n, s, x.Grant.V.On(n.Name))
		}) {
			return false
		}
		if steers {
			c.queue.Pin(s, n.Serial)
		}
		return true
	})
}

// collectingOn returns what holds something collected on a node that others may precede.
func (c *Core) collectingOn(n *cluster.Node) (out []claimant) {
	for x := range c.known {
		if x.Grant.V != nil && !x.Info.V.Directed() && len(x.Grant.V.On(n.Name)) > 0 {
			out = append(out, x)
		}
	}
	return out
}

func (c *Core) touchResource(k controlplane.Key) {
	rid := types.Resolve(k.Namespace, k.Name)
	switch k.Where {
	case types.EveryNode, types.ClusterWide:
		// Any node may have more: this includes shapes that wait for a pool or for nodes in flight,
		// and are not listed under rid.
		c.nodes.ForgetLog()
		c.queue.Wake(rid)
		c.collectAgain()
		c.touchPool(rid)
	default:
		c.more(c.view.Nodes[k.Where], rid)
	}
}

// forgetSeen makes the shapes that lack rid visit all nodes again.
func (c *Core) forgetSeen(rid types.ResourceID) {
	c.queue.Lacking(rid, types.Inf, func(s *queue.Shape) { s.Seen = -1 })
}

func (c *Core) touchBinding(k controlplane.Key, id cluster.ID) {
	n := c.view.Nodes[k.Node]
	b := c.view.Binding(k)
	if b == nil || b.Info.V == nil {
		// After a reload the status may arrive before the binding.
		if t := c.view.Task(id); t != nil {
			c.touchTask(t)
		}
		return
	}
	c.pushBinding(b)
	for _, p := range b.Info.V.Provides {
		if b.Providing(p) {
			c.more(n, types.Resolve(id.Namespace, p.Name))
		}
	}
}

// pushBinding queues a binding that needs an action.
func (c *Core) pushBinding(b *cluster.Binding) {
	if draft.ActionFor(b.Task, b) != draft.NoAction {
		c.bindings.Push(b)
	}
}

// touchTask queues a task that waits for placement, and rechecks the bindings of other tasks.
func (c *Core) touchTask(t *cluster.Task) {
	c.deciding = t
	for _, b := range t.Bindings {
		c.pushBinding(b)
	}
	if t.Info.V == nil || t.Info.V.Accumulate {
		c.touchClaim(t.ID)
	}
	k := queue.Key{ID: t.ID}
	if t.Info.V == nil || t.Phase() != types.Pending || !c.view.Visible(t) || !c.division.Settles(t) {
		c.queue.Remove(k)
		delete(c.retries, k)
		c.later.Forget(t.ID)
		c.fold(t)
		return
	}
	if t.Info.V.Stop != nil || draft.IsOverdue(t.Info.V, c.now) {
		c.queue.Remove(k)
		c.later.Forget(t.ID)
		c.tasks.Push(c.view.Task(t.ID))
		return
	}
	if !c.division.OwnsTask(t) {
		c.queue.Remove(k)
		if at := t.Info.V.Deadline; at != 0 {
			c.later.Set(t.ID, at)
		} else {
			c.later.Forget(t.ID)
		}
		c.fold(t)
		return
	}
	if s := t.Status.V; s != nil && s.Retry > c.now.UnixNano() {
		c.later.Set(t.ID, s.Retry) // its last attempt failed, and must not burden others
		c.queue.Remove(k)
		return
	}
	if c.locked(t) || len(t.Bindings) > 0 {
		return
	}
	c.text = queue.AppendTask(c.text[:0], t.ID.Namespace, t.Info.V)
	fresh := c.queue.Add(queue.Entry{
		ID: t.ID, Priority: t.Info.V.Order(), Submitted: t.Info.V.Submitted, Deadline: t.Info.V.Deadline, Conflicts: c.retries[k],
	}, queue.KeyOf(c.text))
	if fresh != nil {
		c.steer(fresh, t)
	} else {
		c.readyAhead(k)
	}
	c.restQueued(t, k)
}

// touchClaim rechecks what a task collects: it may not wait any more.
func (c *Core) touchClaim(id cluster.ID) {
	c.mayCollect(queue.Key{ID: id})
	c.queue.Wake(lendable)
	if r := c.view.Reservations[id]; r != nil && r.Grant.V != nil && r.Grant.V.Task != 0 {
		c.reservations.Push(r)
	}
}

// touchJob queues the tasks that a job made visible.
func (c *Core) touchJob(id cluster.ID) {
	if c.view.Jobs[id] == nil {
		return
	}
	var others []*cluster.Task
	c.view.EachMember(id, func(t *cluster.Task) {
		if !c.waitsOnly(t) {
			others = append(others, t)
			return
		}
		c.touchTask(t)
	})
	c.touchInOrder(others)
}

func (c *Core) touchGrantKey(id cluster.ID) {
	c.followGranting(id)
	r := c.view.Reservations[id]
	if r == nil {
		c.queue.Remove(queue.Key{ID: id, Reservation: true})
		delete(c.retries, queue.Key{ID: id, Reservation: true})
		return
	}
	if g := r.Grant.V; g != nil && g.Phase == types.Granted {
		for _, at := range g.Nodes {
			for _, h := range at.Holds {
				c.more(c.view.Nodes[at.Node], h.Resource.Scope(id.Namespace, id.ID))
			}
		}
	}
	if g := r.Grant.V; g != nil && g.Phase == types.Collecting {
		c.mayCollect(queue.Key{ID: id, Reservation: g.Task == 0})
		c.queue.Wake(lendable)
	}
	c.touchReservation(r)
}

// touchReservation queues a reservation that waits to be granted, and rechecks the grant of others.
func (c *Core) touchReservation(r *cluster.Reservation) {
	c.deciding = r
	k := queue.Key{ID: r.ID, Reservation: true}
	if r.Info.V != nil && r.Info.V.Collect != nil {
		c.mayCollect(k)
	}
	if r.Grant.V != nil {
		c.queueMove(r)
		c.reservations.Push(r)
		return
	}
	if r.Info.V == nil || r.Grant.Unread() || !c.division.Owns(r.ID.Namespace, "") || r.Info.V.Directed() {
		c.queue.Remove(k)
		delete(c.retries, k)
		return
	}
	if c.locked(r) {
		return
	}
	c.text = queue.AppendReservation(c.text[:0], r.ID.Namespace, r.Info.V)
	c.queue.Add(queue.Entry{
		ID: r.ID, Reservation: true, Priority: r.Info.V.Order(), Submitted: r.Info.V.Submitted, Conflicts: c.retries[k],
	}, queue.KeyOf(c.text))
	c.readyAhead(k)
}

// touchNamespace makes every waiting entry of a namespace ready, with its new requests.
func (c *Core) touchNamespace(ns string) {
	c.collectAgain()
	c.queue.Retry(ns)
}
