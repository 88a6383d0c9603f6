package place

import (
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// widePace is the pace of policies that depend on the whole cluster and handle all waiting tasks in
// one call.
const widePace = 100 * time.Millisecond

// openNodes returns the nodes with an entry of their own for a resource, sorted by name.
func openNodes(s *esl.State, id types.ResourceID) []*cluster.Node {
	var out []*cluster.Node
	for _, n := range s.View.At(id) {
		if n.Alive.V != nil && taskset.Capacity(s, n, id) > 0 {
			out = append(out, n)
		}
	}
	esl.SortNodes(out)
	return out
}

// open adds to a plan that a resource is on the nodes of want alone: the value of every node applies
// again on the others. inTurn takes two plans for a change of nodes: after the first, no task can
// begin on the old nodes; the second knows which tasks began there before that.
func open(s *esl.State, plan *esl.Plan, name string, capacity types.Quantity, inTurn bool, want func(*cluster.Node) bool) {
	id := types.Resolve(s.Namespace, name)
	var on, off []string
	for _, n := range s.View.Nodes {
		switch has, here := taskset.Capacity(s, n, id), want(n); {
		case n.Alive.V == nil:
		case here && has != capacity:
			on = append(on, n.Name)
		case !here && has > 0:
			off = append(off, n.Name)
		}
	}
	slices.Sort(on)
	slices.Sort(off)
	if len(on) > 0 && (len(off) == 0 || !inTurn) {
		plan.Set = append(plan.Set, controlplane.Resource{Name: name, Capacity: capacity, Where: controlplane.OnNode(on...), Options: s.Lifetime()})
	}
	if len(off) > 0 {
		plan.Set = append(plan.Set, controlplane.Resource{Name: name, Where: controlplane.OnNode(off...)})
	}
}

// checkExcludes refuses a policy that contradicts another policy of the job.
func checkExcludes(g *esl.Group, by string, kinds ...string) error {
	for _, kind := range kinds {
		name := esl.OwnName(g.ID, kind, "")
		for i := range g.Tasks {
			if g.Tasks[i].Task.Requests.Get(name) > 0 {
				return esl.Invalid("%s and %s exclude each other: the one wants the tasks on few nodes, the other on many: drop one of them", by, kind)
			}
		}
	}
	return nil
}

// names returns the names of nodes.
func names(nodes []*cluster.Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.Name
	}
	return out
}

// nodeOf returns the node of a task, "" if it has none.
func nodeOf(t *cluster.Task) string {
	if !t.Phase().Held() {
		return ""
	}
	return t.Status.V.Node
}
