package rig

import (
	"math"
	"slices"
	"time"
)

// Median returns the median of xs; for an even number, the mean of the two in the middle; 0 if
// there are none.
func Median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	xs = slices.Sorted(slices.Values(xs))
	return (xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2
}

// confident is the required confidence of an interval of a median.
const confident = 0.95

// interval returns bounds of the true median of the population of xs, and their confidence. For any
// distribution, the k-th smallest and the k-th largest of n values enclose it with the probability
// 1 - 2·P(B < k), where B is binomial of n and 1/2. k is the largest for which that is 95 %. With
// less than six values there is none, and k is 1: the extremes of five are 93.75 % sure.
func interval(xs []float64) (low, high, sure float64) {
	n := len(xs)
	if n == 0 {
		return 0, 0, 0
	}
	xs = slices.Sorted(slices.Values(xs))
	below, term := 0.0, math.Pow(0.5, float64(n)) // P(B < k), P(B = k)
	low, high = xs[0], xs[n-1]
	for k := 1; 2*k <= n+1; k++ {
		below += term
		term *= float64(n-k+1) / float64(k)
		if k > 1 && 1-2*below < confident {
			break
		}
		low, high, sure = xs[k-1], xs[n-k], max(0, 1-2*below)
	}
	return low, high, sure
}

// Ratios divides pair by pair.
func Ratios(xs, by []float64) []float64 {
	var out []float64
	for i := range min(len(xs), len(by)) {
		if by[i] != 0 {
			out = append(out, xs[i]/by[i])
		}
	}
	return out
}

// Quantile returns a quantile of sorted durations, in milliseconds.
func Quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return Milliseconds(sorted[int(q*float64(len(sorted)-1))])
}

// Milliseconds returns a duration in milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Round is the result of one pair of measurements on a cluster.
type Round struct {
	// Floor is the measurement without Escher, Value the one with it.
	Floor, Value float64
	// Commits are the durations of the single operations.
	Commits []time.Duration
}

// Summarize returns the row of the medians of the pairs.
func Summarize(cfg Config, base, unit string, rounds []Round) *Row {
	var values, floors []float64
	var commits []time.Duration
	for _, r := range rounds {
		values, floors = append(values, r.Value), append(floors, r.Floor)
		commits = append(commits, r.Commits...)
	}
	slices.Sort(commits)
	row := NewRow(cfg, cfg.Scenario, unit, values).Over(base, values, floors)
	row.P50, row.P99 = Quantile(commits, 0.5), Quantile(commits, 0.99)
	return row
}

// Mean returns the mean of xs; 0 if there are none.
func Mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(max(1, len(xs)))
}
