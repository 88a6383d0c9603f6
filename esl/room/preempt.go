package room

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

// Preempt evicts tasks of lower priority for tasks of the job: no more than necessary, and none if
// the waiting task or gang would not fit even then. Evicted tasks have the grace of their spec, and
// wait for their next attempt: that is no failure.
//
// Before the first eviction, a reservation collects for the job on the chosen nodes. So the freed
// capacity goes to the job alone, all of it in the transaction that places the tasks. Each call
// chooses victims again from that reservation: a new process continues, and evictions stop once
// there is enough capacity.
type Preempt struct {
	// After is how long a task, or gang, waits before others are evicted for it; 0 means 1 s.
	After manifest.Wait `json:"after,omitempty" desc:"how long a task, or gang, waits before others are evicted for it; 1s if it is left out, at once if it is 0s"`
	// Spare is how long an evicted task runs before this job may evict it again; 0 means 1 min.
	Spare manifest.Wait `json:"spare,omitempty" desc:"how long a task that was evicted runs before it is evicted for this job once more; 1m if it is left out, no time if it is 0s"`
	// Within is how long evicted tasks may take to end; 0 means 10 min.
	Within manifest.Duration `json:"within,omitempty" desc:"how long it waits for evicted tasks to end before it gives up the freed capacity; 10m if it is left out" zero:"leaves no time to end: give a longer time, or leave it out for 10m"`
}

// Kind returns preempt.
func (Preempt) Kind() string { return "preempt" }

// Describe says what the policy does, and its flags.
func (Preempt) Describe() esl.Description {
	return esl.Description{Does: "tasks of lower priority are evicted for it, if it fits then", Frees: "evicts tasks of lower priority for it", Flags: []esl.Flag{{
		Name: "preempt", Usage: "evict tasks of lower --priority in the namespace if that makes room; they run again later",
	}}}
}

// Validate checks the parameters.
func (p Preempt) Validate() error {
	if p.Within < 0 {
		return esl.Invalid("within: %s is negative: give a time, or leave it out for 10m", time.Duration(p.Within))
	}
	return nil
}

// Apply leaves the tasks unchanged: capacity is made for their requests. It refuses tasks with a
// scheduler of their own: such a scheduler does not hand over capacity.
func (p Preempt) Apply(g *esl.Group) error {
	_ = g.Own(strconv.Itoa(atATime - 1)) // reports a job id that is too long
	g.Evicts()
	for i := range g.Tasks {
		if by := g.Tasks[i].Task.Scheduler; by != "" {
			return esl.Invalid("tasks[%d].scheduler: is %q, and room is made for what the scheduler of Escher places: leave it out, or drop the policy preempt", i, by)
		}
	}
	return p.Validate()
}

func (p Preempt) after() time.Duration { return p.After.Or(time.Second) }

func (p Preempt) spare() time.Duration { return p.Spare.Or(time.Minute) }

func (p Preempt) within() time.Duration { return cmp.Or(time.Duration(p.Within), 10*time.Minute) }

// ClusterScoped is set: the victims are tasks of other jobs.
func (Preempt) ClusterScoped() {}

// Pace bounds how often Next is called, as it reads all nodes.
func (Preempt) Pace() time.Duration { return 250 * time.Millisecond }

// Next reserves capacity for waiting units, evicts tasks for it, and removes reservations that are
// no longer needed.
func (p Preempt) Next(s *esl.State) esl.Plan {
	rooms, free := p.rooms(s)
	waiting, long, again := p.wanting(s)
	tries := esl.Remember(s, func() *triedInVain { return new(triedInVain) })
	for _, r := range rooms {
		tries.note(s, r)
	}
	switch {
	case len(rooms) > 0:
		return p.goOn(s, rooms, waiting, tries)
	case len(free) == 0: // earlier reservations are being released
		return esl.Plan{RequeueAfter: s.Now.Add(time.Second)}
	case len(long) == 0:
		return esl.Plan{RequeueAfter: again}
	case s.Now.Before(tries.until):
		return esl.Plan{RequeueAfter: tries.until}
	}
	plan, _ := p.begin(s, long, free)
	plan.RequeueAfter = s.Now.Add(min(max(s.Now.Sub(long[0].Since)/8, time.Second), 15*time.Second))
	return plan
}

// atATime is the number of tasks or gangs for which capacity is made at a time.
const atATime = 16

// rooms returns the reservations that make capacity for the job, and the free ids for more of them.
// Older versions used only the id without a number.
func (p Preempt) rooms(s *esl.State) (rooms []*cluster.Reservation, free []string) {
	if r := s.Reservation(s.Own("")); taskset.Locked(r) {
		rooms = append(rooms, r)
	}
	numbered, free := taskset.Numbered(s, atATime)
	return append(rooms, numbered...), free
}

// begin reserves capacity for the first waiting units, of one priority, that fit only after
// evictions. fits reports whether a unit fits already, or once leaving tasks have ended. Each unit
// has its own reservation and its own victims.
func (p Preempt) begin(s *esl.State, all []taskset.Wish, free []string) (plan esl.Plan, fits bool) {
	c := newClearing(s, all[0].Priority, p.spare(), p.patient(all, s.Now))
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
			Collect: types.NewCollect(bundles, true), Job: s.Job, Bundles: bundles, Priority: w.Priority, Session: w.Session,
		}})
	}
	if len(plan.Reserve) > 0 {
		plan.Reason = "evict " + words.Count(tasksOf(c.evicted), "task") + " of lower priority"
	}
	return plan, fits
}

// anyWay makes capacity for the first possible alternative of a wish, and returns its bundles with
// their nodes. It records impossible alternatives in hopeless.
func (c *clearing) anyWay(w taskset.Wish, hopeless map[string]bool) (bundles []types.Bundle, ok bool) {
	who := asker{c.s.Namespace, c.s.Job, w.Priority}
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
func (p Preempt) goOn(s *esl.State, rooms []*cluster.Reservation, waiting []taskset.Wish, tries *triedInVain) esl.Plan {
	since := time.Unix(0, rooms[0].Info.V.Submitted)
	plan := esl.Plan{RequeueAfter: since.Add(p.within())}
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
		case !s.Now.Before(time.Unix(0, r.Info.V.Submitted).Add(p.within())):
			over(r, "it took too long")
			tries.failed(s, r)
		default:
			rest = append(rest, r)
		}
	}
	if len(plan.Unreserve) > 0 || len(rest) == 0 {
		return plan // the next call decides on the rest
	}
	c := newClearing(s, rest[0].Info.V.Priority, p.spare(), p.patient(waiting, since))
	reason := fmt.Sprintf("%sjob %s, of priority %d", evictedFor, taskset.JobName(s), rest[0].Info.V.Priority)
	begun, evicted := c.begun(), c.left[reason]
	for _, r := range rest {
		switch is := begun[r]; {
		case !is.fits:
			over(r, "the room is not to be had any more")
		case r.Grant.V == nil: // nothing is collected yet
		case len(is.victims) > 0 || awaitsLeaving(s, r):
			evicted = append(slices.Clip(evicted), is.victims...)
		case tries.idle(s, r):
			over(r, "all have ended, and it does not do")
			tries.failed(s, r)
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
		for _, way := range w.Ways {
			wants[i] = append(wants[i], taskset.BundlesText(s, way))
		}
	}
	return func(r *cluster.Reservation) bool {
		asks := taskset.BundlesText(s, r.Info.V.Bundles)
		at := slices.IndexFunc(wants, func(ways []string) bool { return slices.Contains(ways, asks) })
		if at >= 0 {
			wants = slices.Delete(wants, at, at+1)
		}
		return at >= 0
	}
}

// Why says which tasks are evicted for a task, or why none is.
func (p Preempt) Why(s *esl.State, task string) why.Reason {
	if _, ok := taskset.Waits(s, task); !ok {
		return why.Reason{}
	}
	rooms, free := p.rooms(s)
	if len(rooms) > 0 {
		return p.ending(s, rooms)
	}
	_, long, again := p.wanting(s)
	switch {
	case len(long) == 0 && again.IsZero():
		return why.Reason{}
	case len(long) == 0:
		return why.Say(why.Room, "preempt: in %s it evicts tasks of lower priority, if that makes room enough", again.Sub(s.Now).Round(time.Second))
	}
	switch plan, fits := p.begin(s, long, free); {
	case len(plan.Reserve) > 0:
		return why.Say(why.Room, "preempt: tasks of lower priority are about to be evicted for it")
	case fits:
		return why.Say(why.Room, "preempt: no task is evicted for it: it fits when the tasks that are leaving have ended")
	}
	return why.Say(why.Room, "preempt: it would not fit even if all tasks of lower priority were gone that may be evicted for it")
}

// ending says which tasks leave the nodes of reservations, and how long capacity has been made.
func (p Preempt) ending(s *esl.State, rooms []*cluster.Reservation) why.Reason {
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
		return why.Say(why.Room, "preempt: room is made for it on %s", made)
	}
	more := ""
	if n := len(who) - 5; n > 0 {
		who, more = who[:5], fmt.Sprintf(" and %d more", n)
	}
	return why.Say(why.Room, "preempt: room is made for it on %s, for %s so far, by ending %s%s",
		made, s.Now.Sub(time.Unix(0, rooms[0].Info.V.Submitted)).Round(time.Second), strings.Join(who, ", "), more)
}
