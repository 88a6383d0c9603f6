package esl

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// manyUsers is a cluster of 100 nodes of 64 cores with so many users, of ten teams, and
// so many tasks that wait.
func manyUsers(tb testing.TB, users, tasks int) *State {
	tb.Helper()
	v := cluster.New()
	revision := int64(0)
	put := func(key string, m types.Message) {
		revision++
		if _, _, err := v.Apply(controlplane.Event{KV: controlplane.KV{Key: key, ModRevision: revision, Value: types.Encode(1, m)}}); err != nil {
			tb.Fatal(err)
		}
	}
	for i := range 100 {
		name := fmt.Sprintf("n%03d", i)
		put(controlplane.NodeKey(name), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 64_000, "memory": 256 << 30})})
		put(controlplane.AliveKey(name), &types.Alive{TTLSeconds: 15})
	}
	for u := range users {
		job, share := fmt.Sprintf("job-%04d", u), Share{In: "teams", As: fmt.Sprintf("t%d/u%04d", u%10, u)}
		p, err := stored(share)
		if err != nil {
			tb.Fatal(err)
		}
		put(controlplane.PoliciesKey("d", job), &types.Policies{Job: job, Policies: []types.Policy{p}})
		put(controlplane.JobKey("d", job), &types.Job{Name: job})
		requests, _ := share.covered(types.NewRequests(map[string]types.Quantity{"cpu": 1000, "memory": 1 << 30}), FairShare{}.over())
		for i := range tasks / users {
			put(controlplane.TaskKey("d", fmt.Sprintf("%s-%d", job, i)), &types.Task{Job: job, Requests: requests, Submitted: int64(u*1000 + i)})
		}
	}
	v.Reached(revision)
	return &State{View: v, Now: time.Unix(100, 0), Namespace: "d", ID: "teams", label: FairShare{}.Kind(), kinds: Builtin()}
}

// BenchmarkFairShareNext is one look at 1,000 users with 100,000 tasks.
func BenchmarkFairShareNext(b *testing.B) {
	s := manyUsers(b, 1000, 100_000)
	s.Referring()
	for b.Loop() {
		if plan := (FairShare{Anyone: 1}).Next(s); plan.Nothing() {
			b.Fatal("nothing is to be done")
		}
	}
}

// TestFairShareInTransactions has more to do than fits in one: as much as does.
func TestFairShareInTransactions(t *testing.T) {
	plan := FairShare{Anyone: 1}.Next(manyUsers(t, 200, 400))
	if len(plan.Set) != perPlan {
		t.Errorf("%d changes, want %d", len(plan.Set), perPlan)
	}
}

// BenchmarkGatesNext is one look at 100,000 tasks that wait at a queue with a rate, for what
// is not there: with what is lacking noted, and without.
func BenchmarkGatesNext(b *testing.B) {
	q := Queue{Rate: 10}
	for _, noted := range []bool{false, true} {
		b.Run(fmt.Sprintf("noted=%t", noted), func(b *testing.B) {
			w := newBench(b, 100)
			pool := q.pool("q")
			w.put(controlplane.ResourceKey("d", pool.Name, types.ClusterWide), &types.Resource{Capacity: pool.Capacity})
			for i := range 100_000 {
				job := fmt.Sprintf("job-%d", i%100)
				asks := types.NewRequests(map[string]types.Quantity{"cpu": 1000, "foo": 1, pool.Name: One, fmt.Sprintf("%s.queued.%d", job, i/100): 1})
				w.put(controlplane.TaskKey("d", fmt.Sprintf("t-%d", i)), &types.Task{Job: job, Requests: asks, Submitted: int64(i)})
			}
			w.view.Reached(w.revision)
			s := &State{View: w.view, Now: time.Unix(100, 0), Namespace: "d", ID: "q", label: q.Kind(), kinds: Builtin()}
			for b.Loop() {
				if noted {
					s.lacks = make(lacks)
				}
				if plan := q.Next(s); !plan.Nothing() {
					b.Fatal("somebody is let in")
				}
			}
			if noted && len(s.lacks) != 1 {
				b.Fatalf("%v are lacking, want foo alone", s.lacks)
			}
		})
	}
}
