package place

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Objective places each task where an objective function is lowest. It belongs to one job, or is
// shared: jobs then name it by Placed, and their tasks are placed in one order. A program with a
// function of its own uses Assign.
type Objective struct {
	// By is the function: see Aim.
	By Aim `json:"by" desc:"the function: load, leftover, dot-product or fragments"`
	// Weights are the weights of resources, by name; 1 if left out.
	Weights map[string]float64 `json:"weights,omitempty" desc:"how much each resource counts, by name; 1 if it is left out" keys:"physical" min:"0"`
	// Ahead is how many tasks may have a node and not be bound yet; 0 means 24.
	Ahead int `json:"ahead,omitempty" desc:"how many tasks may have a node and not be bound yet; 24 if it is left out" zero:"would let none begin: give how many, or leave it out for 24"`
}

// Aim is an objective function.
type Aim string

// The functions.
const (
	// Load is how much of the node is then in use, weighted by resource. It gives all nodes the
	// same load.
	Load Aim = "load"
	// Leftover is how much of the node is then free, relative to the largest node: best fit.
	Leftover Aim = "leftover"
	// DotProduct is free capacity times the request, relative to the largest node, summed over the
	// resources.
	DotProduct Aim = "dot-product"
	// Fragments is the growth of the GPU capacity that tasks like those seen so far cannot use:
	// fragmentation gradient descent (Weng et al., ATC 2023), see Mix. Of nearly equal nodes, the
	// one with the least left wins.
	Fragments Aim = "fragments"
)

// Choices returns the valid values.
func (Aim) Choices() []string {
	return []string{string(Load), string(Leftover), string(DotProduct), string(Fragments)}
}

// Kind returns objective.
func (Objective) Kind() string { return "objective" }

// Describe says what the policy does.
func (Objective) Describe() esl.Description {
	return esl.Description{Does: "each task goes to the node with the lowest value of a function"}
}

// Validate checks the parameters.
func (p Objective) Validate() error {
	var errs []error
	errs = append(errs, esl.InvalidIf(!slices.Contains(p.By.Choices(), string(p.By)), "by: %q is unknown: use %s", string(p.By), strings.Join(p.By.Choices(), ", ")))
	errs = append(errs, esl.InvalidIf(p.Ahead < 0, "ahead: %d is negative: give how many tasks, or leave it out", p.Ahead))
	for _, name := range taskset.SortedKeys(p.Weights) {
		switch w := p.Weights[name]; {
		case !types.IsPhysical(name):
			errs = append(errs, esl.Invalid("weights.%s: is no physical resource: name those that nodes have, such as cpu", name))
		case w < 0:
			errs = append(errs, esl.Invalid("weights.%s: %g is negative: use 0 or more", name, w))
		}
	}
	return esl.Join(errs...)
}

// Apply makes each task request a resource of its own, which assigns it to a node.
func (p Objective) Apply(g *esl.Group) error {
	if err := p.Validate(); err != nil {
		return err
	}
	AssignEach(g)
	return nil
}

// Declare checks the parameters. Each task has a resource of its own.
func (p Objective) Declare(string) ([]controlplane.Resource, error) { return nil, p.Validate() }

// Next assigns waiting tasks to nodes.
func (p Objective) Next(s *esl.State) esl.Plan {
	return Assign{Score: p.Score(s), Ahead: p.Ahead}.Next(s)
}

// Opens allows capacity to be made on any node.
func (Objective) Opens(s *esl.State) esl.Limit { return esl.Limit{Name: s.Own(""), Each: true} }

// ClusterScoped is set: free capacity changes with other jobs.
func (Objective) ClusterScoped() {}

// Why names the chosen node.
func (p Objective) Why(s *esl.State, task string) why.Reason {
	return Assign{}.Why(s, task)
}

// Score returns the function, for one decision.
func (p Objective) Score(s *esl.State) func([]cluster.Need, *esl.Room) float64 {
	switch p.By {
	case Leftover:
		return p.leftover(largest(s))
	case DotProduct:
		return p.dotProduct(largest(s))
	case Fragments:
		return p.descent(s)
	}
	return p.load
}

// counted returns the resources in the functions, whether a task requests them or not.
func counted() [4]types.ResourceID {
	return [4]types.ResourceID{types.CPU, types.Memory, types.GPU, types.Disk}
}

func (p Objective) weight(id types.ResourceID) float64 {
	if w, ok := p.Weights[string(id)]; ok {
		return w
	}
	return 1
}

// load is the weighted share of the node that is then in use.
func (p Objective) load(needs []cluster.Need, r *esl.Room) float64 {
	sum := 0.0
	for _, id := range counted() {
		if c := r.Capacity(id); c > 0 && c != types.Inf {
			free, _ := r.Free(id)
			sum += p.weight(id) * float64(c-free+amountOf(needs, id)) / float64(c)
		}
	}
	return sum
}

// largest returns the largest capacity of any node, by resource.
func largest(s *esl.State) map[types.ResourceID]float64 {
	out := make(map[types.ResourceID]float64)
	for _, n := range s.View.Nodes {
		for _, id := range counted() {
			if q, _ := s.View.Capacity(n, id); q != types.Inf {
				out[id] = max(out[id], float64(q))
			}
		}
	}
	return out
}

func (p Objective) leftover(most map[types.ResourceID]float64) func([]cluster.Need, *esl.Room) float64 {
	return func(needs []cluster.Need, r *esl.Room) float64 {
		sum := 0.0
		for _, id := range counted() {
			if free, ok := r.Free(id); ok && most[id] > 0 {
				sum += p.weight(id) * float64(free-amountOf(needs, id)) / most[id]
			}
		}
		return sum
	}
}

func (p Objective) dotProduct(most map[types.ResourceID]float64) func([]cluster.Need, *esl.Room) float64 {
	return func(needs []cluster.Need, r *esl.Room) float64 {
		sum := 0.0
		for _, id := range counted() {
			if free, ok := r.Free(id); ok && most[id] > 0 {
				sum += p.weight(id) * float64(free) / most[id] * float64(amountOf(needs, id)) / most[id]
			}
		}
		return sum
	}
}

// Use makes each task request a resource of its own, which assigns it to a node.
func (p Objective) Use(g *esl.Group, u esl.Use) error {
	if err := u.Only(p.Kind()); err != nil {
		return err
	}
	AssignEach(g)
	return nil
}

// OpensFor allows capacity to be made on any node.
func (Objective) OpensFor(s *esl.State, _ esl.Use) esl.Limit {
	return esl.Limit{Name: s.Own(""), Each: true}
}
