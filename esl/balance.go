package esl

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Balance gives each of a number of nodes the same share of the tasks of a job, whose
// number is known: n tasks on m nodes, ceil(n/m) on each. See ElasticBalance for a number
// that is not known.
type Balance struct {
	// Nodes is on how many nodes; 0: on all that take tasks and are large enough,
	// however many these are by then.
	Nodes int `json:"nodes,omitempty" desc:"on how many nodes; on all that take tasks if it is left out"`
}

// Kind is balance.
func (Balance) Kind() string { return "balance" }

// Validate checks the parameters.
func (p Balance) Validate() error {
	if p.Nodes < 0 {
		return invalid("nodes: %d is negative: give on how many nodes, or leave it out for all", p.Nodes)
	}
	return nil
}

// Apply has each task ask for one of a resource that Next makes on the nodes.
func (p Balance) Apply(g *Group) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if err := g.excludes("pack"); err != nil {
		return err
	}
	if p.Nodes > 0 {
		g.Finally(func() error { return g.excludes("spread") })
	}
	if p.Nodes > 1 {
		g.AtMost(int(p.share(len(g.Tasks), p.Nodes)/One), Node)
	}
	g.steers()
	g.Make(g.Own(""), 0, controlplane.OnEvery())
	g.AskAll(g.Own(""), One)
	return nil
}

// share is how many tasks each of m nodes has at most.
func (p Balance) share(tasks, m int) types.Quantity {
	if m == 0 {
		return 0
	}
	return types.Quantity((tasks+m-1)/m) * One
}

// Next sets the share of each node. A node that is lost, or drained, makes the share of
// the others larger, or is replaced by another one, if their number was given.
func (p Balance) Next(s *State) Plan {
	name := s.Own("")
	c := s.crowd(name)
	if len(c.waiting)+len(c.held) == 0 {
		return Plan{}
	}
	id, all := types.Resolve(s.Namespace, name), len(s.concerned())
	parts := s.parts(Node, id, c)
	plan := Plan{Reason: "the share of each node"}
	if p.Nodes == 0 {
		if want := p.share(all, len(parts)); want != s.everyNode(name) && len(parts) > 0 {
			s.onEvery(&plan, name, want)
		}
		return plan
	}
	p.choose(s, &plan, name, parts, p.share(all, min(p.Nodes, len(parts))))
	s.turn(&plan)
	return plan
}

// choose gives the share to so many nodes: those that have it stay, and others are taken
// by how few tasks of others they have.
func (p Balance) choose(s *State, plan *Plan, name string, parts []*part, share types.Quantity) {
	id := types.Resolve(s.Namespace, name)
	slices.SortStableFunc(parts, func(a, b *part) int {
		x, y := a.nodes[0], b.nodes[0]
		return cmp.Or(cmp.Compare(s.capacity(y, id), s.capacity(x, id)), cmp.Compare(b.used, a.used), cmp.Compare(len(x.Bindings), len(y.Bindings)))
	})
	chosen := make(map[string]bool)
	var on, off []string
	for _, d := range parts[:min(p.Nodes, len(parts))] {
		n := d.nodes[0]
		chosen[n.Name] = true
		if s.capacity(n, id) != share {
			on = append(on, n.Name)
		}
	}
	for _, n := range s.open(id) {
		if !chosen[n.Name] {
			off = append(off, n.Name)
		}
	}
	s.place(plan, name, share, on, off)
}

// Why says what the share is.
func (p Balance) Why(s *State, task string) string {
	if _, ok := s.waits(task); !ok {
		return ""
	}
	name := s.Own("")
	parts := s.parts(Node, types.Resolve(s.Namespace, name), s.crowd(name))
	if len(parts) == 0 {
		return "balance: no node takes tasks and is large enough for it"
	}
	m := len(parts)
	if p.Nodes > 0 {
		m = min(m, p.Nodes)
	}
	return fmt.Sprintf("balance: each of %d nodes may have %s of the job's tasks at once; it waits until one of them has fewer, and room",
		m, p.share(len(s.concerned()), m).Format("tasks"))
}
