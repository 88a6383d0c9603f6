package scheduler

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/types"
)

func TestPick(t *testing.T) {
	free := func(used ...types.Quantity) (out []slot) {
		for i, u := range used {
			out = append(out, slot{id: fmt.Sprint(i), capacity: whole, used: u})
		}
		return out
	}
	tests := []struct {
		name   string
		slots  []slot
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
		{"none is healthy", []slot{{id: "0"}}, 1000, "[]"},
		{"a share of a reservation", []slot{{id: "0", capacity: 500, used: 200}}, 300, "[{0 300}]"},
		{"not a whole one of a share", []slot{{id: "0", capacity: 500}}, 1000, "[]"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(pick(tt.slots, tt.amount, types.AnyTopology)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestPickTakesWhatThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 6).Draw(t, "devices")
		slots := make([]slot, n)
		unused, most := types.Quantity(0), types.Quantity(0)
		for i := range slots {
			slots[i] = slot{id: fmt.Sprint(i), capacity: whole, used: 100 * types.Quantity(rapid.IntRange(0, 10).Draw(t, "used"))}
			if slots[i].used == 0 {
				unused += whole
			}
			most = max(most, whole-slots[i].used)
		}
		amount := 100 * types.Quantity(rapid.IntRange(1, 40).Draw(t, "amount"))
		got := pick(slots, amount, types.AnyTopology)
		possible := amount < whole && amount <= most || amount >= whole && amount%whole == 0 && amount <= unused
		if possible != (got != nil) {
			t.Fatalf("%d of %v: got %v", amount, slots, got)
		}
		sum, seen := types.Quantity(0), make(map[string]bool)
		for _, d := range got {
			for _, s := range slots {
				if s.id == d.ID && s.used+d.Share > s.capacity {
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
