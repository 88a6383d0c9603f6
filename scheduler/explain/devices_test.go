package explain

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/scheduler/schedulertest"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// gpusOn registers a node with the given devices: see gpu.
func (w *small) gpusOn(node string, devices ...string) {
	w.t.Helper()
	d := &types.Devices{}
	for i, text := range devices {
		d.Devices = append(d.Devices, schedulertest.GPU(i, text))
	}
	w.put(controlplane.DevicesKey(node), d)
	w.nodes(q{"cpu": 8000, "gpu": types.Quantity(len(devices)) * match.Whole}, node)
}

func choiceSituations() []situation {
	h100, linked := types.DeviceRequest{Models: []string{"H100"}}, types.DeviceRequest{Topology: types.LinkedDevices}
	return []situation{
		{name: "no gpu of that model", never: true, build: func(w *small) {
			w.gpusOn("n1", "A100", "A100", "A100")
			w.gpusOn("n2", "A100")
			w.lose("n2")
			w.launch("t", q{"gpu": 1000}, of(h100))
		}},
		{name: "too few gpus of that model", never: true, build: func(w *small) {
			w.gpusOn("n1", "A100", "A100", "H100", "H100!")
			w.gpusOn("n2", "H100", "A100")
			w.launch("t", q{"gpu": 3000}, of(types.DeviceRequest{Models: []string{"H100", "B200"}, MinMemory: 60 << 30}))
		}},
		{name: "no gpus that are linked", never: true, build: func(w *small) {
			w.gpusOn("n1", "A100/a", "A100/a", "A100/b", "A100/b")
			w.launch("t", q{"gpu": 3000}, of(linked))
		}},
		{name: "nothing is known of its gpus", never: true, build: func(w *small) {
			w.nodes(q{"cpu": 2000, "gpu": 4000}, "n1")
			w.launch("t", q{"gpu": 1000}, of(h100))
		}},
		{name: "no gpu at all of that model or another", never: true, build: func(w *small) {
			w.pair()
			w.launch("t", q{"gpu": 1000}, of(h100))
		}},
		{name: "gpus of that model are in use", build: func(w *small) {
			w.gpusOn("n1", "A100", "A100", "H100", "H100")
			w.launch("other", q{"gpu": 1000}, of(types.DeviceRequest{Models: []string{"A100"}}))
			w.launch("holder", q{"gpu": 2000}, of(h100))
			w.launch("t", q{"gpu": 1000}, of(h100))
		}},
		{name: "a gpu of that model is unhealthy", build: func(w *small) {
			w.gpusOn("n1", "A100!", "H100!")
			w.launch("t", q{"gpu": 1000}, of(h100))
		}},
		{name: "free gpus are not linked", build: func(w *small) {
			w.gpusOn("n1", "A100/a", "A100/a", "A100/b", "A100/b")
			w.gpusOn("n2", "A100", "A100")
			w.launch("x", q{"gpu": 1000, "node/n1": 1})
			w.launch("y", q{"gpu": 2000, "node/n1": 1}, of(linked))
			w.launch("t", q{"gpu": 2000}, of(linked))
		}},
		{name: "free gpus are on several NUMA nodes", build: func(w *small) {
			w.put(controlplane.DevicesKey("n1"), &types.Devices{Devices: []types.Device{
				{ID: "g0", Resource: types.GPU}, {ID: "g1", Resource: types.GPU, NUMA: 1},
				{ID: "g2", Resource: types.GPU, NUMA: 2}, {ID: "g3", Resource: types.GPU, NUMA: 2},
			}})
			w.nodes(q{"gpu": 4000}, "n1")
			w.launch("x", q{"gpu": 2000})
			w.launch("t", q{"gpu": 2000}, of(types.DeviceRequest{Topology: types.OneNUMA}))
		}},
		{name: "a node with such gpus is cordoned", build: func(w *small) {
			w.gpusOn("n1", "A100")
			w.gpusOn("n2", "H100")
			w.put(controlplane.CordonKey("n2"), &types.Cordon{Reason: "firmware"})
			w.launch("t", q{"gpu": 1000}, of(h100))
		}},
		{name: "a bundle of such gpus does not fit", ask: "reservation/train", build: func(w *small) {
			w.gpusOn("n1", "A100", "A100", "H100", "H100")
			w.launch("holder", q{"gpu": 1000}, of(h100))
			r := types.Reservation{Bundles: []types.Bundle{bundle(2000, h100)}}
			w.reserve("train", r)
		}},
	}
}

// TestWhatIsSaidOfDevices: the sentence names the wanted devices, the missing ones, and the nearest
// node.
func TestWhatIsSaidOfDevices(t *testing.T) {
	want := map[string][]string{
		"no gpu of that model":                                {"It can never run", "1 gpu of model H100", "n1 has 3 of model " + schedulertest.ModelA100 + " with 40Gi memory"},
		"too few gpus of that model":                          {"It can never run", "3 gpu of model H100 or B200, with at least 60Gi memory", "n1", "2 such", "Ask for at most 2 gpu"},
		"no gpus that are linked":                             {"It can never run", "3 gpu linked to one another", "n1", "leave the topology out"},
		"gpus of that model are in use":                       {"waits for 1 gpu of model H100: 0 of 2 such gpu is free on n1", "goes on when holder ends"},
		"a gpu of that model is unhealthy":                    {"g1 is unhealthy: it is hot"},
		"free gpus are not linked":                            {"1 of 4 such gpu"},
		"a node with such gpus is cordoned":                   {"1 gpu of model H100", "n2", "cordoned: firmware"},
		"a gpu of its reservation is unhealthy":               {"waits for 1 gpu@train", "g0 is unhealthy: it is hot"},
		"a gpu of its reservation is gone":                    {"waits for 1 gpu@train", "g0 is gone"},
		"a gpu of that model of its reservation is unhealthy": {"waits for 1 gpu@train of model A100", "g0 is unhealthy: it is hot"},
		"its reservation holds no such gpus":                  {"reservation train", "1 gpu@train of model H100"},
		"a bundle of such gpus does not fit":                  {"2 gpu of model H100", "1 of 2 such gpu"},
		"free gpus are on several NUMA nodes":                 {"of the free ones no 2 are on one NUMA node"},
	}
	for _, s := range append(choiceSituations(), reservedSituations()...) {
		inSmall(t, func(w *small) {
			s.build(w)
			x := w.explain(s.asked())
			t.Logf("%s:\n%s\n→ %s", s.name, x.Summary, x.Suggestion)
			for _, part := range want[s.name] {
				if text := strings.Join(x.Lines(true, action.Action.String), "\n"); !strings.Contains(text, part) {
					t.Errorf("%s: %q is not in\n%s", s.name, part, text)
				}
			}
		})
	}
}
