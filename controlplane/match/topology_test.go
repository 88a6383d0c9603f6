package match

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/types"
)

func TestDevicesAsTheTopologySays(t *testing.T) {
	tests := []struct {
		machine         string
		used, unhealthy string
		amount          types.Quantity
		topology        types.Topology
		want            string // empty: there are none
	}{
		{"nothing known", "", "", 4000, types.OneNUMA, "0123"},
		{"nothing known", "", "", 2000, types.LinkedDevices, ""},
		{"nothing known", "", "", 1000, types.LinkedDevices, "0"},
		{"nothing known", "", "", 500, types.LinkedDevices, "0"},
		{"two sockets", "", "", 4000, types.OneNUMA, "0123"},
		{"two sockets", "0", "", 4000, types.OneNUMA, "4567"},
		{"two sockets", "04", "", 4000, types.OneNUMA, ""},
		{"two sockets", "04", "", 4000, types.AnyTopology, "1235"},
		{"two sockets", "", "5", 4000, types.OneNUMA, "0123"},
		{"two sockets", "0", "5", 4000, types.OneNUMA, ""},
		{"two sockets", "", "", 5000, types.OneNUMA, ""},
		{"pairs", "0", "", 2000, types.LinkedDevices, "23"},
		{"pairs", "0246", "", 2000, types.LinkedDevices, ""},
		{"pairs", "", "", 3000, types.LinkedDevices, ""},
		{"pairs", "0246", "", 2000, types.OneNUMA, "13"},
		{"pairs", "", "", 4000, types.OneNUMA, "0123"},
		{"quads", "4", "", 4000, types.LinkedDevices, "0123"},
		{"quads", "04", "", 4000, types.LinkedDevices, ""},
		{"quads", "04", "", 3000, types.LinkedDevices, "123"},
		{"all to all", "0", "7", 6000, types.LinkedDevices, "123456"},
		{"all to all", "0", "7", 7000, types.LinkedDevices, ""},
		{"all to all", "01", "", 4000, types.OneNUMA, "4567"},
		{"all to all", "014", "", 4000, types.OneNUMA, ""},
		{"all to all", "014", "", 4000, types.LinkedDevices, "2356"},
		{"ring", "", "", 2000, types.LinkedDevices, "01"},
		{"ring", "", "", 3000, types.LinkedDevices, ""},
		{"cube mesh", "123567", "", 2000, types.LinkedDevices, "04"},
		{"cube mesh", "123567", "", 2000, types.OneNUMA, ""},
		{"crossed pairs", "", "", 2000, types.LinkedDevices, "02"},
		{"crossed pairs", "04", "", 2000, types.OneNUMA, "13"},
		{"pairs", "", "", 2000, "of a later version", ""},
	}
	unknown := machines["two sockets"].slots("", "")
	for _, s := range unknown {
		s.Device.NUMA = -1
	}
	if Possible(unknown, 2000, types.OneNUMA) || !Possible(unknown, 1000, types.OneNUMA) {
		t.Error("devices without a known place count as on one NUMA node")
	}
	for _, tt := range tests {
		slots := machines[tt.machine].slots(tt.used, tt.unhealthy)
		var got string
		for _, d := range Pick(slots, tt.amount, tt.topology) {
			got += d.ID
		}
		if got != tt.want || Possible(slots, tt.amount, tt.topology) != (tt.want != "") {
			t.Errorf("%s, in use %q, unhealthy %q: %s of topology %q are %q, want %q", tt.machine, tt.used, tt.unhealthy, tt.amount.Format(types.GPU), tt.topology, got, tt.want)
		}
	}
}

// lieSo reports whether a set of slots meets a topology, by the definition in types.
func lieSo(slots []Slot, s devices, so types.Topology) bool {
	r := types.DeviceRequest{Topology: so}
	for a := s; a != 0; a &= a - 1 {
		for b := a & (a - 1); b != 0; b &= b - 1 {
			if !r.Joins(slots[a.first()].Device, slots[b.first()].Device) {
				return false
			}
		}
	}
	return true
}

var topologies = []types.Topology{types.OneNUMA, types.LinkedDevices}

// TestTogetherIsBest: no set that meets the topology is better than the result, and there is a
// result if such a set exists.
func TestTogetherIsBest(t *testing.T) {
	for name, m := range machines {
		for used := range 256 {
			slots := m.slots(digits(devices(used)), "")
			var l layout
			l.read(slots)
			for _, so := range topologies {
				for n := 2; n <= 8; n++ {
					var best setCost
					found := false
					for s := range devices(256) {
						if s.count() != n || s&^l.unused != 0 || !lieSo(slots, s, so) {
							continue
						}
						if c := l.cost(s); !found || !l.flat && c.less(best) {
							best, found = c, true
						}
					}
					switch got := l.together(n, so); {
					case !found && got != 0:
						t.Fatalf("%s, in use %s: %d of %s are %s, and there are none", name, digits(devices(used)), n, so, digits(got))
					case found && (got.count() != n || got&^l.unused != 0 || !lieSo(slots, got, so) || !l.flat && l.cost(got) != best):
						t.Fatalf("%s, in use %s: %d of %s are %q at %+v, best is %+v", name, digits(devices(used)), n, so, digits(got), l.cost(got), best)
					}
				}
			}
		}
	}
}

// TestTogetherOfMany: with too many devices to compare all sets, the result meets the topology, and
// exists if such a set does.
func TestTogetherOfMany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var slots []Slot
		for i := range rapid.IntRange(9, 16).Draw(t, "devices") {
			slots = append(slots, Slot{ID: fmt.Sprint(i), Capacity: Whole, Device: &types.Device{NUMA: rapid.IntRange(-1, 2).Draw(t, "numa")}})
		}
		for link := range rapid.IntRange(0, 12).Draw(t, "links") {
			for _, at := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(slots)-1), 2, 6, rapid.ID).Draw(t, "on") {
				slots[at].Device.Links = append(slots[at].Device.Links, fmt.Sprint(link))
			}
		}
		for i := range slots {
			if rapid.IntRange(0, 9).Draw(t, "used") == 0 {
				slots[i].Used = Whole
			}
		}
		n, so := rapid.IntRange(2, 6).Draw(t, "n"), rapid.SampledFrom(topologies).Draw(t, "topology")
		var l layout
		l.read(slots)
		there := false
		for s := range devices(1) << len(slots) {
			there = there || s.count() == n && s&^l.unused == 0 && lieSo(slots, s, so)
		}
		got := l.together(n, so)
		if (got != 0) != there || got != 0 && (got.count() != n || got&^l.unused != 0 || !lieSo(slots, got, so)) {
			t.Fatalf("%d of %s are %b, and there are some: %t", n, so, got, there)
		}
		if again := l.together(n, so); again != got {
			t.Fatalf("%b, then %b", got, again)
		}
	})
}

// TestTogetherWhereGrowingEnds: three linked devices, each also linked to a device without other
// links, which cuts fewer links when taken.
func TestTogetherWhereGrowingEnds(t *testing.T) {
	var slots []Slot
	for i, links := range []string{"ab x", "ab y", "ab z", "x", "y", "z", "", "", "", "", "", ""} {
		slots = append(slots, Slot{ID: fmt.Sprint(i), Capacity: Whole, Device: &types.Device{NUMA: i, Links: strings.Fields(links)}})
	}
	if got := fmt.Sprint(Pick(slots, 3000, types.LinkedDevices)); got != "[{0 1000} {1 1000} {2 1000}]" {
		t.Errorf("got %s", got)
	}
	if got := Pick(slots, 4000, types.LinkedDevices); got != nil {
		t.Errorf("got %v", got)
	}
}

// TestDevicesOfAModel: devices that do not match the request do not count.
func TestDevicesOfAModel(t *testing.T) {
	device := func(id, model string, memory int64) Slot {
		return Slot{ID: id, Capacity: Whole, Device: &types.Device{ID: id, Model: model, MemoryBytes: memory << 30}}
	}
	all := func() []Slot {
		out := []Slot{
			device("a", "NVIDIA A100-SXM4-40GB", 40), device("b", "NVIDIA H100 80GB HBM3", 80), device("c", "NVIDIA H100 80GB HBM3", 80),
			device("d", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 5), device("e", "NVIDIA A100-SXM4-80GB", 80), {ID: "f", Capacity: Whole},
		}
		out[2].Used = 500
		return out
	}
	tests := []struct {
		r      types.DeviceRequest
		amount types.Quantity
		want   string
	}{
		{types.DeviceRequest{Models: []string{"H100"}}, 1000, "b"},
		{types.DeviceRequest{Models: []string{"H100"}}, 300, "c"}, // the fuller one
		{types.DeviceRequest{Models: []string{"H100"}}, 2000, ""},
		{types.DeviceRequest{Models: []string{"A100"}}, 2000, "ad"},
		{types.DeviceRequest{Models: []string{"A100"}}, 4000, ""},
		{types.DeviceRequest{Models: []string{"A100"}, MinMemory: 40 << 30}, 2000, "ae"},
		{types.DeviceRequest{Models: []string{"H100", "A100"}, MinMemory: 80 << 30}, 2000, "be"},
		{types.DeviceRequest{Models: []string{"A100 1g.5gb"}}, 1000, "d"},
		{types.DeviceRequest{MinMemory: 1}, 4000, "abde"},
		{types.DeviceRequest{MinMemory: 1}, 5000, ""},
		{types.DeviceRequest{Topology: types.OneNUMA}, 5000, ""}, // the NUMA node of f is unknown
	}
	for _, tt := range tests {
		slots := all()
		Restrict(slots, &tt.r)
		var got string
		for _, d := range Pick(slots, tt.amount, tt.r.Topology) {
			got += d.ID
		}
		if got != tt.want {
			t.Errorf("%s gpu %s are %q, want %q", tt.amount.Format(types.GPU), &tt.r, got, tt.want)
		}
	}
	if slots := all(); slices.ContainsFunc(slots, func(s Slot) bool { return s.Capacity != Whole }) {
		t.Error("what wants any devices leaves some out")
	}
}

func TestByChoice(t *testing.T) {
	requests := []*types.DeviceRequest{
		{Topology: types.LinkedDevices},
		{Models: []string{"a"}, MinMemory: 80, Topology: types.OneNUMA},
		{Topology: types.OneNUMA},
		{Models: []string{"a"}, MinMemory: 80},
		{Models: []string{"a"}, MinMemory: 40},
		{Models: []string{"a", "b"}, MinMemory: 80},
		{MinMemory: 80},
		nil,
	}
	for i, a := range requests {
		for j, b := range requests {
			if got := CompareChoice(a, b); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("%d and %d: %d", i, j, got)
			}
		}
	}
}
