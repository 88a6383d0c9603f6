package room

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

// making makes room for waiting units by evicting other tasks: for those of the job of Preempt, or of
// the jobs of a shared policy. It reserves the room first, and evicts when the reservation collects.
type making struct {
	s *esl.State
	// kind is that of the policy, and of which tasks are evicted, for reasons.
	kind, of string
	// within is how long evicted tasks may take to end.
	within time.Duration
	// victims begins a clearing with the tasks that may be evicted for units of a priority. patient
	// reports whether to wait for leaving tasks.
	victims func(priority int, patient bool) *clearing
	// tries returns the memory of failures for a job.
	tries func(job string) *triedInVain
	// spared is when the first task that is spared for a while may be evicted; zero means that none is.
	spared time.Time
}

// atATime is the number of tasks or gangs for which capacity is made at a time.
const atATime = 16

// noScheduler refuses tasks with a scheduler of their own.
func noScheduler(g *esl.Group, kind string) error {
	for i := range g.Tasks {
		if by := g.Tasks[i].Task.Scheduler; by != "" {
			return esl.Invalid("tasks[%d].scheduler: is %q, and room is made for what the scheduler of Escher places: leave it out, or drop the policy %s", i, by, kind)
		}
	}
	return nil
}

// policy returns the id of the shared policy whose end deletes the reservations; "" if they end with a job.
func (m *making) policy() string {
	if m.s.Job != "" {
		return ""
	}
	return m.s.ID
}

// reason says in the status of an evicted task for what it was evicted.
func (m *making) reason(r *cluster.Reservation) string {
	if m.s.Job == "" {
		return evictedFor + m.kind + " " + m.s.ID
	}
	return fmt.Sprintf("%sjob %s, of priority %d", evictedFor, taskset.JobName(m.s), r.Info.V.Priority)
}

// patient reports whether to wait for leaving tasks at a moment. It does so until a unit has waited
// for longer than the policy gives evicted tasks, because other leaving tasks may take any time.
func (m *making) patient(all []taskset.Wish, at time.Time) bool {
	return !slices.ContainsFunc(all, func(w taskset.Wish) bool { return !at.Before(w.Since.Add(m.within)) })
}

// nextTry returns when to try again for units, the first of which has waited longest.
func nextTry(now time.Time, long []taskset.Wish) time.Time {
	return now.Add(min(max(now.Sub(long[0].Since)/8, time.Second), 15*time.Second))
}

// byWait sorts waiting units, and returns those that have waited for after; again is when the next one
// will have.
func byWait(all []taskset.Wish, now time.Time, after time.Duration) (long []taskset.Wish, again time.Time) {
	slices.SortStableFunc(all, func(a, b taskset.Wish) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Since.Compare(b.Since), strings.Compare(a.ID, b.ID))
	})
	for _, w := range all {
		if due := w.Since.Add(after); now.Before(due) {
			again = taskset.Earliest(again, due)
		} else {
			long = append(long, w)
		}
	}
	return long, again
}

// begin reserves capacity for the first waiting units, of one priority, that fit only after
// evictions. fits reports whether a unit fits already, or once leaving tasks have ended. Each unit
// has its own reservation and its own victims.
func (m *making) begin(all []taskset.Wish, free []string) (plan esl.Plan, fits bool) {
	s, c := m.s, m.victims(all[0].Priority, m.patient(all, m.s.Now))
	m.spared = c.spared
	c.begun()
	hopeless := make(map[string]bool)
	for _, w := range all {
		n := len(plan.Reserve)
		if n == len(free) || n > 0 && w.Priority != plan.Reserve[0].Priority {
			break
		}
		before := c.copy()
		bundles, ok := c.anyWay(w, hopeless)
		switch {
		case !ok:
			continue
		case len(c.evicted) <= len(before.evicted):
			fits = true
			continue
		case !canHandOver(s, bundles):
			c.back(before)
			continue
		}
		plan.Reserve = append(plan.Reserve, controlplane.Reservation{ID: free[n], Reservation: types.Reservation{
			Collect: types.NewCollect(bundles, true), Job: w.Job, Policy: m.policy(), Bundles: bundles, Priority: w.Priority, Session: w.Session,
		}})
	}
	if len(plan.Reserve) > 0 {
		plan.Reason = "evict " + words.Count(tasksOf(c.evicted), "task") + m.of
	}
	return plan, fits
}

// anyWay makes capacity for the first possible alternative of a wish, and returns its bundles with
// their nodes. It records impossible alternatives in hopeless.
func (c *clearing) anyWay(w taskset.Wish, hopeless map[string]bool) (bundles []types.Bundle, ok bool) {
	who := asker{c.s.Namespace, w.Job, w.Priority}
	for _, way := range w.Ways {
		like := c.like(who, way)
		if hopeless[like] {
			continue
		}
		before := c.copy()
		if bundles, ok = c.clear(who, way); ok {
			return bundles, true
		}
		c.back(before)
		hopeless[like] = true
	}
	return nil, false
}

// canHandOver reports whether the store accepts the transaction that hands over bundles: the
// scheduler collects nothing that it could not hand over.
func canHandOver(s *esl.State, bundles []types.Bundle) bool {
	nodes, keys := make(map[string]bool, len(bundles)), map[string]bool{controlplane.NamespaceKey(s.Namespace): true}
	for _, b := range bundles {
		nodes[b.Node] = true
		n := s.View.Nodes[b.Node]
		for _, x := range s.View.BundleNeeds(s.Namespace, b.Requests) {
			if s.View.Pool(x.ID) != nil {
				keys[string(x.ID)] = true
				continue
			}
			s.View.Relied(n, x.ID, func(key string, _ int64) { keys[key] = true })
			if esl.NewRoom(s.View, n).MadeOfDevices(x.ID) {
				keys[controlplane.DevicesKey(b.Node)] = true
			}
		}
	}
	return s.Ops == 0 || controlplane.HandOverCompares(len(nodes), len(keys)) <= s.Ops
}

// goOn evicts the remaining victims, and removes reservations no longer needed or possible.
func (m *making) goOn(rooms []*cluster.Reservation, waiting []taskset.Wish) esl.Plan {
	s, since := m.s, time.Unix(0, rooms[0].Info.V.Submitted)
	plan := esl.Plan{RequeueAfter: since.Add(m.within)}
	over := func(r *cluster.Reservation, reason string) {
		plan.Unreserve, plan.Reason = append(plan.Unreserve, r.ID.ID), reason
	}
	wanted := wantedRooms(s, waiting)
	var rest []*cluster.Reservation
	for _, r := range rooms {
		switch {
		case r.Grant.V != nil && !r.Current(): // the former grant is being released
			plan.RequeueAfter = s.Now.Add(time.Second)
		case r.Grant.V != nil && r.Grant.V.Phase == types.HandedOver:
			over(r, "what waited has got it")
		case !wanted(r):
			over(r, "no task waits for it any more")
		case taskset.Granted(r):
			over(r, "all of it is there, and is for who comes first")
		case !s.Now.Before(time.Unix(0, r.Info.V.Submitted).Add(m.within)):
			over(r, "it took too long")
			m.tries(r.Info.V.Job).failed(s, r)
		default:
			rest = append(rest, r)
		}
	}
	if len(plan.Unreserve) > 0 || len(rest) == 0 {
		return plan // the next call decides on the rest
	}
	c, reason := m.victims(rest[0].Info.V.Priority, m.patient(waiting, since)), m.reason(rest[0])
	begun, evicted := c.begun(), c.left[reason]
	for _, r := range rest {
		switch is := begun[r]; {
		case !is.fits:
			over(r, "the room is not to be had any more")
		case r.Grant.V == nil: // nothing is collected yet
		case len(is.victims) > 0 || awaitsLeaving(s, r):
			evicted = append(slices.Clip(evicted), is.victims...)
		case m.tries(r.Info.V.Job).idle(s, r):
			over(r, "all have ended, and it does not do")
			m.tries(r.Info.V.Job).failed(s, r)
		default:
			plan.RequeueAfter = taskset.Earliest(plan.RequeueAfter, s.Now.Add(vainIdle))
		}
	}
	if len(plan.Unreserve) > 0 || len(evicted) == 0 {
		return plan
	}
	again := plan.RequeueAfter
	plan = evictAll(evicted, reason)
	plan.RequeueAfter = again
	return plan
}

// wantedRooms returns a function that reports whether a waiting unit requests the bundles of a
// reservation. Each unit counts once.
func wantedRooms(s *esl.State, waiting []taskset.Wish) func(r *cluster.Reservation) bool {
	wants := make([][]string, len(waiting))
	for i, w := range waiting {
		wants[i] = wishTexts(s, w)
	}
	return func(r *cluster.Reservation) bool {
		asks := roomText(s, r)
		at := slices.IndexFunc(wants, func(ways []string) bool { return slices.Contains(ways, asks) })
		if at >= 0 {
			wants = slices.Delete(wants, at, at+1)
		}
		return at >= 0
	}
}

// wishTexts returns a text for each alternative of a unit, and roomText the same one for a reservation that
// makes room for it.
func wishTexts(s *esl.State, w taskset.Wish) (texts []string) {
	for _, way := range w.Ways {
		texts = append(texts, w.Job+" "+taskset.BundlesText(s, way))
	}
	return texts
}

func roomText(s *esl.State, r *cluster.Reservation) string {
	return r.Info.V.Job + " " + taskset.BundlesText(s, r.Info.V.Bundles)
}

// ending says which tasks leave the nodes of reservations, and how long capacity has been made.
func (m *making) ending(rooms []*cluster.Reservation) why.Reason {
	s := m.s
	on, ends := make(map[string]bool), make(map[string]bool)
	for _, r := range rooms {
		for _, b := range r.Info.V.Bundles {
			on[b.Node] = true
		}
	}
	for name := range on {
		for _, t := range leaving(s.View.Nodes[name]) {
			if t.ID.Namespace == s.Namespace {
				ends[t.ID.ID] = true
			}
		}
	}
	who := taskset.SortedKeys(ends)
	made := strings.Join(taskset.SortedKeys(on), ", ")
	if len(who) == 0 {
		return why.Say(why.Room, "%s: room is made for it on %s", m.kind, made)
	}
	more := ""
	if n := len(who) - 5; n > 0 {
		who, more = who[:5], fmt.Sprintf(" and %d more", n)
	}
	return why.Say(why.Room, "%s: room is made for it on %s, for %s so far, by ending %s%s",
		m.kind, made, s.Now.Sub(time.Unix(0, rooms[0].Info.V.Submitted)).Round(time.Second), strings.Join(who, ", "), more)
}
