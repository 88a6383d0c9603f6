package place_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// ask is the requests of a task.
type ask map[string]types.Quantity

func (a ask) requests() types.Requests { return types.NewRequests(a) }

// gpuNode is a node with devices of one model.
type gpuNode struct {
	name        string
	cpu, memory types.Quantity
	model       string
	devices     int
}

// onGPUs returns the state of an empty cluster of such nodes, in which tasks with these requests
// wait.
func onGPUs(t *testing.T, nodes []gpuNode, tasks ...ask) *esl.State {
	t.Helper()
	v, revision := cluster.New(), int64(0)
	put := func(key string, m types.Message) {
		t.Helper()
		revision++
		if _, _, err := v.Apply(controlplane.Event{KV: controlplane.KV{Key: key, Value: types.Encode(1, m), CreateRevision: revision, ModRevision: revision}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		d := &types.Devices{}
		for i := range n.devices {
			d.Devices = append(d.Devices, types.Device{ID: fmt.Sprint("g", i), Resource: types.GPU, Model: n.model})
		}
		put(controlplane.NodeKey(n.name), &types.Node{Capacity: ask{"cpu": n.cpu, "memory": n.memory, "gpu": types.Quantity(n.devices) * esl.One}.requests()})
		put(controlplane.AliveKey(n.name), &types.Alive{TTLSeconds: 15})
		put(controlplane.DevicesKey(n.name), d)
	}
	for i, x := range tasks {
		put(controlplane.TaskKey("d", fmt.Sprint("t", i)), &types.Task{Job: "job", Requests: x.requests()})
	}
	v.Reached(revision)
	return &esl.State{View: v, Now: time.Unix(1, 0), Namespace: "d", ID: "job", Job: "job"}
}

// TestMixFragments computes by hand for a node with 8 cores, 32 bytes and two devices, one of which
// is free, and the other 0.4 in use.
func TestMixFragments(t *testing.T) {
	whole := ask{"gpu": 1000, "cpu": 2000}
	for name, tt := range map[string]struct {
		mix    []ask
		models []string
		want   float64
	}{
		"none":                             {nil, nil, 0},
		"a part that both have":            {[]ask{{"gpu": 600, "cpu": 2000}}, nil, 0},
		"a part that one has":              {[]ask{{"gpu": 601, "cpu": 2000}}, nil, 600},
		"a whole one":                      {[]ask{whole}, nil, 600},
		"two, which there are not":         {[]ask{{"gpu": 2000}}, nil, 1600},
		"no device":                        {[]ask{{"cpu": 1000}}, nil, 1600},
		"too many cores":                   {[]ask{{"gpu": 100, "cpu": 8001}}, nil, 1600},
		"too much memory":                  {[]ask{{"gpu": 100, "memory": 33}}, nil, 1600},
		"the mean of three":                {[]ask{whole, whole, {"gpu": 2000}}, nil, (600 + 600 + 1600) / 3.0},
		"of another model":                 {[]ask{whole}, []string{"H100"}, 1600},
		"of this model, or of another one": {[]ask{whole}, []string{"H100", "T4"}, 600},
	} {
		t.Run(name, func(t *testing.T) {
			s := onGPUs(t, []gpuNode{{"n", 8000, 32, "T4", 2}})
			r := s.Rooms()[0]
			r.Take(s.View.Needs("d", ask{"gpu": 400}.requests()))
			m := new(place.Mix)
			for _, x := range tt.mix {
				if tt.models == nil {
					m.Add(x.requests())
				} else {
					m.Add(x.requests(), types.DeviceRequest{Resource: "gpu", Models: tt.models})
				}
			}
			if got := m.Fragments(r); got != tt.want {
				t.Errorf("%g in fragments, want %g", got, tt.want)
			}
		})
	}
}

// TestFragmentsGoWhereLeastIsLeft: of nodes where fragments grow equally, or nearly, the one with
// the least left wins; else the one where they grow least.
func TestFragmentsGoWhereLeastIsLeft(t *testing.T) {
	mix := []ask{{"gpu": 1000, "cpu": 1000}, {"gpu": 2000, "cpu": 1000}}
	for name, tt := range map[string]struct {
		nodes []gpuNode
		task  ask
		want  string
	}{
		"alike":                 {[]gpuNode{{"a", 64000, 64, "T4", 4}, {"b", 32000, 64, "T4", 4}, {"c", 64000, 64, "T4", 4}}, ask{"gpu": 2000, "cpu": 1000}, "b"},
		"a pair is broken on a": {[]gpuNode{{"a", 4000, 64, "T4", 2}, {"b", 64000, 64, "T4", 1}}, ask{"gpu": 1000, "cpu": 1000}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			s := onGPUs(t, tt.nodes, mix...)
			placing := place.Assign{Score: place.Objective{By: place.Fragments}.Score(s)}.Among(s.Rooms())
			if r := placing.Place(s.View.Needs("d", tt.task.requests())); r == nil || r.Node.Name != tt.want {
				t.Errorf("it goes to %v, want %s", r, tt.want)
			}
		})
	}
}

// TestPlacing checks that cached scores equal computed ones, and that few are computed again.
func TestPlacing(t *testing.T) {
	var nodes []gpuNode
	for i := range 20 {
		nodes = append(nodes, gpuNode{fmt.Sprintf("n%02d", i), types.Quantity(8000 + 1000*(i%5)), 64, "T4", 1 + i%4})
	}
	asks := []ask{{"cpu": 500}, {"cpu": 1000, "gpu": 300}, {"cpu": 1000, "gpu": 1000}, {"cpu": 2000, "gpu": 2000}}
	s := onGPUs(t, nodes, asks...)
	asked := 0
	score := place.Objective{By: place.Fragments}.Score(s)
	placing := place.Assign{Score: func(needs []cluster.Need, r *esl.Room) float64 {
		asked++
		return score(needs, r)
	}}.Among(s.Rooms())
	other, rng, nowhere := s.Rooms(), rand.New(rand.NewPCG(1, 1)), 0
	for i := range 300 {
		needs := s.View.Needs("d", asks[rng.IntN(len(asks))].requests())
		got, want := "", ""
		if r := placing.Place(needs); r != nil {
			got = r.Node.Name
		}
		if r := leastOf(other, score, needs); r != nil {
			r.Take(needs)
			want = r.Node.Name
		} else {
			nowhere++
		}
		if got != want {
			t.Fatalf("task %d goes to %q, want %q", i, got, want)
		}
	}
	if most := len(asks) * (len(nodes) + 300); asked > most || nowhere == 0 || nowhere == 300 {
		t.Errorf("%d scores were asked for, want at most %d; %d of 300 fit nowhere", asked, most, nowhere)
	}
}

// leastOf computes the room with the least score among those that fit.
func leastOf(rooms []*esl.Room, score func([]cluster.Need, *esl.Room) float64, needs []cluster.Need) *esl.Room {
	var best *esl.Room
	least := 0.0
	for _, r := range rooms {
		if !r.Fits(needs) {
			continue
		}
		if x := score(needs, r); best == nil || x < least {
			best, least = r, x
		}
	}
	return best
}
