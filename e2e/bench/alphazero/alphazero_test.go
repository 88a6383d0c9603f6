package alphazero

import (
	"testing"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/rigtest"
)

// TestAlphaZero places games on a few nodes, and lets pairs of processes play: placements are
// alike, and pairs are where they should be. Their speed means little here.
func TestAlphaZero(t *testing.T) {
	t.Parallel()
	cfg := rigtest.Config(t)
	cfg.Scenario, cfg.Nodes, cfg.Tasks, cfg.Quick = "alphazero", 4, 8, true
	rows, err := rig.Measure(t.Context(), cfg, Scenarios()[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 {
		t.Fatalf("got %+v", rows)
	}
	placed, played := rows[0], rows[1]
	if placed.Scenario != "alphazero" || placed.Violations != 0 || placed.Value <= 0 || placed.Ratio <= 0 || placed.Details[sameLayout] != 1 || placed.Details[unawareTogether] > 0.9 {
		t.Errorf("got %+v", placed)
	}
	if played.Scenario != "alphazero-play" || played.Value <= 0 || played.Floor <= 0 || played.Details["tcp_us"] <= 0 {
		t.Errorf("got %+v", played)
	}
}

// TestExpectedRates: a quarter of the pairs is together.
func TestExpectedRates(t *testing.T) {
	if got := expectedRates([]float64{0.25, 1}, []float64{100, 7}, []float64{20, 5}); len(got) != 2 || got[0] != 40 || got[1] != 7 {
		t.Errorf("got %v", got)
	}
}
