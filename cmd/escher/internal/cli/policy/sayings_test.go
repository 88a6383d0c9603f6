package policy

import (
	"fmt"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"slices"
	"strings"
	"testing"
)

// TestSayings makes one line of sentences that differ only in numbers, and a few lines in all.
func TestSayings(t *testing.T) {
	var s sayings
	for i := range 12 {
		s.Add(fmt.Sprintf("queue q-1 lets 4 begin in %ds; %d are before it", 10+i, 3+i))
	}
	s.Add("it comes after task a-1.")
	s.Add("it comes after task a-2.")
	s.Add("it comes after task a-2.")
	want := []string{"12 × queue q-1 lets 4 begin in 10s to 21s; 3 to 14 are before it", "2 × it comes after task a-2.", "it comes after task a-1."}
	if got := s.Lines(); !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	for i := range 10 {
		s.Add("and task " + string(rune('a'+i)))
	}
	if got := s.Lines(); len(got) != 11 || got[10] != "… and 3 more" {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

func TestEvenly(t *testing.T) {
	all := make([]int, 10_000)
	for i := range all {
		all[i] = i
	}
	if got := render.Evenly(all, 64); len(got) != 64 || got[0] != 0 || got[63] != 9999 || got[1] != 158 {
		t.Errorf("got %v", got)
	}
	if got := render.Evenly(all[:3], 64); len(got) != 3 {
		t.Errorf("got %v", got)
	}
}
