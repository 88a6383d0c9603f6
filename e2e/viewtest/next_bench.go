package viewtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Bench is a view that a benchmark fills.
type Bench struct {
	tb       testing.TB
	View     *cluster.View
	Revision int64
}

func NewBench(tb testing.TB, nodes int) *Bench {
	b := &Bench{tb: tb, View: cluster.New()}
	for i := range nodes {
		name := fmt.Sprintf("n%04d", i)
		b.Put(controlplane.NodeKey(name), &types.Node{
			Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 64_000}), Labels: []types.Label{{Name: "rack", Value: fmt.Sprintf("r%02d", i%20)}},
		})
		b.Put(controlplane.AliveKey(name), &types.Alive{TTLSeconds: 15})
	}
	return b
}

func (b *Bench) Put(key string, m types.Message) {
	b.Revision++
	e := controlplane.Event{KV: controlplane.KV{Key: key, CreateRevision: b.Revision, ModRevision: b.Revision, Value: types.Encode(uint64(b.Revision), m)}}
	if _, _, err := b.View.Apply(e); err != nil {
		b.tb.Fatal(err)
	}
}

// Job submits a job with a policy like a Client. running of its tasks run, on the nodes in turn.
func (b *Bench) Job(id string, p esl.Policy, tasks []controlplane.Submission, running int) *esl.State {
	b.tb.Helper()
	g := &esl.Group{Namespace: "d", ID: id, Tasks: tasks}
	if err := g.Apply([]esl.Policy{p}); err != nil {
		b.tb.Fatal(err)
	}
	nodes := len(b.View.Nodes)
	for i := range g.Tasks {
		t := g.Tasks[i].Task
		t.Job, t.Submitted = id, int64(i+1)
		b.Put(controlplane.TaskKey("d", fmt.Sprintf("%s-%05d", id, i)), &t)
		if i < running {
			b.Put(controlplane.StatusKey("d", fmt.Sprintf("%s-%05d", id, i)), &types.Status{Phase: types.Running, Attempt: 1, Node: fmt.Sprintf("n%04d", i%nodes)})
		}
	}
	one, err := esl.Stored(p)
	if err != nil {
		b.tb.Fatal(err)
	}
	b.Put(controlplane.JobKey("d", id), &types.Job{Tasks: len(tasks)})
	b.Put(controlplane.PoliciesKey("d", id), &types.Policies{Job: id, Policies: []types.Policy{one}})
	for _, x := range g.Resources {
		where := types.EveryNode
		if x.Where.Cluster {
			where = types.ClusterWide
		}
		b.Put(controlplane.ResourceKey("d", x.Name, where), &types.Resource{Capacity: x.Capacity})
	}
	for i, n := range b.onNodes(g, min(running, nodes)) {
		b.Put(controlplane.AllocatedKey(fmt.Sprintf("n%04d", i)), n)
	}
	b.View.Reached(b.Revision)
	return &esl.State{View: b.View, Now: time.Unix(1000, 0), Namespace: "d", ID: id, Job: id, Label: p.Kind(), Kinds: esl.Kinds{}.With(func() esl.Policy { return p }), Memo: new(any)}
}

// onNodes is the allocated amounts of n nodes with one task of the group each.
func (b *Bench) onNodes(g *esl.Group, n int) []*types.Allocated {
	out := make([]*types.Allocated, n)
	for i := range out {
		out[i] = &types.Allocated{}
		for _, x := range g.Tasks[0].Task.Requests {
			out[i].Holds = append(out[i].Holds, types.Holding{Resource: types.Resolve("d", x.Name), Amount: x.Amount})
		}
	}
	return out
}
