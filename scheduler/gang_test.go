package scheduler

import (
	"fmt"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestGangInOneTransaction: a reservation and the tasks that draw on it, submitted together, are
// granted and bound in one transaction if they fit, whatever the bound on tasks and their order in
// the queue.
func TestGangInOneTransaction(t *testing.T) {
	for _, test := range []struct{ nodes, each int }{{32, 1}, {32, 8}, {512, 1}, {600, 1}} {
		for _, last := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d nodes of %d, reserved last %t", test.nodes, test.each, last), func(t *testing.T) {
				r := newRig(Config{Limits: controlplane.Limits{Ops: 4096, Bytes: 8 << 20}, Seed: 1})
				for i := range test.nodes {
					r.tell(r.event(controlplane.NodeKey(nodeOf(i)), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 8000})}),
						r.event(controlplane.AliveKey(nodeOf(i)), &types.Alive{TTLSeconds: 15}))
				}
				n := test.nodes * test.each
				share := types.Quantity(8000 / test.each)
				res := &types.Reservation{Submitted: 1}
				if last {
					res.Submitted = 2
				}
				var events []controlplane.Event
				for i := range n {
					res.Bundles = append(res.Bundles, bundleOf(map[string]types.Quantity{"cpu": share}))
					events = append(events, r.event(controlplane.TaskKey("d", fmt.Sprintf("m%03d", i)), &types.Task{
						Submitted: 1, Requests: types.NewRequests(map[string]types.Quantity{"cpu@train": share}),
					}))
				}
				r.tell(append(events, r.event(controlplane.ReservationKey("d", "train"), res))...)
				drafts := r.core.Next(r.now)
				if len(drafts) != 1 || len(drafts[0].Grants) != 1 || len(drafts[0].Binds) != n {
					t.Fatalf("%d transactions, the first grants %d and binds %d", len(drafts), len(drafts[0].Grants), len(drafts[0].Binds))
				}
				if compares, ops := drafts[0].Change.Size(); compares > 4096 || ops > 4096 {
					t.Errorf("%d compares, %d operations", compares, ops)
				}
			})
		}
	}
}
