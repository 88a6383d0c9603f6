package room

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// The steps of a move, each a plan, as the store has them:
//
//	to is reserved, anywhere is open      room is waited for, then tasks save, if they are asked
//	to and from are, anywhere is closed   tasks leave for to; what they leave is kept by from
//	from alone is, anywhere is closed     it was given up: those without a place return
//	neither is                            it is over

// move is one that is on its way.
type move struct {
	// to is where the tasks go, from keeps what they leave; nil: it is not reserved.
	to, from *place
	// closed tells that tasks may begin there alone.
	closed bool
}

// place is nodes, and the reservation of what tasks take there.
type place struct {
	id    string
	r     *cluster.Reservation
	nodes map[string]bool
}

// moving returns the move that is on its way.
func (p Migrate) moving(s *esl.State) move {
	anywhere := s.View.Everywhere[types.Resolve(s.Namespace, s.Own(migrateAnywhere))]
	m := move{closed: anywhere != nil && anywhere.V.Capacity == 0}
	m.to, m.from = p.reserved(s, migrateTo()), p.reserved(s, migrateFrom())
	return m
}

// reserved returns the one of some places that is reserved, nil if none is.
func (p Migrate) reserved(s *esl.State, slots [2]string) *place {
	for _, slot := range slots {
		r := s.Reservation(s.Own(slot))
		if r == nil || r.Info.V == nil {
			continue
		}
		at := &place{id: s.Own(slot), r: r, nodes: make(map[string]bool)}
		for _, b := range r.Info.V.Bundles {
			at.nodes[b.Node] = true
		}
		return at
	}
	return nil
}

// reserve has a place reserved by a plan, if there is one of which nobody holds anything.
func (p Migrate) reserve(s *esl.State, plan *esl.Plan, slots [2]string, r types.Reservation) bool {
	for _, slot := range slots {
		if is := s.Reservation(s.Own(slot)); is == nil || is.Info.V == nil && is.Grant.V == nil {
			plan.Reserve = append(plan.Reserve, esl.Reservation{ID: s.Own(slot), Reservation: r})
			return true
		}
	}
	return false
}

// Next begins a move when that is better, goes on with it, and ends it.
func (p Migrate) Next(s *esl.State) esl.Plan {
	var live []*cluster.Task
	for _, t := range s.Members() {
		if t.Info.V != nil && !t.Phase().Ended() {
			live = append(live, t)
		}
	}
	m := p.moving(s)
	switch {
	case len(live) == 0:
		return esl.Plan{}
	case m.to != nil && m.closed:
		return p.leave(s, m, live)
	case m.to != nil:
		return p.prepare(s, m, live)
	case m.from != nil && m.closed:
		return p.back(s, m, live)
	case m.from != nil || m.closed:
		return p.end(s, m, "the place was taken away")
	}
	if told := p.unask(s, live); !told.Nothing() {
		return told
	}
	return p.begin(s, live)
}

// begin reserves a place on fewer nodes, if there is one.
func (p Migrate) begin(s *esl.State, live []*cluster.Task) esl.Plan {
	for _, t := range live {
		if t.Phase() != types.Running || taskset.Leaving(t) {
			return esl.Plan{}
		}
	}
	name := s.Own(migrateBegun)
	if pool := s.Pool(name); pool != nil {
		if next := time.Unix(int64(pool.Capacity()/esl.One), 0).Add(cmp.Or(time.Duration(p.Pause), time.Minute)); s.Now.Before(next) {
			return esl.Plan{RequeueAfter: next}
		}
	}
	bundles, to := p.better(s, live)
	plan := esl.Plan{
		Set: []esl.Set{{
			Name: name, Capacity: types.Quantity(max(s.Now.Unix(), 1)) * esl.One, Where: controlplane.InCluster(), Options: esl.OfJob(s.Job),
		}},
		Reason: fmt.Sprintf("all would be on %v", to),
	}
	if len(bundles) == 0 || !p.reserve(s, &plan, migrateTo(), reservationOf(s, live[0], bundles)) {
		return esl.Plan{}
	}
	return plan
}

// reservationOf is bundles for tasks of the job that are like t.
func reservationOf(s *esl.State, t *cluster.Task, bundles []types.Bundle) types.Reservation {
	return types.Reservation{Bundles: bundles, Priority: t.Info.V.Priority, Session: t.Info.V.Session, Job: s.Job}
}

// prepare waits for the room, and until those that are to go have saved what they need; then
// they go.
func (p Migrate) prepare(s *esl.State, m move, live []*cluster.Task) esl.Plan {
	switch {
	case m.to.lost(s):
		return p.end(s, m, "a node of the place is lost, or takes no tasks")
	case !s.Now.Before(p.due(m.to)):
		return p.end(s, m, "it took too long")
	case !taskset.Granted(m.to.r):
		return esl.Plan{RequeueAfter: p.due(m.to)}
	}
	var go1 []*cluster.Task
	for _, t := range live {
		if t.Phase().Held() && !taskset.Leaving(t) && !m.to.nodes[t.Status.V.Node] {
			go1 = append(go1, t)
		}
	}
	if p.Ask {
		if plan, saved := p.ask(s, m, go1); !saved {
			return plan
		}
	}
	if len(go1) == 0 {
		return p.end(s, m, "nobody is elsewhere")
	}
	plan := esl.Plan{
		RequeueAfter: p.due(m.to), Reason: "they move to where room was reserved", Set: []esl.Set{p.open(s, migrateAnywhere, 0)}, Evict: evictions(go1),
	}
	kept := reservationOf(s, live[0], nil)
	kept.Accumulate, kept.AtOnce, kept.ForItself = true, true, true
	asked, _ := p.asked(s, live[0])
	for _, t := range go1 {
		kept.Bundles = append(kept.Bundles, types.Bundle{Requests: asked, Node: t.Status.V.Node})
	}
	if returns(s, live) && canHandOver(s, kept.Bundles) {
		p.reserve(s, &plan, migrateFrom(), kept)
	}
	return plan
}

// returns reports whether all tasks have a way to a place that is kept: those have none that a
// version submitted which kept none. They go anywhere at once when a move is given up.
func returns(s *esl.State, live []*cluster.Task) bool {
	for _, t := range live {
		if !slices.ContainsFunc(t.Info.V.Alternatives, func(way types.Alternative) bool { return way.Requests.Get(s.Own(migrateBack)) > 0 }) {
			return false
		}
	}
	return true
}

// leave has those that are elsewhere go to the place, and ends the move when all run there.
func (p Migrate) leave(s *esl.State, m move, live []*cluster.Task) esl.Plan {
	var go1, stuck []*cluster.Task
	failed := ""
	arrived := true
	for _, t := range live {
		held, there := t.Phase().Held(), t.Status.V != nil && m.to.nodes[t.Status.V.Node]
		arrived = arrived && t.Phase() == types.Running && there && !taskset.Leaving(t)
		switch {
		case held && !there && !taskset.Leaving(t):
			go1 = append(go1, t)
		case held && there && t.Phase() != types.Running:
			stuck = append(stuck, t)
		}
		if there && m.to.fails(t) {
			failed = fmt.Sprintf("task %s does not start: %s", t.ID.ID, t.Status.V.Reason)
		}
	}
	switch {
	case arrived:
		return p.end(s, m, "all have arrived")
	case m.to.lost(s):
		return p.giveUp(s, m, stuck, "a node of the place is lost, or takes no tasks")
	case failed != "":
		return p.giveUp(s, m, stuck, failed)
	case !s.Now.Before(p.due(m.to)):
		return p.giveUp(s, m, stuck, "it took too long")
	}
	return esl.Plan{RequeueAfter: p.due(m.to), Reason: "they move to where room was reserved", Evict: evictions(go1)}
}

// fails reports whether a task that was to begin at the place does not start there.
func (at *place) fails(t *cluster.Task) bool {
	switch s := t.Status.V; t.Phase() {
	case types.Bound:
		return s.Reason != "" // its start suffers from that
	case types.Pending:
		return s.Retry > at.r.Info.V.Submitted // it has failed there, and is to be tried again
	}
	return false
}

// giveUp gives up the place that tasks were to go to: those that run there stay, those that
// do not return to where they were, or, if that is not kept, go anywhere.
func (p Migrate) giveUp(s *esl.State, m move, stuck []*cluster.Task, reason string) esl.Plan {
	if m.from == nil {
		return p.end(s, m, reason)
	}
	return esl.Plan{
		Unreserve: []string{m.to.id}, Set: []esl.Set{p.open(s, migrateBack, types.Inf)}, Evict: evictions(stuck),
		RequeueAfter: p.due(m.from), Reason: reason + ": they return",
	}
}

// back waits until all have a place again, or all that is kept is taken: others, whose node
// is lost, go anywhere then. Those that still do not run in the place given up leave it, too:
// they were more than one plan evicts.
func (p Migrate) back(s *esl.State, m move, live []*cluster.Task) esl.Plan {
	settled := true
	var stuck []*cluster.Task
	for _, t := range live {
		held := t.Phase().Held() && !taskset.Leaving(t)
		settled = settled && held
		if held && t.Phase() != types.Running && !m.from.nodes[t.Status.V.Node] {
			stuck = append(stuck, t)
		}
	}
	switch {
	case len(stuck) > 0 && !m.from.lost(s) && s.Now.Before(p.due(m.from)):
		return esl.Plan{RequeueAfter: p.due(m.from), Reason: "they do not start where they moved to: they return", Evict: evictions(stuck)}
	case settled || m.from.full(s):
		return p.end(s, m, "all have a place again")
	case m.from.lost(s):
		return p.end(s, m, "a node that they were on is lost, too, or takes no tasks")
	case !s.Now.Before(p.due(m.from)):
		return p.end(s, m, "it took too long to return")
	}
	return esl.Plan{RequeueAfter: p.due(m.from)}
}

// due is when it has taken too long. Those that return have as long as those that leave had.
func (p Migrate) due(at *place) time.Time {
	within := cmp.Or(time.Duration(p.Within), 5*time.Minute)
	if at.r.Info.V.ForItself {
		within *= 2
	}
	return time.Unix(0, at.r.Info.V.Submitted).Add(within)
}

// lost reports whether a node of the place does not do any more.
func (at *place) lost(s *esl.State) bool {
	for name := range at.nodes {
		if n := s.View.Nodes[name]; n == nil || !n.Eligible() {
			return true
		}
	}
	return false
}

// full reports whether tasks draw on all of the place.
func (at *place) full(s *esl.State) bool {
	if !taskset.Granted(at.r) {
		return false
	}
	for _, on := range at.r.Grant.V.Nodes {
		n := s.View.Nodes[on.Node]
		for _, h := range on.Holds {
			if !h.Cluster && (n == nil || n.Used(h.Resource.Scope(s.Namespace, at.id)) < h.Amount) {
				return false
			}
		}
	}
	return true
}

// end gives both places up as far as they are not in use, and lets tasks begin anywhere.
func (p Migrate) end(s *esl.State, m move, reason string) esl.Plan {
	plan := esl.Plan{Reason: reason}
	for _, at := range []*place{m.to, m.from} {
		if at != nil {
			plan.Unreserve = append(plan.Unreserve, at.id)
		}
	}
	if m.closed {
		plan.Set = []esl.Set{p.open(s, migrateAnywhere, types.Inf), p.open(s, migrateBack, 0)}
	}
	return plan
}

// open has every node have so much of what a way asks for.
func (p Migrate) open(s *esl.State, way string, capacity types.Quantity) esl.Set {
	return esl.Set{Name: s.Own(way), Capacity: capacity, Where: controlplane.OnEvery(), Options: esl.OfJob(s.Job)}
}

// evictions evict as many as one plan does.
func evictions(tasks []*cluster.Task) []esl.Evict {
	var out []esl.Evict
	for _, t := range tasks[:min(len(tasks), taskset.AtOnce)] {
		out = append(out, esl.Evict{Task: t.ID.ID, Attempt: t.Status.V.Attempt})
	}
	return out
}

// ClusterScoped tells that what is free changes with what others do.
func (Migrate) ClusterScoped() {}

// Pace is how often it looks at most.
func (Migrate) Pace() time.Duration { return 100 * time.Millisecond }

// Why says where a task is to go that moves, and why the job does not move.
func (p Migrate) Why(s *esl.State, task string) string {
	m := p.moving(s)
	_, waits := taskset.Waits(s, task)
	switch {
	case waits && m.to != nil && m.closed:
		return fmt.Sprintf("migrate: it moves to %v, where room is reserved for it", taskset.SortedKeys(m.to.nodes))
	case waits && m.from != nil && m.closed:
		return fmt.Sprintf("migrate: its move was given up, and it returns to one of %v, where its place is kept", taskset.SortedKeys(m.from.nodes))
	}
	if text := p.unsaved(s); p.Ask && text != "" {
		return text
	}
	if t, _ := taskset.Waits(s, task); waits && !m.closed && !p.hasRoom(s, t) {
		return "migrate: it begins anywhere, where there is room for what it asks for: no node has that at present"
	}
	return ""
}

// hasRoom reports whether a node has what a task asks for in the way that may be had anywhere.
func (p Migrate) hasRoom(s *esl.State, t *cluster.Task) bool {
	_, needs := p.asked(s, t)
	return slices.ContainsFunc(s.Rooms(), func(r *esl.Room) bool { return r.Fits(needs) })
}
