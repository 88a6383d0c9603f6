package taskset_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// seekState is a job with waiting tasks, each "priority submitted cores other", on two nodes of 64 cores.
func seekState(t *testing.T, tasks ...string) (*esl.State, *viewtest.Bench) {
	t.Helper()
	b := viewtest.NewBench(t, 2)
	for i, text := range tasks {
		var priority int
		var submitted, cores int64
		var other string
		if n, err := fmt.Sscan(text, &priority, &submitted, &cores, &other); n < 3 {
			t.Fatal(err)
		}
		requests := map[string]types.Quantity{"cpu": types.Quantity(cores) * 1000}
		if other != "" {
			requests[other] = 1000
		}
		task := &types.Task{Job: "j", Priority: priority, Submitted: submitted, Requests: types.NewRequests(requests)}
		b.Put(controlplane.TaskKey("d", fmt.Sprintf("j-%d", i)), task)
	}
	b.Put(controlplane.JobKey("d", "j"), &types.Job{Tasks: len(tasks)})
	return &esl.State{View: b.View, Namespace: "d", ID: "j", Job: "j", Label: "own", Lacking: make(esl.Lacking), Sought: new(*esl.Seeking)}, b
}

// sought returns what the tasks of a state note.
func sought(s *esl.State, more string, may func(*cluster.Node) bool) *esl.Seeking {
	taskset.Of(s, "j.own").Seek(s, "j.own", more, may)
	return *s.Sought
}

// TestSeekLike notes the same text for equal wants, whatever their rank, and another one if the wants
// or what the policy adds differ.
func TestSeekLike(t *testing.T) {
	like := func(more string, tasks ...string) string {
		s, _ := seekState(t, tasks...)
		return sought(s, more, nil).Like
	}
	one := like("x", "0 1 2")
	if got := like("x", "3 9 2"); got != one {
		t.Errorf("of another priority and age: %q and %q", got, one)
	}
	if got := like("x", "0 1 2", "0 2 2"); got != one {
		t.Errorf("of two tasks with equal wants: %q and %q", got, one)
	}
	for _, other := range []string{like("y", "0 1 2"), like("x", "0 1 3"), like("x", "0 1 2", "0 1 3")} {
		if other == one {
			t.Errorf("equal to another: %q", one)
		}
	}
}

// TestSeekTake ranks by the first task in the queue, and wants a node where one fits that the policy may open.
func TestSeekTake(t *testing.T) {
	s, b := seekState(t, "0 1 8", "7 5 40", "7 4 40")
	x := sought(s, "", func(n *cluster.Node) bool { return n.Name == "n0000" })
	if x.Order != 7 || x.Since != 4 {
		t.Errorf("its order is %d, its age %d", x.Order, x.Since)
	}
	for _, c := range []struct {
		node string
		used types.Quantity
		want bool
		left types.Quantity
	}{{"n0000", 0, true, 16_000}, {"n0000", 30_000, true, 26_000}, {"n0000", 57_000, false, 7000}, {"n0001", 0, false, 64_000}} {
		b.Put(controlplane.AllocatedKey(c.node), &types.Allocated{Holds: []types.Holding{{Resource: types.CPU, Amount: c.used}}})
		r := match.On(b.View, b.View.Nodes[c.node])
		if got := x.Take(&r); got != c.want {
			t.Errorf("%s with %d in use matters: %v", c.node, c.used, got)
		}
		if left, _ := r.Free(types.CPU); left != c.left {
			t.Errorf("%s with %d in use has %d left, want %d", c.node, c.used, left, c.left)
		}
	}
	if s, _ := seekState(t); sought(s, "", nil).Take != nil {
		t.Error("free capacity matters though no task waits")
	}
}

// TestSeekOn names the nodes where the policy has opened more than is in use, and promises there as many
// tasks as may begin.
func TestSeekOn(t *testing.T) {
	s, b := seekState(t, "0 1 2", "0 1 2", "0 1 2")
	b.Put(controlplane.ResourceKey("d", "j.own", "n0000"), &types.Resource{Capacity: 3000, NodeSession: b.View.Nodes["n0000"].Alive.Create})
	b.Put(controlplane.ResourceKey("d", "j.own", "n0001"), &types.Resource{Capacity: 1000, NodeSession: b.View.Nodes["n0001"].Alive.Create})
	for i, used := range []types.Quantity{1000, 1000} {
		holds := []types.Holding{{Resource: types.Resolve("d", "j.own"), Amount: used}}
		b.Put(controlplane.AllocatedKey(fmt.Sprintf("n%04d", i)), &types.Allocated{Holds: holds})
	}
	x := sought(s, "", nil)
	r := match.On(b.View, b.View.Nodes["n0000"])
	x.Holds(&r)
	if left, _ := r.Free(types.CPU); strings.Join(x.On, " ") != "n0000" || left != 60_000 {
		t.Errorf("opened on %v, with %d left there", x.On, left)
	}
}

// TestSeekNotes notes the resources of other jobs that tasks request, and neither its own, nor what machines
// have, nor pools.
func TestSeekNotes(t *testing.T) {
	s, b := seekState(t, "0 1 1 other.data", "0 1 1 j.own", "0 1 1 licenses", "0 1 1 other.data")
	b.Put(controlplane.ResourceKey("d", "licenses", types.ClusterWide), &types.Resource{Capacity: 1000})
	taskset.Of(s, "j.own").SeekNone(s)
	if got := slices.Collect(maps.Keys(s.Lacking)); len(got) != 1 || got[0].ID != "other.data" {
		t.Errorf("noted: %v", got)
	}
	if x := *s.Sought; x == nil || x.Take != nil || len(x.On) > 0 {
		t.Errorf("it seeks %+v", x)
	}
}

// TestSeekOnFull promises nothing on nodes where none of the tasks fits: the next jobs would count each of
// these promises.
func TestSeekOnFull(t *testing.T) {
	s, b := seekState(t, "0 1 2")
	b.Put(controlplane.ResourceKey("d", "j.own", "n0000"), &types.Resource{Capacity: 1000, NodeSession: b.View.Nodes["n0000"].Alive.Create})
	for used, want := range map[types.Quantity]bool{62_000: true, 63_000: false} {
		b.Put(controlplane.AllocatedKey("n0000"), &types.Allocated{Holds: []types.Holding{{Resource: types.CPU, Amount: used}}})
		if x := sought(s, "", nil); strings.Join(x.On, " ") != "n0000" || (x.Holds != nil) != want {
			t.Errorf("with %d in use: opened on %v, promises: %t, want %t", used, x.On, x.Holds != nil, want)
		}
	}
}
