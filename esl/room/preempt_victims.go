package room

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Who may be evicted: a task by itself; tasks that draw on one reservation, such as a gang,
// together with it, as it is theirs as a whole. What a reservation, or task, has accumulated is
// given back, and nobody is evicted for that: the scheduler has that done to what collects at
// once and lacks it.

// victim is what is evicted together or not at all.
type victim struct {
	ns       string
	priority int             // the highest of its tasks
	tasks    []*cluster.Task // none of what has accumulated
	// lost is how long its tasks have run, together.
	lost time.Duration
	// reservation is what is given up with it; empty for a task by itself.
	reservation string
	// frees is what is free then.
	frees []freed

	// Most are one task on one node.
	task [1]*cluster.Task
	own  [1]freed
}

// freed is what is free on a node; on "", of the whole cluster.
type freed struct {
	node  string
	holds []types.Holding
}

// less orders victims, those first that are to go first.
func (u *victim) less(v *victim) int {
	if len(u.tasks) == 0 || len(v.tasks) == 0 {
		return cmp.Compare(len(u.tasks), len(v.tasks)) // one accumulates at a time
	}
	if c := cmp.Or(cmp.Compare(u.priority, v.priority), cmp.Compare(len(u.tasks), len(v.tasks)), cmp.Compare(u.lost, v.lost)); c != 0 {
		return c
	}
	return strings.Compare(u.tasks[0].ID.String(), v.tasks[0].ID.String())
}

// on returns what is free then on a node.
func (u *victim) on(node string) []types.Holding {
	for i := range u.frees {
		if u.frees[i].node == node {
			return u.frees[i].holds
		}
	}
	return nil
}

// hold counts what would be free.
func (u *victim) hold(node string, h types.Holding) {
	if h.Cluster {
		node = ""
	}
	for i := range u.frees {
		if u.frees[i].node == node {
			u.frees[i].holds = append(slices.Clip(u.frees[i].holds), h)
			return
		}
	}
	u.frees = append(u.frees, freed{node, []types.Holding{h}})
}

func tasksOf(units []*victim) (n int) {
	for _, u := range units {
		n += len(u.tasks)
	}
	return n
}

// look takes an attempt into account: as one that leaves, or that may be evicted.
func (c *clearing) look(b *cluster.Binding, together map[*cluster.Reservation]*victim) {
	t := b.Task
	if b.Info.V == nil || t.Info.V == nil || t.Status.V == nil || !t.Phase().Held() {
		return
	}
	u := &victim{ns: t.ID.Namespace, priority: t.Info.V.Priority}
	drawn, givenUp := c.hold(u, b)
	also := ""
	if givenUp && !taskset.Leaving(t) {
		also = c.alsoFor(t)
	}
	switch {
	case taskset.Leaving(t):
		if c.patient || strings.HasPrefix(t.Info.V.EvictReason(), evictedFor) {
			c.free(u.frees)
		}
	case also != "":
		u.task[0] = t
		u.tasks = u.task[:]
		c.left[also] = append(c.left[also], u)
		c.free(u.frees)
	case drawn == nil:
		if u.priority < c.below && !c.stays(t) {
			u.task[0], u.lost = t, c.ran(t)
			u.tasks = u.task[:]
			c.add(u)
		}
	default:
		c.join(u, t, drawn, together)
	}
}

// accumulated returns what a grant has accumulated as what may be given back; nil if it does
// not accumulate.
func (c *clearing) accumulated(r *cluster.Reservation) *victim {
	if r.Grant.V == nil || r.Grant.V.Phase != types.Accumulating {
		return nil
	}
	u := &victim{ns: r.ID.Namespace}
	switch t := c.s.View.Task(r.ID); {
	case r.Info.V != nil && r.Current():
		u.priority = r.Info.V.Priority
	case r.Info.V == nil && t != nil && t.Info.V != nil && t.Info.Create == r.Grant.V.Task:
		u.priority = t.Info.V.Priority
	default:
		return nil // it is being given back
	}
	for _, at := range r.Grant.V.Nodes {
		for _, h := range at.Holds {
			u.hold(at.Node, h)
		}
	}
	return u
}

// join adds a task to those that draw on a reservation, and go together: none of them does
// if one of them stays, or nobody would lock it again.
func (c *clearing) join(own *victim, t *cluster.Task, r *cluster.Reservation, together map[*cluster.Reservation]*victim) {
	u, known := together[r]
	if !known {
		u = &victim{ns: r.ID.Namespace, priority: r.Info.V.Priority, reservation: r.ID.ID}
		for _, at := range r.Grant.V.Nodes {
			for _, h := range at.Holds {
				u.hold(at.Node, h)
			}
		}
		together[r] = u
	}
	if u == nil || c.stays(t) || t.Info.V.Job == "" || r.Info.V.Job != t.Info.V.Job {
		together[r] = nil
		return
	}
	u.priority, u.lost, u.tasks = max(u.priority, t.Info.V.Priority), u.lost+c.ran(t), append(u.tasks, t)
	for _, f := range own.frees {
		for _, h := range f.holds {
			u.hold(f.node, h)
		}
	}
}

// evictedFor is how the reason of what is evicted begins.
const evictedFor = "evicted for "

// alsoFor returns for what a task is to be evicted that draws on what was given up, and has no
// place without, "" if for nothing: for what another one of its job was. Those do not have their place again
// before all have ended that had it.
func (c *clearing) alsoFor(t *cluster.Task) (reason string) {
	if t.Info.V.Job == "" {
		return ""
	}
	for _, x := range c.s.View.Members(cluster.ID{Namespace: t.ID.Namespace, ID: t.Info.V.Job}) {
		if x.Info.V == nil || x.Status.V == nil || x.Phase().Ended() || x.Info.V.Evict != x.Status.V.Attempt {
			continue
		}
		if why := x.Info.V.EvictReason(); strings.HasPrefix(why, evictedFor) {
			return why
		}
	}
	return ""
}

// hold counts what is free when an attempt ends, less what it provides, and returns the
// reservation that it draws on and that keeps the rest; and whether it draws on one that was
// given up, and has no place without.
func (c *clearing) hold(u *victim, b *cluster.Binding) (drawn *cluster.Reservation, givenUp bool) {
	if !slices.ContainsFunc(b.Info.V.Holds, func(h types.Holding) bool { return h.Cluster || h.Resource.Scoped() }) {
		u.own[0] = freed{b.Node.Name, b.Info.V.Holds}
		u.frees = u.own[:]
	} else {
		drawn, givenUp = c.holdEach(u, b)
	}
	for _, p := range b.Info.V.Provides {
		if b.Providing(p) {
			u.hold(b.Node.Name, types.Holding{Resource: types.Resolve(b.Task.ID.Namespace, p.Name), Amount: -p.Amount})
		}
	}
	return drawn, givenUp
}

// holdEach is hold, of what is not just of the node.
func (c *clearing) holdEach(u *victim, b *cluster.Binding) (drawn *cluster.Reservation, givenUp bool) {
	for _, h := range b.Info.V.Holds {
		if h.Resource.Scoped() {
			ns, _, id := h.Resource.Split()
			r := c.s.View.Reservations[cluster.ID{Namespace: ns, ID: id}]
			if r != nil && r.Current() {
				drawn = r
				continue
			}
			givenUp = givenUp || drawsAlways(b.Task, h.Resource)
			h.Resource = h.Resource.Unscoped() // it goes with the task
			h.Cluster = c.s.View.Pool(h.Resource) != nil
		}
		u.hold(b.Node.Name, h)
	}
	return drawn, givenUp
}

// drawsAlways reports whether each way of a task draws on a resource of a reservation, such as
// those of a gang. Others have a place without it, too, when it is given up, such as those that
// have moved.
func drawsAlways(t *cluster.Task, id types.ResourceID) bool {
	name, ways := id.In(t.ID.Namespace), t.Info.V.Alternatives
	if len(ways) == 0 || t.Info.V.Requests.Get(name) > 0 {
		return true
	}
	return !slices.ContainsFunc(ways, func(way types.Alternative) bool { return way.Requests.Get(name) == 0 })
}

// stays reports whether a task is not to be evicted: it is of the same job, it was not long
// ago, or its job says so.
func (c *clearing) stays(t *cluster.Task) bool {
	if t.Info.V.Job != "" && t.Info.V.Job == c.s.Job && t.ID.Namespace == c.s.Namespace {
		return true
	}
	if ev := t.Info.V.Evict; ev > 0 && ev < t.Status.V.Attempt && c.ran(t) < c.spare {
		return true
	}
	p := c.s.View.Policies[cluster.ID{Namespace: t.ID.Namespace, ID: t.Info.V.Job}]
	return t.Info.V.Job != "" && p != nil && p.V != nil && slices.ContainsFunc(p.V.Policies, func(x types.Policy) bool { return x.Kind == (Stay{}).Kind() })
}

// ran is how long a task has been on its node.
func (c *clearing) ran(t *cluster.Task) time.Duration {
	return c.s.Now.Sub(time.Unix(0, cmp.Or(t.Status.V.Started, t.Status.V.Bound)))
}

// add makes a victim one that may be evicted.
func (c *clearing) add(u *victim) {
	for i := range u.frees {
		c.on[u.frees[i].node] = append(c.on[u.frees[i].node], u)
	}
}
