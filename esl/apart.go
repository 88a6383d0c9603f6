package esl

import (
	"fmt"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Apart keeps the tasks of a job apart: anti-affinity. Every node, also those that come
// later, has one of an ephemeral resource, or so many as tasks may share a node, and
// each task asks for one. Of racks and zones the nodes have so many together.
type Apart struct {
	// PerNode is how many tasks may share a node, or what In says; 0 is 1.
	PerNode int `json:"perNode,omitempty" desc:"how many of the tasks may share a node, rack or zone; 1 if it is left out" zero:"would let none begin: give how many may share it, or leave it out for 1"`
	// In is what they share: node, rack or zone; empty is node. Nodes without the label
	// get none.
	In Domain `json:"in,omitempty" desc:"what they are kept apart by: node, rack or zone; node if it is left out"`
}

// Kind is apart.
func (Apart) Kind() string { return "apart" }

// Validate checks the parameters.
func (p Apart) Validate() error {
	if p.PerNode < 0 {
		return invalid("perNode: %d is negative: give how many tasks may share a node, or leave it out for 1", p.PerNode)
	}
	return p.In.or(Node).Validate("in")
}

// Apply makes the resource, and has every task ask for one.
func (p Apart) Apply(g *Group) error {
	if err := p.Validate(); err != nil {
		return err
	}
	in, most := p.In.or(Node), max(p.PerNode, 1)
	g.AtMost(most, in)
	each := types.Quantity(most) * One
	if in != Node {
		g.steers()
		each = 0 // until it is known which nodes there are
	}
	g.Make(g.Own(""), each, controlplane.OnEvery())
	g.AskAll(g.Own(""), One)
	return nil
}

// Next says on which nodes of each rack or zone what waits may be.
func (p Apart) Next(s *State) Plan {
	if p.In.or(Node) == Node {
		return Plan{}
	}
	name := s.Own("")
	id := types.Resolve(s.Namespace, name)
	c := s.crowd(name)
	plan := Plan{Reason: "tasks are kept apart", Again: c.next}
	if len(c.waiting) == 0 {
		s.shut(&plan, name)
		return plan
	}
	for _, d := range s.parts(p.In, id, c) {
		s.setLimits(&plan, name, s.limit(d, id, max(p.PerNode, 1), c))
	}
	s.turn(&plan)
	return plan
}

// opens says how many more may be in each rack or zone. Nodes have as many in any case.
func (p Apart) opens(s *State) law {
	if p.In.or(Node) == Node {
		return law{}
	}
	parts := s.parts(p.In, types.Resolve(s.Namespace, s.Own("")), s.crowd(s.Own("")))
	return lawOf(s.Own(""), p.In, parts, slices.Repeat([]int{max(p.PerNode, 1)}, len(parts)))
}

// Wide tells that what is free changes with what others do.
func (Apart) Wide() {}

// Why says where there is none left.
func (p Apart) Why(s *State, task string) string {
	if _, ok := s.waits(task); !ok {
		return ""
	}
	in, id := p.In.or(Node), types.Resolve(s.Namespace, s.Own(""))
	parts := s.parts(in, id, s.crowd(s.Own("")))
	for _, d := range parts {
		if d.used < max(p.PerNode, 1) {
			return ""
		}
	}
	return fmt.Sprintf("apart: at most %d of its job may be on one %s, and each of %d has so many: it waits for one to end, or for another %s", max(p.PerNode, 1), in, len(parts), in)
}
