package rig

import (
	"math"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		xs   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := Median(test.xs); got != test.want {
			t.Errorf("median of %v is %g, want %g", test.xs, got, test.want)
		}
	}
}

// TestInterval compares with the tables of the sign test.
func TestInterval(t *testing.T) {
	for _, test := range []struct {
		n         int
		low, high float64
		sure      float64
	}{
		{0, 0, 0, 0},
		{1, 1, 1, 0},
		{3, 1, 3, 0.75},
		{5, 1, 5, 0.9375},
		{6, 1, 6, 0.96875},
		{8, 1, 8, 0.9921875},
		{9, 2, 8, 0.9609375},
		{15, 4, 12, 0.96484375},
		{20, 6, 15, 0.958610},
	} {
		var xs []float64
		for i := test.n; i > 0; i-- { // not in order
			xs = append(xs, float64(i))
		}
		low, high, sure := interval(xs)
		if low != test.low || high != test.high || math.Abs(sure-test.sure) > 1e-6 {
			t.Errorf("of 1 to %d it is %g to %g, %f sure, want %g to %g, %f", test.n, low, high, sure, test.low, test.high, test.sure)
		}
	}
}

func TestRatios(t *testing.T) {
	got := Ratios([]float64{1, 2, 3}, []float64{2, 0, 6, 7})
	if len(got) != 2 || got[0] != 0.5 || got[1] != 0.5 {
		t.Errorf("got %v", got)
	}
}

func TestQuantile(t *testing.T) {
	all := make([]time.Duration, 101)
	for i := range all {
		all[i] = time.Duration(i) * time.Millisecond
	}
	if p50, p99, none := Quantile(all, 0.5), Quantile(all, 0.99), Quantile(nil, 0.5); p50 != 50 || p99 != 99 || none != 0 {
		t.Errorf("got %g, %g, %g", p50, p99, none)
	}
}
