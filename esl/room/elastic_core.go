package room

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// A job of two parts: its first tasks, the core, are placed at once. Each of the others requests one of a
// pool, and so the pool bounds how many of them run.

// elasticMore is the pool of which each task outside the core requests one.
const elasticMore = "more"

// inTwoParts makes the first n tasks of a group the core, after every policy has added its own.
func inTwoParts(g *esl.Group, n int) {
	g.Make(g.Own(elasticMore), 0, controlplane.InCluster())
	for i := n; i < len(g.Tasks); i++ {
		g.Ask(i, g.Own(elasticMore), esl.One)
	}
	if n > 0 {
		g.Lastly(func() error { return lockCore(g, n) })
	}
}

// lockCore creates the reservation of the first n tasks, the core, and makes them draw on it.
func lockCore(g *esl.Group, n int) error {
	core := *g
	core.Tasks = g.Tasks[:n]
	if err := checkInTurn(&core); err != nil {
		return err
	}
	r, err := core.Lock(g.Own(""), 1)
	if err != nil {
		return err
	}
	g.Resources, g.Reservations = core.Resources, core.Reservations
	if err := core.CheckDomains(); err != nil {
		return err
	}
	needs := taskset.NeedsOf(nil, g.Namespace, &r)
	if most, known := taskset.MostInNodes(g.Nodes, "", needs); known && most < n {
		return types.Errorf(types.Precondition, "min: the cluster is too small: were nothing else there, %d of the first %d tasks would fit%s: lower it, ask for less, or add nodes first",
			most, n, taskset.ShortInNodes(g.Nodes, "", needs))
	}
	return nil
}

// checkInTurn refuses a core in which tasks begin only after others of the job have begun or ended:
// those others are in the core, or begin after it.
func checkInTurn(g *esl.Group) error {
	for i := range g.Tasks {
		for _, x := range g.Tasks[i].Task.Requests {
			rest, own := strings.CutPrefix(x.Name, g.ID+".")
			switch {
			case own && strings.HasPrefix(rest, taskset.KindBarrier):
			case own && strings.HasPrefix(rest, taskset.KindAfter) && !strings.Contains(rest, "."+taskset.JobGate):
			case strings.HasSuffix(x.Name, "."+taskset.KindElasticBalance) && len(g.Tasks) > 1:
			default:
				continue
			}
			return esl.Invalid("min: the first %d tasks begin at once, and by %s tasks[%d] waits for others of the job: lower min, put tasks first that wait for no other, or drop one of the policies",
				len(g.Tasks), x.Name, i)
		}
	}
	return nil
}

// coreOf returns the core, and the others.
func coreOf(s *esl.State) (core, more []*cluster.Task) {
	pool := s.Own(elasticMore)
	for _, t := range s.Members() {
		switch {
		case t.Info.V == nil:
		case t.Info.V.Requests.Get(pool) > 0:
			more = append(more, t)
		default:
			core = append(core, t)
		}
	}
	return core, more
}

// keepCore keeps the core whole: all of the job ends if one of the core fails, and its place is reserved
// until it has ended. has reports whether the core has its place, or needs none any more.
func keepCore(s *esl.State, core, more []*cluster.Task) (plan esl.Plan, has bool) {
	r := s.Reservation(s.Own(""))
	over, lost := taskset.Ended(core), taskset.Broken(core)
	switch {
	case lost != "":
		return taskset.StopAll(slices.Concat(core, more), lost), false
	case over && taskset.Locked(r):
		return esl.Plan{Unreserve: []string{s.Own("")}, Reason: "its core has ended"}, true
	case !over && !taskset.Locked(r):
		return taskset.LockAgain(s, core, func(int) int { return 1 }, types.WaitForNode, "the place of its core was taken away"), false
	}
	return plan, over || taskset.Granted(r)
}

// withMore returns a plan in which so many tasks outside the core may run.
func withMore(s *esl.State, plan esl.Plan, most int) esl.Plan {
	if capacity := types.Quantity(most) * esl.One; !s.HasInCluster(elasticMore, capacity) {
		plan.Set = append(plan.Set, s.InCluster(elasticMore, capacity))
	}
	return plan
}

// isMore reports whether a task is outside the core of an elastic job.
func isMore(t *cluster.Task) bool {
	return slices.ContainsFunc(t.Info.V.Requests, func(x types.Request) bool {
		rest, ok := strings.CutPrefix(x.Name, t.Info.V.Job)
		return ok && strings.HasPrefix(rest, ".elastic") && strings.HasSuffix(rest, "."+elasticMore)
	})
}
