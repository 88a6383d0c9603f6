package admission

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

// Limit bounds how many tasks of a job run at once. The bound is the capacity of a cluster-wide
// resource, of which each task requests one: so it holds at every revision, and also while no
// program runs the policies.
type Limit struct {
	// AtOnce is how many tasks of the job have a node at once.
	AtOnce int `json:"atOnce" desc:"how many tasks of the job run at once" zero:"would let none run: give 1 or more" max:"1073741824"`
}

// Kind returns limit.
func (Limit) Kind() string { return "limit" }

// Describe says what the policy does, and its flags.
func (Limit) Describe() esl.Description {
	return esl.Description{Does: "at most atOnce tasks of the job run at once", Flags: []esl.Flag{{
		Name: "at-once", Usage: "how many tasks of the job run at once", Number: esl.Sets[int]("atOnce"),
	}}}
}

// Validate checks the limit.
func (p Limit) Validate() error {
	if p.AtOnce < 1 || p.AtOnce > maxLimit {
		return esl.Invalid("atOnce: %d is out of range: give from 1 to %d", p.AtOnce, maxLimit)
	}
	return nil
}

// Apply creates the resource, and makes each task request one of it.
func (p Limit) Apply(g *esl.Group) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if p.AtOnce < len(g.Tasks) {
		g.InTurn()
	}
	g.Make(g.Own(""), types.Quantity(p.AtOnce)*esl.One, controlplane.InCluster())
	g.AskAll(g.Own(""), esl.One)
	return nil
}

// Why says that the others of the job use up the limit.
func (p Limit) Why(s *esl.State, task string) why.Reason {
	t := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: task})
	pool := s.Pool(s.Own(""))
	if t == nil || !taskset.IsWaiting(t) || pool == nil || pool.Free() >= esl.One {
		return why.Reason{}
	}
	return why.Say(why.Budget, "The job runs at most %s at once.", words.Count(p.AtOnce, "task"))
}
