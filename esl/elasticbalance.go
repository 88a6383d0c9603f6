package esl

import (
	"fmt"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// ElasticBalance keeps tasks balanced over the nodes, however many come, and whatever
// nodes come and go: no node gets a further one while another one that has room has
// fewer. It may be of one job, or shared: jobs then name it by Balanced, and their tasks
// are balanced together.
//
// What each node may have is raised by one when all are full, and lowered when tasks go.
// Nodes that join get tasks first; those that are cordoned or drained count no more.
type ElasticBalance struct{}

// Kind is elastic-balance.
func (ElasticBalance) Kind() string { return "elastic-balance" }

// Apply has each task ask for one of the resource.
func (p ElasticBalance) Apply(g *Group) error {
	if err := g.excludes("pack"); err != nil {
		return err
	}
	g.steers()
	g.InTurn() // a node has one more when all have as many
	g.Make(g.Own(""), One, controlplane.OnEvery())
	g.AskAll(g.Own(""), One)
	return nil
}

// Declare makes the resource that tasks of all jobs ask for.
func (p ElasticBalance) Declare(id string) ([]Set, error) {
	return []Set{{Name: own(id, p.Kind(), ""), Capacity: One, Where: controlplane.OnEvery(), Options: controlplane.SetOptions{Declare: true}}}, nil
}

// Next sets how many each node may have: one more than where the fewest are. A node that
// has no room for what waits does not hold up the others.
func (p ElasticBalance) Next(s *State) Plan {
	name := s.Own("")
	c := s.crowd(name)
	if len(c.waiting)+len(c.held) == 0 {
		return Plan{}
	}
	plan := Plan{Reason: "what each node may have", Again: c.next}
	if parts := p.parts(s, name, c); len(parts) > 0 {
		s.level(&plan, name, least(parts)+1, c)
	}
	return plan
}

// parts are the nodes that count: that have room for some of what waits, or, if nothing
// waits, take tasks at all.
func (p ElasticBalance) parts(s *State, name string, c crowd) []*part {
	parts := s.parts(Node, types.Resolve(s.Namespace, name), c)
	if len(c.waiting) == 0 {
		return parts
	}
	roomy := slices.DeleteFunc(slices.Clone(parts), func(d *part) bool {
		return !slices.ContainsFunc(c.shapes, func(x *shape) bool { return x.waiting > 0 && x.fits(d.rooms[0]) })
	})
	if len(roomy) == 0 {
		return parts
	}
	return roomy
}

// Wide tells that what is free changes with what others do.
func (ElasticBalance) Wide() {}

// Why says what each node may have.
func (p ElasticBalance) Why(s *State, task string) string {
	if _, ok := s.waits(task); !ok {
		return ""
	}
	name := s.Own("")
	return fmt.Sprintf("elastic-balance: each node may have %s of the tasks until all that have room are full: it waits for room on one with fewer", s.everyNode(name).Format("tasks"))
}

// Balanced has the tasks of a job balanced together with those of others that name the
// same ElasticBalance.
type Balanced struct {
	// In is the id that it was declared under.
	In string `json:"in" desc:"the name of the elastic-balance" is:"name"`
}

// Kind is balanced.
func (Balanced) Kind() string { return "balanced" }

// Shared is the id of the ElasticBalance.
func (p Balanced) Shared() string { return p.In }

// Apply has each task ask for one of the resource of all.
func (p Balanced) Apply(g *Group) error {
	if err := shares[ElasticBalance](g, p.In); err != nil {
		return err
	}
	g.steers()
	g.InTurn()
	g.AskAll(own(p.In, ElasticBalance{}.Kind(), ""), One)
	return nil
}

// Why says what the shared policy does.
func (p Balanced) Why(s *State, task string) string {
	return ElasticBalance{}.Why(s.shared(p.In, ElasticBalance{}.Kind()), task)
}
