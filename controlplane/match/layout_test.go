package match

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/types"
)

// machine describes the devices of a node: the devices of each link, and the NUMA node of each
// device, a digit each.
type machine struct {
	numa  string
	links string // groups of digits, separated by blanks
}

// The kinds of machine there are.
var machines = map[string]machine{
	"nothing known": {numa: "00000000"},
	"two sockets":   {numa: "00001111"},
	"pairs":         {numa: "00001111", links: "01 23 45 67"},
	"quads":         {numa: "00001111", links: "0123 4567"},
	"all to all":    {numa: "00001111", links: "01234567"},
	"cube mesh":     {numa: "00001111", links: "0123 4567 04 15 26 37"},
	"ring":          {numa: "00001111", links: "01 12 23 34 45 56 67 70"},
	"crossed pairs": {numa: "01010101", links: "02 13 46 57"},
	"four sockets":  {numa: "00112233", links: "01 23 45 67"},
	"mixed":         {numa: "00011122", links: "012 34"},
}

// slots returns the devices of m, with the used and unhealthy ones given as digits.
func (m machine) slots(used, unhealthy string) []Slot {
	var out []Slot
	for i := range m.numa {
		name := fmt.Sprint(i)
		s := Slot{ID: name, Capacity: Whole, Device: &types.Device{ID: name, NUMA: int(m.numa[i] - '0')}}
		for _, link := range strings.Fields(m.links) {
			if strings.Contains(link, name) {
				s.Device.Links = append(s.Device.Links, "link-"+link)
			}
		}
		if strings.Contains(used, name) {
			s.Used = Whole
		}
		if strings.Contains(unhealthy, name) {
			s.Capacity = 0
		}
		out = append(out, s)
	}
	return out
}

func TestNearestDevices(t *testing.T) {
	tests := []struct {
		machine         string
		used, unhealthy string
		amount          types.Quantity
		want            string
		why             string
	}{
		{"nothing known", "", "", 3000, "012", "the first"},
		{"nothing known", "1", "", 3000, "023", "the first"},
		{"two sockets", "", "", 4000, "0123", "of one socket"},
		{"two sockets", "0", "", 4000, "4567", "of one socket"},
		{"two sockets", "01", "", 2000, "23", "where least is left"},
		{"two sockets", "0", "", 1000, "1", "where less is left"},
		{"two sockets", "45", "", 1000, "6", "where less is left"},
		{"two sockets", "", "", 5000, "01234", "of as few sockets as can be"},
		{"two sockets", "0", "4", 3000, "123", "a socket with no more than that"},
		{"pairs", "", "", 2000, "01", "a pair"},
		{"pairs", "0", "", 2000, "23", "not the rest of a pair"},
		{"pairs", "025", "", 2000, "67", "not the rest of a pair"},
		{"pairs", "0", "", 1000, "1", "the rest of a pair, not half of one"},
		{"pairs", "2", "", 1000, "3", "the rest of a pair, not half of one"},
		{"pairs", "0246", "", 2000, "13", "of one socket when there is no pair"},
		{"pairs", "2", "", 3000, "013", "a pair and the rest of one"},
		{"pairs", "", "1", 2000, "23", "a pair that is healthy"},
		{"pairs", "", "", 500, "0", "of the first"},
		{"pairs", "6", "", 500, "7", "of the rest of a pair"},
		{"quads", "", "", 4000, "0123", "a quad"},
		{"quads", "2", "", 4000, "4567", "a quad"},
		{"quads", "67", "", 2000, "45", "where none is left"},
		{"quads", "4", "", 2000, "56", "where fewer are left"},
		{"quads", "4", "", 3000, "567", "where none is left"},
		{"quads", "04", "", 4000, "1235", "as many links as can be"},
		{"all to all", "", "", 4000, "0123", "all linked, and of one socket"},
		{"all to all", "0", "", 4000, "4567", "all linked, and of one socket"},
		{"all to all", "0", "7", 4000, "1234", "all linked"},
		{"all to all", "01", "", 2000, "23", "of the socket with less left"},
		{"cube mesh", "", "", 2000, "01", "linked, and of one socket"},
		{"cube mesh", "123567", "", 2000, "04", "linked"},
		{"cube mesh", "13", "", 4000, "4567", "all linked"},
		{"crossed pairs", "", "", 2000, "02", "linked"},
		{"crossed pairs", "0", "", 2000, "46", "linked, where least is left"},
		{"mixed", "", "", 2000, "34", "linked, and no link is cut"},
		{"mixed", "", "", 3000, "012", "linked"},
		{"mixed", "3", "", 2000, "01", "linked, though one of the three is left"},
	}
	for _, tt := range tests {
		var got string
		for _, d := range Pick(machines[tt.machine].slots(tt.used, tt.unhealthy), tt.amount, types.AnyTopology) {
			got += d.ID
		}
		if got != tt.want {
			t.Errorf("%s, in use %q, unhealthy %q: %s are %s, want %s: %s", tt.machine, tt.used, tt.unhealthy, tt.amount.Format(types.GPU), got, tt.want, tt.why)
		}
	}
}

// TestNearestIsBest: no set is better than the result.
func TestNearestIsBest(t *testing.T) {
	for name, m := range machines {
		t.Run(name, func(t *testing.T) {
			for used := range 256 {
				var l layout
				l.read(m.slots(digits(devices(used)), ""))
				for n := 1; n <= l.unused.count(); n++ {
					got, best := l.best(n), l.cost(l.unused)
					for s := range devices(256) {
						if s.count() == n && s&^l.unused == 0 && (n == l.unused.count() || l.cost(s).less(best) || best == l.cost(l.unused)) {
							best = l.cost(s)
						}
					}
					if c := l.cost(got); got.count() != n || got&^l.unused != 0 || c != best {
						t.Fatalf("in use %s: %d are %s at %+v, best is %+v", digits(devices(used)), n, digits(got), c, best)
					}
				}
			}
		})
	}
}

func digits(s devices) string {
	var out string
	for ; s != 0; s &= s - 1 {
		out += fmt.Sprint(s.first())
	}
	return out
}

// TestLargeLayouts: devices beyond the size of a layout are given out in order.
func TestLargeLayouts(t *testing.T) {
	var slots []Slot
	for i := range 100 {
		slots = append(slots, Slot{ID: fmt.Sprint(i), Capacity: Whole, Device: &types.Device{NUMA: i % 2, Links: []string{fmt.Sprint("link-", i)}}})
	}
	for i := range 20 {
		slots[i].Used = Whole
	}
	if got := Pick(slots, 4000, types.AnyTopology); len(got) != 4 {
		t.Errorf("four of what is known are %v", got)
	}
	got := Pick(slots, 70_000, types.AnyTopology)
	if len(got) != 70 || got[0].ID != "20" || got[69].ID != "89" {
		t.Errorf("seventy of what is left are %v", got)
	}
}

// TestLayoutsOfAnySize: the requested number of devices is taken, including those beyond the size
// of a layout if enough meet the topology.
func TestLayoutsOfAnySize(t *testing.T) {
	for _, all := range []int{63, 64, 65, 100} {
		for _, used := range []int{0, 1, all - 62} {
			var slots []Slot
			for i := range all {
				slots = append(slots, Slot{ID: fmt.Sprint(i), Capacity: Whole, Device: &types.Device{Links: []string{"switch"}}})
				if i < used {
					slots[i].Used = Whole
				}
			}
			for _, n := range []int{1, 2, 61, 62, 63, 64} {
				for _, so := range []types.Topology{types.AnyTopology, types.OneNUMA, types.LinkedDevices} {
					want, amount := n, types.Quantity(n)*Whole
					if n > all-used {
						want = 0
					}
					if got := Pick(slots, amount, so); len(got) != want || Possible(slots, amount, so) != (want > 0) {
						t.Errorf("%d, %d of them in use: %d of topology %q are %v", all, used, n, so, got)
					}
				}
			}
			if got := Pick(slots, 300, types.AnyTopology); len(got) != 1 {
				t.Errorf("%d, %d of them in use: a part of one is %v", all, used, got)
			}
		}
	}
}

func TestLayoutIsTheSameEachTime(t *testing.T) {
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range machines {
			if !yield(name) {
				return
			}
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		m := machines[rapid.SampledFrom(names).Draw(t, "machine")]
		slots := m.slots(digits(devices(rapid.IntRange(0, 255).Draw(t, "used"))), "")
		amount := Whole * types.Quantity(rapid.IntRange(1, 8).Draw(t, "amount"))
		if a, b := Pick(slots, amount, types.AnyTopology), Pick(slots, amount, types.AnyTopology); !slices.Equal(a, b) {
			t.Fatalf("%v, then %v", a, b)
		}
	})
}

func BenchmarkPick(b *testing.B) {
	for _, name := range []string{"nothing known", "pairs", "all to all", "cube mesh"} {
		slots := machines[name].slots("", "")
		for _, n := range []types.Quantity{1, 2, 4} {
			b.Run(fmt.Sprintf("%s/%d", strings.ReplaceAll(name, " ", "-"), n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					Pick(slots, n*Whole, types.AnyTopology)
				}
			})
		}
	}
}
