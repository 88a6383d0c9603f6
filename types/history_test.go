package types

import (
	"math"
	"strings"
	"testing"
	"time"
)

// TestHistogram: a quantile is at most 9 % above the amount, for small and large ones.
func TestHistogram(t *testing.T) {
	for _, amount := range []Quantity{1, 2, 3, 999, 1000, 1 << 30, 1<<30 + 1, 700 << 30, MaxQuantity} {
		var h Histogram
		h.add(amount, wholeRun)
		if got := h.Quantile(0.5); got < amount || float64(got) > 1.091*float64(amount)+1 {
			t.Errorf("one run of %d: %d", amount, got)
		}
	}
	var h Histogram
	for i := range 100 {
		h.add(Quantity(1000+10*i), wholeRun)
	}
	for part, most := range map[float64]Quantity{0: 1000, 0.5: 1500, 0.95: 1950, 1: 1990} {
		if got := h.Quantile(part); got < most || float64(got) > 1.091*float64(most) {
			t.Errorf("quantile %g: %d, want about %d", part, got, most)
		}
	}
	if h.Weight() != 100 || Histogram(nil).Quantile(1) != 0 {
		t.Errorf("weight %g of 100 runs, quantile %d of none", h.Weight(), Histogram(nil).Quantile(1))
	}
}

// TestHistoryForgets: a run counts half after a half-life, and is forgotten in the end; one that comes late
// counts as much as if it had come in time.
func TestHistoryForgets(t *testing.T) {
	day := int64(24 * time.Hour)
	run := func(at, gib int64) Run {
		return Run{Ended: at, Length: time.Minute, Used: Used{CPU: 500, Memory: Quantity(gib << 30)}}
	}
	var h, late History
	h.Add([]Run{run(day, 1), run(8*day, 4)}, 7)
	late.Add([]Run{run(8*day, 4), run(day, 1)}, 5)
	for name, x := range map[string]*History{"in order": &h, "late": &late} {
		if x.Runs != 2 || x.Last != 8*day || x.Memory.Weight() != 1.5 || x.Memory[0].Weight != wholeRun/2 || x.Length.Quantile(1) < 60_000 {
			t.Errorf("%s: %+v", name, x)
		}
	}
	h.Add([]Run{run(200*day, 2)}, 3)
	if got := h.Memory.Quantile(0); h.Through != 7 || len(h.Memory) != 1 || got < 2<<30 {
		t.Errorf("half a year later: through %d, %v", h.Through, h.Memory)
	}
}

// TestHistoryOfSteadyRuns: the weights of a run every minute neither vanish nor grow without end, however
// often they are counted: they sum up to what the half-life leaves.
func TestHistoryOfSteadyRuns(t *testing.T) {
	var h History
	minutes := int64(4 * HalfLife / time.Minute)
	for i := range minutes {
		h.Add([]Run{{Ended: (i + 1) * int64(time.Minute), Used: Used{Memory: 1 << 30}}}, i)
	}
	want := (HalfLife / time.Minute).Seconds() * 1e9 / math.Ln2 * (1 - math.Exp2(-4))
	if got := h.Memory.Weight(); got < 0.98*want || got > 1.02*want {
		t.Errorf("%g of %d runs count, want %g", got, minutes, want)
	}
}

// TestRunOf lists what a status tells about a run.
func TestRunOf(t *testing.T) {
	at := int64(time.Hour)
	used := Used{CPU: 700, Memory: 1000}
	for name, c := range map[string]struct {
		s    Status
		want Run
		ok   bool
	}{
		"succeeded":         {Status{Phase: Succeeded, Started: at, Ended: at + 5e9, Used: used}, Run{at + 5e9, 5 * time.Second, used}, true},
		"at once":           {Status{Phase: Succeeded, Started: at, Ended: at}, Run{at, time.Millisecond, Used{}}, true},
		"never began":       {Status{Phase: Succeeded, Ended: at}, Run{}, false},
		"failed":            {Status{Phase: Failed, Started: at, Ended: at + 1, Used: used}, Run{}, false},
		"evicted":           {Status{Phase: Pending, Cause: CauseEvicted, Started: at, Ended: at + 1, Used: used}, Run{}, false},
		"runs":              {Status{Phase: Running, Started: at}, Run{}, false},
		"out of memory":     {Status{Phase: Pending, Cause: CauseMemory, Started: at, Ended: at + 1, Used: used}, Run{at + 1, 0, Used{Memory: 1200}}, true},
		"out of memory end": {Status{Phase: Failed, Cause: CauseMemory, Started: at, Ended: at + 1, Used: used}, Run{at + 1, 0, Used{Memory: 1200}}, true},
		"ended before":      {Status{Phase: Succeeded, Started: at, Ended: at - 1}, Run{}, false},
	} {
		got, ok := RunOf(&c.s)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s: %+v, %t", name, got, ok)
		}
	}
}

// TestHistoryIsValidated refuses what no server writes.
func TestHistoryIsValidated(t *testing.T) {
	for problem, h := range map[string]History{
		"":        {Runs: 1, At: 5, Through: 3, Memory: Histogram{{0, 1}, {7, wholeRun}, {maxBuckets - 1, 1}}},
		"runs":    {Runs: -1},
		"at":      {At: -1},
		"through": {Through: -1},
		"index":   {CPU: Histogram{{3, 1}, {3, 1}}},
		"weight":  {Length: Histogram{{3, 0}}},
		"buckets": {Length: make(Histogram, maxBuckets+1)},
	} {
		err := h.Validate()
		if (problem == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v", problem, err)
		}
	}
}
