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

// Apply changes nothing of the tasks: what they ask for is what room is made for.
func (p Preempt) Apply(g *Group) error {
	_ = g.Own("") // which says if it is too long
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
	switch {
	case locked(r):
		return p.goOn(s, r, len(all) > 0 || !again.IsZero())
	case r != nil && r.Grant.V != nil: // the one before is being given back
		return Plan{Again: s.Now.Add(time.Second)}
	case len(all) == 0:
		return Plan{Again: again}
	}
	plan := p.begin(s, all)
	plan.Again = s.Now.Add(min(max(s.Now.Sub(all[0].since)/8, time.Second), 15*time.Second))
	return plan
}

// wish is what waits for room as a whole: a reservation of the job, or a task that draws on
// none.
type wish struct {
	id       string
	priority int
	since    time.Time
	session  string
	// ways are the bundles that it may be had as, the preferred ones first.
	ways [][]types.Bundle
}

// wanting returns what has waited long enough, the first first; again is when something
// else will have.
func (p Preempt) wanting(s *State) (long []wish, again time.Time) {
	for _, w := range slices.Concat(s.reservationsWaiting(), s.tasksWaiting()) {
		if due := w.since.Add(p.after()); s.Now.Before(due) {
			again = earliest(again, due)
		} else {
			long = append(long, w)
		}
	}
	slices.SortStableFunc(long, func(a, b wish) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), a.since.Compare(b.since), strings.Compare(a.id, b.id))
	})
	return long, again
}

// reservationsWaiting returns those of the job that wait for their place, and do not hold
// a part of it.
func (s *State) reservationsWaiting() []wish {
	var out []wish
	for id, r := range s.View.Reservations {
		if id.Namespace != s.Namespace || r.Info.V == nil || r.Info.V.Job != s.Job || r.Info.V.AtOnce || r.Grant.V != nil {
			continue
		}
		out = append(out, wish{
			id: id.ID, priority: r.Info.V.Priority, since: time.Unix(0, r.Info.V.Submitted), session: r.Info.V.Session,
			ways: [][]types.Bundle{r.Info.V.Bundles},
		})
	}
	return out
}

// tasksWaiting returns the tasks of the job that wait, and draw on no reservation.
func (s *State) tasksWaiting() []wish {
	var out []wish
	for _, t := range s.Members() {
		if t.Info.V == nil || t.Phase() != types.Pending || t.Info.V.Stop != nil || !s.View.Visible(t) {
			continue
		}
		since := t.Info.V.Submitted
		if t.Status.V != nil {
			since = max(since, t.Status.V.Ended, t.Status.V.Retry)
		}
		if ways := s.waysOf(t); len(ways) > 0 {
			out = append(out, wish{id: t.ID.ID, priority: t.Info.V.Priority, since: time.Unix(0, since), session: t.Info.V.Session, ways: ways})
		}
	}
	return out
}

// waysOf returns how a task may be had by now, but for what is drawn from reservations.
func (s *State) waysOf(t *cluster.Task) (ways [][]types.Bundle) {
	all := t.Info.V.Alternatives
	if len(all) == 0 {
		all = []types.Alternative{{}}
	}
	for _, way := range all {
		asked := t.Info.V.Requests.Plus(way.Requests)
		drawn := slices.ContainsFunc(asked, func(x types.Request) bool { return strings.Contains(x.Name, "@") })
		if !drawn && len(asked) > 0 && !s.Now.Before(time.Unix(0, t.Info.V.Submitted).Add(way.After)) {
			ways = append(ways, []types.Bundle{{Requests: asked, Devices: t.Info.V.Devices}})
		}
	}
	return ways
}

// atATime is for how many tasks room is made at a time.
const atATime = 16

// begin reserves the room that is to be made for the first of those that wait, if some has
// to be made for them and can be.
func (p Preempt) begin(s *State, all []wish) Plan {
	c := newClearing(s, all[0].priority, p.spare())
	c.others(s.Own(""))
	made := types.Reservation{Accumulate: true, AtOnce: true, Job: s.Job, Session: all[0].session, Priority: all[0].priority}
	hopeless := make(map[string]bool)
	for _, w := range all {
		if w.priority != made.Priority || len(made.Bundles) >= atATime {
			break
		}
		for _, way := range w.ways {
			like := s.like(way)
			if hopeless[like] {
				continue
			}
			before := c.copy()
			bundles, ok := c.clear(way, w.priority, s.Namespace)
			if !ok {
				c.back(before)
				hopeless[like] = true
				continue
			}
			if len(c.evicted) > len(before.evicted) {
				made.Bundles = append(made.Bundles, s.onNodes(bundles)...)
			}
			break
		}
	}
	if len(made.Bundles) == 0 {
		return Plan{}
	}
	return Plan{
		Reserve: []Reservation{{ID: s.Own(""), Reservation: made}},
		Reason:  fmt.Sprintf("%d tasks of lower priority are to make room", tasksOf(c.evicted)),
	}
}

// like is the same for bundles that ask for the same.
func (s *State) like(bundles []types.Bundle) string {
	var b strings.Builder
	for _, x := range bundles {
		b.WriteString(x.Node + ":" + signature(s.View.Needs(s.Namespace, x.Requests, x.Devices...)) + ";")
	}
	return b.String()
}

// onNodes leaves out of bundles what is of the whole cluster: that is not what a node is
// made room on for.
func (s *State) onNodes(bundles []types.Bundle) []types.Bundle {
	out := make([]types.Bundle, 0, len(bundles))
	for _, b := range bundles {
		b.Requests = slices.DeleteFunc(slices.Clone(b.Requests), func(x types.Request) bool {
			return s.View.Pool(types.Resolve(s.Namespace, x.Name)) != nil
		})
		out = append(out, b)
	}
	return out
}

// goOn evicts who still has to make room, and gives the room up when it is not needed, or
// not to be had, any more.
func (p Preempt) goOn(s *State, r *cluster.Reservation, wanted bool) Plan {
	due := time.Unix(0, r.Info.V.Submitted).Add(p.within())
	over := func(reason string) Plan { return Plan{Unreserve: []string{s.Own("")}, Reason: reason} }
	switch {
	case r.Grant.V != nil && !r.Current():
		return Plan{Again: s.Now.Add(time.Second)} // the one before is being given back
	case r.Grant.V != nil && r.Grant.V.Phase == types.HandedOver:
		return over("what waited has got it")
	case !wanted:
		return over("nobody waits for it any more")
	case granted(r):
		return over("all of it is there, and is for who comes first")
	case !s.Now.Before(due):
		return over("it took too long")
	}
	c := newClearing(s, r.Info.V.Priority, p.spare())
	evicted, ok := c.others(s.Own(""))
	switch {
	case !ok:
		return over("the room is not to be had any more")
	case len(evicted) == 0, r.Grant.V == nil: // nothing is collected yet
		return Plan{Again: due}
	}
	plan := evictAll(evicted, fmt.Sprintf("evicted for %s, of priority %d", s.jobName(), r.Info.V.Priority))
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
	case len(p.begin(s, all).Reserve) > 0:
		return "preempt: tasks of lower priority are about to be evicted for it"
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
