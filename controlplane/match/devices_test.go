package match

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/types"
)

func TestPick(t *testing.T) {
	free := func(used ...types.Quantity) (out []Slot) {
		for i, u := range used {
			out = append(out, Slot{ID: fmt.Sprint(i), Capacity: Whole, Used: u})
		}
		return out
	}
	tests := []struct {
		name   string
		slots  []Slot
		amount types.Quantity
		want   string
	}{
		{"one whole", free(0, 0), 1000, "[{0 1000}]"},
		{"two whole, past one in use", free(0, 1, 0), 2000, "[{0 1000} {2 1000}]"},
		{"not enough whole ones", free(0, 500), 2000, "[]"},
		{"a fraction of the fullest with room", free(0, 800, 500), 300, "[{2 300}]"},
		{"a fraction that fills one up", free(0, 800, 500), 200, "[{1 200}]"},
		{"a fraction of one never used", free(900, 0), 500, "[{1 500}]"},
		{"no room for a fraction", free(900, 800), 500, "[]"},
		{"more than one, and not whole", free(0, 0), 1500, "[]"},
		{"none is healthy", []Slot{{ID: "0"}}, 1000, "[]"},
		{"a share of a reservation", []Slot{{ID: "0", Capacity: 500, Used: 200}}, 300, "[{0 300}]"},
		{"not a whole one of a share", []Slot{{ID: "0", Capacity: 500}}, 1000, "[]"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(Pick(tt.slots, tt.amount, types.AnyTopology)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestPickTakesWhatThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 6).Draw(t, "devices")
		slots := make([]Slot, n)
		unused, most := types.Quantity(0), types.Quantity(0)
		for i := range slots {
			slots[i] = Slot{ID: fmt.Sprint(i), Capacity: Whole, Used: 100 * types.Quantity(rapid.IntRange(0, 10).Draw(t, "used"))}
			if slots[i].Used == 0 {
				unused += Whole
			}
			most = max(most, Whole-slots[i].Used)
		}
		amount := 100 * types.Quantity(rapid.IntRange(1, 40).Draw(t, "amount"))
		got := Pick(slots, amount, types.AnyTopology)
		possible := amount < Whole && amount <= most || amount >= Whole && amount%Whole == 0 && amount <= unused
		if possible != (got != nil) {
			t.Fatalf("%d of %v: got %v", amount, slots, got)
		}
		sum, seen := types.Quantity(0), make(map[string]bool)
		for _, d := range got {
			for _, s := range slots {
				if s.ID == d.ID && s.Used+d.Share > s.Capacity {
					t.Fatalf("%d of %v: got %v, more than there is", amount, slots, got)
				}
			}
			if seen[d.ID] {
				t.Fatalf("%v: one twice", got)
			}
			seen[d.ID] = true
			sum += d.Share
		}
		if got != nil && sum != amount {
			t.Fatalf("%d of %v: got %v", amount, slots, got)
		}
	})
}
