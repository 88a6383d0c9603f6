package reasons

import (
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane/why"
)

// TestMergedLines makes a few lines in all.
func TestMergedLines(t *testing.T) {
	var all []why.Reason
	for i := range 3 {
		all = append(all, why.Say(why.Order, "queue q lets it in; %d are before it", 3+i))
	}
	for i := range 12 {
		all = append(all, why.Say(why.Awaits, "It comes after %s.", string(rune('a'+i))))
	}
	got := mergedLines(all)
	if want := []string{"3 × queue q lets it in; 3 to 5 are before it", "It comes after a."}; len(got) != 11 || !slices.Equal(got[:2], want) || got[10] != "… and 3 more" {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

func TestEvenly(t *testing.T) {
	all := make([]int, 10_000)
	for i := range all {
		all[i] = i
	}
	if got := evenly(all, 64); len(got) != 64 || got[0] != 0 || got[63] != 9999 || got[1] != 158 {
		t.Errorf("got %v", got)
	}
	if got := evenly(all[:3], 64); len(got) != 3 {
		t.Errorf("got %v", got)
	}
}
