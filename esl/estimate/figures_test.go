package estimate

import (
	"testing"

	"github.com/escher-sched/escher/types"
)

// TestEstimated takes a part of past runs: nine used 1 GiB and a tenth of a processor, one used 16 GiB and
// two processors.
func TestEstimated(t *testing.T) {
	const gib types.Quantity = 1 << 30
	runs := &types.History{
		Runs:   10,
		Memory: types.Histogram{{Index: 240, Weight: 9 * types.WholeRun}, {Index: 272, Weight: types.WholeRun}},
		CPU:    types.Histogram{{Index: 56, Weight: 9 * types.WholeRun}, {Index: 88, Weight: types.WholeRun}},
	}
	for name, c := range map[string]struct {
		of           *types.History
		id           types.ResourceID
		part, margin string
		least        int
		want         types.Quantity
	}{
		"most runs":         {runs, types.Memory, "p90", "0%", 3, gib},
		"all runs":          {runs, types.Memory, "p100", "0%", 3, 16 * gib},
		"with a margin":     {runs, types.Memory, "p90", "25%", 3, gib + gib/4},
		"in whole MiB":      {runs, types.Memory, "p90", "0.01%", 3, gib + 1<<20},
		"processors":        {runs, types.CPU, "p90", "0%", 3, 128},
		"too few runs":      {runs, types.Memory, "p90", "0%", 11, 0},
		"just enough runs":  {runs, types.Memory, "p90", "0%", 10, gib},
		"not to be counted": {runs, types.Memory, "", "0%", 3, 0},
		"no past runs":      {nil, types.Memory, "p90", "0%", 1, 0},
		"at least 16 MiB":   {&types.History{Runs: 3, Memory: types.Histogram{{Index: 8, Weight: types.WholeRun}}}, types.Memory, "p99", "0%", 3, 16 << 20},
		"at least a little": {&types.History{Runs: 3, CPU: types.Histogram{{Index: 8, Weight: types.WholeRun}}}, types.CPU, "p99", "0%", 3, 10},
	} {
		if got := estimated(c.of, c.id, c.part, c.margin, c.least); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
