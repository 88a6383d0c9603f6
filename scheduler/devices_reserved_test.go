package scheduler

import (
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/scheduler/schedulertest"
	"github.com/escher-sched/escher/types"
)

// TestReservationWithAnUnhealthyDevice: a task that draws on it gets other devices of the
// reservation, or waits until the device recovers, whatever its device request.
func TestReservationWithAnUnhealthyDevice(t *testing.T) {
	all := []types.Device{schedulertest.GPU(0, "A100!"), schedulertest.GPU(1, "A100"), schedulertest.GPU(2, "A100"), schedulertest.GPU(3, "A100")}
	anyOf, drawn := func(*types.Task) {}, of(types.DeviceRequest{Resource: "gpu@r", Models: []string{"A100"}})
	for name, tt := range map[string]struct {
		wants func(*types.Task)
		left  []types.Device
	}{
		"any": {anyOf, all}, "a model": {drawn, all}, "gone": {anyOf, all[1:]},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Config{})
			b.gpusOn("n1", "A100", "A100", "A100", "A100")
			b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{Bundles: []types.Bundle{bundleOf(q{"gpu": 3000})}})
			b.settle()
			b.put(controlplane.DevicesKey("n1"), &types.Devices{Devices: tt.left})
			b.task("one", q{"gpu@r": 1000}, tt.wants)
			b.settle()
			b.task("part", q{"gpu@r": 500}, tt.wants)
			b.settle()
			b.task("another", q{"gpu@r": 1000}, tt.wants)
			b.settle()
			b.expect("another", "pending")
			if one, part := b.held("one"), b.held("part"); one != "g1" || part != "g2" {
				t.Errorf("they hold %q and %q", one, part)
			}
			b.gpusOn("n1", "A100", "A100", "A100", "A100")
			b.settle()
			if got := b.held("another"); got != "g0" {
				t.Errorf("it holds %q when that is well", got)
			}
			b.check()
		})
	}
}

// TestReservedDeviceThatFailsMeanwhile: a bind of any device of a reservation fails as well.
func TestReservedDeviceThatFailsMeanwhile(t *testing.T) {
	b := newBench(t, Config{})
	b.gpusOn("n1", "A100", "A100")
	b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{Bundles: []types.Bundle{bundleOf(q{"gpu": 2000})}})
	b.settle()
	b.task("t", q{"gpu@r": 1000})
	b.see()
	drafts := b.line(1)
	b.put(controlplane.DevicesKey("n1"), &types.Devices{Devices: []types.Device{schedulertest.GPU(0, "A100!"), schedulertest.GPU(1, "A100")}})
	b.core.Done(drafts[0], b.arrives(drafts[0], false), nil, b.now)
	b.settle()
	if got := b.held("t"); got != "g1" {
		t.Errorf("it holds %q", got)
	}
	b.check()
}

// TestReservedPortsBesideDevices: port numbers of a reservation are not devices of the node, which
// has some that may fail.
func TestReservedPortsBesideDevices(t *testing.T) {
	b := newBench(t, Config{})
	b.put(controlplane.NodeKey("n1"), &types.Node{Capacity: types.NewRequests(q{"gpu": 1000, "cpu": 1000}), PortFirst: 7000, PortLast: 7009},
		controlplane.AliveKey("n1"), &types.Alive{}, controlplane.DevicesKey("n1"), &types.Devices{Devices: []types.Device{schedulertest.GPU(0, "A100!")}})
	b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{Bundles: []types.Bundle{bundleOf(q{"port": 2000})}})
	b.settle()
	b.task("t", q{"port@r": 1000})
	b.settle()
	if got := b.held("t"); got != "7000" {
		t.Errorf("it holds %q", got)
	}
	b.check()
}
