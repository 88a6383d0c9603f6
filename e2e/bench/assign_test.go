package bench

import (
	"testing"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// TestAssigned adds up the tasks assigned to each node.
func TestAssigned(t *testing.T) {
	h, err := assigned(rig.Config{Nodes: 200, Tasks: 2000})
	if err != nil {
		t.Fatal(err)
	}
	used := make([]map[string]types.Quantity, len(h.Nodes))
	for i, n := range h.At {
		if used[n] == nil {
			used[n] = make(map[string]types.Quantity)
		}
		for _, x := range h.Shapes[h.Tasks[i]] {
			used[n][x.Name] += x.Amount
		}
	}
	for _, shape := range h.Shapes {
		if share := shape.Get("gpu"); share%1000 != 0 && share != 250 && share != 500 {
			t.Errorf("%v asks for another part of a device", shape)
		}
	}
	for i, n := range h.Nodes {
		for name, amount := range used[i] {
			if has := n.Capacity.Get(name); amount > has {
				t.Errorf("node %d has %d of %s, and %d are asked for", i, has, name, amount)
			}
		}
	}
}

// TestRoomOfDevices assigns whole devices, and parts of the one with the least left.
func TestRoomOfDevices(t *testing.T) {
	ask := func(gpu types.Quantity) types.Requests {
		return types.NewRequests(map[string]types.Quantity{"gpu": gpu})
	}
	r := newRoom(&types.Node{Capacity: ask(3000)}, &types.Devices{Devices: make([]types.Device, 3)})
	for _, test := range []struct {
		asked types.Quantity
		fits  bool
		left  []types.Quantity
	}{
		{600, true, []types.Quantity{400, 1000, 1000}},
		{300, true, []types.Quantity{100, 1000, 1000}},
		{2000, true, []types.Quantity{100, 0, 0}},
		{1000, false, nil},
		{200, false, nil},
		{100, true, []types.Quantity{0, 0, 0}},
	} {
		fits := r.fits(ask(test.asked))
		if fits != test.fits {
			t.Errorf("%d fits in %v: %t", test.asked, r.devices, fits)
		}
		if !fits {
			continue
		}
		r.take(ask(test.asked))
		for i, want := range test.left {
			if r.devices[i] != want {
				t.Errorf("after %d there are %v, want %v", test.asked, r.devices, test.left)
			}
		}
	}
}

// TestEvenShares keeps whole devices and other requests.
func TestEvenShares(t *testing.T) {
	for asked, want := range map[types.Quantity]types.Quantity{1: 250, 374: 250, 375: 500, 500: 500, 749: 500, 750: 1000, 1000: 1000, 3000: 3000} {
		in := types.NewRequests(map[string]types.Quantity{"cpu": 7, "gpu": asked, "model.trace/T4": asked})
		out := evenShares(in)
		if out.Get("gpu") != want || out.Get("model.trace/T4") != want || out.Get("cpu") != 7 || in.Get("gpu") != asked {
			t.Errorf("of %d it is %v", asked, out)
		}
	}
	if cpu := types.NewRequests(map[string]types.Quantity{"cpu": 7}); len(evenShares(cpu)) != 1 {
		t.Error("it asks for more")
	}
}
