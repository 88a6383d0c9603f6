package types

// Phase is how far a task is.
type Phase string

// The phases of a task. Pending is both before the first binding, when there is
// no status yet, and after an attempt that was lost or evicted.
const (
	Pending   Phase = "pending"
	Bound     Phase = "bound"
	Running   Phase = "running"
	Succeeded Phase = "succeeded"
	Failed    Phase = "failed"
	Cancelled Phase = "cancelled"
)

// Phases lists the phases, in the order in which a task goes through them.
func Phases() []Phase { return []Phase{Pending, Bound, Running, Succeeded, Failed, Cancelled} }

// transitions lists what may follow each phase. Ended phases are final.
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

// Ended reports whether a task in phase p is finished for good.
func (p Phase) Ended() bool { return p == Succeeded || p == Failed || p == Cancelled }

// Held reports whether a task in phase p has a binding.
func (p Phase) Held() bool { return p == Bound || p == Running }

// MayFollow reports whether the status of a task may go from one to the other;
// nil is the absence of a status. The attempt rises by one with each binding, and
// never otherwise. While it lasts, what its start suffers from and how often its
// process was run again may change in the same phase. That it failed is counted when it
// ends.
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

// mayCount reports whether the attempts that failed are counted as they are: one more when
// an attempt ends by which the task has failed, or after which it waits for the next one.
func mayCount(from, to *Status) bool {
	switch to.Failures {
	case from.Failures:
		return true
	case from.Failures + 1:
		return from.Phase.Held() && (to.Phase == Failed || to.Phase == Pending)
	}
	return false
}
