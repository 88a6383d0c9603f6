package esl

import (
	"maps"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// lockable refuses requests that cannot be reserved, and says what to do.
func (g *Group) lockable() error {
	for i := range g.Tasks {
		t := &g.Tasks[i].Task
		switch {
		case len(t.Alternatives) > 0 && g.either != "":
			return Invalid("policies: %s gives tasks[%d] alternatives, and what is locked has none: drop one of the policies", g.either, i)
		case len(t.Alternatives) > 0:
			return Invalid("tasks[%d].alternatives: what is locked has none: drop them, or the policy", i)
		case t.Accumulate:
			return Invalid("tasks[%d].accumulate: what is locked collects what becomes free anyway: drop accumulate", i)
		}
		locks := len(t.Devices) > 0
		for _, x := range t.Requests {
			locks = locks || !types.ResourceID(x.Name).IsPlacement()
			_, of, scoped := strings.Cut(x.Name, "@")
			if by, own := strings.CutPrefix(of, g.ID+"."); scoped && own {
				return Invalid("policies: what tasks[%d] asks for is locked already by %s: drop one of them", i, by)
			} else if scoped {
				return Invalid("tasks[%d].requests: %q is of another reservation, and cannot be locked once more: drop @%s, or the policy", i, x.Name, of)
			}
		}
		if !locks {
			return Invalid("tasks[%d].requests: there is nothing to be locked: give cpu or memory", i)
		}
	}
	return g.withinShared()
}

// fewEnough refuses more than one transaction can reserve: bundles of each tasks, and the marks
// that tell different bundles apart, each a resource of the submission.
func (g *Group) fewEnough(each, marks int) error {
	n := len(g.Tasks)
	if bundles := (n + each - 1) / each; bundles > types.MaxBundles {
		return Invalid("tasks: %d are %d bundles to be locked at once, with %d on a node together, and %d is the most: have fewer tasks, or of a gang more on each node (%s)",
			n, bundles, each, types.MaxBundles, action.TaskPerNode.Of())
	}
	const markCost = 2 // checks that it is neither on nodes nor cluster-wide
	if most := (g.ops - PlanBase) / markCost; g.ops > 0 && marks > most {
		return Invalid("tasks: %d of them ask for %d different things by requests and devices, each of which is a resource of its own, and of these the store takes %d at once: "+
			"have tasks ask for the same, or start etcd with a larger --max-txn-ops", n, marks, most)
	}
	return nil
}

// limiter is a Shared policy that bounds how many tasks of a job begin at once.
type limiter interface {
	// CheckAtOnce refuses more tasks at once than the policy with the id allows. Invalid.
	CheckAtOnce(id string, tasks int) error
}

// withinShared refuses a group that needs more at once than a shared policy ever allows.
func (g *Group) withinShared() error {
	for _, id := range slices.Sorted(maps.Keys(g.Shared)) {
		if p, ok := g.Shared[id].(limiter); ok {
			if err := p.CheckAtOnce(id, len(g.Tasks)); err != nil {
				return err
			}
		}
		p, ok := g.Shared[id].(Shared)
		if !ok {
			continue
		}
		sets, err := p.Declare(id)
		if err != nil {
			return err
		}
		for _, s := range sets {
			sum := types.Quantity(0)
			for i := range g.Tasks {
				sum = sum.Add(g.Tasks[i].Task.Requests.Get(s.Name))
			}
			if s.Where.Cluster && s.Capacity > 0 && sum > s.Capacity { // capacity 0 means closed for now
				name := types.ResourceID(s.Name)
				return Invalid("policies: what is locked is had at once, and it would be %s of %s, of which there is %s: have fewer tasks, or raise the limit of %s",
					sum.Format(name), s.Name, s.Capacity.Format(name), id)
			}
		}
	}
	return nil
}
