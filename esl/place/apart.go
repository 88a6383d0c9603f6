package place

import (
	"fmt"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
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
	In esl.Domain `json:"in,omitempty" desc:"what they are kept apart by: node, rack or zone; node if it is left out"`
}

// Kind is apart.
func (Apart) Kind() string { return "apart" }

// Validate checks the parameters.
func (p Apart) Validate() error {
	if p.PerNode < 0 {
		return esl.Invalid("perNode: %d is negative: give how many tasks may share a node, or leave it out for 1", p.PerNode)
	}
	return p.In.Or(esl.Node).Validate("in")
}

// Apply makes the resource, and has every task ask for one.
func (p Apart) Apply(g *esl.Group) error {
	if err := p.Validate(); err != nil {
		return err
	}
	in, most := p.In.Or(esl.Node), max(p.PerNode, 1)
	g.AtMost(most, in)
	each := types.Quantity(most) * esl.One
	if in != esl.Node {
		g.Steers()
		each = 0 // until it is known which nodes there are
	}
	g.Make(g.Own(""), each, controlplane.OnEvery())
	g.AskAll(g.Own(""), esl.One)
	return nil
}

// Next says on which nodes of each rack or zone what waits may be.
func (p Apart) Next(s *esl.State) esl.Plan {
	if p.In.Or(esl.Node) == esl.Node {
		return esl.Plan{}
	}
	name := s.Own("")
	id := types.Resolve(s.Namespace, name)
	c := taskset.Of(s, name)
	plan := esl.Plan{Reason: "tasks are kept apart", RequeueAfter: c.Next}
	if len(c.Waiting) == 0 {
		closeDomains(s, &plan, name)
		return plan
	}
	for _, d := range domainsOf(s, p.In, id, c) {
		setLimits(s, &plan, name, limitDomain(s, d, id, max(p.PerNode, 1), c))
	}
	takeTurn(s, &plan)
	return plan
}

// Opens says how many more may be in each rack or zone. Nodes have as many in any case.
func (p Apart) Opens(s *esl.State) esl.Limit {
	if p.In.Or(esl.Node) == esl.Node {
		return esl.Limit{}
	}
	parts := domainsOf(s, p.In, types.Resolve(s.Namespace, s.Own("")), taskset.Of(s, s.Own("")))
	return lawOf(s.Own(""), p.In, parts, slices.Repeat([]int{max(p.PerNode, 1)}, len(parts)))
}

// ClusterScoped tells that what is free changes with what others do.
func (Apart) ClusterScoped() {}

// Why says where there is none left.
func (p Apart) Why(s *esl.State, task string) string {
	if _, ok := taskset.Waits(s, task); !ok {
		return ""
	}
	in, id := p.In.Or(esl.Node), types.Resolve(s.Namespace, s.Own(""))
	parts := domainsOf(s, in, id, taskset.Of(s, s.Own("")))
	for _, d := range parts {
		if d.used < max(p.PerNode, 1) {
			return ""
		}
	}
	return fmt.Sprintf("apart: at most %d of its job may be on one %s, and each of %d has so many: it waits for one to end, or for another %s", max(p.PerNode, 1), in, len(parts), in)
}
