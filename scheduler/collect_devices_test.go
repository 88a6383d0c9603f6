package scheduler

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/scheduler/schedulertest"
	"github.com/escher-sched/escher/types"
)

// TestDividedDevicesAreAsTheyAreWanted: for any devices, wishes get at most what they want, and at
// most what is free of each and of all. They get parts of a device, and devices with a topology,
// all or nothing.
func TestDividedDevicesAreAsTheyAreWanted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var slots []match.Slot
		for i := range rapid.IntRange(0, 8).Draw(t, "devices") {
			d := schedulertest.GPU(i, rapid.SampledFrom([]string{"H100/x", "H100/y", "A100/x", "A100/y", "A100"}).Draw(t, "device"))
			slots = append(slots, match.Slot{ID: d.ID, Capacity: match.Whole, Used: rapid.SampledFrom([]types.Quantity{0, 0, 0, 300, match.Whole}).Draw(t, "used"), Device: &d})
		}
		w := grants.Want{ID: types.GPU}
		for range rapid.IntRange(1, 4).Draw(t, "bundles") {
			x := cluster.Need{ID: types.GPU, Amount: rapid.SampledFrom([]types.Quantity{300, 500, 1000, 2000}).Draw(t, "amount")}
			switch rapid.IntRange(0, 3).Draw(t, "wants") {
			case 0:
				x.Devices = &types.DeviceRequest{Models: []string{"H100"}}
			case 1:
				x.Devices = &types.DeviceRequest{Topology: types.LinkedDevices}
			}
			w.Needs = append(w.Needs, x)
		}
		parts := w.Parts()
		free := types.Quantity(rapid.IntRange(0, 8000).Draw(t, "free"))
		v := match.Divide(slots, free, parts)
		if v.Sum() > free {
			t.Fatalf("%d of %d", v.Sum(), free)
		}
		var sum types.Quantity
		for _, d := range v.Devices {
			sum += d.Share
		}
		for i := range slots {
			if s := match.ShareOf(v.Devices, slots[i].ID); s > slots[i].Free() {
				t.Fatalf("%d of %+v", s, slots[i])
			}
		}
		if sum != v.Sum() {
			t.Fatalf("%v are %d", v.Devices, v.Sum())
		}
		for i, x := range parts {
			if v.Amounts[i] > x.Amount || v.Amounts[i] != x.Amount && (x.Amount%match.Whole != 0 || match.TopologyOf(x) != "") && v.Amounts[i] != 0 {
				t.Fatalf("%d of %+v", v.Amounts[i], x)
			}
		}
		if again := match.Divide(slots, free, parts); fmt.Sprint(again) != fmt.Sprint(v) {
			t.Fatalf("%v, then %v", v, again)
		}
	})
}
