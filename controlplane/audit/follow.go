package audit

import "github.com/escher-sched/escher/types"

// mayFollow reports whether a status may change from one to the other; nil means no status. The
// attempt rises by one with each binding, and never otherwise. While a phase lasts, its reason and
// the number of restarts may change. A failure is counted when the attempt ends.
func mayFollow(from, to *types.Status) bool {
	if from == nil {
		from = &types.Status{Phase: types.Pending}
	}
	if to == nil {
		return from.Phase.Ended()
	}
	if !mayCount(from, to) {
		return false
	}
	if to.Phase.Held() && to.Phase == from.Phase {
		return to.Attempt == from.Attempt && to.Node == from.Node && to.Bound == from.Bound && to.Restarts >= from.Restarts
	}
	want := from.Attempt
	if to.Phase == types.Bound {
		want++
	}
	if to.Attempt != want {
		return false
	}
	for _, p := range transitions(from.Phase) {
		if p == to.Phase {
			return true
		}
	}
	return false
}

// mayCount reports whether the number of failures is right: it rises by one when an attempt ends
// and the task failed or waits for another attempt.
func mayCount(from, to *types.Status) bool {
	switch to.Failures {
	case from.Failures:
		return true
	case from.Failures + 1:
		return from.Phase.Held() && (to.Phase == types.Failed || to.Phase == types.Pending)
	}
	return false
}

// transitions lists the phases that may follow each phase. Ended phases are final.
func transitions(p types.Phase) []types.Phase {
	switch p {
	case types.Pending:
		return []types.Phase{types.Bound, types.Failed, types.Cancelled}
	case types.Bound:
		return []types.Phase{types.Running, types.Pending, types.Succeeded, types.Failed, types.Cancelled}
	case types.Running:
		return []types.Phase{types.Pending, types.Succeeded, types.Failed, types.Cancelled}
	}
	return nil
}
