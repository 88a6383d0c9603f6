package audit

import "github.com/escher-sched/escher/types"

// Stuck returns unfinished work of components. That is legal while a component works on it. At rest
// it violates Progress.
func (c *Checker) Stuck() []Finding {
	var all []Finding
	found := func(object, format string, args ...any) {
		all = append(all, c.finding(Progress, object, format, args))
	}
	for _, t := range c.s.tasks {
		stuckTask(t, found)
	}
	for _, r := range c.s.reservations {
		if g := r.grant.V; g != nil && g.Phase == types.Releasing && !c.s.drawnOn(r) {
			found(r.object(), "is being released, but no task draws on it")
		}
	}
	return sorted(all)
}

// stuckTask finds an exit without a release, and a stop or eviction that did not reach the binding.
func stuckTask(t *task, found finder) {
	b := t.bound()
	if b != nil && b.report.V != nil && b.report.V.Phase == types.ReportExited && b.report.V.Binding == b.info.Create {
		found(t.object(), "%s has ended, but its resources are not released", b)
		return
	}
	x := t.info.V
	switch {
	case x == nil || t.ended():
	case x.Stop != nil && b == nil:
		found(t.object(), "was stopped while it was pending, but has not ended")
	case x.Stop != nil && b.info.V.Stop == nil:
		found(t.object(), "was stopped, but %s does not say so", b)
	case b != nil && x.Evict == b.number && b.info.V.Stop == nil:
		found(t.object(), "attempt %d was evicted, but %s does not say so", x.Evict, b)
	}
}

// drawnOn reports whether a task draws on a grant.
func (s *state) drawnOn(r *reservation) bool {
	for _, at := range r.grant.V.Nodes {
		n := s.node(at.Node)
		for _, h := range at.Holds {
			if n.drawn(r, h).Amount != 0 {
				return true
			}
		}
	}
	return false
}
