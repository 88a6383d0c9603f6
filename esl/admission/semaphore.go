package admission

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Semaphore is an amount that tasks of several jobs hold parts of while they run, such as database
// connections or licenses: one cluster-wide resource. It is shared: each task of a job with a Use holds some
// while it has a node.
type Semaphore struct {
	// Limit is the amount; with 0 no task begins.
	Limit int `json:"limit" desc:"the amount that tasks can hold together; 0 lets no task begin" min:"0"`
}

// Kind returns semaphore.
func (Semaphore) Kind() string { return "semaphore" }

// Describe says what the policy does.
func (Semaphore) Describe() esl.Description {
	return esl.Description{Does: "limits the amount that running tasks hold together", OnlyDeclared: true, Flags: []esl.Flag{{
		Name: "semaphore", Usage: "NAME[=AMOUNT]: declared semaphore, and how much of it each task holds",
		Pattern: "^" + manifest.NamePattern + "(=[+]?0*[1-9][0-9]*)?$",
		Text: func(text string) (esl.Parameters, error) {
			name, amount, given := strings.Cut(text, "=")
			if !given {
				return esl.Parameters{"name": name}, nil
			}
			n, err := strconv.Atoi(amount)
			if err != nil || n < 1 {
				return nil, esl.Invalid("semaphore: %q is no amount: write NAME, or NAME=2", amount)
			}
			return esl.Parameters{"name": name, "amount": n}, nil
		},
	}}}
}

// Apply refuses: jobs take part by Use.
func (Semaphore) Apply(*esl.Group) error { return esl.SharedOnly("a semaphore") }

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
		return esl.Plan{Idle: fmt.Sprintf("there are %d, as declared", p.Limit)}
	}
	return esl.Plan{Set: []controlplane.Resource{p.pool(name)}, Reason: fmt.Sprintf("there are %d", p.Limit)}
}

// Use makes each task request its amount.
func (p Semaphore) Use(g *esl.Group, u esl.Use) error {
	if err := u.Only(p.Kind(), "amount"); err != nil {
		return err
	}
	amount := max(u.Amount, 1)
	if p.Limit > 0 && amount > p.Limit {
		return esl.Invalid("amount: each task would hold %d, and there are %d of %s: ask for less", amount, p.Limit, u.Name)
	}
	g.AskAll(esl.OwnName(u.Name, p.Kind(), ""), types.Quantity(amount)*esl.One)
	return nil
}

// WhyUsed says how much is free, when that is too little.
func (p Semaphore) WhyUsed(s *esl.State, u esl.Use, task string) why.Reason {
	t := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: task})
	pool := s.Pool(s.Own(""))
	if t == nil || !taskset.IsWaiting(t) || pool == nil || pool.Free() >= types.Quantity(max(u.Amount, 1))*esl.One {
		return why.Reason{}
	}
	if pool.Capacity() == 0 {
		return why.Say(why.Budget, "Semaphore %s is closed.", u.Name)
	}
	return why.Say(why.Budget, "It waits for semaphore %s: %s of %s is free.", u.Name, pool.Free().Format(pool.ID), pool.Capacity().Format(pool.ID))
}
