package share

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// manyUsers is a cluster of 100 nodes of 64 cores with so many users, in ten teams, and so many
// waiting tasks.
func manyUsers(tb testing.TB, users, tasks int) *esl.State {
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
		job, share := fmt.Sprintf("job-%04d", u), esl.Use{Name: "teams", As: fmt.Sprintf("t%d/u%04d", u%10, u)}
		p, err := esl.Stored(share)
		if err != nil {
			tb.Fatal(err)
		}
		put(controlplane.PoliciesKey("d", job), &types.Policies{Job: job, Policies: []types.Policy{p}})
		put(controlplane.JobKey("d", job), &types.Job{Name: job})
		requests, _ := covered(share, types.NewRequests(map[string]types.Quantity{"cpu": 1000, "memory": 1 << 30}), FairShare{}.over())
		for i := range tasks / users {
			put(controlplane.TaskKey("d", fmt.Sprintf("%s-%d", job, i)), &types.Task{Job: job, Requests: requests, Submitted: int64(u*1000 + i)})
		}
	}
	v.Reached(revision)
	return &esl.State{View: v, Now: time.Unix(100, 0), Namespace: "d", ID: "teams", Label: FairShare{}.Kind(), Kinds: testKinds()}
}

// BenchmarkFairShareNext is one call for 1,000 users with 100,000 tasks.
func BenchmarkFairShareNext(b *testing.B) {
	s := manyUsers(b, 1000, 100_000)
	s.Referring()
	for b.Loop() {
		if plan := (FairShare{Anyone: 1}).Next(s); plan.Nothing() {
			b.Fatal("nothing is to be done")
		}
	}
}

// TestFairShareInTransactions has more changes than fit in one transaction: it does as many as fit.
func TestFairShareInTransactions(t *testing.T) {
	plan := FairShare{Anyone: 1}.Next(manyUsers(t, 200, 400))
	if len(plan.Set) != esl.PerPlan {
		t.Errorf("%d changes, want %d", len(plan.Set), esl.PerPlan)
	}
}

// testKinds are the kinds of this package.
func testKinds() esl.Kinds {
	return esl.Kinds{}.With(func() esl.Policy { return FairShare{} }, func() esl.Policy { return esl.Use{} })
}
