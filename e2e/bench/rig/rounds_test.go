package rig

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

// fakeArm returns given figures, and records that it was measured.
func fakeArm(name string, order *[]string, found func(n int) (Figures, error)) Arm {
	n := 0
	return Arm{name, func(_ context.Context, cfg Config) (Figures, error) {
		*order = append(*order, cfg.Label)
		n++
		return found(n)
	}}
}

func TestInterleave(t *testing.T) {
	var order []string
	var told bytes.Buffer
	cfg := Config{Scenario: "s", Rounds: 3, progress: newProgress(&told, 0)}
	s, err := Interleave(t.Context(), cfg,
		fakeArm("a", &order, func(n int) (Figures, error) { return Figures{Rate: float64(n), Violations: 0}, nil }),
		fakeArm("b c", &order, func(n int) (Figures, error) { return Figures{Rate: float64(10 * n), Violations: 1, "etcd_mib": 5}, nil }))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b-c", "b-c", "a", "a", "b-c"}; !slices.Equal(order, want) {
		t.Errorf("measured %q, want %q", order, want)
	}
	if got := s.Of("b c", Rate); !slices.Equal(got, []float64{10, 20, 30}) {
		t.Errorf("got %v", got)
	}
	if got := s.Violations("a", "b c"); len(got) != 6 || Median(got) != 0.5 {
		t.Errorf("got %v", got)
	}
	if lines := strings.Split(strings.TrimSpace(told.String()), "\n"); len(lines) != 6 || lines[1] != "s: round 1 of 3: b c: 10/s, violations 1" {
		t.Errorf("told %q", lines)
	}
}

// TestInterleaveFails expects the error to name the measurement, and to keep its class.
func TestInterleaveFails(t *testing.T) {
	var order []string
	cfg := Config{Scenario: "s", Rounds: 2, progress: newProgress(new(bytes.Buffer), 0)}
	_, err := Interleave(t.Context(), cfg,
		fakeArm("a", &order, func(int) (Figures, error) { return Figures{}, nil }),
		fakeArm("b", &order, func(n int) (Figures, error) { return nil, types.Errorf(types.Precondition, "no room") }))
	if !types.Is(err, types.Precondition) || err.Error() != "s: round 1 of 2: b: no room" || len(order) != 2 {
		t.Errorf("got %v after %q", err, order)
	}
}

// TestProgressBar expects lines next to the bar, and the bar to disappear.
func TestProgressBar(t *testing.T) {
	var told bytes.Buffer
	p := newProgress(&told, 80)
	p.total(2)
	p.step("first")
	p.say("one %d", 1)
	p.step("second")
	p.total(3)
	p.step("third")
	p.close()
	if got := told.String(); !strings.Contains(got, "one 1\n") || !strings.Contains(got, "0 of 3") || !strings.Contains(got, "third") {
		t.Errorf("told %q", got)
	}
}
