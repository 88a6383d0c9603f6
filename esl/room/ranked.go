package room

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
)

// Jobs in an order: what waits of the first ones has its room made by the end of later ones.

// mostConsidered is for how many jobs of the first queue evictions are considered at a time.
const mostConsidered = 256

// wait lists what waits of the second queue, of what may have been there, and of those jobs of the first
// queue that come first, or for which room is being made.
func (c *census) wait() {
	var first []*service
	of := make(map[string]bool)
	for _, x := range c.jobs {
		switch {
		case !x.waits:
		case x.second || x.known:
			of[x.job] = true
		default:
			first = append(first, x)
		}
	}
	slices.SortFunc(first, func(a, b *service) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.submitted, b.submitted), strings.Compare(a.job, b.job))
	})
	for _, x := range first[:min(len(first), mostConsidered)] {
		of[x.job] = true
	}
	for _, r := range c.rooms {
		if c.byID[r.Info.V.Job] != nil {
			of[r.Info.V.Job] = true
		}
	}
	c.waits = taskset.WaitingReservationsOf(c.s, func(job string) bool { return of[job] })
	for _, job := range taskset.SortedKeys(of) {
		one := *c.s
		one.Job = job
		c.waits = append(c.waits, taskset.WaitingTasks(&one)...)
	}
}

// inOrder sorts what waits by priority, and by the order of the jobs, and notes which jobs have waited for
// so long; again is when the next one will have.
func (c *census) inOrder(older time.Duration) (again time.Time) {
	slices.SortStableFunc(c.waits, func(a, b taskset.Wish) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(c.byID[a.Job].rank, c.byID[b.Job].rank))
	})
	for _, w := range c.waits {
		if due := w.Since.Add(older); c.s.Now.Before(due) {
			again = taskset.Earliest(again, due)
		} else {
			c.byID[w.Job].long = true
		}
	}
	return again
}

// reordered returns the plan that puts what waits of the second queue behind the first.
func (c *census) reordered() esl.Plan {
	plan := esl.Plan{Reason: "jobs are in another queue"}
	for _, w := range c.waits {
		if by := -taskset.BoolInt(c.byID[w.Job].second); by != w.Raised && len(plan.Raise) < taskset.AtOnce {
			plan.Raise = append(plan.Raise, esl.Raise{ID: w.ID, Reservation: w.Reservation, By: by})
		}
	}
	return plan
}

// makeRoom evicts tasks of jobs that come after what has waited for long: for jobs of the first queue after a
// time, and for older ones of a queue after another. It spares those that were evicted before for a while.
func (c *census) makeRoom(after, older, spare time.Duration) (plan esl.Plan) {
	again := c.inOrder(older)
	m, waits := c.making(spare), c.waits
	for _, r := range c.rooms {
		m.tries(r.Info.V.Job).note(c.s, r)
	}
	if len(c.rooms) > 0 {
		if plan = m.goOn(c.rooms, slices.Clone(waits)); !plan.Nothing() {
			return plan
		}
		waits = without(c.s, slices.Clone(waits), c.rooms)
	}
	if !c.victims() {
		return plan
	}
	var long []taskset.Wish
	for _, w := range waits[:min(len(waits), mostConsidered)] {
		x, due := c.byID[w.Job], w.Since.Add(after)
		switch {
		case c.s.Now.Before(due):
			again = taskset.Earliest(again, due)
		case x.second && !x.long || c.s.Now.Before(m.tries(w.Job).until):
		default:
			long = append(long, w)
		}
	}
	if len(long) > 0 && len(c.free) > 0 {
		more, _ := m.begin(long, c.free)
		more.RequeueAfter, plan = plan.RequeueAfter, more
		again = taskset.Earliest(again, nextTry(c.s.Now, long))
	}
	if !again.IsZero() {
		plan.RequeueAfter = taskset.Earliest(plan.RequeueAfter, again)
	}
	return plan
}

// victims reports whether a task holds something.
func (c *census) victims() bool {
	return slices.ContainsFunc(c.jobs, func(x *service) bool { return x.rate > 0 })
}

// making returns the engine that evicts tasks of jobs that come after: of the second queue for the first
// and, for a job that has waited for long, younger ones of its own queue. It spares those that were evicted
// before and have run for less than spare since.
func (c *census) making(spare time.Duration) *making {
	tries := esl.Remember(c.s, func() map[string]*triedInVain { return make(map[string]*triedInVain) })
	maps.DeleteFunc(tries, func(job string, _ *triedInVain) bool { return c.byID[job] == nil })
	all := make(map[string]bool, len(c.jobs))
	for _, x := range c.jobs {
		all[x.job] = true
	}
	return &making{s: c.s, kind: c.s.Label, of: " that come after", within: 10 * time.Minute,
		victims: func(_ int, patient bool) *clearing {
			rank := func(job string) int {
				switch x := c.byID[job]; {
				case x == nil || !x.second && !x.long:
					return c.first
				case !x.long:
					return len(c.jobs)
				default:
					return x.rank
				}
			}
			yields := clearingOf(c.s, func(u *victim, who asker) bool {
				if len(u.tasks) == 0 {
					return u.ns == who.ns && (u.priority < who.priority || u.job == who.job)
				}
				return u.ns == who.ns && u.priority <= who.priority && u.rank > rank(who.job)
			})
			yields.rank, yields.order = rank, func(job string) int { return c.byID[job].rank }
			yields.below, yields.spare, yields.patient, yields.only = math.MaxInt, spare, patient, all
			yields.fill()
			return yields
		},
		tries: func(job string) *triedInVain {
			if tries[job] == nil {
				tries[job] = new(triedInVain)
			}
			return tries[job]
		},
	}
}

// without returns the units for which no reservation makes room.
func without(s *esl.State, units []taskset.Wish, rooms []*cluster.Reservation) []taskset.Wish {
	made := make(map[string]int)
	for _, r := range rooms {
		made[roomText(s, r)]++
	}
	return slices.DeleteFunc(units, func(w taskset.Wish) bool {
		for _, asks := range wishTexts(s, w) {
			if made[asks] > 0 {
				made[asks]--
				return true
			}
		}
		return false
	})
}
