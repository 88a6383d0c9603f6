package scheduler

import (
	"fmt"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestLargeGangIsOneTransaction: a reservation and all its draws are granted and bound at once,
// even if that exceeds the usual tasks per transaction. Other waiting tasks stay within that bound.
func TestLargeGangIsOneTransaction(t *testing.T) {
	const members = 20
	b := newBench(t, Config{BatchTasks: 16, Limits: controlplane.Limits{Ops: 4096, Bytes: 1 << 20}})
	for i := range 4 {
		b.node(fmt.Sprintf("n%d", i), 10_000)
	}
	var kvs []any
	r := &types.Reservation{Submitted: 1}
	for i := range members {
		r.Bundles = append(r.Bundles, types.Bundle{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})})
		kvs = append(kvs, controlplane.TaskKey("d", fmt.Sprintf("m%02d", i)),
			&types.Task{Spec: "s", Submitted: 2, Requests: types.NewRequests(map[string]types.Quantity{"cpu@r": 1000})})
	}
	for i := range members {
		kvs = append(kvs, controlplane.TaskKey("d", fmt.Sprintf("z%02d", i)),
			&types.Task{Spec: "s", Submitted: 3, Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1})})
	}
	b.put(append(kvs, controlplane.ReservationKey("d", "r"), r)...)
	b.see()
	d, res := b.commit()
	drawn := 0
	for _, x := range d.Binds {
		if x.Task.ID[0] == 'm' {
			drawn++
		}
	}
	if len(d.Grants) != 1 || drawn != members || len(d.Binds) > members+16 {
		t.Errorf("%d granted, %d of %d bound, and %d others", len(d.Grants), drawn, members, len(d.Binds)-drawn)
	}
	b.done(d, res)
	b.settle()
}
