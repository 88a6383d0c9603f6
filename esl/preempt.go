package esl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// Preempt has tasks of lower priority make room for those of the job: no more of them than
// it takes, and none if the job, or that task of it, would not fit then either. Who is
// evicted has the grace of its spec, and waits for its next attempt: that is no failure.
//
// Before anybody is evicted a reservation collects at once on the nodes that were chosen,
// so that what becomes free goes to the job and to nobody else, all of it in the
// transaction that places it. The choice is made again from that each time, so that who
// takes over goes on, and nobody more is evicted once there is room.
type Preempt struct {
	// After is how long a task, or gang, waits before others are evicted for it; 0 is 1 s.
	After manifest.Duration `json:"after,omitempty" desc:"how long a task, or gang, waits before others are evicted for it; 1s if it is left out"`
	// Spare is how long who was evicted runs again before it may be evicted once more; 0 is
	// a minute.
	Spare manifest.Duration `json:"spare,omitempty" desc:"how long a task that was evicted runs before it is evicted for this job once more; 1m if it is left out"`
	// Within is how long those that were evicted may take to end; 0 is ten minutes.
	Within manifest.Duration `json:"within,omitempty" desc:"how long is waited for those that are evicted to end, before what has become free is given up; 10m if it is left out"`
}

// Kind is preempt.
func (Preempt) Kind() string { return "preempt" }

// Validate checks the times.
func (p Preempt) Validate() error {
	if p.After < 0 || p.Spare < 0 || p.Within < 0 {
		return invalid("after, spare, within: %s, %s and %s: one is negative: leave it out", time.Duration(p.After), time.Duration(p.Spare), time.Duration(p.Within))
	}
	return nil
}

// Apply changes nothing of the tasks: what they ask for is what room is made for. It refuses
// those with a scheduler of their own, as nobody hands the room over to them.
func (p Preempt) Apply(g *Group) error {
	_ = g.Own("") // which says if it is too long
	g.evicts()
	for i := range g.Tasks {
		if by := g.Tasks[i].Task.Scheduler; by != "" {
			return invalid("tasks[%d].scheduler: is %q, and room is made for what the scheduler of Escher places: leave it out, or drop the policy preempt", i, by)
		}
	}
	return p.Validate()
}

func (p Preempt) after() time.Duration  { return cmp.Or(time.Duration(p.After), time.Second) }
func (p Preempt) spare() time.Duration  { return cmp.Or(time.Duration(p.Spare), time.Minute) }
func (p Preempt) within() time.Duration { return cmp.Or(time.Duration(p.Within), 10*time.Minute) }

// Wide tells that it goes by what is on the nodes.
func (Preempt) Wide() {}

// Pace is how often it looks at most, as it looks at all nodes.
func (Preempt) Pace() time.Duration { return 250 * time.Millisecond }

// Stay keeps the tasks of a job from being evicted for others of the namespace.
type Stay struct{}

// Kind is stay.
func (Stay) Kind() string { return "stay" }

// Apply changes nothing: what the job is named by is enough.
func (Stay) Apply(*Group) error { return nil }

// Next begins to make room, goes on with that, and gives up what is not needed any more.
func (p Preempt) Next(s *State) Plan {
	r := s.Reservation(s.Own(""))
	all, again := p.wanting(s)
	tries := remembered(s, func() *triedInVain { return new(triedInVain) })
	switch {
	case locked(r):
		tries.note(s, r)
		return p.goOn(s, r, all, !again.IsZero())
	case r != nil && r.Grant.V != nil: // the one before is being given back
		return Plan{Again: s.Now.Add(time.Second)}
	case len(all) == 0:
		return Plan{Again: again}
	case s.Now.Before(tries.until):
		return Plan{Again: tries.until}
	}
	plan, _ := p.begin(s, all)
	plan.Again = s.Now.Add(min(max(s.Now.Sub(all[0].since)/8, time.Second), 15*time.Second))
	return plan
}

// atATime is for how many tasks room is made at a time: they get it together.
const atATime = 16

// begin reserves the room that is to be made for the first of those that wait for which it
// can be, of one priority, if some has to be made; fits tells that somebody fits already, or
// when those have ended that leave anyway.
func (p Preempt) begin(s *State, all []wish) (plan Plan, fits bool) {
	c := newClearing(s, all[0].priority, p.spare(), p.patient(all, s.Now))
	c.others(s.Own(""))
	made := types.Reservation{Accumulate: true, AtOnce: true, Job: s.Job}
	hopeless := make(map[string]bool)
	for _, w := range all {
		if begun := len(made.Bundles); begun > 0 && w.priority != made.Priority || begun >= atATime {
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
		case !s.handsOver(append(slices.Clip(made.Bundles), bundles...)):
			c.back(before)
			continue
		}
		made.Bundles, made.Priority, made.Session = append(made.Bundles, bundles...), w.priority, w.session
	}
	if len(made.Bundles) == 0 {
		return Plan{}, fits
	}
	return Plan{
		Reserve: []Reservation{{ID: s.Own(""), Reservation: made}},
		Reason:  fmt.Sprintf("%d tasks of lower priority are to make room", tasksOf(c.evicted)),
	}, fits
}

// anyWay makes room for a wish in the first of its ways that it can be made for, and returns
// the bundles with their nodes. Those that it cannot be made for are noted as hopeless.
func (c *clearing) anyWay(w wish, hopeless map[string]bool) (bundles []types.Bundle, ok bool) {
	for _, way := range w.ways {
		like := c.s.like(way)
		if hopeless[like] {
			continue
		}
		before := c.copy()
		if bundles, ok = c.clear(way, w.priority, c.s.Namespace); ok {
			return bundles, true
		}
		c.back(before)
		hopeless[like] = true
	}
	return nil, false
}

// handOverCost is how many compares a node takes in the transaction that hands room over,
// and handOverBase how many there are besides: the scheduler collects nothing that it could
// not hand over.
const (
	handOverCost = 4
	handOverBase = 16
)

// handsOver reports whether the store takes the transaction that hands over bundles.
func (s *State) handsOver(bundles []types.Bundle) bool {
	nodes := make(map[string]bool, len(bundles))
	for _, b := range bundles {
		nodes[b.Node] = true
	}
	return s.ops == 0 || handOverBase+handOverCost*len(nodes) <= s.ops
}

// like is the same for bundles that ask for the same.
func (s *State) like(bundles []types.Bundle) string {
	var b strings.Builder
	for _, x := range bundles {
		b.WriteString(x.Node + ":" + signature(s.View.Needs(s.Namespace, x.Requests, x.Devices...)) + ";")
	}
	return b.String()
}

// goOn evicts who still has to make room, and gives the room up when it is not needed, or
// not to be had, any more.
func (p Preempt) goOn(s *State, r *cluster.Reservation, all []wish, others bool) Plan {
	due := time.Unix(0, r.Info.V.Submitted).Add(p.within())
	over := func(reason string) Plan { return Plan{Unreserve: []string{s.Own("")}, Reason: reason} }
	switch {
	case r.Grant.V != nil && !r.Current():
		return Plan{Again: s.Now.Add(time.Second)} // the one before is being given back
	case r.Grant.V != nil && r.Grant.V.Phase == types.HandedOver:
		return over("what waited has got it")
	case len(all) == 0 && !others:
		return over("nobody waits for it any more")
	case granted(r):
		return over("all of it is there, and is for who comes first")
	case !s.Now.Before(due):
		return over("it took too long")
	}
	c := newClearing(s, r.Info.V.Priority, p.spare(), p.patient(all, time.Unix(0, r.Info.V.Submitted)))
	evicted, ok := c.others(s.Own(""))
	reason := fmt.Sprintf("%s%s, of priority %d", evictedFor, s.jobName(), r.Info.V.Priority)
	evicted = slices.Concat(c.left[reason], evicted)
	switch {
	case !ok:
		return over("the room is not to be had any more")
	case len(evicted) == 0, r.Grant.V == nil: // nothing is collected yet
		return Plan{Again: due}
	}
	plan := evictAll(evicted, reason)
	plan.Again = due
	return plan
}

// evictAll evicts units, as many as go into one transaction, and gives up what was locked
// for them: else nothing of it would be free.
func evictAll(evicted []*victim, reason string) Plan {
	plan := Plan{Reason: reason}
	for _, u := range evicted {
		if len(plan.Evict) >= atOnce {
			break
		}
		if u.reservation != "" {
			plan.Unreserve = append(plan.Unreserve, u.reservation)
		}
		for _, t := range u.tasks[:min(len(u.tasks), atOnce-len(plan.Evict))] {
			plan.Evict = append(plan.Evict, Evict{Task: t.ID.ID, Attempt: t.Status.V.Attempt, Reason: reason})
		}
	}
	return plan
}

// jobName is what people know the job by.
func (s *State) jobName() string {
	if j := s.View.Jobs[cluster.ID{Namespace: s.Namespace, ID: s.Job}]; j != nil && j.V.Name != "" {
		return "job " + j.V.Name
	}
	return "job " + s.Job
}

// Why says who makes room for a task, or why nobody does.
func (p Preempt) Why(s *State, task string) string {
	if _, ok := s.waits(task); !ok {
		return ""
	}
	if r := s.Reservation(s.Own("")); locked(r) {
		return p.making(s, r)
	}
	all, again := p.wanting(s)
	switch {
	case len(all) == 0 && again.IsZero():
		return ""
	case len(all) == 0:
		return fmt.Sprintf("preempt: in %s tasks of lower priority are evicted for it, if it fits then", again.Sub(s.Now).Round(time.Second))
	}
	switch plan, fits := p.begin(s, all); {
	case len(plan.Reserve) > 0:
		return "preempt: tasks of lower priority are about to be evicted for it"
	case fits:
		return "preempt: nobody is evicted for it, as it fits when those have ended that leave anyway"
	}
	return "preempt: it would not fit even if all tasks of lower priority were gone that may be evicted for it"
}

// making says who leaves the nodes that room is made on, and since when.
func (p Preempt) making(s *State, r *cluster.Reservation) string {
	on := make(map[string]bool)
	for _, b := range r.Info.V.Bundles {
		on[b.Node] = true
	}
	var who []string
	for t := range s.View.Tasks() {
		if t.ID.Namespace == s.Namespace && t.Info.V != nil && t.Phase().Held() && leaves(t) && on[t.Status.V.Node] {
			who = append(who, t.ID.ID)
		}
	}
	slices.Sort(who)
	made := strings.Join(sortedKeys(on), ", ")
	if len(who) == 0 {
		return fmt.Sprintf("preempt: room is made for it on %s", made)
	}
	more := ""
	if n := len(who) - 5; n > 0 {
		who, more = who[:5], fmt.Sprintf(" and %d others", n)
	}
	return fmt.Sprintf("preempt: room is made for it on %s: %s%s are to end there, for %s so far",
		made, strings.Join(who, ", "), more, s.Now.Sub(time.Unix(0, r.Info.V.Submitted)).Round(time.Second))
}
