package scheduler

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/scheduler/grants"
	"github.com/escher-sched/escher/scheduler/schedulertest"
	"github.com/escher-sched/escher/types"
)

// collects are the devices that the reservation holds on a node.
func (b *bench) collects(node string) string {
	var out []string
	for _, d := range grants.Devices(b.grant().On(node), types.GPU) {
		out = append(out, d.ID)
	}
	return strings.Join(out, " ")
}

// TestCollectedDevicesAreDividedAnew: the collected devices stay valid for the remaining bundles,
// whatever happens to bundles and devices. Nothing is granted while a task holds the cpu. The audit
// checks each grant.
func TestCollectedDevicesAreDividedAnew(t *testing.T) {
	h100 := types.DeviceRequest{Models: []string{"H100"}}
	pair := types.DeviceRequest{Topology: types.LinkedDevices}
	tests := map[string]struct {
		n1, n2        string
		bundles       []types.Bundle
		before, after string // on n1
		happens       func(*bench)
	}{
		"another bundle comes that wants certain ones": {
			"A100 A100 H100", "H100", []types.Bundle{bundle(1000, h100), bundleOf(q{"gpu": 1000, "node/n1": 1})},
			"g0", "g2 g0", func(b *bench) { b.del(controlplane.AliveKey("n2")) },
		},
		"another bundle comes that wants a pair": {
			"A100/x A100/x A100", "A100/y A100/y", []types.Bundle{bundle(2000, pair), bundleOf(q{"gpu": 1000, "node/n1": 1})},
			"g2", "g0 g1 g2", func(b *bench) { b.del(controlplane.AliveKey("n2")) },
		},
		"another bundle comes that wants a part": {
			"A100 A100", "A100", []types.Bundle{bundleOf(q{"gpu": 500}), bundleOf(q{"gpu": 1000, "node/n1": 1})},
			"g0", "g0 g1", func(b *bench) { b.del(controlplane.AliveKey("n2")) },
		},
		"one turns out to be of another model": {
			"H100 A100", "", []types.Bundle{bundle(1000, h100)},
			"g0", "g1", func(b *bench) { b.gpusOn("n1", "A100", "H100") },
		},
		"one fails": {
			"A100 A100", "", []types.Bundle{bundleOf(q{"gpu": 1000})},
			"g0", "g1", func(b *bench) { b.gpusOn("n1", "A100!", "A100") },
		},
		"another one of a pair fails": {
			"A100/x A100/x A100/y A100/y", "", []types.Bundle{bundle(2000, pair)},
			"g0 g1", "g2 g3", func(b *bench) { b.gpusOn("n1", "A100/x", "A100/x!", "A100/y", "A100/y") },
		},
		"more is free of what it has": {
			"H100! H100", "", []types.Bundle{bundle(1000, h100)},
			"g1", "g1", func(b *bench) { b.gpusOn("n1", "H100", "H100") },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newAging(t)
			b.gpusOn("n1", strings.Fields(tt.n1)...)
			b.task("hog1", q{"cpu": 1000, "node/n1": 1})
			if tt.n2 != "" {
				b.gpusOn("n2", strings.Fields(tt.n2)...)
				b.task("hog2", q{"cpu": 950, "node/n2": 1}) // closer to the request
			}
			b.settle()
			for i := range tt.bundles {
				tt.bundles[i].Requests = tt.bundles[i].Requests.Plus(types.NewRequests(q{"cpu": 100}))
			}
			b.reserve(tt.bundles...)
			if got := b.collects("n1"); got != tt.before {
				t.Fatalf("it has collected %q, want %q", got, tt.before)
			}
			tt.happens(b)
			b.settle()
			b.later(searchEvery)
			if got, g := b.collects("n1"), b.grant(); g.Phase != types.Accumulating || got != tt.after {
				t.Errorf("it is %s, and has collected %q, want %q", g.Phase, got, tt.after)
			}
			b.exited("hog1")
			b.settle()
			b.later(searchEvery)
			if g := b.grant(); g.Phase != types.Granted {
				t.Errorf("it is %s with %q", g.Phase, b.collects("n1"))
			}
			b.check()
		})
	}
}

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
