package types

// Phase is the phase of a task.
type Phase string

// The phases of a task. Pending comes before the first binding, while there is no status, and after
// a lost or evicted attempt.
const (
	Pending   Phase = "pending"
	Bound     Phase = "bound"
	Running   Phase = "running"
	Succeeded Phase = "succeeded"
	Failed    Phase = "failed"
	Cancelled Phase = "cancelled"
)

// Phases lists the phases, in their order in the life of a task.
func Phases() []Phase { return []Phase{Pending, Bound, Running, Succeeded, Failed, Cancelled} }

// Ended reports whether a task in phase p is finished for good.
func (p Phase) Ended() bool { return p == Succeeded || p == Failed || p == Cancelled }

// Held reports whether a task in phase p has a binding.
func (p Phase) Held() bool { return p == Bound || p == Running }
