package estimate

import (
	"testing"

	policy "github.com/escher-sched/escher/esl/estimate"
	"github.com/escher-sched/escher/types"
)

// TestFigures is about four runs of which the first three are declared, and the last needs more.
func TestFigures(t *testing.T) {
	const gib types.Quantity = 1 << 30
	one := run{name: "a", length: 3600, declares: 4 * gib, uses: gib, killedAt: 0.5}
	last := one
	last.uses = gib * 3 / 2
	got, err := figures([]run{one, one, one, last}, policy.Estimate{Memory: "p100", Margin: "0%"})
	if err != nil {
		t.Fatal(err)
	}
	// The last requests 1 GiB and 1.25 GiB for half an hour each, and then enough.
	if got[used] != 4.5 || got[kills] != 50 || got[failed] != 0 {
		t.Errorf("%v", got)
	}
	if want := 12 + 0.5*(1+1.25) + 1.5625; got[requested] < want || got[requested] > 1.01*want {
		t.Errorf("requested %g GiB h, want %g", got[requested], want)
	}
	declared, err := figures([]run{one, one, one, last}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if declared[used] != 4.5 || declared[requested] != 16 || declared[kills] != 0 {
		t.Errorf("as declared: %v", declared)
	}
	last.uses = 5 * gib
	if declared, _ = figures([]run{last}, nil); declared[failed] != 100 || declared[kills] != 400 {
		t.Errorf("too little is declared: %v", declared)
	}
}
