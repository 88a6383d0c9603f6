package fgd

import (
	"slices"
	"testing"

	view "github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/rigtest"
	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// TestFGD runs the experiment on a thirtieth of the cluster: all policies fill it, and the binds
// follow the library's choice.
func TestFGD(t *testing.T) {
	cfg := rigtest.Config(t)
	cfg.Scenario, cfg.Nodes = "fgd", 40
	rows, err := rig.Measure(t.Context(), cfg, Scenarios()[0])
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range rows {
		names = append(names, r.Scenario)
		if r.Nodes != 40 || r.Violations != 0 || r.Value < 60 || r.Value > 100 || r.Floor < 60 {
			t.Errorf("got %+v", r)
		}
	}
	if want := []string{"fgd", "fgd-best-fit", "fgd-gpu-packing", "fgd-gpu-clustering", "fgd-dot-product", "fgd-random", "fgd-bound"}; !slices.Equal(names, want) {
		t.Fatalf("got rows %v, want %v", names, want)
	}
	if alike := rows[6].Details[alikePercent]; alike < 90 || rows[6].Details["bound"] < 100 {
		t.Errorf("got %+v", rows[6])
	}
	if rows[0].Value <= rows[5].Value {
		t.Errorf("fgd allocates %.1f %%, random %.1f", rows[0].Value, rows[5].Value)
	}
}

// TestDrawFGD: random order, the whole trace before any repetition, and 130 % of the devices are
// requested.
func TestDrawFGD(t *testing.T) {
	machines, tasks, err := workload.Published()
	if err != nil {
		t.Fatal(err)
	}
	in := drawInput(machines, tasks, len(machines), 42)
	if len(in.machines) != 1213 || in.gpus != 6_212_000 {
		t.Errorf("%d machines with %d thousandths of devices", len(in.machines), in.gpus)
	}
	var asked, first, all types.Quantity
	for i, r := range in.requests {
		asked += r.Get("gpu")
		if i < len(tasks) {
			first += r.Get("gpu")
		}
	}
	for _, w := range tasks {
		all += types.Quantity(w.GPUs * w.GPUMilli)
	}
	if percent := in.percent(float64(asked)); percent > 130 || percent < 129.8 || first != all || len(tasks) != 8152 {
		t.Errorf("%d tasks ask for %.2f %%; the first %d for %d, want %d", len(in.requests), percent, len(tasks), first, all)
	}
	again, other := drawInput(machines, tasks, len(machines), 42), drawInput(machines, tasks, len(machines), 43)
	if !slices.EqualFunc(in.requests, again.requests, slices.Equal) || slices.EqualFunc(in.requests, other.requests, slices.Equal) {
		t.Error("the same seed gives another order, or another seed the same")
	}
}

// TestFGDAllocated checks a manual example with one device.
func TestFGDAllocated(t *testing.T) {
	in := &input{gpus: 1000}
	for _, gpu := range []types.Quantity{500, 496, 3, 5, 100} { // 50, 99.6, 99.9, 100.4, 110.4 %
		in.requests = append(in.requests, types.NewRequests(map[string]types.Quantity{"gpu": gpu}))
	}
	if got, want := in.allocated([]string{"n", "n", "", "n", "n"}), (99.6+99.6+100.1)/3; got < want-1e-9 || got > want+1e-9 {
		t.Errorf("%g %% allocated, want %g", got, want)
	}
}

// TestRivals checks the scores of nodes against manual results.
func TestRivals(t *testing.T) {
	for name, tt := range map[string]struct {
		devices int
		used    []types.Quantity // one after the other, on the fullest
		task    types.Quantity
		kinds   []string
		// packing and clustering are the scores, from 0 to 100.
		packing, clustering float64
	}{
		"an empty node":                  {8, nil, 500, nil, 25, 25},
		"an empty one of one":            {1, nil, 500, nil, 32, 25 + 25*7/8},
		"the fullest device":             {2, []types.Quantity{700}, 300, []string{"share"}, 97, 75 + 25*6700/8000},
		"a whole one, as none is enough": {2, []types.Quantity{700}, 400, []string{"share"}, 49, 75 + 25*6700/8000},
		"two whole ones of a used node":  {4, []types.Quantity{1000}, 2000, []string{"1"}, 48, 25 * 5000 / 8000},
		"some like it, and others":       {4, []types.Quantity{1000, 300}, 1000, []string{"1", "share"}, 49, 50 + 25*5300/8000},
		"no device":                      {4, []types.Quantity{1000}, 0, []string{"1"}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in := &input{machines: []workload.Machine{{CPUMilli: 1000, MemMiB: 1, GPUs: int64(tt.devices)}}}
			p, err := newPlacing(in, new(place.Mix), nodePolicy{}, 1)
			if err != nil {
				t.Fatal(err)
			}
			room := p.rooms[0]
			ask := func(gpu types.Quantity) []view.Need {
				return p.state.View.Needs(rig.Namespace, types.NewRequests(map[string]types.Quantity{"cpu": 1, "gpu": gpu}))
			}
			for i, gpu := range tt.used {
				room.Take(ask(gpu))
				p.note(room.Node.Name, tt.kinds[i])
			}
			if got := -gpuPacking(ask(tt.task), room); got != tt.packing {
				t.Errorf("packing scores %g, want %g", got, tt.packing)
			}
			if got, want := -p.gpuClustering(ask(tt.task), room), float64(int(tt.clustering)); got != want {
				t.Errorf("clustering scores %g, want %g", got, want)
			}
		})
	}
}

// TestCompareFGD counts the bound and the alike tasks.
func TestCompareFGD(t *testing.T) {
	if bound, alike := compareNodes([]string{"a", "", "b", "c"}, []string{"a", "", "c", ""}); bound != 3 || alike != 50 {
		t.Errorf("%g bound, %g %% alike; want 3 and 50", bound, alike)
	}
}
