package admission

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

// FairQueue admits a limited number of tasks at once, from several flows. While all flows have
// waiting tasks, each gets turns in proportion to its weight: start-time fair queuing, by the
// virtual time at which a task would begin. A new flow begins at the present; an idle flow saves no
// turns. It is shared: jobs name it by Flow.
type FairQueue struct {
	// Limit is how many tasks are admitted and have not ended.
	Limit int `json:"limit" desc:"how many admitted tasks may run at once" min:"1" max:"1073741824"`
	// Flows holds the weights of flows by name.
	Flows map[string]float64 `json:"flows,omitempty" desc:"weights of flows, by name" keys:"name" min:"0.001" max:"1000" or:"anyone"`
	// Anyone is the weight of each flow without a name here; 0 allows no others.
	Anyone float64 `json:"anyone,omitempty" desc:"weight of each flow that is not named; no other may take part if it is left out" min:"0" max:"1000"`
}

// Kind returns fair-queue.
func (FairQueue) Kind() string { return "fair-queue" }

// Describe says what the policy does.
func (FairQueue) Describe() esl.Description {
	return esl.Description{Does: "limits how many tasks run at once, and admits them by the weights of their flows", OnlyDeclared: true, Flags: []esl.Flag{{
		Name: "queue", Values: esl.Values{Then: "/"},
		Pattern: "^" + manifest.NamePattern + "/(.|\n)+",
		Text: func(text string) (esl.Parameters, error) {
			if name, as, ok := strings.Cut(text, "/"); ok {
				return esl.Parameters{"name": name, "as": as}, nil
			}
			return nil, nil // of a queue
		},
	}}}
}

// Apply refuses: jobs name it by Flow.
func (FairQueue) Apply(*esl.Group) error {
	return esl.Invalid("fair-queue is shared: declare it under an id, and have jobs name it by the policy flow")
}

// The bounds of weights keep the virtual times of two tasks of the largest weight distinct.
const (
	minFlow = 1e-3
	maxFlow = 1e3
)

// Validate checks the parameters.
func (p FairQueue) Validate() error {
	var errs []error
	if p.Limit < 1 || p.Limit > maxLimit {
		errs = append(errs, esl.Invalid("limit: %d is out of range: give from 1 to %d", p.Limit, maxLimit))
	}
	if len(p.Flows) == 0 && p.Anyone == 0 {
		errs = append(errs, esl.Invalid("flows: there are none: give weights of flows by name, or that of anyone"))
	}
	weight := func(field string, w float64) {
		if w < minFlow || w > maxFlow {
			errs = append(errs, esl.Invalid("%s: %g is out of range: give a weight from %g to %g", field, w, minFlow, maxFlow))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Flows)) {
		errs = append(errs, types.ValidateName("flows", name))
		weight("flows."+name, p.Flows[name])
	}
	if p.Anyone != 0 {
		weight("anyone", p.Anyone)
	}
	return esl.Join(errs)
}

// Declare returns no resources: each task has a gate of its own, and each flow a note while it has
// tasks.
func (p FairQueue) Declare(id string) ([]controlplane.Resource, error) {
	errs := []error{p.Validate()}
	for _, name := range slices.Sorted(maps.Keys(p.Flows)) {
		errs = append(errs, p.named(id, name))
	}
	return nil, esl.Join(errs)
}

// named checks the name of a flow's note.
func (p FairQueue) named(id, flow string) error {
	if name := esl.OwnName(id, p.Kind(), flow); len(name) > types.MaxName {
		return esl.Invalid("flows: the note of %q would be called %s, which has %d bytes: at most %d are allowed, shorten the names", flow, name, len(name), types.MaxName)
	}
	return nil
}

// weight returns the weight of a flow. A flow that is no longer listed has 1 until its jobs have
// ended.
func (p FairQueue) weight(flow string) float64 { return cmp.Or(p.Flows[flow], p.Anyone, 1) }

// CheckAtOnce refuses more tasks at once than the limit.
func (p FairQueue) CheckAtOnce(id string, tasks int) error {
	if p.Limit < tasks {
		return esl.Invalid("policies: all %d tasks begin at once, and %s lets in %d: have fewer tasks, or raise its limit", tasks, id, p.Limit)
	}
	return nil
}

// Next admits the tasks whose turn it is, and notes how far each flow is.
func (p FairQueue) Next(s *esl.State) esl.Plan {
	q := p.queue(s)
	var plan esl.Plan
	moved := make(map[*flow]bool)
	most := s.MaxChanges()
	room, half := p.Limit-q.taken(), max(1, most/2) // half, because a flow's note comes with each
	for f := q.first(); f != nil; f = q.first() {
		in, left := take(f.waiting, room, half-len(plan.Set))
		if len(in) == 0 {
			break
		}
		if len(left) < len(f.waiting) {
			f.begun = max(0, f.begun-1)
		}
		f.waiting = left
		for _, g := range in {
			q.now = f.start(q.now)
			f.last, f.none = q.now, false
			plan.Set = append(plan.Set, g.open(s.Now))
		}
		moved[f] = true
		f.inside += len(in)
		q.inside += len(in)
		room -= len(in)
	}
	plan.Reason = "admit " + words.Count(len(plan.Set), "task")
	for _, name := range taskset.SortedKeys(q.byName) {
		if f := q.byName[name]; moved[f] {
			plan.Set = append(plan.Set, f.note(1+types.Quantity(math.Round(f.last*tagUnit))))
		}
	}
	plan.Whole = true // the notes must match the admissions
	return q.tidied(s, plan, most)
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

// tagUnit is a virtual time of 1 in the note of a flow: an ephemeral resource of that capacity,
// which no task requests.
const tagUnit = 1e6

// flows is the current state of a fair queue.
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
	// means that there is no note.
	at   string
	last float64
	none bool
	// inside is how many of its tasks are admitted; all are all of its gates.
	inside  int
	all     []gate
	waiting []unit
	// begun is how many of waiting are partly open; closing are those being closed again.
	begun   int
	closing []unit
}

// queue computes the state of the queue.
func (p FairQueue) queue(s *esl.State) *flows {
	q := &flows{byName: make(map[string]*flow)}
	prefix := esl.OwnName(s.ID, p.Kind(), "") + "."
	for rid, pool := range s.View.Pools {
		ns, name, _ := rid.Split()
		if as, ok := strings.CutPrefix(name, prefix); ok && ns == s.Namespace && pool.Info.V != nil {
			f := q.flow(p, s.ID, as)
			f.last, f.none = float64(pool.Capacity()-1)/tagUnit, false
			q.now = max(q.now, f.last)
		}
	}
	referring := s.Referring()
	for _, job := range taskset.SortedKeys(referring) {
		use, ok := referring[job].(esl.Use)
		if !ok {
			continue
		}
		f := q.flow(p, s.ID, use.As)
		f.all = append(f.all, gatesOf(s, job, p.Kind())...)
	}
	for _, name := range taskset.SortedKeys(q.byName) {
		f := q.byName[name]
		l := sortGates(s, f.all, p.Limit)
		f.waiting, f.begun, f.closing, f.inside = l.waiting, l.begun, l.closing, l.inside+len(l.entering)
		q.inside += l.inside
		q.entering, q.ended = append(q.entering, l.entering...), append(q.ended, l.ended...)
	}
	return q
}

// flow returns the flow with a name, and creates it if needed.
func (q *flows) flow(p FairQueue, id, as string) *flow {
	f := q.byName[as]
	if f == nil {
		f = &flow{name: as, weight: p.weight(as), at: esl.OwnName(id, p.Kind(), as), none: true}
		q.byName[as] = f
	}
	return f
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

// note returns the change that sets the note of a flow, or removes it with 0.
func (f *flow) note(capacity types.Quantity) controlplane.Resource {
	return controlplane.Resource{Name: f.at, Capacity: capacity, Where: controlplane.InCluster()}
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

// Use makes each task request a gate of its own.
func (p FairQueue) Use(g *esl.Group, u esl.Use) error {
	if err := u.Only(p.Kind(), "as"); err != nil {
		return err
	}
	if u.As == "" {
		return esl.Invalid("as: is missing: name the flow of the tasks%s", such(slices.Sorted(maps.Keys(p.Flows))))
	}
	if err := types.ValidateName("as", u.As); err != nil {
		return err
	}
	if _, ok := p.Flows[u.As]; !ok && p.Anyone == 0 {
		return esl.Invalid("as: there is no flow %q: use %s", u.As, strings.Join(slices.Sorted(maps.Keys(p.Flows)), ", "))
	}
	if err := p.named(u.Name, u.As); err != nil {
		return err
	}
	return askGates(g, p.Kind())
}

// WhyUsed says how far the flow is.
func (p FairQueue) WhyUsed(s *esl.State, u esl.Use, task string) why.Reason {
	t := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: task})
	if t == nil || t.Info.V == nil || t.Phase() != types.Pending {
		return why.Reason{}
	}
	q := p.queue(s)
	f := q.byName[u.As]
	if f == nil {
		return why.Reason{}
	}
	if n, ok := ahead(f.waiting, t); ok {
		return why.Say(why.Order, "fair-queue %s has let in %d of %d; %d of %s are before it", u.Name, q.taken(), p.Limit, n, u.As)
	}
	if text := whyOutside(s, f.all, t, p.Limit); text != "" {
		return why.Say(why.Order, "fair-queue %s %s", u.Name, text)
	}
	return why.Reason{}
}

// such gives examples of names, if there are some.
func such(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ", such as " + strings.Join(names, ", ")
}
