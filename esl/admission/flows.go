package admission

import (
	"cmp"
	"math"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Flows of tasks that take turns by weight: start-time fair queuing (Goyal, Vin and Cheng, SIGCOMM 1996).
// The task that begins next is the one with the earliest virtual start. In each flow tasks start 1/weight
// apart. A new flow starts at the present; an idle flow saves no turns.

// The bounds of weights keep the virtual times of two tasks of the largest weight distinct.
const (
	minWeight = 1e-3
	maxWeight = 1e3
)

// validWeight checks the weight of a flow.
func validWeight(field string, w float64) error {
	return esl.InvalidIf(w < minWeight || w > maxWeight, "%s: %g is out of range: give a weight from %g to %g", field, w, minWeight, maxWeight)
}

// tagUnit is a virtual time of 1 in the note of a flow: an ephemeral resource of that capacity,
// which no task requests.
const tagUnit = 1e6

// flows is the current state of flows that share a limit.
type flows struct {
	byName map[string]*flow
	// inside is how many have a node; entering are admitted and wait for one.
	inside   int
	entering []gate
	// now is the virtual time of the last admission.
	now   float64
	ended []gate
}

// taken is how many tasks are admitted and have not ended.
func (q *flows) taken() int { return q.inside + len(q.entering) }

// flow is the state of one flow.
type flow struct {
	weight float64
	name   string
	// at is the name of its note, which stores last: the virtual time of its last admission. none
	// means that there is no note, moved that last is later than in the note.
	at          string
	last        float64
	none, moved bool
	// inside is how many of its tasks are admitted; all are all of its gates.
	inside  int
	all     []gate
	waiting []unit
	// begun is how many of waiting are partly open; closing are those being closed again.
	begun   int
	closing []unit
}

// flowsOf returns the flows of a shared policy: those that the jobs which use it name. limit is how many
// tasks are admitted at once.
func flowsOf(s *esl.State, limit int, weight func(name string) float64) *flows {
	q := &flows{byName: make(map[string]*flow)}
	of := func(name string) *flow {
		if q.byName[name] == nil {
			q.byName[name] = &flow{name: name, weight: weight(name), at: s.Own(name), none: true}
		}
		return q.byName[name]
	}
	prefix := s.Own("") + "."
	for rid, pool := range s.View.Pools {
		ns, name, _ := rid.Split()
		if as, ok := strings.CutPrefix(name, prefix); ok && ns == s.Namespace && pool.Info.V != nil {
			f := of(as)
			f.last, f.none = float64(pool.Capacity()-1)/tagUnit, false
			q.now = max(q.now, f.last)
		}
	}
	referring := s.Referring()
	for _, job := range taskset.SortedKeys(referring) {
		if use, ok := referring[job].(esl.Use); ok {
			f := of(use.As)
			f.all = append(f.all, gatesOf(s, job, s.Label)...)
		}
	}
	for _, name := range taskset.SortedKeys(q.byName) {
		f := q.byName[name]
		l := sortGates(s, f.all, limit)
		f.waiting, f.begun, f.closing, f.inside = l.waiting, l.begun, l.closing, l.inside+len(l.entering)
		q.inside += l.inside
		q.entering, q.ended = append(q.entering, l.entering...), append(q.ended, l.ended...)
	}
	return q
}

// start is the virtual time at which the next task of a flow begins: 1/weight after the one before
// it, but not before now.
func (f *flow) start(now float64) float64 {
	if f.none {
		return now
	}
	return max(now, f.last+1/f.weight)
}

// first returns the flow whose turn it is: one with a partly open unit, else the earliest to begin,
// then the earliest to end; nil if nothing waits. So two units that do not fit together are never
// both partly open.
func (q *flows) first() *flow {
	var best *flow
	for _, f := range q.byName {
		if len(f.waiting) > 0 && (best == nil || q.before(f, best)) {
			best = f
		}
	}
	return best
}

func (q *flows) before(a, b *flow) bool {
	return cmp.Or(
		taskset.BoolInt(b.begun > 0)-taskset.BoolInt(a.begun > 0),
		cmp.Compare(a.start(q.now), b.start(q.now)),
		cmp.Compare(a.start(q.now)+1/a.weight, b.start(q.now)+1/b.weight),
		strings.Compare(a.name, b.name),
	) < 0
}

// admit takes up to most gates of the first unit of a flow, if the unit fits in room.
func (q *flows) admit(f *flow, room, most int) unit {
	in, left := take(f.waiting, room, most)
	if len(left) < len(f.waiting) {
		f.begun = max(0, f.begun-1)
	}
	f.waiting = left
	for range in {
		q.now = f.start(q.now)
		f.last, f.none, f.moved = q.now, false, true
	}
	f.inside += len(in)
	q.inside += len(in)
	return in
}

// notes returns the changes of the notes of flows that have admitted tasks.
func (q *flows) notes() (sets []controlplane.Resource) {
	for _, name := range taskset.SortedKeys(q.byName) {
		if f := q.byName[name]; f.moved {
			sets = append(sets, f.note(1+types.Quantity(math.Round(f.last*tagUnit))))
		}
	}
	return sets
}

// note returns the change that sets the note of a flow, or removes it with 0.
func (f *flow) note(capacity types.Quantity) controlplane.Resource {
	return controlplane.Resource{Name: f.at, Capacity: capacity, Where: controlplane.InCluster()}
}

// over reports whether the note of a flow no longer matters.
func (q *flows) over(f *flow) bool {
	if len(f.waiting)+f.inside > 0 {
		return false
	}
	idle := q.taken() == 0
	for _, other := range q.byName {
		idle = idle && len(other.waiting) == 0
	}
	return idle || f.last+1/f.weight <= q.now && f.last < q.now
}

// tidied adds to a plan what closes the gates of tasks admitted without effect, and what removes
// notes and gates that no longer matter, up to so many changes.
func (q *flows) tidied(s *esl.State, plan esl.Plan, most int) esl.Plan {
	l := gates{entering: q.entering}
	for _, f := range q.byName {
		l.waiting = append(l.waiting, f.waiting...)
		l.closing = append(l.closing, f.closing...)
	}
	plan.Idle = waitText(l.waiting)
	closed, again := closeIdle(s, l)
	for _, name := range taskset.SortedKeys(q.byName) {
		if f := q.byName[name]; !f.none && q.over(f) {
			closed = append(closed, f.note(0))
		}
	}
	plan.Set = append(plan.Set, closed[:min(len(closed), max(0, most-len(plan.Set)))]...)
	plan.Set = withEnded(plan.Set, q.ended, most)
	plan.RequeueAfter = again
	return plan
}
