package audit

import (
	"maps"
	"slices"

	"github.com/escher-sched/escher/types"
)

// boundOnce validates NoDoubleBind: a task has at most one binding.
func boundOnce(t *task, found finder) {
	var all []string
	for _, b := range t.bindings {
		if b.info.V != nil {
			all = append(all, b.String())
		}
	}
	if len(all) > 1 {
		slices.Sort(all)
		found(t.object(), "has bindings %v at once", all)
	}
}

// singleAttempt validates NoDoubleBind: attempts count up by one. A binding goes only after its
// agent reported its end, or after its node was lost, unless it is kept.
func (s *state) singleAttempt(b *binding, found finder) {
	was := b.info.before(s.revision)
	switch {
	case b.info.created(s.revision):
		if b.number != b.of.last+1 {
			found(b.of.object(), "is bound as attempt %d after attempt %d", b.number, b.of.last)
		}
	case b.info.deleted(s.revision):
		report := b.report.before(s.revision)
		ended := report != nil && report.Phase == types.ReportExited && report.Binding == b.info.oldCreate
		lost := was.Session != b.node.session() && (was.OnDisconnect != types.Keep || b.node.dead(s.revision))
		if !ended && !lost {
			found(b.of.object(), "%s is released: no end was reported and its node was not lost", b)
		}
		if st := b.of.status.V; !ended && was.OnDisconnect == types.StopLost && st != nil && !st.Phase.Ended() {
			found(b.of.object(), "%s is given up with its node, but the task is %s and not failed", b, st.Phase)
		}
	}
}

// dead reports whether the node is not alive, and an administrator had declared it dead before a
// revision.
func (n *node) dead(revision int64) bool {
	c := n.cordon.before(revision)
	return n.alive.V == nil && c != nil && c.Dead
}

// settle records the highest attempt.
func (t *task) settle() {
	if t.status.V != nil {
		t.last = max(t.last, t.status.V.Attempt)
	}
	for _, b := range t.bindings {
		t.last = max(t.last, b.number)
	}
}

// eligible validates BoundImpliesEligible for a binding at the moment m of the bind. Its node
// exists, is alive in the binding's session and not cordoned. Its task exists, is visible and not
// stopped. The binding holds what the task requests, where the task requests it.
func (s *state) eligible(b *binding, m moment, found finder) {
	n, t := b.node, b.of
	s.nodeEligible(n, m, b.String(), found)
	if n.alive.V != nil && m.knows(n.alive.Create) && n.session() != b.info.V.Session {
		found(b.String(), "is of session %d, and node %s is in session %d", b.info.V.Session, n.name, n.session())
	}
	if t.info.V == nil {
		if m.now {
			found(b.String(), "there is no such task")
		}
		return
	}
	if t.info.V.Stop != nil && m.knows(t.info.Mod) {
		found(b.String(), "the task was stopped before")
	}
	if job := t.info.V.Job; job != "" {
		c := s.jobs[id{t.id.ns, job}]
		if c == nil && m.now || c != nil && !m.knows(c.Create) {
			found(b.String(), "the task is not visible: job %s was not there", job)
		}
	}
	if m.knows(t.info.Create) {
		s.holdsMeet(b, m, found)
	}
}

// nodeEligible finds reasons against binding or granting on a node.
func (s *state) nodeEligible(n *node, m moment, object string, found finder) {
	if n.info.V == nil && m.now {
		found(object, "node %s is not registered", n.name)
	}
	if n.alive.V == nil && m.now {
		found(object, "node %s is not alive", n.name)
	}
	if n.cordon.V != nil && m.knows(n.cordon.Create) {
		found(object, "node %s is cordoned", n.name)
	}
}

// holdsMeet finds requests of a task that its binding does not meet.
func (s *state) holdsMeet(b *binding, m moment, found finder) {
	requests, i := b.of.info.V.Requests, b.info.V.Alternative
	if alternatives := b.of.info.V.Alternatives; i < len(alternatives) && i >= 0 {
		requests = requests.Plus(alternatives[i].Requests)
	} else if i != 0 {
		found(b.String(), "takes alternative %d of %d", i, len(alternatives))
		return
	}
	if c := s.namespaces[b.task.ns]; c != nil && m.knows(c.Mod) {
		requests = requests.Plus(c.V.Missing(requests))
	}
	needs := s.needs(b.task.ns, requests, m)
	for _, rid := range slices.Sorted(maps.Keys(needs)) {
		switch {
		case rid.IsPlacement():
			if b.node.info.V != nil && m.knows(b.node.info.Mod) && !b.node.isAt(rid) {
				found(b.String(), "is not on %s, which the task requests", rid)
			}
		case amountOf(b.info.V.Holds, rid) < needs[rid]:
			found(b.String(), "holds %s %s, but the task requests %s", amount(amountOf(b.info.V.Holds, rid), rid), rid, amount(needs[rid], rid))
		case rid.Scoped() && m.now && !s.mayDraw(rid):
			found(b.String(), "draws %s, but no reservation of that name is granted", rid)
		}
	}
}

// mayDraw reports whether tasks may draw on the grant behind a scoped resource.
func (s *state) mayDraw(rid types.ResourceID) bool {
	g := s.grantOf(rid)
	return g != nil && g.Phase == types.Granted
}
