package collecting

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/grants"
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
			if got, g := b.collects("n1"), b.grant(); g.Phase != types.Collecting || got != tt.after {
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

// TestCollectsWhereSuchDevicesAre: the claimant chooses the node with matching devices although
// another node has more devices free.
func TestCollectsWhereSuchDevicesAre(t *testing.T) {
	b := newAging(t)
	b.gpusOn("n1", "A100", "A100", "A100", "A100")
	b.gpusOn("n2", "H100", "H100")
	b.task("hog", q{"gpu": 2000, "node/n2": 1})
	b.settle()
	b.reserve(bundle(1000, types.DeviceRequest{Models: []string{"H100"}}), bundle(1000, types.DeviceRequest{MinMemory: 80 << 30}))
	if g := b.grant(); g.Phase != types.Collecting || len(g.Nodes) != 1 || g.Nodes[0].Node != "n2" {
		t.Errorf("it collects with %+v", g)
	}
	b.exited("hog")
	b.settle()
	b.later(2 * time.Second)
	if g := b.grant(); g.Phase != types.Granted {
		t.Errorf("it is %s", g.Phase)
	}
}

// TestTaskCollectsDevices: a task also collects matching devices, and is bound to them.
func TestTaskCollectsDevices(t *testing.T) {
	b := newAging(t)
	b.gpusOn("n1", "A100", "A100", "H100", "H100")
	b.task("hog0", q{"gpu": 1000, "cpu": 500}, of(types.DeviceRequest{Models: []string{"H100"}}))
	b.task("hog1", q{"gpu": 1000, "cpu": 500}, of(types.DeviceRequest{Models: []string{"H100"}}))
	b.settle()
	b.task("t", q{"gpu": 2000, "cpu": 100}, of(types.DeviceRequest{Models: []string{"H100"}}), func(t *types.Task) { t.Accumulate = true })
	b.settle()
	b.later(2 * time.Second)
	b.exited("hog0")
	b.settle()
	b.later(2 * time.Second)
	if g := b.claim("t"); g.Phase != types.Collecting || !strings.Contains(fmt.Sprint(g.Nodes), "[{g2 1000}]") {
		t.Errorf("it has collected %+v", g)
	}
	b.exited("hog1")
	b.settle()
	b.later(2 * time.Second)
	b.expect("t", "bound on n1")
	if got := b.held("t"); got != "g2 g3" {
		t.Errorf("it holds %s", got)
	}
}

// TestDevicesThatAreWantedAreCollected: matching devices are collected one by one as they become
// free, and no others. Devices with a topology are collected together.
func TestDevicesThatAreWantedAreCollected(t *testing.T) {
	tests := map[string]struct {
		bundles []types.Bundle
		// before is the collection at first, after the final grant.
		before, after string
	}{
		"a model":         {[]types.Bundle{bundle(2000, types.DeviceRequest{Models: []string{"H100"}})}, "g4", "g4 g5"},
		"a model and any": {[]types.Bundle{bundleOf(q{"gpu": 2000}), bundle(2000, types.DeviceRequest{Models: []string{"H100"}})}, "g4", "g4 g5 g2 g3"},
		"a pair":          {[]types.Bundle{bundle(2000, types.DeviceRequest{Topology: types.LinkedDevices})}, "", "g4 g5"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newAging(t)
			b.gpusOn("n1", "A100/a", "A100/b", "A100/c", "A100/d", "H100/x", "H100/x")
			b.gpusOn("n2", "A100", "A100", "A100", "A100", "A100", "A100")
			b.task("n2", q{"cpu": 1000, "gpu": 6000, "node/n2": 1})
			for i, models := range []string{"H100", "H100", "A100", "A100"} {
				b.task(fmt.Sprintf("hog%d", i), q{"gpu": 1000, "node/n1": 1}, of(types.DeviceRequest{Models: []string{models}}))
				b.settle()
			}
			// No bundle fits without free cpu.
			b.task("cpu", q{"cpu": 1000, "node/n1": 1})
			b.settle()
			for i := range tt.bundles {
				tt.bundles[i].Requests = tt.bundles[i].Requests.Plus(types.NewRequests(q{"cpu": 100}))
			}
			b.reserve(tt.bundles...)
			held := func() string {
				var out []string
				for _, h := range b.grant().On("n1") {
					for _, d := range h.Devices {
						out = append(out, d.ID)
					}
				}
				return strings.Join(out, " ")
			}
			first := "hog0"
			if b.held(first) == "g5" {
				first = "hog1"
			}
			b.exited(first)
			b.settle()
			if first == "hog1" || held() != tt.before {
				t.Errorf("when %s had ended, it had collected %q, want %q", first, held(), tt.before)
			}
			b.exited("hog1")
			b.exited("cpu")
			b.settle()
			b.later(2 * time.Second)
			if g := b.grant(); g.Phase != types.Granted || held() != tt.after {
				t.Errorf("it is %s, and holds %q, want %q", g.Phase, held(), tt.after)
			}
		})
	}
}
