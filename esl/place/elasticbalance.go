package place

import (
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
)

// ElasticBalance keeps tasks balanced over the nodes while tasks and nodes come and go: no node
// gets another task while a node with capacity has fewer. It belongs to one job, or is shared: the
// tasks of all jobs that use it are balanced together.
//
// The limit of each node rises by one when all are full, and falls when tasks end. New nodes get
// tasks first. Cordoned and drained nodes do not count.
type ElasticBalance struct{}

// Kind returns elastic-balance.
func (ElasticBalance) Kind() string { return "elastic-balance" }

// Describe says what the policy does.
func (ElasticBalance) Describe() esl.Description {
	return esl.Description{Does: "each node gets the same number of tasks, also while tasks are added", OneByOne: true}
}

// Apply makes each task request one of the resource.
func (p ElasticBalance) Apply(g *esl.Group) error {
	g.Make(g.Own(""), esl.One, controlplane.OnEvery())
	return p.ask(g, g.Own(""))
}

// ask makes each task request one of the resource.
func (ElasticBalance) ask(g *esl.Group, name string) error {
	g.OnMany()
	g.Steers()
	g.InTurn() // a node gets one more when all have the same number
	g.AskAll(name, esl.One)
	return nil
}

// Declare returns the resource that tasks of all jobs request.
func (p ElasticBalance) Declare(id string) ([]controlplane.Resource, error) {
	return []controlplane.Resource{{Name: esl.OwnName(id, p.Kind(), ""), Capacity: esl.One, Where: controlplane.OnEvery(), Options: controlplane.SetOptions{Declare: true}}}, nil
}

// Next sets the limit of each node to one more than the fewest tasks on a node. A node without
// capacity for a waiting task does not hold up the others.
func (p ElasticBalance) Next(s *esl.State) esl.Plan {
	plan := keepLimits(s, esl.Node, "what each node may have", p.most)
	s.SeekEvery() // one policy for all jobs, and the limit follows each node
	return plan
}

// most counts the nodes where a waiting task fits or, if there is none or it fits nowhere, all that
// take tasks.
func (p ElasticBalance) most(l *limits) (most []int, level bool) {
	parts := slices.DeleteFunc(slices.Clone(l.parts), func(d *domain) bool {
		return !slices.ContainsFunc(l.tasks.Shapes, func(x *taskset.Shape) bool { return x.Waiting > 0 && x.Fits(d.rooms[0]) })
	})
	if len(parts) == 0 {
		parts = l.parts
	}
	return l.equal(least(parts) + 1), true
}

// ClusterScoped is set: free capacity changes with other jobs.
func (ElasticBalance) ClusterScoped() {}

// Why tells the limit of each node.
func (p ElasticBalance) Why(s *esl.State, task string) why.Reason {
	if _, ok := taskset.Waits(s, task); !ok {
		return why.Reason{}
	}
	return why.Say(why.Place, "elastic-balance: each node may have %s of the tasks until all that have room are full: it waits for room on one with fewer", onEveryNode(s, s.Own("")).Format("tasks"))
}

// Use makes each task request one of the shared resource.
func (p ElasticBalance) Use(g *esl.Group, u esl.Use) error {
	if err := u.Only(p.Kind()); err != nil {
		return err
	}
	return p.ask(g, esl.OwnName(u.Name, p.Kind(), ""))
}
