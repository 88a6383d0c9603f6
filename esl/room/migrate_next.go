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

// The steps of a move, each a plan, as stored:
//
//	to is reserved, anywhere is open      wait for the grant; then tasks save, if asked
//	to and from are, anywhere is closed   tasks leave for to; from reserves what they leave
//	from alone is, anywhere is closed     given up: tasks without a node return
//	neither is                            it is over

// move is the state of a move.
type move struct {
	// to is the destination, from the former places; nil means not reserved.
	to, from *place
	// closed reports whether tasks may begin only there.
	closed bool
}

// place is a set of nodes, and the reservation for tasks there.
type place struct {
	id    string
	r     *cluster.Reservation
	nodes map[string]bool
}

// moving returns the current move.
func (p Migrate) moving(s *esl.State) move {
	anywhere := s.View.Everywhere[types.Resolve(s.Namespace, s.Own(migrateAnywhere))]
	m := move{closed: anywhere != nil && anywhere.V.Capacity == 0}
	m.to, m.from = p.reserved(s, migrateTo()), p.reserved(s, migrateFrom())
	return m
}

// reserved returns the place of the reserved one of two slots, nil if none is.
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

// reserve adds to a plan the reservation of an unused slot, if there is one.
func (p Migrate) reserve(s *esl.State, plan *esl.Plan, slots [2]string, r types.Reservation) bool {
	for _, slot := range slots {
		if is := s.Reservation(s.Own(slot)); is == nil || is.Info.V == nil && is.Grant.V == nil {
			plan.Reserve = append(plan.Reserve, controlplane.Reservation{ID: s.Own(slot), Reservation: r})
			return true
		}
	}
	return false
}

// begin reserves a place on fewer nodes, if there is one.
func (p Migrate) begin(s *esl.State, live []*cluster.Task) esl.Plan {
	for _, t := range live {
		if t.Phase() != types.Running || taskset.Leaving(t) {
			return esl.Plan{Idle: "not all of its tasks run"}
		}
	}
	name := s.Own(migrateBegun)
	if pool := s.Pool(name); pool != nil {
		if next := time.Unix(int64(pool.Capacity()/esl.One), 0).Add(cmp.Or(time.Duration(p.Pause), time.Minute)); s.Now.Before(next) {
			return esl.Plan{RequeueAfter: next, Idle: "it rests after its last move"}
		}
	}
	bundles, to := p.better(s, live)
	plan := esl.Plan{
		Set: []controlplane.Resource{{
			Name: name, Capacity: types.Quantity(max(s.Now.Unix(), 1)) * esl.One, Where: controlplane.InCluster(), Options: esl.OfJob(s.Job),
		}},
		Reason: fmt.Sprintf("all would be on %v", to),
	}
	if len(bundles) == 0 || !p.reserve(s, &plan, migrateTo(), reservationOf(s, live[0], bundles)) {
		return esl.Plan{Idle: "its tasks do not fit on fewer nodes"}
	}
	return plan
}

// reservationOf returns a reservation of bundles, with the properties of task t.
func reservationOf(s *esl.State, t *cluster.Task, bundles []types.Bundle) types.Reservation {
	return types.Reservation{Bundles: bundles, Priority: t.Info.V.Priority, Session: t.Info.V.Session, Job: s.Job}
}

// prepare waits for the grant, and until the tasks that move have saved; then it evicts them.
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
		if taskset.Remains(t) && !m.to.nodes[t.Status.V.Node] {
			go1 = append(go1, t)
		}
	}
	if p.Ask {
		if plan, saved := p.ask(s, m, go1); !saved {
			return plan
		}
	}
	if len(go1) == 0 {
		return p.end(s, m, "none of its tasks is on another node")
	}
	plan := esl.Plan{
		RequeueAfter: p.due(m.to), Reason: "they move to where room was reserved", Set: []controlplane.Resource{p.open(s, migrateAnywhere, 0)}, Evict: evictions(go1, taskset.AtOnce, ""),
	}
	kept := reservationOf(s, live[0], nil)
	asked, _ := p.asked(s, live[0])
	for _, t := range go1 {
		kept.Bundles = append(kept.Bundles, types.Bundle{Requests: asked, Node: t.Status.V.Node})
	}
	if kept.Collect = types.NewCollect(kept.Bundles, false); returns(s, live) {
		p.reserve(s, &plan, migrateFrom(), kept)
	}
	return plan
}

// returns reports whether all tasks have an alternative to return. An older version submitted tasks
// without one: after a failed move they go anywhere at once.
func returns(s *esl.State, live []*cluster.Task) bool {
	for _, t := range live {
		if !slices.ContainsFunc(t.Info.V.Alternatives, func(way types.Alternative) bool { return way.Requests.Get(s.Own(migrateBack)) > 0 }) {
			return false
		}
	}
	return true
}

// leave evicts tasks that are elsewhere, and ends the move when all run at the destination.
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
	return esl.Plan{RequeueAfter: p.due(m.to), Reason: "they move to where room was reserved", Evict: evictions(go1, taskset.AtOnce, "")}
}

// fails reports whether a task does not start at the place.
func (at *place) fails(t *cluster.Task) bool {
	switch s := t.Status.V; t.Phase() {
	case types.Bound:
		return s.Reason != "" // its start has a problem
	case types.Pending:
		return s.Retry > at.r.Info.V.Submitted // it failed there, and will retry
	}
	return false
}

// giveUp gives up the destination: tasks that run there stay. The others return to their former
// places or, if those are not reserved, go anywhere.
func (p Migrate) giveUp(s *esl.State, m move, stuck []*cluster.Task, reason string) esl.Plan {
	if m.from == nil {
		return p.end(s, m, reason)
	}
	return esl.Plan{
		Unreserve: []string{m.to.id}, Set: []controlplane.Resource{p.open(s, migrateBack, types.Inf)}, Evict: evictions(stuck, taskset.AtOnce, ""),
		RequeueAfter: p.due(m.from), Reason: reason + ": they return",
	}
}

// back waits until all tasks have a node again, or use all of the former places: the rest, whose
// node is lost, then goes anywhere. It also evicts tasks left in the destination that do not run,
// which were too many for one plan.
func (p Migrate) back(s *esl.State, m move, live []*cluster.Task) esl.Plan {
	settled := true
	var stuck []*cluster.Task
	for _, t := range live {
		held := taskset.Remains(t)
		settled = settled && held
		if held && t.Phase() != types.Running && !m.from.nodes[t.Status.V.Node] {
			stuck = append(stuck, t)
		}
	}
	switch {
	case len(stuck) > 0 && !m.from.lost(s) && s.Now.Before(p.due(m.from)):
		return esl.Plan{RequeueAfter: p.due(m.from), Reason: "they do not start where they moved to: they return", Evict: evictions(stuck, taskset.AtOnce, "")}
	case settled || m.from.full(s):
		return p.end(s, m, "all have a place again")
	case m.from.lost(s):
		return p.end(s, m, "a node that they were on is lost, too, or takes no tasks")
	case !s.Now.Before(p.due(m.from)):
		return p.end(s, m, "it took too long to return")
	}
	return esl.Plan{RequeueAfter: p.due(m.from)}
}

// due is the deadline of a move. Returning tasks get as long as those that left.
func (p Migrate) due(at *place) time.Time {
	within := cmp.Or(time.Duration(p.Within), 5*time.Minute)
	if at.r.Info.V.Directed() {
		within *= 2
	}
	return time.Unix(0, at.r.Info.V.Submitted).Add(within)
}

// lost reports whether a node of the place takes no tasks any more.
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

// end removes both reservations, except what tasks hold, and lets tasks begin anywhere.
func (p Migrate) end(s *esl.State, m move, reason string) esl.Plan {
	plan := esl.Plan{Reason: reason}
	for _, at := range []*place{m.to, m.from} {
		if at != nil {
			plan.Unreserve = append(plan.Unreserve, at.id)
		}
	}
	if m.closed {
		plan.Set = []controlplane.Resource{p.open(s, migrateAnywhere, types.Inf), p.open(s, migrateBack, 0)}
	}
	return plan
}

// open sets on every node the resource of an alternative.
func (p Migrate) open(s *esl.State, way string, capacity types.Quantity) controlplane.Resource {
	return controlplane.Resource{Name: s.Own(way), Capacity: capacity, Where: controlplane.OnEvery(), Options: esl.OfJob(s.Job)}
}

// hasRoom reports whether the alternative to run anywhere fits on a node.
func (p Migrate) hasRoom(s *esl.State, t *cluster.Task) bool {
	_, needs := p.asked(s, t)
	return slices.ContainsFunc(s.Rooms(), func(r *esl.Room) bool { return r.Fits(needs) })
}
