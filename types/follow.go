package types

// MayFollow reports whether a status may change from one to the other; nil means no status. The
// attempt rises by one with each binding, and never otherwise. While a phase lasts, its reason and
// the number of restarts may change. A failure is counted when the attempt ends.
func MayFollow(from, to *Status) bool {
	if from == nil {
		from = &Status{Phase: Pending}
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
	if to.Phase == Bound {
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
func mayCount(from, to *Status) bool {
	switch to.Failures {
	case from.Failures:
		return true
	case from.Failures + 1:
		return from.Phase.Held() && (to.Phase == Failed || to.Phase == Pending)
	}
	return false
}

// transitions lists the phases that may follow each phase. Ended phases are final.
func transitions(p Phase) []Phase {
	switch p {
	case Pending:
		return []Phase{Bound, Failed, Cancelled}
	case Bound:
		return []Phase{Running, Pending, Succeeded, Failed, Cancelled}
	case Running:
		return []Phase{Pending, Succeeded, Failed, Cancelled}
	}
	return nil
}
