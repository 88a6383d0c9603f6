package place

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TestSeatGivenUp: a task is on its way to a seat that was given up, and that the scheduler still holds.
// The task stays assigned to that node, although another one has a free device, and no other task is
// sent there.
func TestSeatGivenUp(t *testing.T) {
	now := time.Unix(1000, 0)
	b := viewtest.NewBench(t, 2)
	half := []types.DeviceShare{{ID: "x/gpu=g", Share: 500}}
	gpu := types.Holding{Resource: types.GPU, Amount: 500, Devices: half}
	for _, n := range []string{"n0000", "n0001"} {
		b.Put(controlplane.NodeKey(n), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 64_000, "gpu": 1000})})
		b.Put(controlplane.DevicesKey(n), &types.Devices{Devices: []types.Device{{ID: half[0].ID, Resource: types.GPU}}})
	}
	stored := func(p esl.Policy) []types.Policy {
		one, err := esl.Stored(p)
		if err != nil {
			t.Fatal(err)
		}
		return []types.Policy{one}
	}
	b.Put(controlplane.PoliciesKey("d", "gpus"), &types.Policies{Policies: stored(Interleave{})})
	for i, job := range []string{"a", "b", "c"} {
		as := []string{"data=1s,compute=8s", "data=8s,compute=1s", "data=1s,compute=8s"}[i]
		b.Put(controlplane.PoliciesKey("d", job), &types.Policies{Job: job, Policies: stored(esl.Use{Name: "gpus", As: as})})
		b.Put(controlplane.JobKey("d", job), &types.Job{Tasks: 1})
		b.Put(controlplane.TaskKey("d", job+"-0"), &types.Task{Job: job, Submitted: int64(i + 1), Requests: types.NewRequests(map[string]types.Quantity{"gpu": 500, job + ".interleave.0": 1000})})
	}
	b.Put(controlplane.StatusKey("d", "a-0"), &types.Status{Phase: types.Running, Attempt: 1, Node: "n0000"})
	session := b.View.Nodes["n0000"].Alive.Create
	b.Put(controlplane.BindingKey("n0000", "d", "a-0", 1), &types.Binding{Session: session, Holds: []types.Holding{gpu}})
	b.Put(controlplane.GrantKey("d", "gpus.interleave.seat.0"), &types.Grant{Phase: types.Granted, Reservation: 1, Bundles: []string{"n0000"}, Nodes: []types.GrantNode{{Node: "n0000", Holds: []types.Holding{gpu}}}})
	b.Put(controlplane.AllocatedKey("n0000"), &types.Allocated{Holds: []types.Holding{{Resource: types.GPU, Amount: 1000, Devices: []types.DeviceShare{{ID: half[0].ID, Share: 1000}}}}})
	b.Put(controlplane.ResourceKey("d", "b.interleave.0", "n0000"), &types.Resource{Capacity: types.Quantity(now.Unix()) * esl.One, NodeSession: session})
	b.View.Reached(b.Revision)
	kinds := esl.Kinds{}.With(func() esl.Policy { return Interleave{} }, func() esl.Policy { return esl.Use{} })
	plan := Interleave{}.Next(&esl.State{View: b.View, Now: now, Namespace: "d", ID: "gpus", Label: "interleave", Kinds: kinds})
	if len(plan.Set) != 1 || plan.Set[0].Name != "c.interleave.0" || plan.Set[0].Where.Nodes[0] != "n0001" || len(plan.Reserve)+len(plan.Unreserve) > 0 {
		t.Errorf("the plan is %+v", plan)
	}
}
