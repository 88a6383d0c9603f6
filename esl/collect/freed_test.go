package collect

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/types"
)

// runs is a task that was bound at a second, ends a number of seconds later at the latest, and holds cpu.
type runs struct {
	bound, most int64
	rid         types.ResourceID
	amount      types.Quantity
}

// running returns a cluster with one node on which tasks run.
func running(t *testing.T, tasks []runs) *cluster.View {
	b := viewtest.NewBench(t, 0)
	b.Put(controlplane.NodeKey("n1"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000})})
	for i, x := range tasks {
		id := fmt.Sprintf("t%d", i)
		b.Put(controlplane.TaskKey("d", id), &types.Task{Requests: types.NewRequests(map[string]types.Quantity{"cpu": x.amount})})
		b.Put(controlplane.BindingKey("n1", "d", id, 1), &types.Binding{
			Bound: x.bound * int64(time.Second), MaxRun: time.Duration(x.most) * time.Second,
			Holds: []types.Holding{{Resource: x.rid, Amount: x.amount}},
		})
	}
	b.View.Reached(b.Revision)
	return b.View
}

// TestCompletionWithGangs: what is missing is free when enough tasks with a known end have ended, in the order of their
// ends. What members of a gang draw on their reservation is free with them; other resources are not.
func TestCompletionWithGangs(t *testing.T) {
	for name, c := range map[string]struct {
		tasks  []runs
		amount types.Quantity
		at     int64 // 0 for unknown
	}{
		"nobody runs":                 {nil, 1, 0},
		"a task":                      {[]runs{{10, 20, "cpu", 1000}}, 1000, 30},
		"a member of a gang":          {[]runs{{10, 20, "d:cpu@g", 1000}}, 1000, 30},
		"another resource of a gang":  {[]runs{{10, 20, "d:memory@g", 1000}}, 1000, 0},
		"too little":                  {[]runs{{10, 20, "d:cpu@g", 999}}, 1000, 0},
		"a task without an end":       {[]runs{{10, 0, "cpu", 1000}}, 1000, 0},
		"a member without an end":     {[]runs{{10, 20, "d:cpu@g", 500}, {10, 0, "d:cpu@g", 500}}, 1000, 0},
		"a gang and a task":           {[]runs{{10, 90, "d:cpu@g", 500}, {10, 20, "cpu", 500}}, 1000, 100},
		"no later than enough is":     {[]runs{{10, 90, "d:cpu@g", 500}, {0, 20, "cpu", 500}, {5, 20, "d:cpu@g", 500}}, 1000, 25},
		"bound later, ending earlier": {[]runs{{0, 90, "d:cpu@g", 1000}, {50, 10, "d:cpu@h", 1000}}, 1000, 60},
	} {
		r := &cluster.Reservation{ID: cluster.ID{Namespace: "d", ID: "r"}}
		r.Info.V = &types.Reservation{Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": c.amount})}}}
		g := &types.Grant{Bundles: []string{"n1"}, Nodes: []types.GrantNode{{Node: "n1"}}}
		got := grants.Completion(running(t, c.tasks), r, g)
		if c.at == 0 != got.IsZero() || c.at > 0 && !got.Equal(time.Unix(c.at, 0)) {
			t.Errorf("%s: at %s, want second %d", name, got, c.at)
		}
	}
}
