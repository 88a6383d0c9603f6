package room

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Possible victims are single tasks, and reservations with all tasks that draw on them, such as
// gangs. Accumulated capacity is returned without an eviction: the scheduler returns it when an
// reservation that its maker directs lacks it.

// victim is a set of tasks that are evicted together or not at all.
type victim struct {
	ns       string
	job      string          // of accumulated capacity
	priority int             // the highest of its tasks
	rank     int             // of its job; the last are evicted first
	tasks    []*cluster.Task // none for accumulated capacity
	// lost is the total time its tasks have run.
	lost time.Duration
	// reservation is removed with it; empty for a single task.
	reservation string
	// frees is the capacity that its eviction frees.
	frees []freed

	// Most are one task on one node.
	task [1]*cluster.Task
	own  [1]freed
}

// freed is freed capacity of a node; "" is the whole cluster.
type freed struct {
	node  string
	holds []types.Holding
}

// less orders victims by the order of eviction.
func (u *victim) less(v *victim) int {
	if len(u.tasks) == 0 || len(v.tasks) == 0 {
		return cmp.Compare(len(u.tasks), len(v.tasks)) // only one accumulates at a time
	}
	if c := cmp.Or(cmp.Compare(u.priority, v.priority), cmp.Compare(len(u.tasks), len(v.tasks)), cmp.Compare(v.rank, u.rank), cmp.Compare(u.lost, v.lost)); c != 0 {
		return c
	}
	return strings.Compare(u.tasks[0].ID.String(), v.tasks[0].ID.String())
}

// on returns the capacity that its eviction frees on a node.
func (u *victim) on(node string) []types.Holding {
	for i := range u.frees {
		if u.frees[i].node == node {
			return u.frees[i].holds
		}
	}
	return nil
}

// hold adds a holding that its eviction frees.
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

// evictAll evicts victims, as many as fit into one transaction, and removes their reservations:
// otherwise their capacity would stay allocated.
func evictAll(evicted []*victim, reason string) esl.Plan {
	plan := esl.Plan{Reason: reason}
	for _, u := range evicted {
		if len(plan.Evict) >= taskset.AtOnce {
			break
		}
		if u.reservation != "" {
			plan.Unreserve = append(plan.Unreserve, u.reservation)
		}
		plan.Evict = append(plan.Evict, evictions(u.tasks, taskset.AtOnce-len(plan.Evict), reason)...)
	}
	return plan
}

// evictions returns the evictions of tasks, at most so many; an empty reason means a general one.
func evictions(tasks []*cluster.Task, most int, reason string) []esl.Evict {
	var out []esl.Evict
	for _, t := range tasks[:min(len(tasks), most)] {
		out = append(out, esl.Evict{Task: t.ID.ID, Attempt: t.Status.V.Attempt, Reason: reason})
	}
	return out
}

func tasksOf(units []*victim) (n int) {
	for _, u := range units {
		n += len(u.tasks)
	}
	return n
}

// look counts an attempt as leaving, or as a possible victim.
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
			c.alone(u, t)
		}
	default:
		c.join(u, t, drawn, together)
	}
}

// accumulated returns the capacity that r has collected as a victim; nil if it has none, or its maker
// directs it.
func (c *clearing) accumulated(r *cluster.Reservation) *victim {
	if !grants.Accumulates(r) {
		return nil
	}
	u := &victim{ns: r.ID.Namespace}
	switch t := c.s.View.Task(r.ID); {
	case r.Info.V != nil && r.Current():
		u.priority, u.job = r.Info.V.Priority, r.Info.V.Job
	case r.Info.V == nil && t != nil && t.Info.V != nil && t.Info.Create == r.Grant.V.Task:
		u.priority, u.job = t.Info.V.Priority, t.Info.V.Job
	default:
		return nil // it is being released
	}
	for _, at := range r.Grant.V.Nodes {
		for _, h := range at.Holds {
			u.hold(at.Node, h)
		}
	}
	return u
}

// join adds a task to the victim of its reservation. There is none if one of the tasks stays, or if
// the reservation and the tasks are not of one job: no policy would reserve it again.
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

// evictedFor is the prefix of the reason of every eviction by Preempt.
const evictedFor = "evicted for "

// alsoFor returns the reason to evict a task that cannot run without its removed reservation: the
// one for which another task of its job was evicted, "" if none was. The reservation is granted
// again only after the attempts of all its tasks have ended.
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

// hold adds the capacity that is free when an attempt ends, less the resources it provides. drawn
// is the reservation that it draws on, which keeps the rest. givenUp reports whether it cannot run
// without a reservation that was removed.
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

// holdEach is hold for holdings of reservations and of cluster-wide resources.
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
			h.Resource = h.Resource.Unscoped() // the task frees it
			h.Cluster = c.s.View.Pool(h.Resource) != nil
		}
		u.hold(b.Node.Name, h)
	}
	return drawn, givenUp
}

// drawsAlways reports whether each alternative of a task draws on a resource of a reservation, as
// in a gang. Other tasks, such as migrated ones, can run after the reservation is removed.
func drawsAlways(t *cluster.Task, id types.ResourceID) bool {
	name, ways := id.In(t.ID.Namespace), t.Info.V.Alternatives
	if len(ways) == 0 || t.Info.V.Requests.Get(name) > 0 {
		return true
	}
	return !slices.ContainsFunc(ways, func(way types.Alternative) bool { return way.Requests.Get(name) == 0 })
}

// stays reports whether a task must not be evicted: it is of the same job, or of none of those that may
// lose tasks, was evicted recently, or its job has policy stay.
func (c *clearing) stays(t *cluster.Task) bool {
	if c.only != nil && (t.ID.Namespace != c.s.Namespace || !c.only[t.Info.V.Job]) {
		return true
	}
	if t.Info.V.Job != "" && t.Info.V.Job == c.s.Job && t.ID.Namespace == c.s.Namespace {
		return true
	}
	if ev, ran := t.Info.V.Evict, c.ran(t); ev > 0 && ev < t.Status.V.Attempt && ran < c.spare {
		c.spared = taskset.Earliest(c.spared, c.s.Now.Add(c.spare-ran))
		return true
	}
	p := c.s.View.Policies[cluster.ID{Namespace: t.ID.Namespace, ID: t.Info.V.Job}]
	return t.Info.V.Job != "" && p != nil && p.V != nil && slices.ContainsFunc(p.V.Policies, func(x types.Policy) bool { return x.Kind == (Stay{}).Kind() })
}

// ran returns how long a task has run, or been bound if it has not started.
func (c *clearing) ran(t *cluster.Task) time.Duration {
	return c.s.Now.Sub(time.Unix(0, cmp.Or(t.Status.V.Started, t.Status.V.Bound)))
}

// alone makes a task a possible victim by itself.
func (c *clearing) alone(u *victim, t *cluster.Task) {
	u.task[0], u.lost = t, c.ran(t)
	u.tasks = u.task[:]
	c.add(u)
}

// add makes u a possible victim.
func (c *clearing) add(u *victim) {
	if c.order != nil && len(u.tasks) > 0 {
		u.rank = c.order(u.tasks[0].Info.V.Job)
	}
	for i := range u.frees {
		c.on[u.frees[i].node] = append(c.on[u.frees[i].node], u)
	}
}
