package place

import (
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

// lifetimeOf returns the lifetime of the policy's resources: that of its job or, if it is shared,
// until it is withdrawn.
func lifetimeOf(s *esl.State) controlplane.SetOptions {
	if s.Job != "" {
		return esl.OfJob(s.Job)
	}
	return controlplane.SetOptions{Declare: true}
}

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

// setOn adds to a plan that a resource is on nodes on, and no longer on nodes off. There the value
// of every node applies again.
func setOn(s *esl.State, plan *esl.Plan, name string, capacity types.Quantity, on, off []string) {
	if len(on) > 0 {
		plan.Set = append(plan.Set, controlplane.Resource{Name: name, Capacity: capacity, Where: controlplane.OnNode(on...), Options: lifetimeOf(s)})
	}
	if len(off) > 0 {
		plan.Set = append(plan.Set, controlplane.Resource{Name: name, Where: controlplane.OnNode(off...)})
	}
}

// takeTurn adds a counter to a plan. If another plan of the policy was committed after the state of
// this decision, the plan is refused.
func takeTurn(s *esl.State, plan *esl.Plan) {
	if plan.Nothing() {
		return
	}
	name := s.Own("turn")
	key := controlplane.ResourceKey(s.Namespace, name, types.ClusterWide)
	count, mod := esl.One, s.View.UnreadMod(key)
	if p := s.Pool(name); p != nil {
		count, mod = p.Capacity()+esl.One, p.Info.Mod
	}
	plan.Set = append(plan.Set, controlplane.Resource{Name: name, Capacity: count, Where: controlplane.InCluster(), Options: lifetimeOf(s)})
	plan.If = unchanged(s, plan.If, key, mod)
}

func unchanged(s *esl.State, reads controlplane.ReadSet, key string, mod int64) controlplane.ReadSet {
	if reads == nil {
		reads = make(controlplane.ReadSet)
	}
	reads[key] = mod
	return reads
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
