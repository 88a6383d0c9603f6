package place

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Data is an ephemeral resource of its name on each node that has a copy.

// dataset is the data of the tasks of a job.
type dataset struct {
	// name is that of the data; with each, of the i-th task it is name.i.
	name string
	each bool
	// numbered is the beginning of the names of requests that end with the number of the task.
	numbered string
}

// of returns the name of the data of the i-th task.
func (d dataset) of(i int) string {
	if d.each {
		return d.name + "." + strconv.Itoa(i)
	}
	return d.name
}

// ofTask returns the name of the data of a task.
func (d dataset) ofTask(t *cluster.Task) string {
	if i, ok := d.number(t); ok {
		return d.of(i)
	}
	return d.name
}

// wanted returns the names of the data of the tasks of the job, by number.
func (d dataset) wanted(s *esl.State) map[int]string {
	if !d.each {
		return map[int]string{0: d.name}
	}
	out := make(map[int]string)
	for _, t := range s.Members() {
		if i, ok := d.number(t); ok && !t.Phase().Ended() {
			out[i] = d.of(i)
		}
	}
	return out
}

// number returns the number of a task in the job, by its requests.
func (d dataset) number(t *cluster.Task) (int, bool) {
	if t.Info.V == nil {
		return 0, false
	}
	vectors := []types.Requests{t.Info.V.Requests}
	for _, a := range t.Info.V.Alternatives {
		vectors = append(vectors, a.Requests)
	}
	for _, r := range slices.Concat(vectors...) {
		rest, ok := strings.CutPrefix(r.Name, d.numbered)
		if i, err := strconv.Atoi(rest); ok && err == nil {
			return i, true
		}
	}
	return 0, false
}

// replicasOf returns the alive nodes that have a copy, by name.
func replicasOf(s *esl.State, data string) []*cluster.Node {
	return openNodes(s, types.Resolve(s.Namespace, data))
}

// whereIs says where some data is.
func whereIs(s *esl.State, data string) string {
	nodes := names(replicasOf(s, data))
	if len(nodes) == 0 {
		return data + ", which is nowhere yet"
	}
	return data + ", which is on " + strings.Join(nodes[:min(len(nodes), 6)], ", ")
}

// widen puts a resource of the policy, which own names, on all nodes of each rack or zone that has the data of
// the i-th task.
func (d dataset) widen(s *esl.State, plan *esl.Plan, areas []Step, own func(area Step, i int) string) {
	if len(areas) == 0 {
		return
	}
	for i, data := range d.wanted(s) {
		s.NoteLacking(s.Job, types.Resolve(s.Namespace, data))
		for _, area := range areas {
			has := make(map[string]bool)
			for _, n := range replicasOf(s, data) {
				has[area.In.Of(n)] = true
			}
			delete(has, "")
			open(s, plan, own(area, i), types.Inf, false, func(n *cluster.Node) bool { return has[area.In.Of(n)] })
		}
	}
}

// cache records the copies of tasks that run on nodes without one, up to most of each; 0 means any number.
func (d dataset) cache(s *esl.State, plan *esl.Plan, most int) {
	copies := make(map[string]int)
	for _, t := range s.Members() {
		n := s.View.Nodes[nodeOf(t)]
		if t.Phase() != types.Running || n == nil || n.Alive.V == nil || len(t.Bindings) == 0 {
			continue
		}
		data := d.ofTask(t)
		s.NoteLacking(s.Job, types.Resolve(s.Namespace, data))
		if invalidatedAt(s, n, data) >= t.Bindings[0].Info.Create || taskset.Capacity(s, n, types.Resolve(s.Namespace, data)) > 0 {
			continue
		}
		if copies[data] == 0 {
			copies[data] = len(replicasOf(s, data))
		}
		if most > 0 && copies[data] >= most {
			continue
		}
		if slices.ContainsFunc(plan.Set, func(x controlplane.Resource) bool { return x.Name == data && x.Where.Nodes[0] == n.Name }) {
			continue // two tasks on one node
		}
		copies[data]++
		plan.Set = append(plan.Set, controlplane.Resource{Name: data, Capacity: types.Inf, Where: controlplane.OnNode(n.Name)})
		s.Unchanged(plan, data, n.Name)
		s.Unchanged(plan, data, types.EveryNode) // an invalidation may also have changed this
	}
}

// invalidatedAt returns the revision at which data on a node was last invalidated, 0 if never.
func invalidatedAt(s *esl.State, n *cluster.Node, data string) int64 {
	id, since := types.Resolve(s.Namespace, data), int64(0)
	if c := n.Own[id]; c != nil && c.V.Capacity == 0 {
		since = c.Mod
	}
	if c := s.View.Everywhere[id]; c != nil {
		since = max(since, c.Mod)
	}
	return since
}

// Replicate records that nodes have a copy of data, until they are lost, or it is invalidated. The
// nodes must be alive: Precondition.
func Replicate(ctx context.Context, c *controlplane.Client, data string, nodes ...string) error {
	_, err := c.SetResource(ctx, data, types.Inf, controlplane.OnNode(nodes...), controlplane.SetOptions{})
	return err
}

// Invalidate removes all copies of data, of any origin: tasks wait for new ones. A task bound
// before that leaves none. With nodes, which must be alive, it applies to their copies alone.
func Invalidate(ctx context.Context, c *controlplane.Client, data string, nodes ...string) error {
	where := controlplane.OnEvery()
	if len(nodes) > 0 {
		where = controlplane.OnNode(nodes...)
	}
	if err := c.RemoveProvided(ctx, data, nodes...); err != nil {
		return err
	}
	// Each write closes the data again: tasks bound before it may have read the old data, and leave
	// no copy from then on. The last write removes copies recorded during the first ones.
	for _, how := range []controlplane.SetOptions{{}, {Declare: true}, {Declare: true}} {
		if _, err := c.SetResource(ctx, data, 0, where, how); err != nil {
			return err
		}
	}
	return nil
}
