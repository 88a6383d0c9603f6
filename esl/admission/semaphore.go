package admission

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Semaphore is an amount that tasks of several jobs hold parts of while they run, such as database
// connections or licenses: one cluster-wide resource. It is shared; jobs name it by Holds.
type Semaphore struct {
	// Limit is the amount; with 0 no task begins.
	Limit int `json:"limit" desc:"how much there is of it; 0 is closed" min:"0"`
}

// Kind returns semaphore.
func (Semaphore) Kind() string { return "semaphore" }

// Describe says what the policy does.
func (Semaphore) Describe() esl.Description {
	return esl.Description{Does: "so much of a name that tasks hold at once", OnlyDeclared: true}
}

// Apply refuses: jobs name it by Holds.
func (Semaphore) Apply(*esl.Group) error {
	return esl.Invalid("name: a semaphore is shared: declare it under a name of its own, and have the job name it by holds")
}

// Validate checks the limit.
func (p Semaphore) Validate() error {
	if p.Limit < 0 {
		return esl.Invalid("limit: %d is negative: give how much there is, 0 to close it", p.Limit)
	}
	return nil
}

// Declare returns the resource.
func (p Semaphore) Declare(id string) ([]controlplane.Resource, error) {
	return []controlplane.Resource{p.pool(esl.OwnName(id, p.Kind(), ""))}, p.Validate()
}

func (p Semaphore) pool(name string) controlplane.Resource {
	return controlplane.Resource{Name: name, Capacity: types.Quantity(p.Limit) * esl.One, Where: controlplane.InCluster(), Options: controlplane.SetOptions{Declare: true}}
}

// Next restores the declared resource after another program has changed it.
func (p Semaphore) Next(s *esl.State) esl.Plan {
	name := s.Own("")
	if pool := s.Pool(name); pool != nil && pool.Info.V != nil && pool.Info.V.Capacity == types.Quantity(p.Limit)*esl.One {
		return esl.Plan{}
	}
	return esl.Plan{Set: []controlplane.Resource{p.pool(name)}, Reason: fmt.Sprintf("there are %d", p.Limit)}
}

// Holds makes each task of a job hold some of a semaphore while it has a node.
type Holds struct {
	// Semaphore is its name.
	Semaphore string `json:"semaphore" desc:"the name of the semaphore" is:"name"`
	// Amount is how much each task holds; 0 means 1.
	Amount int `json:"amount,omitempty" desc:"how much of it each task holds; 1 if it is left out" zero:"is nothing: leave the policy out, or leave amount out for 1"`
}

// Kind returns holds.
func (Holds) Kind() string { return "holds" }

// Describe says what the policy does, and its flags.
func (Holds) Describe() esl.Description {
	return esl.Description{Does: "each task holds some of a semaphore that is declared", Flags: []esl.Flag{{
		Name: "semaphore", Usage: "NAME[=AMOUNT]: declared semaphore, and how much of it each task holds",
		Values: esl.Values{Shared: Semaphore{}.Kind()},
		Text: func(text string) (esl.Parameters, error) {
			name, amount, given := strings.Cut(text, "=")
			if !given {
				return esl.Parameters{"semaphore": name}, nil
			}
			n, err := strconv.Atoi(amount)
			if err != nil || n < 1 {
				return nil, esl.Invalid("semaphore: %q is no amount: write NAME, or NAME=2", amount)
			}
			return esl.Parameters{"semaphore": name, "amount": n}, nil
		},
	}}}
}

// Shared returns the name of the semaphore.
func (p Holds) Shared() string { return p.Semaphore }

// Validate checks the parameters without the semaphore.
func (p Holds) Validate() error {
	if p.Amount < 0 {
		return esl.Invalid("amount: %d is negative: give how much each task holds, or leave it out for 1", p.Amount)
	}
	return nil
}

// Apply makes each task request its amount.
func (p Holds) Apply(g *esl.Group) error {
	if err := p.Validate(); err != nil {
		return err
	}
	of, ok := g.Shared[p.Semaphore].(Semaphore)
	switch amount := max(p.Amount, 1); {
	case !ok:
		return esl.Invalid("semaphore: %q is none: declare a semaphore of that name, or correct it", p.Semaphore)
	case of.Limit > 0 && amount > of.Limit:
		return esl.Invalid("amount: each task would hold %d, and there are %d of %s: ask for less", amount, of.Limit, p.Semaphore)
	default:
		g.AskAll(esl.OwnName(p.Semaphore, of.Kind(), ""), types.Quantity(amount)*esl.One)
	}
	return nil
}

// Why names the holders of the semaphore, when too little of it is free.
func (p Holds) Why(s *esl.State, task string) why.Reason {
	t := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: task})
	pool := s.Pool(esl.OwnName(p.Semaphore, Semaphore{}.Kind(), ""))
	if t == nil || !taskset.IsWaiting(t) || pool == nil || pool.Free() >= types.Quantity(max(p.Amount, 1))*esl.One {
		return why.Reason{}
	}
	if pool.Capacity() == 0 {
		return why.Say(why.Budget, "Semaphore %s is closed.", p.Semaphore)
	}
	return why.Say(why.Budget, "It waits for semaphore %s: %s of %s is free.", p.Semaphore, pool.Free().Format(pool.ID), pool.Capacity().Format(pool.ID))
}
