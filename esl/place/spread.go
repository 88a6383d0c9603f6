package place

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Spread divides the tasks of a job evenly among nodes, racks or zones: no task is bound
// where there would then be more than MaxSkew more of them than where there are fewest.
//
// A domain counts if one of its nodes takes tasks and would be large enough for one of
// these if nothing else were there: a full one counts, and what waits waits for it.
// Nodes without the label are in none. Tasks that end, or are lost, may leave it uneven:
// what runs is not moved, and the next ones go where there are fewest.
type Spread struct {
	// Over is node, rack or zone; empty is node.
	Over esl.Domain `json:"over,omitempty" desc:"what the tasks are spread over: node, rack or zone; node if it is left out"`
	// MaxSkew is how many more may be in one domain than in another; 0 is 1.
	MaxSkew int `json:"maxSkew,omitempty" desc:"how many more tasks one may have than another; 1 if it is left out" zero:"would let none begin: give how many more one may have, or leave it out for 1"`
}

// Kind is spread.
func (Spread) Kind() string { return "spread" }

// Validate checks the parameters.
func (p Spread) Validate() error {
	if p.MaxSkew < 0 {
		return esl.Invalid("maxSkew: %d is negative: give how many more tasks one may have than another, or leave it out for 1", p.MaxSkew)
	}
	return p.Over.Or(esl.Node).Validate("over")
}

// Apply has each task ask for one of a resource that Next makes where the task may go.
func (p Spread) Apply(g *esl.Group) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if err := checkExcludes(g, p.Kind(), "pack"); err != nil {
		return err
	}
	g.Steers()
	g.Evenly(p.Over.Or(esl.Node), max(p.MaxSkew, 1))
	g.Make(g.Own(""), 0, controlplane.OnEvery())
	g.AskAll(g.Own(""), esl.One)
	return nil
}

// Next opens as many in each domain as may be there now.
func (p Spread) Next(s *esl.State) esl.Plan {
	name := s.Own("")
	c := taskset.Of(s, name)
	if len(c.Waiting)+len(c.Held) == 0 {
		return esl.Plan{}
	}
	plan := esl.Plan{Reason: "tasks are spread", RequeueAfter: c.Next}
	if len(c.Waiting) == 0 && p.Over.Or(esl.Node) != esl.Node {
		closeDomains(s, &plan, name)
		return plan
	}
	id := types.Resolve(s.Namespace, name)
	parts := domainsOf(s, p.Over.Or(esl.Node), id, c)
	if len(parts) == 0 {
		return plan
	}
	most := p.most(parts, c)
	if p.Over.Or(esl.Node) == esl.Node && !c.Gang {
		levelLimits(s, &plan, name, most[0], c) // one number for all
		return plan
	}
	for i, d := range parts {
		setLimits(s, &plan, name, limitDomain(s, d, id, most[i], c))
	}
	takeTurn(s, &plan)
	return plan
}

// most returns how many each domain may have. A gang is placed at once, so that what it
// comes to in the end is given at once, and of those that have as many the ones with room
// for it get one more.
func (p Spread) most(parts []*domain, c taskset.Set) []int {
	out, most := make([]int, len(parts)), least(parts)+max(p.MaxSkew, 1)
	for i := range out {
		out[i] = most
	}
	if !c.Gang {
		return out
	}
	units := (len(c.Waiting) + c.Unit - 1) / c.Unit
	order := make([]int, len(parts))
	for i, d := range parts {
		order[i] = i
		units += d.used / c.Unit
	}
	lacks := make([]int, len(parts)) // of what one more than the others would have there
	for i, d := range parts {
		if len(c.Waiting) > 0 && units%len(parts) > 0 {
			lacks[i] = max(0, (units/len(parts)+1)*c.Unit-d.used-d.fit(c).now)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(parts[b].used, parts[a].used), cmp.Compare(lacks[a], lacks[b]))
	})
	for i, at := range order {
		out[at] = units / len(parts) * c.Unit
		if i < units%len(parts) {
			out[at] += c.Unit
		}
	}
	return out
}

// levelLimits sets how many each node may have, if that changes anything.
func levelLimits(s *esl.State, plan *esl.Plan, name string, most int, c taskset.Set) {
	is, want := onEveryNode(s, name), types.Quantity(most)*esl.One
	if want < is || want > is && len(c.Waiting) > 0 {
		onEvery(s, plan, name, want)
	}
}

// Opens says how many more may be in each rack or zone. Nodes have as many in any case.
func (p Spread) Opens(s *esl.State) esl.Limit {
	if p.Over.Or(esl.Node) == esl.Node {
		return esl.Limit{}
	}
	c := taskset.Of(s, s.Own(""))
	parts := domainsOf(s, p.Over, types.Resolve(s.Namespace, s.Own("")), c)
	return lawOf(s.Own(""), p.Over, parts, p.most(parts, c))
}

// ClusterScoped tells that what is free in a rack changes with what others do.
func (Spread) ClusterScoped() {}

// Why says where the task may go, and why nowhere else.
func (p Spread) Why(s *esl.State, task string) string {
	if _, ok := taskset.Waits(s, task); !ok {
		return ""
	}
	name, over := s.Own(""), p.Over.Or(esl.Node)
	c := taskset.Of(s, name)
	parts := domainsOf(s, over, types.Resolve(s.Namespace, name), c)
	if len(parts) == 0 {
		return fmt.Sprintf("spread: there is no %s with a node that is large enough for it: label nodes, or add some", over)
	}
	slices.SortStableFunc(parts, func(a, b *domain) int { return cmp.Compare(a.used, b.used) })
	return fmt.Sprintf("spread: at most %d more may be on one %s than on another, and they have: %s; it goes where fewer than %d are, when there is room",
		max(p.MaxSkew, 1), over, counts(parts), least(parts)+max(p.MaxSkew, 1))
}
