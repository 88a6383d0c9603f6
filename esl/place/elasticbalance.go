package place

import (
	"fmt"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
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
func (p ElasticBalance) Apply(g *esl.Group) error {
	if err := checkExcludes(g, p.Kind(), "pack"); err != nil {
		return err
	}
	g.Steers()
	g.InTurn() // a node has one more when all have as many
	g.Make(g.Own(""), esl.One, controlplane.OnEvery())
	g.AskAll(g.Own(""), esl.One)
	return nil
}

// Declare makes the resource that tasks of all jobs ask for.
func (p ElasticBalance) Declare(id string) ([]esl.Set, error) {
	return []esl.Set{{Name: esl.OwnName(id, p.Kind(), ""), Capacity: esl.One, Where: controlplane.OnEvery(), Options: controlplane.SetOptions{Declare: true}}}, nil
}

// Next sets how many each node may have: one more than where the fewest are. A node that
// has no room for what waits does not hold up the others.
func (p ElasticBalance) Next(s *esl.State) esl.Plan {
	name := s.Own("")
	c := taskset.Of(s, name)
	if len(c.Waiting)+len(c.Held) == 0 {
		return esl.Plan{}
	}
	plan := esl.Plan{Reason: "what each node may have", RequeueAfter: c.Next}
	if parts := p.parts(s, name, c); len(parts) > 0 {
		levelLimits(s, &plan, name, least(parts)+1, c)
	}
	return plan
}

// parts are the nodes that count: that have room for some of what waits, or, if nothing
// waits, take tasks at all.
func (p ElasticBalance) parts(s *esl.State, name string, c taskset.Set) []*domain {
	parts := domainsOf(s, esl.Node, types.Resolve(s.Namespace, name), c)
	if len(c.Waiting) == 0 {
		return parts
	}
	roomy := slices.DeleteFunc(slices.Clone(parts), func(d *domain) bool {
		return !slices.ContainsFunc(c.Shapes, func(x *taskset.Shape) bool { return x.Waiting > 0 && x.Fits(d.rooms[0]) })
	})
	if len(roomy) == 0 {
		return parts
	}
	return roomy
}

// ClusterScoped tells that what is free changes with what others do.
func (ElasticBalance) ClusterScoped() {}

// Why says what each node may have.
func (p ElasticBalance) Why(s *esl.State, task string) string {
	if _, ok := taskset.Waits(s, task); !ok {
		return ""
	}
	name := s.Own("")
	return fmt.Sprintf("elastic-balance: each node may have %s of the tasks until all that have room are full: it waits for room on one with fewer", onEveryNode(s, name).Format("tasks"))
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
func (p Balanced) Apply(g *esl.Group) error {
	if err := shares[ElasticBalance](g, p.In); err != nil {
		return err
	}
	g.Steers()
	g.InTurn()
	g.AskAll(esl.OwnName(p.In, ElasticBalance{}.Kind(), ""), esl.One)
	return nil
}

// Why says what the shared policy does.
func (p Balanced) Why(s *esl.State, task string) string {
	return ElasticBalance{}.Why(s.OfShared(p.In, ElasticBalance{}.Kind()), task)
}
