package bench

import (
	"slices"
	"time"
)

// round is the result of one pair of measurements on a cluster.
type round struct {
	floor, value float64
	commits      []time.Duration
}

// summary takes the medians of the pairs.
func summary(cfg Config, base, unit string, rounds []round) *Row {
	var values, floors []float64
	var commits []time.Duration
	for _, r := range rounds {
		values, floors = append(values, r.value), append(floors, r.floor)
		commits = append(commits, r.commits...)
	}
	slices.Sort(commits)
	row := newRow(cfg, cfg.Scenario, unit, values).over(base, values, floors)
	row.P50, row.P99 = quantile(commits, 0.5), quantile(commits, 0.99)
	return row
}
