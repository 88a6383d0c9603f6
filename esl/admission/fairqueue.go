package admission

import (
	"cmp"
	"strings"

	"github.com/escher-sched/escher/controlplane"
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
func (FairQueue) Apply(*esl.Group) error { return esl.SharedOnly("fair-queue") }

// Validate checks the parameters.
func (p FairQueue) Validate() error {
	errs := []error{
		esl.InvalidIf(p.Limit < 1 || p.Limit > maxLimit, "limit: %d is out of range: give from 1 to %d", p.Limit, maxLimit),
		esl.InvalidIf(len(p.Flows) == 0 && p.Anyone == 0, "flows: there are none: give weights of flows by name, or that of anyone"),
		validWeight("anyone", cmp.Or(p.Anyone, 1)),
	}
	for _, name := range taskset.SortedKeys(p.Flows) {
		errs = append(errs, types.ValidateName("flows", name), validWeight("flows."+name, p.Flows[name]))
	}
	return esl.Join(errs...)
}

// Declare returns no resources: each task has a gate of its own, and each flow a note while it has
// tasks.
func (p FairQueue) Declare(id string) ([]controlplane.Resource, error) {
	errs := []error{p.Validate()}
	for _, name := range taskset.SortedKeys(p.Flows) {
		errs = append(errs, p.named(id, name))
	}
	return nil, esl.Join(errs...)
}

// named checks the name of a flow's note.
func (p FairQueue) named(id, flow string) error {
	return esl.CheckMade("flows", flow, esl.OwnName(id, p.Kind(), flow))
}

// CheckAtOnce refuses more tasks at once than the limit.
func (p FairQueue) CheckAtOnce(id string, tasks int) error {
	return esl.InvalidIf(p.Limit < tasks, "policies: all %d tasks begin at once, and %s lets in %d: have fewer tasks, or raise its limit", tasks, id, p.Limit)
}

// flows returns the state of the queue. A flow that is no longer listed has weight 1 until its jobs have
// ended.
func (p FairQueue) flows(s *esl.State) *flows {
	return flowsOf(s, p.Limit, func(name string) float64 { return cmp.Or(p.Flows[name], p.Anyone, 1) })
}

// Next admits the tasks whose turn it is, and notes how far each flow is.
func (p FairQueue) Next(s *esl.State) esl.Plan {
	plan := esl.Plan{Whole: true} // the notes must match the admissions
	q, most := p.flows(s), s.MaxChanges()
	for f := q.first(); f != nil; f = q.first() {
		// half, because a flow's note comes with each
		in := q.admit(f, p.Limit-q.taken(), max(1, most/2)-len(plan.Set))
		if len(in) == 0 {
			break
		}
		plan.Set = append(plan.Set, in.open(s.Now)...)
	}
	plan.Reason = "admit " + words.Count(len(plan.Set), "task")
	plan.Set = append(plan.Set, q.notes()...)
	return q.tidied(s, plan, most)
}

// Use makes each task request a gate of its own.
func (p FairQueue) Use(g *esl.Group, u esl.Use) error {
	names, such := strings.Join(taskset.SortedKeys(p.Flows), ", "), ""
	if names != "" {
		such = ", such as " + names
	}
	if err := cmp.Or(
		u.Only(p.Kind(), "as"),
		esl.InvalidIf(u.As == "", "as: is missing: name the flow of the tasks%s", such),
		types.ValidateName("as", u.As),
		esl.InvalidIf(p.Flows[u.As] == 0 && p.Anyone == 0, "as: there is no flow %q: use %s", u.As, names),
		p.named(u.Name, u.As),
	); err != nil {
		return err
	}
	return askGates(g, p.Kind())
}

// WhyUsed says how far the flow is.
func (p FairQueue) WhyUsed(s *esl.State, u esl.Use, task string) why.Reason {
	t, waits := taskset.Waits(s, task)
	q := p.flows(s)
	f := q.byName[u.As]
	if !waits || f == nil {
		return why.Reason{}
	}
	if n, ok := ahead(f.waiting, t); ok {
		return why.Say(why.Order, "fair-queue %s has let in %d of %d; %d of %s are before it", u.Name, q.taken(), p.Limit, n, u.As)
	}
	return whyOutside(s, "fair-queue "+u.Name, f.all, t, p.Limit)
}
