package share

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// reclaim evicts tasks of users over their share for as long as another user has waited for its own:
// none without which the waiting tasks fit, once the leaving tasks have ended. The tasks of a
// reservation, such as a gang, go together.
func (c *census) reclaim(targets map[*user][]float64) esl.Plan {
	after := c.after
	if after <= 0 {
		return esl.Plan{}
	}
	if evict := c.clearRooms(after); len(evict) > 0 {
		return esl.Plan{Evict: evict, Reason: "a share is free in pieces for longer than " + after.String()}
	}
	r := c.reclaiming(targets, after)
	if len(r.lenders) == 0 || len(r.units) == 0 {
		return esl.Plan{}
	}
	for _, x := range r.units {
		r.place(x)
	}
	r.anywhere()
	var plan esl.Plan
	whose := make(map[string]bool)
	for _, l := range r.chosen {
		left := c.s.MaxChanges() - len(plan.Evict) - len(plan.Unreserve)
		if left < 1 || l.reservation != "" && left < 2 {
			break
		}
		if whose[l.u.path] = true; l.reservation != "" {
			plan.Unreserve = append(plan.Unreserve, l.reservation)
			left--
		}
		for _, t := range l.tasks[:min(len(l.tasks), left)] { // the policy of a gang evicts the rest
			plan.Evict = append(plan.Evict, esl.Evict{
				Task: c.s.Ref(t.ID), Attempt: t.Status.V.Attempt, Reason: fmt.Sprintf("%s was over its share of %s, for which others waited for %s", l.u.path, c.s.ID, after),
			})
		}
	}
	plan.Reason = "over their share for " + after.String() + ": " + strings.Join(taskset.SortedKeys(whose), ", ")
	return plan
}

// A waitingUnit is a task, or a gang, for which capacity is reclaimed.
type waitingUnit struct {
	needs [][]cluster.Need
	asks  []float64
}

// A reclaiming is a choice of tasks to evict.
type reclaiming struct {
	c       *census
	targets map[*user][]float64
	// after is how long users wait for their share.
	after time.Duration
	// rooms are the nodes without the leaving and the chosen tasks, and with the placed units. at is
	// the index of each by its name.
	rooms []*esl.Room
	at    map[string]int
	// lack is what waiting users lack of their shares, in whole tasks, less what was placed.
	lack  []float64
	units []waitingUnit
	// lenders are the tasks that may be evicted, the youngest first, and on are those of a node.
	lenders []*lender
	on      map[string][]*lender
	chosen  []*lender
	// hopeless are the needs of the units that did not fit, and failed those units.
	hopeless map[string]bool
	failed   []waitingUnit
	// more reports whether more tasks wait than units.
	more bool
}

// reclaiming begins without the leaving tasks, for users that have waited so long.
func (c *census) reclaiming(targets map[*user][]float64, after time.Duration) *reclaiming {
	r := &reclaiming{c: c, targets: targets, after: after, lack: make([]float64, len(c.over)), at: make(map[string]int), on: make(map[string][]*lender), hopeless: make(map[string]bool)}
	for i, room := range c.s.Rooms() {
		room = room.Clone()
		for _, b := range room.Node.Bindings {
			if leaves(b) {
				room.Return(c.physical(b))
			}
		}
		r.rooms, r.at[room.Node.Name] = append(r.rooms, room), i
	}
	for _, u := range c.users {
		for _, t := range u.bound {
			if taskset.Leaving(t) {
				add(u.held, c.asksHeld(u, t), -1)
			}
		}
	}
	for _, u := range c.users {
		if u.unit != nil && c.since(u.oldest) >= after {
			r.wait(u)
		}
		if c.since(u.served) >= after { // it was over its share all the time
			r.lend(u)
		}
	}
	slices.SortFunc(r.lenders, (*lender).before)
	for _, l := range r.lenders {
		for node := range l.frees {
			r.on[node] = append(r.on[node], l)
		}
	}
	return r
}

// add adds amounts, so many times.
func add(to, amounts []float64, times float64) {
	for r := range amounts {
		to[r] += times * amounts[r]
	}
}

// wait adds what a user lacks of its share, and the tasks and gangs that fit into that. A task with a
// reservation of the policy has capacity of its own: see makeRoom.
func (r *reclaiming) wait(u *user) {
	c := r.c
	left := make([]float64, len(c.over))
	for i := range left {
		left[i] = max(0, min(u.waits[i], r.targets[u][i]-u.held[i]))
	}
	n := units(left, u.unit)
	for i := range left {
		left[i] = n * u.unit[i]
	}
	if n == 0 {
		return
	}
	add(r.lack, left, 1)
	fits := func(asks []float64) bool {
		if len(r.units) == c.s.MaxChanges() || !c.covers(left, asks) {
			return false
		}
		add(left, asks, -1)
		return true
	}
	for _, t := range c.first(u) {
		x, ok := c.waitingTask(u, t)
		if !ok || !fits(x.asks) {
			continue
		}
		if i := slices.IndexFunc(c.seeking, func(y waitingTask) bool { return y.t == t && y.room != nil }); i >= 0 {
			for i, resource := range c.over {
				r.lack[i] -= min(x.asks[i], c.collected(c.seeking[i].room, resource))
			}
			continue
		}
		r.units = append(r.units, waitingUnit{[][]cluster.Need{x.needs}, x.asks})
	}
	for _, job := range u.jobs {
		for _, g := range c.gangs[job] {
			x := waitingUnit{asks: c.ofGang(u, job, g)}
			for _, b := range g.Info.V.Bundles {
				x.needs = append(x.needs, c.s.View.BundleNeeds(u.ns, b.Requests, b.Devices...))
			}
			if fits(x.asks) {
				r.units = append(r.units, x)
			}
		}
	}
	r.more = r.more || c.covers(left, u.unit)
}

// evict chooses a task.
func (r *reclaiming) evict(l *lender) {
	l.gone = true
	add(l.u.held, l.takes, -1)
	r.chosen = append(r.chosen, l)
}

// spare takes back the choice of a task.
func (r *reclaiming) spare(l *lender) {
	l.gone = false
	add(l.u.held, l.takes, 1)
	r.chosen = slices.DeleteFunc(r.chosen, func(x *lender) bool { return x == l })
}

// place makes capacity for all of a unit on nodes, or for nothing of it.
func (r *reclaiming) place(x waitingUnit) {
	like := ""
	for _, needs := range x.needs {
		like += taskset.Signature(needs) + ";"
	}
	if r.hopeless[like] {
		r.failed = append(r.failed, x)
		return
	}
	rooms, chosen := slices.Clone(r.rooms), len(r.chosen)
	for _, needs := range x.needs {
		if r.placeOne(needs) {
			continue
		}
		r.rooms, r.hopeless[like], r.failed = rooms, true, append(r.failed, x)
		for len(r.chosen) > chosen {
			r.spare(r.chosen[len(r.chosen)-1])
		}
		return
	}
	add(r.lack, x.asks, -1)
}

// placeOne makes capacity where the fewest tasks must go, and of these where least work is lost.
func (r *reclaiming) placeOne(needs []cluster.Need) bool {
	best, lost := -1, time.Duration(0)
	var by []*lender
	for i, room := range r.rooms {
		victims, ok := r.option(room, needs)
		if !ok {
			continue
		}
		var ran time.Duration
		for _, l := range victims {
			ran += r.c.since(l.bound) * time.Duration(len(l.tasks))
		}
		if n, least := tasksOf(victims), tasksOf(by); best < 0 || n < least || n == least && ran < lost {
			best, by, lost = i, victims, ran
		}
		if len(by) == 0 {
			break
		}
	}
	if best < 0 {
		return false
	}
	for _, l := range by {
		r.evict(l)
		for node, holds := range l.frees {
			if i, ok := r.at[node]; ok {
				r.rooms[i] = r.rooms[i].Clone()
				r.rooms[i].Return(holds)
			}
		}
	}
	r.rooms[best] = r.rooms[best].Clone()
	r.rooms[best].Take(needs)
	return true
}

func tasksOf(all []*lender) (n int) {
	for _, l := range all {
		n += len(l.tasks)
	}
	return n
}

// option returns the tasks of a node to evict for needs: the youngest until these fit or, if that is
// more than their users can spare, the largest; less those that need not go.
func (r *reclaiming) option(room *esl.Room, needs []cluster.Need) (victims []*lender, ok bool) {
	if room.Fits(needs) {
		return nil, true
	}
	all := r.on[room.Node.Name]
	if victims, ok = r.first(all, room, needs); ok || len(all) < 2 {
		return victims, ok
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *lender) int { return slices.Compare(b.takes, a.takes) })
	return r.first(all, room, needs)
}

// first returns the first tasks without which needs fit, less those that need not go.
func (r *reclaiming) first(all []*lender, room *esl.Room, needs []cluster.Need) (victims []*lender, ok bool) {
	trial, chosen := room.Clone(), len(r.chosen)
	for _, l := range all {
		if l.gone || !r.spares(l) {
			continue
		}
		r.evict(l)
		trial.Return(l.frees[room.Node.Name])
		if ok = trial.Fits(needs); ok {
			break
		}
	}
	victims = slices.Clone(r.chosen[chosen:])
	for _, l := range victims {
		r.spare(l)
	}
	for i := len(victims) - 1; i >= 0 && ok; i-- {
		trial.Hold(victims[i].frees[room.Node.Name])
		if trial.Fits(needs) {
			victims = slices.Delete(victims, i, i+1)
		} else {
			trial.Return(victims[i].frees[room.Node.Name])
		}
	}
	return victims, ok
}

// anywhere chooses tasks for the rest that users lack, which fits on no node: the youngest, less
// those that need not go. What becomes free in pieces is collected later: see makeRoom. It chooses
// none if no unit would have enough.
func (r *reclaiming) anywhere() {
	free, need := make([]float64, len(r.lack)), slices.Clone(r.lack)
	for _, room := range r.rooms {
		for i, resource := range r.c.over {
			if q, ok := room.Free(types.ResourceID(resource)); ok && q > 0 {
				free[i] += float64(drawn(resource, q))
			}
		}
	}
	add(need, free, -1)
	chosen := len(r.chosen)
	for _, l := range r.lenders {
		if l.gone || !r.spares(l) || !helpsAny(l.takes, need) {
			continue
		}
		r.evict(l)
		add(need, l.takes, -1)
		add(free, l.takes, 1)
	}
	helps := r.more || slices.ContainsFunc(r.failed, func(x waitingUnit) bool { return r.c.covers(free, x.asks) })
	for _, l := range slices.Backward(slices.Clone(r.chosen[chosen:])) {
		add(need, l.takes, 1)
		if helps && helpsAny(l.takes, need) {
			add(need, l.takes, -1)
			continue
		}
		r.spare(l)
	}
}

// helpsAny reports whether some of an amount is lacking.
func helpsAny(takes, lack []float64) bool {
	for r := range takes {
		if takes[r] > 0 && lack[r] > 0 {
			return true
		}
	}
	return false
}

// since returns the time since then.
func (c *census) since(unixNano int64) time.Duration {
	return time.Duration(c.s.Now.UnixNano() - unixNano)
}

// clearRooms returns the evictions for reservations that have waited so long: the youngest of the
// smaller tasks, which fit into the fragments where the collected share lies idle. It evicts none
// without which the reservation fits, and none if it would not fit even then.
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
		for _, b := range n.Bindings {
			if leaves(b) {
				gives(b, lacking)
			}
		}
		for _, b := range enough(c.smaller(x, n), lacking) {
			out = append(out, esl.Evict{Task: c.s.Ref(b.Task.ID), Attempt: b.Number})
		}
	}
	return out[:min(len(out), c.s.MaxChanges())]
}

// enough returns the first attempts that give all that is lacking, less those that need not go; none
// if all are not enough.
func enough(all []*cluster.Binding, lacking map[types.ResourceID]types.Quantity) (out []*cluster.Binding) {
	left := maps.Clone(lacking)
	for _, b := range all {
		if len(left) > 0 && gives(b, left) {
			out = append(out, b)
		}
	}
	if len(left) > 0 {
		return nil
	}
	for i := len(out) - 1; i >= 0; i-- {
		left = maps.Clone(lacking)
		for j, b := range out {
			if i != j {
				gives(b, left)
			}
		}
		if len(left) == 0 {
			out = slices.Delete(out, i, i+1)
		}
	}
	return out
}

// smaller returns the attempts of other users on a node that have less of everything than a task
// requests, the youngest first: not those that are leaving.
func (c *census) smaller(x waitingTask, n *cluster.Node) []*cluster.Binding {
	var out []*cluster.Binding
	for _, u := range c.users {
		if u == x.u {
			continue
		}
		for _, t := range u.bound {
			has := c.asksHeld(u, t)
			less := has != nil && !taskset.Leaving(t)
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
		return cmp.Or(cmp.Compare(b.Info.V.Bound, a.Info.V.Bound), strings.Compare(a.Task.ID.ID, b.Task.ID.ID))
	})
	return out
}
