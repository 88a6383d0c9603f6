package history

import (
	"math"
	"testing"
	"time"

	"github.com/escher-sched/escher/types"
)

// TestHistogram: a quantile is at most 9 % above the amount, for small and large ones.
func TestHistogram(t *testing.T) {
	for _, amount := range []types.Quantity{1, 2, 3, 999, 1000, 1 << 30, 1<<30 + 1, 700 << 30, types.MaxQuantity} {
		var h types.Histogram
		add(&h, amount, types.WholeRun)
		if got := Quantile(h, 0.5); got < amount || float64(got) > 1.091*float64(amount)+1 {
			t.Errorf("one run of %d: %d", amount, got)
		}
	}
	var h types.Histogram
	for i := range 100 {
		add(&h, types.Quantity(1000+10*i), types.WholeRun)
	}
	for part, most := range map[float64]types.Quantity{0: 1000, 0.5: 1500, 0.95: 1950, 1: 1990} {
		if got := Quantile(h, part); got < most || float64(got) > 1.091*float64(most) {
			t.Errorf("quantile %g: %d, want about %d", part, got, most)
		}
	}
	if Weight(h) != 100 || Quantile(types.Histogram(nil), 1) != 0 {
		t.Errorf("weight %g of 100 runs, quantile %d of none", Weight(h), Quantile(types.Histogram(nil), 1))
	}
}

// TestForgets: a run counts half after a half-life, and is forgotten in the end; one that comes late
// counts as much as if it had come in time.
func TestForgets(t *testing.T) {
	day := int64(24 * time.Hour)
	run := func(at, gib int64) Run {
		return Run{Ended: at, Length: time.Minute, Used: types.Used{CPU: 500, Memory: types.Quantity(gib << 30)}}
	}
	var h, late types.History
	Add(&h, []Run{run(day, 1), run(8*day, 4)}, 7)
	Add(&late, []Run{run(8*day, 4), run(day, 1)}, 5)
	for name, x := range map[string]*types.History{"in order": &h, "late": &late} {
		if x.Runs != 2 || x.Last != 8*day || Weight(x.Memory) != 1.5 || x.Memory[0].Weight != types.WholeRun/2 || Quantile(x.Length, 1) < 60_000 {
			t.Errorf("%s: %+v", name, x)
		}
	}
	Add(&h, []Run{run(200*day, 2)}, 3)
	if got := Quantile(h.Memory, 0); h.Through != 7 || len(h.Memory) != 1 || got < 2<<30 {
		t.Errorf("half a year later: through %d, %v", h.Through, h.Memory)
	}
}

// TestHistoryOfSteadyRuns: the weights of a run every minute neither vanish nor grow without end, however
// often they are counted: they sum up to what the half-life leaves.
func TestHistoryOfSteadyRuns(t *testing.T) {
	var h types.History
	minutes := int64(4 * HalfLife / time.Minute)
	for i := range minutes {
		Add(&h, []Run{{Ended: (i + 1) * int64(time.Minute), Used: types.Used{Memory: 1 << 30}}}, i)
	}
	want := (HalfLife / time.Minute).Seconds() * 1e9 / math.Ln2 * (1 - math.Exp2(-4))
	if got := Weight(h.Memory); got < 0.98*want || got > 1.02*want {
		t.Errorf("%g of %d runs count, want %g", got, minutes, want)
	}
}

// TestRunOf lists what a status tells about a run.
func TestRunOf(t *testing.T) {
	at := int64(time.Hour)
	used := types.Used{CPU: 700, Memory: 1000}
	for name, c := range map[string]struct {
		s    types.Status
		want Run
		ok   bool
	}{
		"succeeded":         {types.Status{Phase: types.Succeeded, Started: at, Ended: at + 5e9, Used: used}, Run{at + 5e9, 5 * time.Second, used}, true},
		"at once":           {types.Status{Phase: types.Succeeded, Started: at, Ended: at}, Run{at, time.Millisecond, types.Used{}}, true},
		"never began":       {types.Status{Phase: types.Succeeded, Ended: at}, Run{}, false},
		"failed":            {types.Status{Phase: types.Failed, Started: at, Ended: at + 1, Used: used}, Run{}, false},
		"evicted":           {types.Status{Phase: types.Pending, Cause: types.CauseEvicted, Started: at, Ended: at + 1, Used: used}, Run{}, false},
		"runs":              {types.Status{Phase: types.Running, Started: at}, Run{}, false},
		"out of memory":     {types.Status{Phase: types.Pending, Cause: types.CauseMemory, Started: at, Ended: at + 1, Used: used}, Run{at + 1, 0, types.Used{Memory: 1200}}, true},
		"out of memory end": {types.Status{Phase: types.Failed, Cause: types.CauseMemory, Started: at, Ended: at + 1, Used: used}, Run{at + 1, 0, types.Used{Memory: 1200}}, true},
		"ended before":      {types.Status{Phase: types.Succeeded, Started: at, Ended: at - 1}, Run{}, false},
	} {
		got, ok := RunOf(&c.s)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s: %+v, %t", name, got, ok)
		}
	}
}
