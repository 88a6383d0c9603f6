package room

import (
	"fmt"
	"maps"
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

// moving is the state of a move, for one decision.
type moving struct {
	s *esl.State
	// live are the tasks of the job that have not ended.
	live []*cluster.Task
	// within is how long a move may take. asks reports whether tasks are asked to save before they move.
	within time.Duration
	asks   bool
	// to is the destination, from the former places; nil means not reserved.
	to, from *place
	// closed reports whether tasks may begin only there.
	closed bool
}

// movingOf returns the current move of a job.
func movingOf(s *esl.State, within time.Duration, asks bool) *moving {
	anywhere := s.View.Everywhere[types.Resolve(s.Namespace, s.Own(migrateAnywhere))]
	m := &moving{s: s, within: within, asks: asks, closed: anywhere != nil && anywhere.V.Capacity == 0}
	m.to, m.from = reserved(s, migrateTo()), reserved(s, migrateFrom())
	for _, t := range s.Members() {
		if t.Info.V != nil && !t.Phase().Ended() {
			m.live = append(m.live, t)
		}
	}
	return m
}

// next continues a move, and ends it. on reports whether there is one.
func (m *moving) next() (plan esl.Plan, on bool) {
	switch {
	case m.to != nil && m.closed:
		return m.leave(), true
	case m.to != nil:
		return m.prepare(), true
	case m.from != nil && m.closed:
		return m.back(), true
	case m.from != nil || m.closed:
		return m.end("the place was taken away"), true
	}
	plan = m.unask()
	return plan, !plan.Nothing()
}

// targets returns the nodes that the tasks may move to, the number of tasks, and on how many nodes they are.
func (m *moving) targets() (all []target, tasks, on int) {
	has := make(map[string]int)
	for _, t := range m.live {
		has[t.Status.V.Node]++
	}
	if len(has) == 1 {
		return nil, len(m.live), 1 // there are no fewer
	}
	_, needs := askedOf(m.s, m.live[0])
	for _, r := range m.s.Rooms() {
		n := r.Node.Name
		all = append(all, target{node: n, has: has[n], room: has[n] + r.Clone().Put(needs, len(m.live)-has[n])})
	}
	return all, len(m.live), len(has)
}

// begin returns the plan that reserves capacity on nodes for the tasks that come there: nothing if there are
// no nodes, or no slot is free.
func (m *moving) begin(to []target) esl.Plan {
	var names []string
	var bundles []types.Bundle
	for _, x := range to {
		asked, _ := askedOf(m.s, m.live[0])
		names = append(names, x.node)
		bundles = append(bundles, slices.Repeat([]types.Bundle{{Requests: asked, Node: x.node}}, x.comes)...)
	}
	plan := esl.Plan{Set: []controlplane.Resource{m.s.InCluster(migrateBegun, esl.Stamp(m.s.Now))}, Reason: fmt.Sprintf("all would be on %v", names)}
	if len(to) == 0 || !m.reserve(&plan, migrateTo(), m.reservation(bundles)) {
		return esl.Plan{}
	}
	return plan
}

// place is a set of nodes, and the reservation for tasks there.
type place struct {
	id    string
	r     *cluster.Reservation
	nodes map[string]bool
}

// reserved returns the place of the reserved one of two slots, nil if none is.
func reserved(s *esl.State, slots [2]string) *place {
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
func (m *moving) reserve(plan *esl.Plan, slots [2]string, r types.Reservation) bool {
	for _, slot := range slots {
		if is := m.s.Reservation(m.s.Own(slot)); is == nil || is.Info.V == nil && is.Grant.V == nil {
			plan.Reserve = append(plan.Reserve, controlplane.Reservation{ID: m.s.Own(slot), Reservation: r})
			return true
		}
	}
	return false
}

// reservation returns a reservation of bundles for the job.
func (m *moving) reservation(bundles []types.Bundle) types.Reservation {
	t := m.live[0].Info.V
	return types.Reservation{Bundles: bundles, Priority: t.Priority, Session: t.Session, Job: m.s.Job}
}

// prepare waits for the grant, and until the tasks that move have saved; then it evicts them.
func (m *moving) prepare() esl.Plan {
	switch {
	case m.to.lost(m.s):
		return m.end("a node of the place is lost, or takes no tasks")
	case !m.s.Now.Before(m.due(m.to)):
		return m.end("it took too long")
	case !taskset.Granted(m.to.r):
		return esl.Plan{RequeueAfter: m.due(m.to)}
	}
	var go1 []*cluster.Task
	for _, t := range m.live {
		if taskset.Remains(t) && !m.to.nodes[t.Status.V.Node] {
			go1 = append(go1, t)
		}
	}
	if m.asks {
		if plan, saved := m.ask(go1); !saved {
			return plan
		}
	}
	if len(go1) == 0 {
		return m.end("none of its tasks is on another node")
	}
	plan := esl.Plan{
		RequeueAfter: m.due(m.to), Reason: "they move to where room was reserved", Set: []controlplane.Resource{m.open(migrateAnywhere, 0)}, Evict: evictions(go1, taskset.AtOnce, ""),
	}
	kept := m.reservation(nil)
	asked, _ := askedOf(m.s, m.live[0])
	for _, t := range go1 {
		kept.Bundles = append(kept.Bundles, types.Bundle{Requests: asked, Node: t.Status.V.Node})
	}
	if kept.Collect = types.NewCollect(kept.Bundles, false); m.returns() {
		m.reserve(&plan, migrateFrom(), kept)
	}
	return plan
}

// returns reports whether all tasks have an alternative to return. An older version submitted tasks
// without one: after a failed move they go anywhere at once.
func (m *moving) returns() bool {
	for _, t := range m.live {
		if !slices.ContainsFunc(t.Info.V.Alternatives, func(way types.Alternative) bool { return way.Requests.Get(m.s.Own(migrateBack)) > 0 }) {
			return false
		}
	}
	return true
}

// leave evicts tasks that are elsewhere, and ends the move when all run at the destination.
func (m *moving) leave() esl.Plan {
	var go1, stuck []*cluster.Task
	failed := ""
	arrived := true
	for _, t := range m.live {
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
		return m.end("all have arrived")
	case m.to.lost(m.s):
		return m.giveUp(stuck, "a node of the place is lost, or takes no tasks")
	case failed != "":
		return m.giveUp(stuck, failed)
	case !m.s.Now.Before(m.due(m.to)):
		return m.giveUp(stuck, "it took too long")
	}
	return esl.Plan{RequeueAfter: m.due(m.to), Reason: "they move to where room was reserved", Evict: evictions(go1, taskset.AtOnce, "")}
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
func (m *moving) giveUp(stuck []*cluster.Task, reason string) esl.Plan {
	if m.from == nil {
		return m.end(reason)
	}
	return esl.Plan{
		Unreserve: []string{m.to.id}, Set: []controlplane.Resource{m.open(migrateBack, types.Inf)}, Evict: evictions(stuck, taskset.AtOnce, ""),
		RequeueAfter: m.due(m.from), Reason: reason + ": they return",
	}
}

// back waits until all tasks have a node again, or use all of the former places: the rest, whose
// node is lost, then goes anywhere. It also evicts tasks left in the destination that do not run,
// which were too many for one plan.
func (m *moving) back() esl.Plan {
	settled := true
	var stuck []*cluster.Task
	for _, t := range m.live {
		held := taskset.Remains(t)
		settled = settled && held
		if held && t.Phase() != types.Running && !m.from.nodes[t.Status.V.Node] {
			stuck = append(stuck, t)
		}
	}
	switch {
	case len(stuck) > 0 && !m.from.lost(m.s) && m.s.Now.Before(m.due(m.from)):
		return esl.Plan{RequeueAfter: m.due(m.from), Reason: "they do not start where they moved to: they return", Evict: evictions(stuck, taskset.AtOnce, "")}
	case settled || m.from.full(m.s):
		return m.end("all have a place again")
	case m.from.lost(m.s):
		return m.end("a node that they were on is lost, too, or takes no tasks")
	case !m.s.Now.Before(m.due(m.from)):
		return m.end("it took too long to return")
	}
	return esl.Plan{RequeueAfter: m.due(m.from)}
}

// due is the deadline of a move. Returning tasks get as long as those that left.
func (m *moving) due(at *place) time.Time {
	within := m.within
	if at.r.Info.V.Directed() {
		within *= 2
	}
	return time.Unix(0, at.r.Info.V.Submitted).Add(within)
}

// lost reports whether a node of the place takes no tasks any more.
func (at *place) lost(s *esl.State) bool { return taskset.AnyLost(s, maps.Keys(at.nodes)) }

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
func (m *moving) end(reason string) esl.Plan {
	plan := esl.Plan{Reason: reason}
	for _, at := range []*place{m.to, m.from} {
		if at != nil {
			plan.Unreserve = append(plan.Unreserve, at.id)
		}
	}
	if m.closed {
		plan.Set = []controlplane.Resource{m.open(migrateAnywhere, types.Inf), m.open(migrateBack, 0)}
	}
	return plan
}

// open sets on every node the resource of an alternative.
func (m *moving) open(way string, capacity types.Quantity) controlplane.Resource {
	return controlplane.Resource{Name: m.s.Own(way), Capacity: capacity, Where: controlplane.OnEvery(), Options: m.s.Lifetime()}
}
