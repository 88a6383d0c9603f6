package room

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// soughtBy returns what a job with a waiting task notes; nil if it is to be called after every change.
func soughtBy(t *testing.T, s *esl.State, cores, priority int) *esl.Seeking {
	t.Helper()
	put(t, s, controlplane.JobKey("d", s.Job), &types.Job{Tasks: 1})
	put(t, s, controlplane.TaskKey("d", s.Job+"-0"), &types.Task{
		Job: s.Job, Priority: priority, Submitted: s.Now.Add(-time.Minute).UnixNano(),
		Requests: types.NewRequests(map[string]types.Quantity{"cpu": types.Quantity(cores) * 1000}),
	})
	s.Sought, s.Memo = new(*esl.Seeking), new(any)
	if plan := (Preempt{}).Next(s); !plan.Nothing() {
		t.Fatalf("it makes room already: %+v", plan)
	}
	return *s.Sought
}

// TestPreemptSeeks wants a changed node where the task fits or a task of lower priority of its namespace
// runs, and no other one.
func TestPreemptSeeks(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *esl.State)
		cores  int
		want   bool
	}{
		"as full as before": {func(*esl.State) {}, 4, false},
		"it fits now":       {func(s *esl.State) { put(t, s, controlplane.AllocatedKey("n1"), &types.Allocated{}) }, 4, true},
		"not enough is free": {func(s *esl.State) {
			put(t, s, controlplane.AllocatedKey("n1"), &types.Allocated{Holds: []types.Holding{{Resource: types.CPU, Amount: 1000}}})
		}, 4, false},
		"a lower task came":  {func(s *esl.State) { bind(t, s, "d", 1) }, 4, true},
		"an equal task came": {func(s *esl.State) { bind(t, s, "d", 5) }, 4, false},
		"of another space":   {func(s *esl.State) { bind(t, s, "e", 1) }, 4, false},
		"far too small":      {func(s *esl.State) { bind(t, s, "d", 1) }, 5, false},
		"another collects": {func(s *esl.State) {
			less := []types.Holding{{Resource: types.CPU, Amount: 3000}} // the fourth core is a reservation's
			put(t, s, controlplane.BindingKey("n1", "d", "a", 1), &types.Binding{Holds: less})
		}, 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := occupied(t, "a n1 4 9 1", "b n2 4 9 1", "c n3 4 9 1")
			x := soughtBy(t, s, c.cores, 5)
			if x == nil || x.Take == nil || !x.Alike || x.Order != 5 || x.Since != s.Now.Add(-time.Minute).UnixNano() {
				t.Fatalf("it notes %+v", x)
			}
			c.change(s)
			r := match.On(s.View, s.View.Nodes["n1"])
			if got := x.Take(&r); got != c.want {
				t.Errorf("the node matters: %v, want %v", got, c.want)
			}
		})
	}
}

// bind binds a task of a namespace and priority to n1, which is as full as before.
func bind(t *testing.T, s *esl.State, ns string, priority int) {
	t.Helper()
	put(t, s, controlplane.TaskKey(ns, "new"), &types.Task{Job: "other", Priority: priority})
	put(t, s, controlplane.StatusKey(ns, "new"), &types.Status{Phase: types.Running, Node: "n1", Attempt: 1})
	put(t, s, controlplane.BindingKey("n1", ns, "new", 1), &types.Binding{})
}

// TestPreemptSeeksAlike gives jobs the same text that request the same at the same priority, and others
// another one.
func TestPreemptSeeksAlike(t *testing.T) {
	like := func(job string, cores, priority int) string {
		s := occupied(t, "a n1 4 9 1", "b n2 4 9 1", "c n3 4 9 1")
		s.ID, s.Job = job, job
		return soughtBy(t, s, cores, priority).Like
	}
	if a, b := like("high", 2, 5), like("other", 2, 5); a != b {
		t.Errorf("of equal jobs: %q and %q", a, b)
	}
	if a, b, c := like("high", 2, 5), like("high", 3, 5), like("high", 2, 6); a == b || a == c {
		t.Errorf("of others: %q, %q and %q", a, b, c)
	}
}
