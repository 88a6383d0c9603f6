package share

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TestRoomIsMadeWhereItIsSoonest estimates by how long tasks have run, or by when they end, and
// changes the node when another one would be much sooner.
func TestRoomIsMadeWhereItIsSoonest(t *testing.T) {
	const now = 1000
	type runs struct {
		node      int
		cores     float64
		age, most int // seconds
	}
	for name, test := range map[string]struct {
		running []runs
		soonest string
		in      time.Duration
		sooner  bool // than on n0000
	}{
		"where tasks are younger":        {[]runs{{0, 3, 30, 0}, {1, 3, 4, 0}}, "n0001", 4 * time.Second, true},
		"where it is little sooner":      {[]runs{{0, 3, 9, 0}, {1, 3, 4, 0}}, "n0001", 4 * time.Second, false},
		"where the others are younger":   {[]runs{{0, 3, 4, 0}, {1, 3, 30, 0}}, "n0000", 4 * time.Second, false},
		"where enough is free already":   {[]runs{{0, 1, 1, 0}, {1, 3, 1, 0}}, "n0000", 0, false},
		"where as many have to end":      {[]runs{{0, 1, 2, 0}, {0, 2, 60, 0}, {1, 1, 3, 0}, {1, 1, 5, 0}, {1, 1, 60, 0}}, "n0001", 5 * time.Second, true},
		"where tasks may not run longer": {[]runs{{0, 3, 50, 0}, {1, 3, 80, 82}}, "n0001", 2 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := viewtest.NewBench(t, 0)
			var held [2]float64
			for i := range held {
				b.Put(controlplane.NodeKey(fmt.Sprintf("n%04d", i)), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000})})
				b.Put(controlplane.AliveKey(fmt.Sprintf("n%04d", i)), &types.Alive{TTLSeconds: 15})
			}
			for i, x := range test.running {
				node, id := fmt.Sprintf("n%04d", x.node), fmt.Sprintf("t%d", i)
				bound := int64(now-x.age) * int64(time.Second)
				b.Put(controlplane.TaskKey("d", id), &types.Task{Requests: types.NewRequests(map[string]types.Quantity{"cpu": types.Quantity(1000 * x.cores)})})
				b.Put(controlplane.StatusKey("d", id), &types.Status{Phase: types.Running, Attempt: 1, Node: node, Bound: bound})
				b.Put(controlplane.BindingKey(node, "d", id, 1), &types.Binding{
					Holds: []types.Holding{{Resource: types.CPU, Amount: types.Quantity(1000 * x.cores)}}, Bound: bound, MaxRun: time.Duration(x.most) * time.Second,
				})
				held[x.node] += x.cores
				b.Put(controlplane.AllocatedKey(node), &types.Allocated{Holds: []types.Holding{{Resource: types.CPU, Amount: types.Quantity(1000 * held[x.node])}}})
			}
			b.View.Reached(b.Revision)
			c := FairShare{Anyone: 1, Over: []string{"cpu"}}.census(&esl.State{View: b.View, Now: time.Unix(now, 0), Namespace: "d", ID: "s", Label: "fair-share", Kinds: testKinds()})
			c.nodes = c.s.Rooms()
			way := types.Bundle{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 3000}), Node: "n0000"}
			x := waitingTask{way: way, needs: b.View.Needs("d", way.Requests)}
			n, in, ok := c.soonest(x)
			if !ok || n.Name != test.soonest || in != test.in {
				t.Errorf("%v, %s, %t, want %s, %s", n, in, ok, test.soonest, test.in)
			}
			x.room = &cluster.Reservation{Info: cluster.Cell[types.Reservation]{V: &types.Reservation{Bundles: []types.Bundle{way}}}}
			c.taken = map[string]bool{"n0000": true}
			if got := c.sooner(x); got != test.sooner {
				t.Errorf("sooner elsewhere: %t, want %t", got, test.sooner)
			}
		})
	}
}
