package scheduler

import (
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/scheduler/grants"
	"github.com/escher-sched/escher/types"
)

// TestCollectsForItself: a complete ForItself reservation is granted, whatever members of its job
// wait. It holds its capacity for draws until it is given up; then waiting tasks get it.
func TestCollectsForItself(t *testing.T) {
	b := filled(t)
	b.put(controlplane.JobKey("d", "j"), &types.Job{Tasks: 2})
	b.task("kin", map[string]types.Quantity{"cpu": 1000}, ofJob("j"))
	b.task("draws", map[string]types.Quantity{"cpu@r": 500}, ofJob("j"))
	bundle := bundleOf(map[string]types.Quantity{"cpu": 1000})
	bundle.Node = "n1"
	r := &types.Reservation{Accumulate: true, AtOnce: true, ForItself: true, Job: "j", Bundles: []types.Bundle{bundle}}
	b.put(controlplane.ReservationKey("d", "r"), r)
	b.settle()
	b.exited("a1")
	b.settle()
	if g := b.grantAt("r"); g.Phase != types.Collecting || grants.HeldOf(g.On("n1"), "cpu") != 500 {
		t.Fatalf("its grant is %+v", g)
	}
	b.exited("a2")
	b.settle()
	if g := b.grantAt("r"); g.Phase != types.Granted || grants.HeldOf(g.On("n1"), "cpu") != 1000 {
		t.Fatalf("its grant is %+v", g)
	}
	b.expect("draws", "bound on n1")
	b.expect("kin", "pending")
	b.del(controlplane.ReservationKey("d", "r"))
	b.exited("draws")
	b.settle()
	b.expect("kin", "bound on n1")
}
