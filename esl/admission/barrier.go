package admission

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

// Barrier holds the tasks of a job back until tasks with given names have reached a phase: workers
// until their servers run. Once open it stays open.
type Barrier struct {
	// Tasks holds the names of the tasks that must be there first; all others wait.
	Tasks []string `json:"tasks" desc:"names of the tasks that must be there first; all others wait for them" some:""`
	// Count is how many of them must be there; 0 means all.
	Count int `json:"count,omitempty" desc:"how many of them; all if it is left out" zero:"would wait for no task: give how many must be there, or leave it out for all"`
	// When is the phase they must reach: bound, running (the default), healthy or succeeded. A
	// succeeded task counts for every phase.
	When types.When `json:"when,omitempty" desc:"how far they must be; running if it is left out"`
}

// Kind returns barrier.
func (Barrier) Kind() string { return "barrier" }

// Describe says what the policy does.
func (Barrier) Describe() esl.Description {
	return esl.Description{Does: "tasks begin when a number of other tasks has arrived"}
}

// Validate checks the parameters without the tasks.
func (p Barrier) Validate() error {
	var errs []error
	errs = append(errs, esl.InvalidIf(len(p.Tasks) == 0, "tasks: is empty: name at least one task"))
	errs = append(errs, esl.InvalidIf(p.Count < 0, "count: %d is negative: give how many of the tasks must be there, or leave it out for all", p.Count))
	switch p.When {
	case "", types.WhenBound, types.WhenRunning, types.WhenHealthy, types.WhenSucceeded:
	default:
		errs = append(errs, esl.Invalid("when: %q is unknown: use bound, running, healthy or succeeded", string(p.When)))
	}
	return esl.Join(errs...)
}

// Apply makes all others request the resource of the gate.
func (p Barrier) Apply(g *esl.Group) error {
	known := taskNames(g)
	errs := []error{p.Validate()}
	first := make(map[int]bool)
	for i, name := range p.Tasks {
		if known[name] == nil {
			errs = append(errs, unknownTask("tasks["+strconv.Itoa(i)+"]", name, known))
		}
		for _, at := range known[name] {
			first[at] = true
		}
	}
	errs = append(errs, esl.InvalidIf(p.Count > len(first) && len(first) > 0, "count: %d of the tasks are to be there first, and there are %d: give at most that many", p.Count, len(first)))
	errs = append(errs, esl.InvalidIf(len(first) == len(g.Tasks), "tasks: all %d tasks of the job are to be there first, and none is left to wait: name fewer", len(first)))
	if err := esl.Join(errs...); err != nil {
		return err
	}
	g.InTurn()
	for i := range g.Tasks {
		if !first[i] {
			g.Ask(i, g.Own(""), esl.One)
		}
	}
	return nil
}

// reached reports whether a task has reached the phase.
func (p Barrier) reached(t *cluster.Task) bool {
	switch t.Phase() {
	case types.Succeeded:
		return true
	case types.Running:
		return p.When == "" || p.When == types.WhenRunning || p.When == types.WhenBound ||
			p.When == types.WhenHealthy && t.Status.V.Full().Health == types.Healthy
	case types.Bound:
		return p.When == types.WhenBound
	}
	return false
}

// tally counts the tasks that must be there first: there have reached the phase, possible still
// can, and wanted must.
func (p Barrier) tally(members []*cluster.Task) (there, possible, wanted int) {
	for _, t := range members {
		if t.Info.V == nil || !slices.Contains(p.Tasks, t.Info.V.Name) {
			continue
		}
		wanted++
		switch {
		case p.reached(t):
			there++
		case !t.Phase().Ended():
			possible++
		}
	}
	if p.Count > 0 {
		wanted = p.Count
	}
	return there, possible, wanted
}

// Next opens the gate when enough are there, and ends the waiting tasks when they never will be.
func (p Barrier) Next(s *esl.State) esl.Plan {
	var plan esl.Plan
	members := s.Members()
	if isOpen(s, s.Own("")) || len(members) == 0 || s.Ended() {
		return plan
	}
	there, possible, wanted := p.tally(members)
	plan.Idle = fmt.Sprintf("%d of %d are there", there, wanted)
	switch {
	case there >= wanted:
		plan.Set = []controlplane.Resource{opened(s, s.Own(""))}
		plan.Reason = plan.Idle
	case there+possible < wanted:
		var behind []*cluster.Task
		for _, t := range members {
			if t.Info.V != nil && !slices.Contains(p.Tasks, t.Info.V.Name) {
				behind = append(behind, t)
			}
		}
		endWaiting(&plan, behind, fmt.Sprintf("it waits for %s, and only %d can be there any more", words.Count(wanted, "task"), there+possible))
	}
	return plan
}

// Why says how many are there, and how many must be.
func (p Barrier) Why(s *esl.State, task string) why.Reason {
	t := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: task})
	if t == nil || !taskset.IsWaiting(t) || slices.Contains(p.Tasks, t.Info.V.Name) || isOpen(s, s.Own("")) {
		return why.Reason{}
	}
	there, _, wanted := p.tally(s.Members())
	when := p.When
	if when == "" {
		when = types.WhenRunning
	}
	return why.Say(why.Awaits, "It waits until %d of %v are %s: %d are.", wanted, p.Tasks, when, there)
}
