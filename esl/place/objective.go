package place

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Objective places each task where an objective function is least. It may be of one job,
// or shared: jobs then name it by Placed, and their tasks are placed in one order. A
// program with a function of its own uses Assign.
type Objective struct {
	// By is the function: see Aim.
	By Aim `json:"by" desc:"what is to be least: load, leftover, dot-product or fragments"`
	// Weights say how much resources count, by name; 1 if they are left out.
	Weights map[string]float64 `json:"weights,omitempty" desc:"how much each resource counts, by name; 1 if it is left out" keys:"physical" min:"0"`
	// Ahead is how many tasks may have a node and not be bound yet; 0 is 24.
	Ahead int `json:"ahead,omitempty" desc:"how many tasks may have a node and not be bound yet; 24 if it is left out" zero:"would let none begin: give how many, or leave it out for 24"`
}

// Aim is an objective function.
type Aim string

// The functions.
const (
	// Load is how much of the node is in use then, of each resource by its weight: the
	// load of all nodes becomes the same.
	Load Aim = "load"
	// Leftover is how much of the node is left then, in parts of the largest node: best
	// fit.
	Leftover Aim = "leftover"
	// DotProduct is what is free times what is asked for, in parts of the largest node,
	// summed up over the resources.
	DotProduct Aim = "dot-product"
	// Fragments is by how much more GPU there is then that the tasks, as they have
	// been, cannot use: fragmentation gradient descent (Weng et al., ATC 2023), see Mix.
	// What is nearly the same goes where the least is left.
	Fragments Aim = "fragments"
)

// Choices are what it may be.
func (Aim) Choices() []string {
	return []string{string(Load), string(Leftover), string(DotProduct), string(Fragments)}
}

// Kind is objective.
func (Objective) Kind() string { return "objective" }

// Validate checks the parameters.
func (p Objective) Validate() error {
	var errs []error
	if !slices.Contains(p.By.Choices(), string(p.By)) {
		errs = append(errs, esl.Invalid("by: %q is unknown: use %s", string(p.By), strings.Join(p.By.Choices(), ", ")))
	}
	if p.Ahead < 0 {
		errs = append(errs, esl.Invalid("ahead: %d is negative: give how many tasks, or leave it out", p.Ahead))
	}
	for _, name := range taskset.SortedKeys(p.Weights) {
		switch w := p.Weights[name]; {
		case !types.IsPhysical(name):
			errs = append(errs, esl.Invalid("weights.%s: is no physical resource: name those that nodes have, such as cpu", name))
		case w < 0:
			errs = append(errs, esl.Invalid("weights.%s: %g is negative: use 0 or more", name, w))
		}
	}
	return esl.Join(errs)
}

// Apply has each task ask for a resource of its own, by which it is assigned to a node.
func (p Objective) Apply(g *esl.Group) error {
	if err := p.Validate(); err != nil {
		return err
	}
	AssignEach(g)
	return nil
}

// Declare checks the parameters; each task brings what it is assigned by.
func (p Objective) Declare(string) ([]esl.Set, error) { return nil, p.Validate() }

// Next assigns tasks that wait to nodes.
func (p Objective) Next(s *esl.State) esl.Plan {
	return Assign{Score: p.Score(s), Ahead: p.Ahead}.next(s, p.label(s))
}

// label is by which name tasks are assigned: a shared one has them by Placed.
func (p Objective) label(s *esl.State) string {
	if s.Job == "" {
		return Placed{}.Kind()
	}
	return s.Label
}

// Opens says that room may be made on any node.
func (Objective) Opens(s *esl.State) esl.Limit { return esl.Limit{Name: s.Own(""), Each: true} }

// ClusterScoped tells that what is free changes with what others do.
func (Objective) ClusterScoped() {}

// Why says which node was chosen.
func (p Objective) Why(s *esl.State, task string) string { return Assign{}.why(s, p.label(s), task) }

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

// counted are the resources that functions go by, if a task asks for them or not.
func counted() [4]types.ResourceID {
	return [4]types.ResourceID{types.CPU, types.Memory, types.GPU, types.Disk}
}

func (p Objective) weight(id types.ResourceID) float64 {
	if w, ok := p.Weights[string(id)]; ok {
		return w
	}
	return 1
}

// load is the weighted share of the node that is in use then.
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

// Placed has the tasks of a job placed by a shared Objective.
type Placed struct {
	// By is the id that it was declared under.
	By string `json:"by" desc:"the name of the objective" is:"name"`
}

// Kind is placed.
func (Placed) Kind() string { return "placed" }

// Shared is the id of the Objective.
func (p Placed) Shared() string { return p.By }

// Apply has each task ask for a resource of its own, by which it is assigned to a node.
func (p Placed) Apply(g *esl.Group) error {
	if err := shares[Objective](g, p.By); err != nil {
		return err
	}
	AssignEach(g)
	return nil
}

// Opens says that room may be made on any node.
func (Placed) Opens(s *esl.State) esl.Limit { return esl.Limit{Name: s.Own(""), Each: true} }

// Why says which node was chosen.
func (p Placed) Why(s *esl.State, task string) string {
	return Assign{}.why(s.OfShared(p.By, Objective{}.Kind()), p.Kind(), task)
}
