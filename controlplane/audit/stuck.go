package audit

import (
	"slices"

	"github.com/escher-sched/escher/types"
)

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
		c.s.stuckPart(r, found)
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

// stuckPart finds a part of a grant on a node to which nothing directs its object any more.
func (s *state) stuckPart(r *reservation, found finder) {
	if r.grant.V == nil || r.grant.V.Phase != types.Collecting {
		return
	}
	var to *types.Collect
	if t := s.tasks[r.id]; r.grant.V.Task != 0 && t != nil && t.info.V != nil {
		to = t.info.V.Collect()
	} else if r.grant.V.Task == 0 && r.info.V != nil {
		to = r.info.V.Collect
	}
	for _, at := range r.grant.V.Nodes {
		if len(at.Holds) > 0 && (to == nil || !slices.Contains(to.On, at.Node)) {
			found(r.object(), "holds a part on node %s, where it is not directed to collect, and does not return it", at.Node)
		}
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
