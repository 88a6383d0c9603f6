package scheduler

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/scheduler/schedulertest"
	"github.com/escher-sched/escher/types"
)

// q is the quantities of a request vector.
type q = map[string]types.Quantity

// gpusOn gives a node the described devices.
func (b *bench) gpusOn(node string, devices ...string) {
	b.t.Helper()
	d := &types.Devices{}
	for i, text := range devices {
		d.Devices = append(d.Devices, schedulertest.GPU(i, text))
	}
	b.putDevices(node, d)
	if b.core.view.Nodes[node] == nil {
		b.put(controlplane.AliveKey(node), &types.Alive{})
	}
}

// putDevices gives a node GPUs.
func (b *bench) putDevices(node string, d *types.Devices) {
	b.t.Helper()
	b.put(controlplane.DevicesKey(node), d, controlplane.NodeKey(node), &types.Node{
		Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 1000, "gpu": types.Quantity(len(d.Devices)) * match.Whole}),
	})
}

func of(r types.DeviceRequest) func(*types.Task) {
	if r.Resource == "" {
		r.Resource = "gpu"
	}
	return func(t *types.Task) { t.Devices = append(t.Devices, r) }
}

// held are the devices that a task holds.
func (b *bench) held(id string) string {
	var out []string
	if t := b.core.view.Task(clusterID("d", id)); t != nil && len(t.Bindings) > 0 {
		for _, h := range t.Bindings[0].Info.V.Holds {
			for _, d := range h.Devices {
				out = append(out, d.ID)
			}
		}
	}
	return strings.Join(out, " ")
}

func TestTaskGetsTheDevicesThatItWants(t *testing.T) {
	b := newBench(t, Config{})
	b.gpusOn("n1", "A100", "A100", "H100", "H100")
	b.gpusOn("n2", "A100/x", "A100/x", "A100", "A100")
	h100 := of(types.DeviceRequest{Models: []string{"h100"}})
	b.task("one", q{"gpu": 1000}, h100)
	b.task("linked", q{"gpu": 2000}, of(types.DeviceRequest{Topology: types.LinkedDevices}))
	b.settle()
	b.expect("one", "bound on n1")
	b.expect("linked", "bound on n2")
	b.task("half", q{"gpu": 500}, of(types.DeviceRequest{MinMemory: 80 << 30}))
	b.settle()
	b.expect("half", "bound on n1")
	b.task("two", q{"gpu": 2000}, h100)
	b.task("more", q{"gpu": 2000}, of(types.DeviceRequest{Topology: types.LinkedDevices}))
	b.settle()
	b.expect("two", "pending")
	b.expect("more", "pending")
	for id, want := range map[string]string{"one": "g2", "half": "g3", "linked": "g0 g1"} {
		if got := b.held(id); got != want {
			t.Errorf("%s holds %s, want %s", id, got, want)
		}
	}
}

// TestWhoWantsDevicesIsWoken: everything that may add matching devices wakes the task.
func TestWhoWantsDevicesIsWoken(t *testing.T) {
	h100 := of(types.DeviceRequest{Models: []string{"H100"}})
	for name, bring := range map[string]func(b *bench){
		"a device that recovers": func(b *bench) { b.gpusOn("n1", "A100", "A100", "H100", "H100") },
		"another model":          func(b *bench) { b.gpusOn("n1", "H100", "A100", "H100", "H100!") },
		"a node that registers":  func(b *bench) { b.gpusOn("n2", "H100") },
		"a node of which it is known later": func(b *bench) {
			b.put(controlplane.NodeKey("n2"), &types.Node{Capacity: types.NewRequests(q{"gpu": 1000, "cpu": 1000})}, controlplane.AliveKey("n2"), &types.Alive{})
			b.settle()
			b.expect("t", "pending")
			b.put(controlplane.DevicesKey("n2"), &types.Devices{Devices: []types.Device{schedulertest.GPU(0, "H100")}})
		},
		"an uncordoned node": func(b *bench) { b.del(controlplane.CordonKey("n3")) },
		"a release":          func(b *bench) { b.exited("first") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Config{})
			b.gpusOn("n1", "A100", "A100", "H100", "H100!")
			b.gpusOn("n3", "H100")
			b.put(controlplane.CordonKey("n3"), &types.Cordon{})
			b.task("first", q{"gpu": 1000}, h100)
			b.task("other", q{"gpu": 1000}, of(types.DeviceRequest{Models: []string{"A100"}}))
			b.settle()
			b.task("t", q{"gpu": 1000}, h100)
			b.settle()
			b.expect("t", "pending")
			b.exited("other") // it frees devices that do not match
			b.settle()
			b.expect("t", "pending")
			bring(b)
			b.settle()
			if b.where("t") == "pending" {
				t.Error("it sleeps on")
			}
		})
	}
}

// TestWhatIsSaidOfDevicesIsOfTheShape: tasks with other device requests are tried although one with
// the same amount waits.
func TestWhatIsSaidOfDevicesIsOfTheShape(t *testing.T) {
	said := []types.DeviceRequest{
		{Models: []string{"H100"}},
		{Models: []string{"H100", "B200"}},
		{Models: []string{"H100B200"}},
		{Models: []string{"H100>0~"}},
		{Models: []string{"H100"}, MinMemory: 1},
		{Models: []string{"H100"}, Topology: types.OneNUMA},
		{Topology: types.OneNUMA},
		{Resource: "acme.com/fpga", Topology: types.OneNUMA},
	}
	requests := types.NewRequests(q{"gpu": 1000, "acme.com/fpga": 1000})
	tasks, bundles := make(map[string]int), make(map[string]int)
	for i, r := range append(said, types.DeviceRequest{}) {
		var devices []types.DeviceRequest
		if i < len(said) {
			devices = []types.DeviceRequest{r}
			if r.Resource == "" {
				devices[0].Resource = "gpu"
			}
		}
		task := queue.TaskText("d", cluster.NewTask(&types.Task{Requests: requests, Devices: devices}))
		bundle := queue.ReservationText("d", &types.Reservation{Bundles: []types.Bundle{{Requests: requests, Devices: devices}}})
		if j, ok := tasks[task]; ok {
			t.Errorf("tasks: %d and %d are of one shape", i, j)
		}
		if j, ok := bundles[bundle]; ok {
			t.Errorf("bundles: %d and %d are of one shape", i, j)
		}
		tasks[task], bundles[bundle] = i, i
	}
	b := newBench(t, Config{})
	b.gpusOn("n1", "A100", "A100")
	b.task("waits", q{"gpu": 1000}, of(types.DeviceRequest{Models: []string{"H100"}}))
	b.settle()
	b.task("fits", q{"gpu": 1000}, of(types.DeviceRequest{Models: []string{"A100"}}))
	b.task("any", q{"gpu": 1000})
	b.settle()
	b.expect("waits", "pending")
	b.expect("fits", "bound on n1")
	b.expect("any", "bound on n1")
}

// TestDevicesThatChangeMeanwhile: a bind fails if the devices have changed since the decision,
// drawn from a reservation or not.
func TestDevicesThatChangeMeanwhile(t *testing.T) {
	for _, resource := range []string{"gpu", "gpu@r"} {
		b := newBench(t, Config{})
		b.gpusOn("n1", "H100")
		if resource == "gpu@r" {
			b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{Bundles: []types.Bundle{bundleOf(q{"gpu": 1000})}})
			b.settle()
		}
		b.task("t", q{resource: 1000}, of(types.DeviceRequest{Resource: resource, Models: []string{"H100"}}))
		b.see()
		drafts := b.line(1)
		b.put(controlplane.DevicesKey("n1"), &types.Devices{Devices: []types.Device{schedulertest.GPU(0, "A100")}})
		b.core.Done(drafts[0], b.arrives(drafts[0], false), nil, b.now)
		b.settle()
		b.expect("t", "pending")
	}
}

// TestTaskWantsDevicesOfItsReservation: device requests apply to draws on a reservation, too.
func TestTaskWantsDevicesOfItsReservation(t *testing.T) {
	b := newBench(t, Config{})
	b.gpusOn("n1", "A100", "A100", "H100", "H100")
	b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{Bundles: []types.Bundle{
		{Requests: types.NewRequests(q{"gpu": 2000})},
		{Requests: types.NewRequests(q{"gpu": 1000}), Devices: []types.DeviceRequest{{Resource: "gpu", Models: []string{"H100"}}}},
	}})
	b.settle()
	drawn := of(types.DeviceRequest{Resource: "gpu@r", Models: []string{"H100"}})
	b.task("first", q{"gpu@r": 1000}, drawn)
	b.task("too-many", q{"gpu@r": 3000}, drawn)
	b.settle()
	b.expect("first", "bound on n1")
	b.expect("too-many", "pending")
	if got := b.held("first"); got != "g2" && got != "g3" {
		t.Errorf("it holds %s", got)
	}
}

func bundle(amount types.Quantity, r types.DeviceRequest) types.Bundle {
	r.Resource = "gpu"
	return types.Bundle{Requests: types.NewRequests(q{"gpu": amount}), Devices: []types.DeviceRequest{r}}
}

// TestGangOfDevices: a gang is granted where each bundle gets matching devices, although an earlier
// bundle could have taken them. The audit checks each grant.
func TestGangOfDevices(t *testing.T) {
	tests := map[string]struct {
		n1, n2  string
		bundles []types.Bundle
		want    types.GrantPhase
	}{
		"beside any":          {"H100 H100 A100 A100", "", []types.Bundle{bundleOf(q{"gpu": 2000}), bundle(2000, types.DeviceRequest{Models: []string{"H100"}})}, types.Granted},
		"beside more":         {"A100 H100 H100", "", []types.Bundle{bundle(2000, types.DeviceRequest{MinMemory: 1}), bundle(1000, types.DeviceRequest{Models: []string{"A100"}})}, types.Granted},
		"another for as much": {"H100 A100", "", []types.Bundle{bundle(1000, types.DeviceRequest{Models: []string{"H100"}}), bundle(1000, types.DeviceRequest{Models: []string{"A100"}})}, types.Granted},
		"on another":          {"A100 A100 A100 A100", "H100 H100", []types.Bundle{bundle(1000, types.DeviceRequest{Models: []string{"H100"}}), bundle(1000, types.DeviceRequest{Models: []string{"H100"}})}, types.Granted},
		"too few":             {"A100 A100 A100 A100", "H100 H100", []types.Bundle{bundle(2000, types.DeviceRequest{Models: []string{"H100"}}), bundle(1000, types.DeviceRequest{Models: []string{"H100"}})}, ""},
		"two pairs":           {"A100/x A100/y A100/x A100/y", "", []types.Bundle{bundle(2000, types.DeviceRequest{Topology: "nvlink"}), bundle(2000, types.DeviceRequest{Topology: "nvlink"})}, types.Granted},
		"a pair beside":       {"H100/x H100/x H100 H100", "", []types.Bundle{bundle(2000, types.DeviceRequest{Models: []string{"H100"}}), bundle(2000, types.DeviceRequest{Topology: "nvlink"})}, types.Granted},
		"not two pairs":       {"A100/x A100/y A100/x A100/z", "", []types.Bundle{bundle(2000, types.DeviceRequest{Topology: "nvlink"}), bundle(2000, types.DeviceRequest{Topology: "nvlink"})}, ""},
		"no three":            {"A100/x A100/x A100/y A100/y", "A100/x A100/x", []types.Bundle{bundle(3000, types.DeviceRequest{Topology: "nvlink"})}, ""},
		"of one NUMA node":    {"A100 A100", "", []types.Bundle{bundle(2000, types.DeviceRequest{Topology: "numa"})}, types.Granted},
		"parts of a device":   {"A100 H100", "", []types.Bundle{bundleOf(q{"gpu": 1000}), bundle(500, types.DeviceRequest{MinMemory: 80 << 30}), bundle(500, types.DeviceRequest{MinMemory: 80 << 30})}, types.Granted},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Config{})
			b.gpusOn("n1", strings.Fields(tt.n1)...)
			b.gpusOn("n2", strings.Fields(tt.n2)...)
			b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{Bundles: tt.bundles})
			b.settle()
			if got := b.grant().Phase; got != tt.want {
				t.Errorf("it is %q, want %q", got, tt.want)
			}
		})
	}
}

// TestDeviceRequestsAreMetOrWait: for any tasks and nodes, the audit sees no task bound to devices
// that do not match, and no task waits while a node has matching ones.
func TestDeviceRequestsAreMetOrWait(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t, Config{Seed: uint64(rapid.IntRange(1, 9).Draw(rt, "seed"))})
		for n := range rapid.IntRange(1, 3).Draw(rt, "nodes") {
			b.gpusOn(fmt.Sprintf("n%d", n), rapid.SliceOfN(rapid.SampledFrom([]string{"H100/a", "H100/b", "A100/a", "A100/b", "A100", "A100!"}), 1, 8).Draw(rt, "devices")...)
		}
		for i := range rapid.IntRange(1, 8).Draw(rt, "tasks") {
			amount := rapid.SampledFrom([]types.Quantity{500, 1000, 2000, 3000}).Draw(rt, "amount")
			r := types.DeviceRequest{
				Models:    rapid.SampledFrom([][]string{nil, {"H100"}, {"A100"}, {"A100", "H100"}}).Draw(rt, "models"),
				MinMemory: rapid.SampledFrom([]int64{0, 80 << 30}).Draw(rt, "memory"),
				Topology:  rapid.SampledFrom([]types.Topology{"", types.OneNUMA, types.LinkedDevices}).Draw(rt, "topology"),
			}
			if r.Models == nil && r.MinMemory == 0 && r.Topology == "" {
				b.task(fmt.Sprintf("t%d", i), q{"gpu": amount})
			} else {
				b.task(fmt.Sprintf("t%d", i), q{"gpu": amount}, of(r))
			}
		}
		b.settle()
		b.check()
		for task := range b.core.view.Tasks() {
			if task.Phase() != types.Pending {
				continue
			}
			for _, n := range b.core.view.Nodes {
				for _, needs := range grants.Vectors(b.core.view, task) {
					if b.couldHave(n.Name, needs[0].Devices, needs[0].Amount) {
						rt.Fatalf("%s waits for %v, and %s has that", task.ID, needs[0], n.Name)
					}
				}
			}
		}
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// couldHave tries every set of the devices of a node.
func (b *bench) couldHave(node string, r *types.DeviceRequest, amount types.Quantity) bool {
	n := b.core.view.Nodes[node]
	all := n.Devices.V.Devices
	if r == nil {
		r = &types.DeviceRequest{}
	}
	var used []types.DeviceShare
	if n.Allocated.V != nil {
		used = n.Allocated.V.DevicesOf(types.GPU)
	}
	for s := range uint64(1) << len(all) {
		if bits.OnesCount64(s) != max(1, int(amount/match.Whole)) {
			continue
		}
		fits := true
		for x := s; x != 0; x &= x - 1 {
			d := &all[bits.TrailingZeros64(x)]
			fits = fits && d.Unhealthy == "" && r.Takes(d) && match.ShareOf(used, d.ID)+min(amount, match.Whole) <= match.Whole
			for y := x & (x - 1); y != 0; y &= y - 1 {
				fits = fits && r.Joins(d, &all[bits.TrailingZeros64(y)])
			}
		}
		if fits {
			return true
		}
	}
	return false
}
