package share

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Reservations for users whose share is free only in fragments. A task larger than any free
// fragment would starve among small tasks, which take each fragment, and its share would lie idle.
// So a reservation collects free capacity on the node that will have enough the soonest, and hands
// it over to the job.

const (
	// roomAfter is how long a user must lack capacity before a reservation begins.
	roomAfter = time.Second
	// roomsAtOnce is the most reservations at a time.
	roomsAtOnce = 16
	// roomPriority is below that of any task: other policies do not expect evictions for it.
	roomPriority = -1 << 20
)

// waitingTask is a task within its user's share that fits on no node.
type waitingTask struct {
	u     *user
	t     *cluster.Task
	way   types.Bundle
	needs []cluster.Need
	asks  []float64
	// room is its reservation, nil if there is none.
	room *cluster.Reservation
}

// makeRoom creates reservations for tasks that need them, and removes those no longer needed.
func (c *census) makeRoom() esl.Plan {
	seekers := c.waitingTasks()
	c.seeking = seekers
	c.taken = collectingFor(c.s)
	if plan := c.giveUp(seekers); len(plan.Unreserve) > 0 {
		return plan
	}
	idle, since := c.idle(seekers), c.intervals(seekers)
	plan := esl.Plan{Reason: "a share is collected that is free in pieces"}
	for _, x := range seekers {
		if len(plan.Reserve) == len(c.ids) {
			break
		}
		if x.room != nil || !c.covers(idle, x.asks) || c.s.Now.Before(since[x.u.path].since.Add(roomAfter)) {
			continue
		}
		n, _, ok := c.soonest(x)
		if !ok {
			continue
		}
		c.taken[n.Name] = true
		x.way.Node = n.Name
		for r := range idle {
			idle[r] -= x.asks[r]
		}
		bundles := []types.Bundle{x.way}
		plan.Reserve = append(plan.Reserve, controlplane.Reservation{ID: c.ids[len(plan.Reserve)], Reservation: types.Reservation{
			Collect: types.NewCollect(bundles, true), Job: x.t.Info.V.Job, Policy: c.s.ID, Session: x.t.Info.V.Session, Priority: roomPriority, Bundles: bundles,
		}})
	}
	return plan
}

// giveUp removes reservations that no task needs any more, and those for which another node would
// be much sooner now.
func (c *census) giveUp(seekers []waitingTask) esl.Plan {
	plan := esl.Plan{Reason: "a share is not collected any more where it was"}
	for _, r := range c.rooms {
		i := slices.IndexFunc(seekers, func(x waitingTask) bool { return x.room == r })
		if i >= 0 && taskset.IsReserving(r) && !c.moves(seekers[i]) || r.Grant.V != nil && !r.Current() {
			continue
		}
		plan.Unreserve = append(plan.Unreserve, r.ID.ID)
	}
	return plan
}

// moves reports whether a reservation moves to another node. If shares are taken back, it does so only when its
// node has become impossible, because evictions bound the wait.
func (c *census) moves(x waitingTask) bool {
	if c.after <= 0 {
		return c.sooner(x)
	}
	_, ok := c.until(x, c.s.View.Nodes[x.room.Info.V.Bundles[0].Node])
	return !ok
}

// sooner reports whether a reservation would be complete much sooner on another node than on its
// own.
func (c *census) sooner(x waitingTask) bool {
	here, ok := c.until(x, c.s.View.Nodes[x.room.Info.V.Bundles[0].Node])
	if !ok {
		return true
	}
	_, there, ok := c.soonest(x)
	return ok && 2*there+5*time.Second < here
}

// waitingTasks returns the tasks that lack capacity, with their reservations: the first of each
// user, as many as the share allows.
func (c *census) waitingTasks() []waitingTask {
	rooms := slices.Clone(c.rooms)
	c.nodes = c.s.Rooms()
	idle := c.idle(nil)
	var out []waitingTask
	for _, u := range c.users {
		left := make([]float64, len(c.over))
		for r := range left {
			left[r] = float64(u.cap[r]) - u.held[r]
		}
		if u.ns != c.s.Namespace { // a reservation is for jobs of its own namespace
			continue
		}
		if u.unit == nil || !c.covers(left, u.unit) || len(rooms) == 0 && !c.covers(idle, u.unit) {
			continue
		}
		for _, t := range c.first(u) {
			x, ok := c.waitingTask(u, t)
			if !ok || !c.covers(left, x.asks) {
				continue
			}
			if i := slices.IndexFunc(rooms, func(r *cluster.Reservation) bool { return c.isFor(r, x) }); i >= 0 {
				x.room = rooms[i]
				rooms = slices.Delete(rooms, i, i+1)
			} else if slices.ContainsFunc(c.nodes, func(r *esl.Room) bool { return r.Fits(x.needs) }) {
				continue
			}
			for r := range left {
				left[r] -= x.asks[r]
			}
			out = append(out, x)
		}
	}
	return out
}

// isFor reports whether a reservation is for a task, or a task of its job with the same requests.
func (c *census) isFor(r *cluster.Reservation, x waitingTask) bool {
	return r.Info.V.Job == x.t.Info.V.Job && taskset.BundlesText(c.s, r.Info.V.Bundles) == taskset.BundlesText(c.s, []types.Bundle{x.way})
}

// first returns the first waiting tasks of a user, at most roomsAtOnce, in order.
func (c *census) first(u *user) []*cluster.Task {
	var out []*cluster.Task
	least := func() {
		slices.SortFunc(out, byTurn)
		out = out[:min(len(out), roomsAtOnce)]
	}
	for _, job := range u.jobs {
		c.s.View.EachMember(c.s.At(job), func(t *cluster.Task) {
			if t.Info.V == nil || t.Phase() != types.Pending || t.Info.V.Stop != nil || t.Info.V.Scheduler != "" || !c.s.View.Visible(t) {
				return
			}
			if out = append(out, t); len(out) == 8*roomsAtOnce {
				least()
			}
		})
	}
	least()
	return out
}

// byTurn orders tasks as earlier does.
func byTurn(a, b *cluster.Task) int {
	return taskset.BoolInt(earlier(b, a)) - taskset.BoolInt(earlier(a, b))
}

// waitingTask returns what a task requests from a node; ok is false if it waits for another
// resource, or draws on a reservation.
func (c *census) waitingTask(u *user, t *cluster.Task) (x waitingTask, ok bool) {
	for _, way := range taskset.BundlesOf(c.s, t) {
		asks := c.resolve(u, t.Info.V.Job, way[0].Requests)
		if asks == nil {
			continue
		}
		way[0].Requests = slices.DeleteFunc(slices.Clone(way[0].Requests), func(q types.Request) bool {
			return c.s.View.Pool(types.Resolve(u.ns, q.Name)) != nil // cluster-wide resources come with the binding
		})
		return waitingTask{u: u, t: t, way: way[0], asks: asks, needs: c.s.View.Needs(u.ns, way[0].Requests, way[0].Devices...)}, true
	}
	return waitingTask{}, false
}

// interval is since when a user has lacked capacity, and when that was last seen.
type interval struct{ since, seen time.Time }

// memory is what a program remembers while it runs the policy. The next program begins without it.
type memory struct {
	// lacks is since when users lack capacity, by path.
	lacks map[string]interval
	// claims are of what is larger than a share, by the id of the task or reservation.
	claims map[string]*claim
}

func newMemory() *memory { return &memory{make(map[string]interval), make(map[string]*claim)} }

// intervals returns since when users have lacked capacity. A gap up to roomAfter does not end an
// interval: one task may be placed, and another one wait by the next call.
func (c *census) intervals(seekers []waitingTask) map[string]interval {
	known := c.memory.lacks
	for _, x := range seekers {
		was, ok := known[x.u.path]
		if !ok || c.s.Now.Sub(was.seen) > roomAfter {
			was.since = c.s.Now
		}
		known[x.u.path] = interval{was.since, c.s.Now}
	}
	maps.DeleteFunc(known, func(_ string, x interval) bool { return c.s.Now.Sub(x.seen) > roomAfter })
	return known
}

// idle returns the free amount of each shared resource, less what reservations will collect.
func (c *census) idle(seekers []waitingTask) []float64 {
	out := make([]float64, len(c.over))
	for r, resource := range c.over {
		for _, room := range c.nodes {
			if free, ok := room.Free(types.ResourceID(resource)); ok && free > 0 {
				out[r] += float64(drawn(resource, free))
			}
		}
		for _, x := range seekers {
			if x.room != nil {
				out[r] -= max(0, x.asks[r]-c.collected(x.room, resource))
			}
		}
	}
	return out
}

// collected returns how much of a resource a reservation holds, in units of the pools.
func (c *census) collected(r *cluster.Reservation, resource string) float64 {
	if r.Grant.V == nil {
		return 0
	}
	sum := 0.0
	for _, at := range r.Grant.V.Nodes {
		for _, h := range at.Holds {
			if h.Resource == types.ResourceID(resource) {
				sum += float64(drawn(resource, h.Amount))
			}
		}
	}
	return sum
}

// soonest returns the node where a task will fit the soonest, among those without a collecting
// reservation, and the estimated time until then.
func (c *census) soonest(x waitingTask) (best *cluster.Node, in time.Duration, ok bool) {
	for _, room := range c.nodes {
		if c.taken[room.Node.Name] {
			continue
		}
		if t, can := c.until(x, room.Node); can && (!ok || t < in) {
			best, in, ok = room.Node, t, true
		}
	}
	return best, in, ok
}

// until estimates when a task will fit on a node that keeps freed capacity for it. An attempt
// without a known end is expected to run as long again as it has run. ok is false if the task
// cannot fit.
func (c *census) until(x waitingTask, n *cluster.Node) (in time.Duration, ok bool) {
	if n == nil || !n.Eligible() {
		return 0, false
	}
	lacking, can := c.lacking(x, n)
	if !can {
		return 0, false
	}
	ends := slices.DeleteFunc(slices.Clone(n.Bindings), func(b *cluster.Binding) bool {
		return b.Info.V == nil || b.Task.Info.V == nil || b.Task.Status.V == nil
	})
	slices.SortFunc(ends, func(a, b *cluster.Binding) int {
		return cmp.Or(cmp.Compare(c.ends(a), c.ends(b)), strings.Compare(a.Task.ID.String(), b.Task.ID.String()))
	})
	for _, b := range ends {
		if len(lacking) == 0 {
			break
		}
		in = c.ends(b)
		gives(b, lacking)
	}
	return in, len(lacking) == 0
}

// lacking returns what a node lacks of free capacity, and of capacity collected for the task; ok is
// false if the task would not fit on the empty node.
func (c *census) lacking(x waitingTask, n *cluster.Node) (out map[types.ResourceID]types.Quantity, ok bool) {
	out = make(map[types.ResourceID]types.Quantity)
	for _, need := range x.needs {
		if c.s.View.Pool(need.ID) != nil {
			continue
		}
		free, _ := c.s.View.Free(n, need.ID)
		if x.room != nil && x.room.Grant.V != nil {
			for _, h := range x.room.Grant.V.On(n.Name) {
				if h.Resource == need.ID {
					free = free.Add(h.Amount)
				}
			}
		}
		capacity, _ := c.s.View.Capacity(n, need.ID)
		switch {
		case capacity < need.Amount || !need.ID.Physical() && free < need.Amount:
			return nil, false
		case free < need.Amount:
			out[need.ID] = need.Amount - free
		}
	}
	return out, true
}

// ends estimates the time until an attempt ends.
func (c *census) ends(b *cluster.Binding) time.Duration {
	age := max(0, c.since(b.Info.V.Bound))
	switch {
	case taskset.Leaving(b.Task):
		return 0
	case b.Info.V.MaxRun > 0:
		return min(age, max(0, b.Info.V.MaxRun-age))
	}
	return age
}

// collectingFor returns the nodes where any reservation is collecting capacity.
func collectingFor(s *esl.State) map[string]bool {
	out := make(map[string]bool)
	for _, r := range s.View.Reservations {
		if r.Grant.V != nil && r.Grant.V.Phase == types.Collecting {
			for _, at := range r.Grant.V.Nodes {
				out[at.Node] = true
			}
		}
		if r.Info.V != nil && r.Info.V.Directed() {
			for _, b := range r.Info.V.Bundles {
				out[b.Node] = true
			}
		}
	}
	return out
}

// gives subtracts what an attempt holds from lacking, and reports whether it holds any of that.
func gives(b *cluster.Binding, lacking map[types.ResourceID]types.Quantity) (some bool) {
	for _, h := range b.Info.V.Holds {
		switch lacks, ok := lacking[h.Resource]; {
		case !ok:
			continue
		case h.Amount < lacks:
			lacking[h.Resource] -= h.Amount
		default:
			delete(lacking, h.Resource)
		}
		some = true
	}
	return some
}
