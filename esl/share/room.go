package share

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Room for those whose share lies idle in pieces. A task that is larger than what any node
// has free would wait for ever among small ones, which take each piece when it is free; and
// what is kept for it would lie idle. So a reservation collects at once, on the node where
// there will be enough the soonest, what becomes free there, and hands it over to the job.

const (
	// roomAfter is how long a user seeks room before it is made.
	roomAfter = time.Second
	// roomsAtOnce is for how many tasks room is made at a time.
	roomsAtOnce = 16
	// roomPriority is below that of any task: others do not reckon that somebody is evicted
	// for the room.
	roomPriority = -1 << 20
)

// waitingTask is a task that its user has the share for, and no node has room for.
type waitingTask struct {
	u     *user
	t     *cluster.Task
	way   types.Bundle
	needs []cluster.Need
	asks  []float64
	// room is what is collected for it, nil if nothing is.
	room *cluster.Reservation
}

// reservedRooms returns what the policy collects, and under which ids it may collect more.
func reservedRooms(s *esl.State) (rooms []*cluster.Reservation, free []string) {
	for i := range roomsAtOnce {
		id := esl.OwnName(s.ID, FairShare{}.Kind(), strconv.Itoa(i))
		switch r := s.Reservation(id); {
		case taskset.Locked(r):
			rooms = append(rooms, r)
		case r == nil || r.Grant.V == nil:
			free = append(free, id)
		}
	}
	return rooms, free
}

// makeRoom begins to collect for those who need it, and gives up what is of no use any more.
func (p FairShare) makeRoom(c *census) esl.Plan {
	seekers := c.waitingTasks()
	c.seeking = seekers
	c.taken = collectingFor(c.s)
	if plan := p.giveUp(c, seekers); len(plan.Unreserve) > 0 {
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
		plan.Reserve = append(plan.Reserve, esl.Reservation{ID: c.ids[len(plan.Reserve)], Reservation: types.Reservation{
			Accumulate: true, AtOnce: true, Job: x.t.Info.V.Job, Policy: c.s.ID, Session: x.t.Info.V.Session, Priority: roomPriority, Bundles: []types.Bundle{x.way},
		}})
	}
	return plan
}

// giveUp gives up the rooms that nobody needs any more, and those for which another node
// would do much sooner by now.
func (p FairShare) giveUp(c *census, seekers []waitingTask) esl.Plan {
	plan := esl.Plan{Reason: "a share is not collected any more where it was"}
	for _, r := range c.rooms {
		i := slices.IndexFunc(seekers, func(x waitingTask) bool { return x.room == r })
		if i >= 0 && taskset.IsReserving(r) && !p.moves(c, seekers[i]) || r.Grant.V != nil && !r.Current() {
			continue
		}
		plan.Unreserve = append(plan.Unreserve, r.ID.ID)
	}
	return plan
}

// moves reports whether a room is to be made on another node: where others are evicted for it,
// only if its own cannot have it any more, as it is known how long it takes.
func (p FairShare) moves(c *census, x waitingTask) bool {
	if p.Reclaim <= 0 {
		return c.sooner(x)
	}
	_, ok := c.until(x, c.s.View.Nodes[x.room.Info.V.Bundles[0].Node])
	return !ok
}

// sooner reports whether a room would be there much sooner on another node than where it
// is made.
func (c *census) sooner(x waitingTask) bool {
	here, ok := c.until(x, c.s.View.Nodes[x.room.Info.V.Bundles[0].Node])
	if !ok {
		return true
	}
	_, there, ok := c.soonest(x)
	return ok && 2*there+5*time.Second < here
}

// waitingTasks returns the tasks that seek room: of each user the first, as many as his share is
// enough for; with what is collected for them.
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

// isFor reports whether a room is for a task, or one of its job that asks for the same.
func (c *census) isFor(r *cluster.Reservation, x waitingTask) bool {
	return r.Info.V.Job == x.t.Info.V.Job && taskset.BundlesText(c.s, r.Info.V.Bundles) == taskset.BundlesText(c.s, []types.Bundle{x.way})
}

// first returns the tasks of a user that wait, as many as room is made for, in their turn.
func (c *census) first(u *user) []*cluster.Task {
	var out []*cluster.Task
	least := func() {
		slices.SortFunc(out, byTurn)
		out = out[:min(len(out), roomsAtOnce)]
	}
	for _, job := range u.jobs {
		c.s.View.EachMember(cluster.ID{Namespace: c.s.Namespace, ID: job}, func(t *cluster.Task) {
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

// waitingTask returns what a task asks for of a node; ok is false if it waits for something else
// than that, or draws on a reservation.
func (c *census) waitingTask(u *user, t *cluster.Task) (x waitingTask, ok bool) {
	for _, way := range taskset.BundlesOf(c.s, t) {
		asks := c.resolve(u, t.Info.V.Job, way[0].Requests)
		if asks == nil {
			continue
		}
		way[0].Requests = slices.DeleteFunc(slices.Clone(way[0].Requests), func(q types.Request) bool {
			return c.s.Pool(q.Name) != nil // what is of the whole cluster it gets with its place
		})
		return waitingTask{u: u, t: t, way: way[0], asks: asks, needs: c.s.View.Needs(c.s.Namespace, way[0].Requests, way[0].Devices...)}, true
	}
	return waitingTask{}, false
}

// interval is how long a user has sought room, and when he was last found to.
type interval struct{ since, seen time.Time }

// intervals returns since when the users have sought room, as far as it was looked: one task
// may have a place before the next look, and another one seek room then.
func (c *census) intervals(seekers []waitingTask) map[string]interval {
	known := *esl.Remember(c.s, func() *map[string]interval { return &map[string]interval{} })
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

// idle returns what lies idle anywhere of what is shared, less what will be collected of it.
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

// collected returns how much of a resource a room has, in what is drawn on pools.
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

// soonest returns the node on which a task will have room the soonest, of those on which
// nothing is collected yet, and in how long, as far as anybody can tell.
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

// until returns in how long a node may have room for a task, if what becomes free there is
// kept for it: what has run for so long runs for as long again, in the mean, if nothing says
// when it ends. ok is false if the node cannot have it.
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

// lacking returns what a node has too little of that is free, or collected for the task; ok is
// false if the task could not be there if nobody else were.
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

// ends is in how long an attempt ends, as far as anybody can tell.
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

// collectingFor returns the nodes on which something is collected, for whomever.
func collectingFor(s *esl.State) map[string]bool {
	out := make(map[string]bool)
	for _, r := range s.View.Reservations {
		if r.Grant.V != nil && (r.Grant.V.Phase == types.Collecting || r.Grant.V.Phase == types.Accumulating) {
			for _, at := range r.Grant.V.Nodes {
				out[at.Node] = true
			}
		}
		if r.Info.V != nil && r.Info.V.AtOnce {
			for _, b := range r.Info.V.Bundles {
				out[b.Node] = true
			}
		}
	}
	return out
}

// clearRooms returns who is evicted where room has been made for so long: the youngest of
// those who ask for less, and find a place where the share lies idle that is collected.
func (c *census) clearRooms(after time.Duration) []esl.Evict {
	var out []esl.Evict
	for _, x := range c.seeking {
		if x.room == nil || !taskset.IsReserving(x.room) || c.since(x.room.Info.V.Submitted) < after {
			continue
		}
		n := c.s.View.Nodes[x.room.Info.V.Bundles[0].Node]
		if n == nil {
			continue
		}
		lacking, _ := c.lacking(x, n)
		for _, b := range c.smaller(x, n) {
			if len(lacking) == 0 || len(out) == c.s.MaxChanges() {
				break
			}
			if gives(b, lacking) && !taskset.Leaving(b.Task) {
				out = append(out, esl.Evict{Task: b.Task.ID.ID, Attempt: b.Number})
			}
		}
	}
	return out
}

// smaller returns the attempts on a node of other users that have less of everything than a
// task asks for: those first that leave, then the youngest.
func (c *census) smaller(x waitingTask, n *cluster.Node) []*cluster.Binding {
	var out []*cluster.Binding
	for _, u := range c.users {
		if u == x.u {
			continue
		}
		for _, t := range u.bound {
			has := c.asksHeld(u, t.Info.V)
			less := has != nil
			for r := range has {
				less = less && (has[r] < x.asks[r] || has[r] == 0)
			}
			if !less {
				continue
			}
			for _, b := range t.Bindings {
				if b.Node == n && b.Info.V != nil && b.Number == t.Status.V.Attempt {
					out = append(out, b)
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b *cluster.Binding) int {
		return cmp.Or(taskset.BoolInt(taskset.Leaving(b.Task))-taskset.BoolInt(taskset.Leaving(a.Task)), cmp.Compare(b.Info.V.Bound, a.Info.V.Bound), strings.Compare(a.Task.ID.ID, b.Task.ID.ID))
	})
	return out
}

// gives takes what an attempt has from what is lacking, and reports whether it has any of that.
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
