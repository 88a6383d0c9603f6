package esl

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// bench is a view that a benchmark fills.
type bench struct {
	tb       testing.TB
	view     *cluster.View
	revision int64
}

func newBench(tb testing.TB, nodes int) *bench {
	b := &bench{tb: tb, view: cluster.New()}
	for i := range nodes {
		name := fmt.Sprintf("n%04d", i)
		b.put(controlplane.NodeKey(name), &types.Node{
			Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 64_000}), Labels: []types.Label{{Name: "rack", Value: fmt.Sprintf("r%02d", i%20)}},
		})
		b.put(controlplane.AliveKey(name), &types.Alive{TTLSeconds: 15})
	}
	return b
}

func (b *bench) put(key string, m types.Message) {
	b.revision++
	e := controlplane.Event{KV: controlplane.KV{Key: key, CreateRevision: b.revision, ModRevision: b.revision, Value: types.Encode(uint64(b.revision), m)}}
	if _, _, err := b.view.Apply(e); err != nil {
		b.tb.Fatal(err)
	}
}

// job submits a job with a policy as a Client does, of which so many tasks run, one on each
// node in turn.
func (b *bench) job(id string, p Policy, tasks []controlplane.Submission, running int) *State {
	b.tb.Helper()
	g := &Group{Namespace: "d", ID: id, Tasks: tasks}
	if err := g.apply([]Policy{p}); err != nil {
		b.tb.Fatal(err)
	}
	nodes := len(b.view.Nodes)
	for i := range g.Tasks {
		t := g.Tasks[i].Task
		t.Job, t.Submitted = id, int64(i+1)
		b.put(controlplane.TaskKey("d", fmt.Sprintf("%s-%05d", id, i)), &t)
		if i < running {
			b.put(controlplane.StatusKey("d", fmt.Sprintf("%s-%05d", id, i)), &types.Status{Phase: types.Running, Attempt: 1, Node: fmt.Sprintf("n%04d", i%nodes)})
		}
	}
	one, err := stored(p)
	if err != nil {
		b.tb.Fatal(err)
	}
	b.put(controlplane.JobKey("d", id), &types.Job{Tasks: len(tasks)})
	b.put(controlplane.PoliciesKey("d", id), &types.Policies{Job: id, Policies: []types.Policy{one}})
	for _, x := range g.Resources {
		where := types.EveryNode
		if x.Where.Cluster {
			where = types.ClusterWide
		}
		b.put(controlplane.ResourceKey("d", x.Name, where), &types.Resource{Capacity: x.Capacity})
	}
	for i, n := range b.onNodes(g, min(running, nodes)) {
		b.put(controlplane.AllocatedKey(fmt.Sprintf("n%04d", i)), n)
	}
	b.view.Reached(b.revision)
	return &State{View: b.view, Now: time.Unix(1000, 0), Namespace: "d", ID: id, Job: id, label: p.Kind(), kinds: Builtin(), memo: new(any)}
}

// onNodes is what so many nodes have allocated: what a task of the group asks for each.
func (b *bench) onNodes(g *Group, n int) []*types.Allocated {
	out := make([]*types.Allocated, n)
	for i := range out {
		out[i] = &types.Allocated{}
		for _, x := range g.Tasks[0].Task.Requests {
			out[i].Holds = append(out[i].Holds, types.Holding{Resource: types.Resolve("d", x.Name), Amount: x.Amount})
		}
	}
	return out
}

func oneCore() controlplane.Submission {
	return controlplane.Submission{Task: types.Task{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}}
}

// BenchmarkNext is one look at a job of 10,000 tasks on 1,000 nodes, of which each has one:
// of policies that look whenever anything changes.
func BenchmarkNext(b *testing.B) {
	for _, waits := range []bool{true, false} {
		for name, p := range map[string]Keeper{
			"spread/node": Spread{}, "spread/rack": Spread{Over: Rack}, "apart": Apart{PerNode: 10}, "apart/rack": Apart{In: Rack, PerNode: 600}, "balance": Balance{},
			"elastic-balance": ElasticBalance{}, "pack": Pack{}, "elastic": Elastic{}, "objective": Objective{By: Leftover}, "colocate/rack": Colocate{In: Rack},
		} {
			n := 1000
			if waits {
				n = 10_000
			}
			b.Run(fmt.Sprintf("%s/waits=%t", name, waits), func(b *testing.B) {
				s := newBench(b, 1000).job("j", p, Copies(n, oneCore()), 1000)
				b.ReportAllocs()
				for b.Loop() {
					p.Next(s)
				}
			})
		}
	}
}

// BenchmarkAfter is one look at a graph of 10,000 tasks, of which a tenth run: a chain, and
// layers of 100 of which each comes after all of the one before.
func BenchmarkAfter(b *testing.B) {
	for _, each := range []int{1, 100} {
		p, tasks := After{Tasks: make(map[string][]string)}, make([]controlplane.Submission, 10_000)
		for i := range tasks {
			tasks[i] = oneCore()
			tasks[i].Task.Name = fmt.Sprintf("t%d", i)
			for j := (i/each - 1) * each; j >= 0 && j < i/each*each; j++ {
				p.Tasks[tasks[i].Task.Name] = append(p.Tasks[tasks[i].Task.Name], fmt.Sprintf("t%d", j))
			}
		}
		b.Run(fmt.Sprintf("layers=%d", 10_000/each), func(b *testing.B) {
			s := newBench(b, 1000).job("j", p, tasks, 1000)
			b.ReportAllocs()
			for b.Loop() {
				p.Next(s)
			}
		})
	}
}

// BenchmarkElasticAmongMany is one look of a job of any size at 100,000 tasks of others that
// wait for room.
func BenchmarkElasticAmongMany(b *testing.B) {
	w := newBench(b, 1000)
	w.job("others", still{}, Copies(100_000, oneCore()), 0)
	s := w.job("j", Elastic{}, Copies(1000, oneCore()), 1000)
	b.ReportAllocs()
	for b.Loop() {
		Elastic{}.Next(s)
	}
}
