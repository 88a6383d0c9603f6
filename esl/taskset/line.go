package taskset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Line lets the tasks of the jobs that use a shared policy begin in an order: no task begins before
// one that comes earlier and could begin. Each task requests one of <job>.<kind>, as a job from a file
// does, and the line sets how much of that there is. The policy has a method ClusterScoped, because
// other jobs free capacity too.
type Line struct {
	// Kind is the kind of the shared policy.
	Kind string
	// Before compares two waiting tasks: it is negative if a comes first. Equal tasks come by priority,
	// then by age. Of the waiting tasks of one job, those begin first that come first in the queue.
	Before func(a, b *cluster.Task) int
	// Backfill lets later tasks begin on nodes that no earlier task can use, even when they are empty.
	Backfill bool
}

// maxLine is the most units that one decision looks at.
const maxLine = 1000

// unit is what begins at once: a task, or a gang with a bundle of needs for each member.
type unit struct {
	task *cluster.Task
	own  string
	// amount is how much of its own resource it requests.
	amount  types.Quantity
	bundles []Alternatives
	// pools are its needs of pools.
	pools []cluster.Need
}

// Plan returns the changes that let in what can begin now, in the order of the line. Idle names what
// comes first, if that cannot begin.
func (l Line) Plan(s *esl.State) esl.Plan {
	plan := esl.Plan{Reason: "the next ones begin"}
	open := make(map[string]types.Quantity)
	jobs := slices.Sorted(maps.Keys(s.Referring()))
	for _, u := range l.admitted(s, l.waiting(s, jobs), &plan) {
		open[u.own] += u.amount
	}
	for _, job := range jobs {
		name := esl.NameOf(job, l.Kind, "")
		pool, want := s.Pool(name), open[name]
		if pool != nil {
			want += usedOf(pool)
		}
		if len(plan.Set) < s.MaxChanges() && !Ended(s.JobTasks(job)) && (pool == nil || pool.Capacity() != want) {
			plan.Set = append(plan.Set, controlplane.Resource{Name: name, Capacity: want, Where: controlplane.InCluster(), Options: esl.OfJob(job)})
		}
	}
	return plan
}

// usedOf returns how much of a pool is in use.
func usedOf(p *cluster.Pool) types.Quantity {
	if p.Allocated.V == nil {
		return 0
	}
	return p.Allocated.V.Of(p.ID)
}

// waiting returns what waits for its turn alone, in the order of the line. A task that waits for
// something else too holds up no other task.
func (l Line) waiting(s *esl.State, jobs []string) []unit {
	var units []unit
	for _, job := range jobs {
		own := esl.NameOf(job, l.Kind, "")
		gangs := make(map[string]bool)
		for _, t := range s.JobTasks(job) {
			if !IsWaiting(t) || !s.View.Visible(t) || HasGrant(s, t) || !Ready(s, t.Info.V, func(name string) bool { return name == own }) {
				continue
			}
			id := DrawnFrom(t, own+"@")
			switch u := (unit{task: t, own: own}); {
			case id == "":
				u.add(s, t.Info.V.Requests, AlternativesOf(s, t, own))
				units = append(units, u)
			case !gangs[id] && Locked(s.Reservation(id)):
				gangs[id] = true
				for _, b := range s.Reservation(id).Info.V.Bundles {
					one := [][]cluster.Need{needs(s, job, b.Requests, b.Devices, own)}
					u.add(s, b.Requests, Alternatives{Open: one, All: one})
				}
				units = append(units, u)
			}
		}
	}
	units = slices.DeleteFunc(units, func(u unit) bool { return u.amount == 0 })
	slices.SortFunc(units, func(a, b unit) int {
		x, y := a.task.Info.V, b.task.Info.V
		return cmp.Or(l.Before(a.task, b.task), cmp.Compare(y.Order(), x.Order()), cmp.Compare(x.Submitted, y.Submitted), cmp.Compare(a.task.ID.ID, b.task.ID.ID))
	})
	return units
}

// add adds requests, which are one bundle of needs.
func (u *unit) add(s *esl.State, requests types.Requests, bundle Alternatives) {
	u.amount += requests.Get(u.own)
	u.bundles = append(u.bundles, bundle)
	for _, x := range s.View.Needs(s.Namespace, requests) {
		if x.ID != types.Resolve(s.Namespace, u.own) && s.View.Pool(x.ID) != nil {
			u.pools = append(u.pools, x)
		}
	}
}

// admitted returns what may begin now. It notes in the plan what comes next, and when to look again.
func (l Line) admitted(s *esl.State, units []unit, plan *esl.Plan) (in []unit) {
	rooms, taken := s.Rooms(), make(map[types.ResourceID]types.Quantity)
	all := rooms
	for _, u := range units[:min(len(units), maxLine)] {
		if next := NextAlternative(s, u.task); !next.IsZero() {
			plan.RequeueAfter = Earliest(plan.RequeueAfter, next)
		}
		switch {
		case !u.everFits(s, all): // it would hold up all others for good
		case u.poolsFree(s, taken) && u.put(rooms):
			for _, x := range u.pools {
				taken[x.ID] = taken[x.ID].Add(x.Amount)
			}
			in = append(in, u)
		default:
			if plan.Idle == "" {
				plan.Idle = fmt.Sprintf("task %s of job %s comes next, and waits until it fits", u.task.ID.ID, u.task.Info.V.Job)
			}
			if !l.Backfill {
				return in
			}
			rooms = slices.DeleteFunc(slices.Clone(rooms), u.mayUse)
			for _, x := range u.pools {
				taken[x.ID] = types.Inf
			}
		}
	}
	return in
}

// mayUse reports whether a bundle would fit in a room if that were empty.
func (u *unit) mayUse(r *esl.Room) bool {
	return slices.ContainsFunc(u.bundles, func(b Alternatives) bool { return b.EverFits(r) })
}

// everFits reports whether each bundle would fit in an empty room, and all in the pools.
func (u *unit) everFits(s *esl.State, rooms []*esl.Room) bool {
	for _, b := range u.bundles {
		if !slices.ContainsFunc(rooms, b.EverFits) {
			return false
		}
	}
	return u.fitsPools(func(p *cluster.Pool) types.Quantity { return p.Capacity() }, s)
}

// poolsFree reports whether the pools have enough left besides what is taken.
func (u *unit) poolsFree(s *esl.State, taken map[types.ResourceID]types.Quantity) bool {
	return u.fitsPools(func(p *cluster.Pool) types.Quantity {
		if taken[p.ID] == types.Inf {
			return -1
		}
		return p.Free().Minus(taken[p.ID])
	}, s)
}

// fitsPools reports whether each pool has as much as all bundles need of it.
func (u *unit) fitsPools(has func(p *cluster.Pool) types.Quantity, s *esl.State) bool {
	sums := Sums([][]cluster.Need{u.pools})
	for id, amount := range sums {
		if has(s.View.Pool(id)) < amount {
			return false
		}
	}
	return true
}

// put takes capacity of the rooms for all bundles, or for none.
func (u *unit) put(rooms []*esl.Room) bool {
	if len(u.bundles) > 1 {
		tried := make([]*esl.Room, len(rooms))
		for i, r := range rooms {
			tried[i] = r.Clone()
		}
		if !u.take(tried) {
			return false
		}
	}
	return u.take(rooms)
}

// take takes capacity of the rooms for the bundles, one after the other, while they fit.
func (u *unit) take(rooms []*esl.Room) bool {
	for _, b := range u.bundles {
		at := slices.IndexFunc(rooms, b.Fits)
		if at < 0 {
			return false
		}
		needs, _ := b.Fit(rooms[at])
		rooms[at].Take(needs)
	}
	return true
}
