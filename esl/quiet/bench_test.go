package quiet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/quiet"
	"github.com/escher-sched/escher/types"
)

// waitingJobs returns the state of a policy that n jobs of some kinds use, with a waiting task each, on
// 1,000 nodes on which other tasks run.
func waitingJobs(tb testing.TB, n, kinds int) *esl.State {
	b := viewtest.NewBench(tb, 1000)
	full := esl.Copies(1000, hollow.Task(64_000))
	b.Job("full", quietless{}, full, len(full))
	shared, err := esl.Stored(quiet.Quiet{})
	if err != nil {
		tb.Fatal(err)
	}
	use, err := esl.Stored(esl.Use{Name: "calm", Of: "quiet"})
	if err != nil {
		tb.Fatal(err)
	}
	b.Put(controlplane.PoliciesKey("d", "calm"), &types.Policies{Policies: []types.Policy{shared}})
	for i := range n {
		id := fmt.Sprintf("job-%05d", i)
		kind := fmt.Sprintf("kind%d", i%kinds)
		one := hollow.Task(1000).Task
		one.Job, one.Submitted, one.Name = id, int64(i+1), kind
		one.Requests = one.Requests.Plus(types.NewRequests(map[string]types.Quantity{"calm.quiet." + kind: esl.One}))
		b.Put(controlplane.TaskKey("d", id+"-0"), &one)
		b.Put(controlplane.JobKey("d", id), &types.Job{Name: kind, Tasks: 1})
		b.Put(controlplane.PoliciesKey("d", id), &types.Policies{Job: id, Policies: []types.Policy{use}})
	}
	b.View.Reached(b.Revision)
	return &esl.State{
		View: b.View, Now: time.Unix(1000, 0), Namespace: "d", ID: "calm", Label: "quiet", Memo: new(any),
		Kinds: esl.Kinds{}.With(func() esl.Policy { return quiet.Quiet{} }, func() esl.Policy { return esl.Use{} }),
	}
}

// quietless is a policy that does nothing.
type quietless struct{}

func (quietless) Kind() string           { return "quietless" }
func (quietless) Apply(*esl.Group) error { return nil }

// BenchmarkWaiting is a decision with 10,000 waiting jobs on 1,000 full nodes.
func BenchmarkWaiting(b *testing.B) {
	s := waitingJobs(b, 10_000, 10)
	quiet.Quiet{}.Next(s) // reads the policies
	for b.Loop() {
		quiet.Quiet{}.Next(s)
	}
}

// TestDecisionsAreBounded: the plan for very many kinds that wait is of a bounded size.
func TestDecisionsAreBounded(t *testing.T) {
	s := waitingJobs(t, 2000, 2000)
	plan := quiet.Quiet{}.Next(s)
	if n := len(plan.Set); n == 0 || n > s.MaxChanges() {
		t.Errorf("%d changes, at most %d are allowed", n, s.MaxChanges())
	}
}
