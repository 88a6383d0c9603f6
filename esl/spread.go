package esl

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/escher-sched/escher/controlplane"
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
	Over Domain `json:"over,omitempty" desc:"what the tasks are spread over: node, rack or zone; node if it is left out"`
	// MaxSkew is how many more may be in one domain than in another; 0 is 1.
	MaxSkew int `json:"maxSkew,omitempty" desc:"how many more tasks one may have than another; 1 if it is left out" zero:"would let none begin: give how many more one may have, or leave it out for 1"`
}

// Kind is spread.
func (Spread) Kind() string { return "spread" }

// Validate checks the parameters.
func (p Spread) Validate() error {
	if p.MaxSkew < 0 {
		return invalid("maxSkew: %d is negative: give how many more tasks one may have than another, or leave it out for 1", p.MaxSkew)
	}
	return p.Over.or(Node).Validate("over")
}

// Apply has each task ask for one of a resource that Next makes where the task may go.
func (p Spread) Apply(g *Group) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if err := g.excludes("pack"); err != nil {
		return err
	}
	g.steers()
	g.evenly(p.Over.or(Node), max(p.MaxSkew, 1))
	g.Make(g.Own(""), 0, controlplane.OnEvery())
	g.AskAll(g.Own(""), One)
	return nil
}

// Next opens as many in each domain as may be there now.
func (p Spread) Next(s *State) Plan {
	name := s.Own("")
	c := s.crowd(name)
	if len(c.waiting)+len(c.held) == 0 {
		return Plan{}
	}
	plan := Plan{Reason: "tasks are spread", Again: c.next}
	if len(c.waiting) == 0 && p.Over.or(Node) != Node {
		s.shut(&plan, name)
		return plan
	}
	id := types.Resolve(s.Namespace, name)
	parts := s.parts(p.Over.or(Node), id, c)
	if len(parts) == 0 {
		return plan
	}
	most := p.most(parts, c)
	if p.Over.or(Node) == Node && !c.gang {
		s.level(&plan, name, most[0], c) // one number for all
		return plan
	}
	for i, d := range parts {
		s.setLimits(&plan, name, s.limit(d, id, most[i], c))
	}
	s.turn(&plan)
	return plan
}

// most returns how many each domain may have. A gang is placed at once, so that what it
// comes to in the end is given at once, and of those that have as many the ones with room
// for it get one more.
func (p Spread) most(parts []*part, c crowd) []int {
	out, most := make([]int, len(parts)), least(parts)+max(p.MaxSkew, 1)
	for i := range out {
		out[i] = most
	}
	if !c.gang {
		return out
	}
	units := (len(c.waiting) + c.unit - 1) / c.unit
	order := make([]int, len(parts))
	for i, d := range parts {
		order[i] = i
		units += d.used / c.unit
	}
	lacks := make([]int, len(parts)) // of what one more than the others would have there
	for i, d := range parts {
		if len(c.waiting) > 0 && units%len(parts) > 0 {
			lacks[i] = max(0, (units/len(parts)+1)*c.unit-d.used-d.fit(c).now)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(parts[b].used, parts[a].used), cmp.Compare(lacks[a], lacks[b]))
	})
	for i, at := range order {
		out[at] = units / len(parts) * c.unit
		if i < units%len(parts) {
			out[at] += c.unit
		}
	}
	return out
}

// level sets how many each node may have, if that changes anything.
func (s *State) level(plan *Plan, name string, most int, c crowd) {
	is, want := s.everyNode(name), types.Quantity(most)*One
	if want < is || want > is && len(c.waiting) > 0 {
		s.onEvery(plan, name, want)
	}
}

// opens says how many more may be in each rack or zone. Nodes have as many in any case.
func (p Spread) opens(s *State) law {
	if p.Over.or(Node) == Node {
		return law{}
	}
	c := s.crowd(s.Own(""))
	parts := s.parts(p.Over, types.Resolve(s.Namespace, s.Own("")), c)
	return lawOf(s.Own(""), p.Over, parts, p.most(parts, c))
}

// Wide tells that what is free in a rack changes with what others do.
func (Spread) Wide() {}

// Why says where the task may go, and why nowhere else.
func (p Spread) Why(s *State, task string) string {
	if _, ok := s.waits(task); !ok {
		return ""
	}
	name, over := s.Own(""), p.Over.or(Node)
	c := s.crowd(name)
	parts := s.parts(over, types.Resolve(s.Namespace, name), c)
	if len(parts) == 0 {
		return fmt.Sprintf("spread: there is no %s with a node that is large enough for it: label nodes, or add some", over)
	}
	slices.SortStableFunc(parts, func(a, b *part) int { return cmp.Compare(a.used, b.used) })
	return fmt.Sprintf("spread: at most %d more may be on one %s than on another, and they have: %s; it goes where fewer than %d are, when there is room",
		max(p.MaxSkew, 1), over, counts(parts), least(parts)+max(p.MaxSkew, 1))
}
