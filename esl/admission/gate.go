package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// maxLimit is the largest limit.
const maxLimit = 1 << 30

// A gate is an ephemeral resource of one task, which requests the least amount of it. The task
// waits until the gate exists.
type gate struct {
	task *cluster.Task
	job  string
	// index is that of the task in its job.
	index int
	name  string
	// pool is nil while the gate is closed.
	pool *cluster.Pool
}

// askGates makes each task of a group request a gate.
func askGates(g *esl.Group, kind string) error {
	for i := range g.Tasks {
		for _, x := range g.Tasks[i].Task.Requests {
			if taskset.IsGateOf(x.Name, g.ID, kind) {
				return esl.Invalid("name: two policies of kind %s would let the tasks in one by one: drop one of them", kind)
			}
		}
	}
	for i := range g.Tasks {
		g.Ask(i, g.Own(strconv.Itoa(i)), 1)
	}
	return nil
}

// gatesOf returns the gates of a job and a kind of policy, by index. Ended tasks count while they
// are stored.
func gatesOf(s *esl.State, job, kind string) []gate {
	var out []gate
	s.View.EachMember(cluster.ID{Namespace: s.Namespace, ID: job}, func(t *cluster.Task) {
		if t.Info.V == nil {
			return
		}
		if name, index, ok := taskset.GateOf(t.Info.V.Requests, job, kind); ok {
			out = append(out, gate{task: t, job: job, index: index, name: name, pool: s.Pool(name)})
		}
	})
	slices.SortFunc(out, func(a, b gate) int { return cmp.Compare(a.index, b.index) })
	return out
}

// closed reports whether a gate does not exist, or was closed again.
func (g *gate) closed() bool { return g.pool == nil || g.pool.Capacity() == 0 }

// waits reports whether a gate is closed and its task waits for that gate alone, among the
// resources that are absent. A task that waits for another one must not block it, nor must one that
// is too large for every node.
func (g *gate) waits(s *esl.State) bool {
	t := g.task.Info.V
	if !g.closed() || g.task.Phase() != types.Pending || t.Stop != nil {
		return false
	}
	return taskset.Ready(s, t, g.after) && fitsSomeNode(s, t)
}

// after reports whether a resource may be absent before the gate opens: the gate itself, and
// resources of policies that open theirs only after this gate. The order is queues, fair queues,
// shares, so that none waits for another in a circle.
func (g *gate) after(name string) bool {
	name, _, _ = strings.Cut(name, "@")
	if name == g.name || taskset.IsSharePool(name) {
		return true
	}
	fair := taskset.KindFairQueue
	return !taskset.IsGateOf(g.name, g.job, fair) && taskset.IsGateOf(name, g.job, fair)
}

// fitsSomeNode reports whether a task would fit on a node that takes tasks if the node were empty.
func fitsSomeNode(s *esl.State, t *cluster.TaskValue) bool {
	if len(t.Alternatives) == 0 {
		return anyNodeLarge(s, t.Requests)
	}
	return slices.ContainsFunc(t.Alternatives, func(a types.Alternative) bool { return anyNodeLarge(s, t.Requests.Plus(a.Requests)) })
}

// anyNodeLarge reports whether a node is large enough for requests. It checks tasks with the same
// requests of physical resources once.
func anyNodeLarge(s *esl.State, requests types.Requests) bool {
	var of types.Requests
	for _, x := range requests {
		x.Name, _, _ = strings.Cut(x.Name, "@")
		if types.IsPhysical(x.Name) {
			of = append(of, x)
		}
	}
	key := fmt.Sprint(of)
	return s.Once("large "+key, func() bool {
		for _, n := range s.View.Nodes {
			if n.Eligible() && taskset.IsLarge(s.View, n, of) {
				return true
			}
		}
		return false
	})
}

// open returns the change that creates the gate, which ends with its job. Its capacity stores when
// that was, because only its own task requests it.
func (g *gate) open(now time.Time) controlplane.Resource {
	return controlplane.Resource{Name: g.name, Capacity: esl.Stamp(now), Where: controlplane.InCluster(), Options: esl.OfJob(g.job)}
}

// close returns the change that removes the gate.
func (g *gate) close() controlplane.Resource {
	return controlplane.Resource{Name: g.name, Where: controlplane.InCluster()}
}

// inTurn orders gates: by priority, by age, by job, by index.
func inTurn(a, b gate) int {
	x, y := a.task.Info.V, b.task.Info.V
	return cmp.Or(cmp.Compare(y.Order(), x.Order()), cmp.Compare(x.Submitted, y.Submitted), strings.Compare(a.job, b.job), cmp.Compare(a.index, b.index))
}

// fewLeft is how many gates of ended tasks may stay for a while, so that their removal takes no
// transaction of its own.
const fewLeft = 32

// withEnded adds the removal of ended gates to a change, if that is worth it, up to most.
func withEnded(opened []controlplane.Resource, ended []gate, most int) []controlplane.Resource {
	if len(opened) == 0 && len(ended) < fewLeft {
		return nil
	}
	for _, g := range ended {
		if len(opened) >= most {
			break
		}
		opened = append(opened, g.close())
	}
	return opened
}
