package philly

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	view "github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/rigtest"
	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TestPhilly runs a few jobs of the week, very fast: all begin under each policy, and no gang is
// partial. Waiting times mean nothing then.
func TestPhilly(t *testing.T) {
	t.Parallel()
	cfg := rigtest.Config(t)
	cfg.Scenario, cfg.Nodes, cfg.Tasks, cfg.Speed = "philly", 4, 60, 400_000
	rows, err := rig.Measure(t.Context(), cfg, Scenarios()[0])
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range rows {
		names = append(names, r.Scenario)
		if !r.OK || r.Violations != 0 || r.Tasks != 60 || r.Value <= 0 || r.Details["p99_s"] < r.Details["median_s"] || r.Base != "philly-fifo" {
			t.Errorf("got %+v", r)
		}
	}
	if want := []string{"philly-fifo", "philly-backfill", "philly-fair"}; !slices.Equal(names, want) {
		t.Errorf("got rows %v, want %v", names, want)
	}
}

// TestTellPhilly checks a manual example of four jobs, 100 times as fast.
func TestTellPhilly(t *testing.T) {
	jobs := []workload.Training{
		{Submit: 0, Runs: 100, GPUs: 1, Tenant: "a"},
		{Submit: 100, Runs: workload.PhillyWeek, GPUs: 16, Tenant: "a"},
		{Submit: 200, Runs: 100, GPUs: 12, Tenant: "b"},
		{Submit: 300, Runs: 100, GPUs: 1, Tenant: "b"},
	}
	began := time.Unix(1000, 0)
	all := make([]begun, len(jobs))
	all[0].bind(7, began.Add(time.Second), 1) // at 100
	all[1].locked = true
	all[1].bind(8, began.Add(4*time.Second), 2)
	all[1].bind(9, began.Add(6*time.Second), 2) // at 600
	all[2].bind(8, began.Add(3*time.Second), 2)
	found := make(rig.Figures)
	cfg := rig.Config{Speed: 100, Nodes: 1}
	tellDelays(cfg, found, jobs, all, began)
	want := rig.Figures{
		meanDelay: 300, "median_s": 100, "p90_s": 100, "p99_s": 100, "gangs": 2, partialGangs: 1, notBegun: 2, "gangs_apart": 1, "gangs_mean_s": 250,
		"tenants_mean_s": 300, "tenants_median_s": 300, "tenants_most_s": 300, "speed": 100,
	}
	used := found["used_percent"]
	delete(found, "used_percent")
	if !maps.Equal(found, want) {
		t.Errorf("got %v, want %v", found, want)
	}
	if share := 100 * (100 + 16*(workload.PhillyWeek-600.0)) / (8 * workload.PhillyWeek); used < share-1e-9 || used > share+1e-9 {
		t.Errorf("%g %% used, want %g", used, share)
	}
}

// TestTrainings: grants and binds are recorded revision by revision.
func TestTrainings(t *testing.T) {
	grant := func(revision int64, phase types.GrantPhase, bundles ...string) controlplane.Event {
		return event(controlplane.GrantKey(rig.Namespace, jobID(0)+".gang"), revision, &types.Grant{Phase: phase, Bundles: bundles})
	}
	bind := func(revision int64, task string, attempt int) controlplane.Event {
		return event(controlplane.BindingKey("n00", rig.Namespace, jobID(0)+"-"+task, attempt), revision, &types.Binding{Bound: revision * 1e9})
	}
	for name, tt := range map[string]struct {
		events         []controlplane.Event
		tasks          int
		partial, apart bool
	}{
		"at once":                   {[]controlplane.Event{bind(5, "0", 1), bind(5, "1", 1), grant(5, types.Granted, "n00", "n01")}, 2, false, false},
		"one after the other":       {[]controlplane.Event{grant(5, types.Granted, "n00", "n01"), bind(6, "0", 1), bind(7, "1", 1)}, 2, false, true},
		"one is not locked":         {[]controlplane.Event{grant(5, types.Granted, "n00", ""), bind(5, "0", 1)}, 1, true, false},
		"it collects":               {[]controlplane.Event{grant(5, types.Collecting, "n00", "n01"), bind(6, "0", 1)}, 1, true, false},
		"before it is granted":      {[]controlplane.Event{bind(5, "0", 1), grant(6, types.Granted, "n00", "n01")}, 1, true, false},
		"another attempt is no new": {[]controlplane.Event{grant(5, types.Granted, "n00", "n01"), bind(5, "0", 1), bind(6, "0", 2)}, 1, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := &trainings{jobs: []workload.Training{{GPUs: 12}}, all: make([]begun, 1), done: make(chan struct{})}
			w.note(controlplane.Batch{Events: tt.events})
			if b := w.all[0]; b.tasks != tt.tasks || b.partial != tt.partial || b.apart != tt.apart {
				t.Errorf("got %+v", b)
			}
			select {
			case <-w.done:
				if tt.tasks < 2 {
					t.Error("it counts as begun")
				}
			default:
				if tt.tasks == 2 {
					t.Error("it does not count as begun")
				}
			}
		})
	}
}

func event(key string, revision int64, m types.Message) controlplane.Event {
	return controlplane.Event{KV: controlplane.KV{Key: key, Value: types.Encode(1, m), CreateRevision: revision, ModRevision: revision}}
}

// TestInOrder: no job overtakes one that waits for capacity, and jobs that fit together are
// admitted together.
func TestInOrder(t *testing.T) {
	for name, tt := range map[string]struct {
		devices [][]types.Quantity // of the tasks of each job, by age
		open    []int              // that are admitted already
		want    []int
	}{
		"all have room":                    {[][]types.Quantity{{8}, {4}, {4}}, nil, []int{0, 1, 2}},
		"the second has none":              {[][]types.Quantity{{8}, {9}, {1}}, nil, []int{0}},
		"the third has none beside others": {[][]types.Quantity{{8}, {1}, {8}, {1}}, nil, []int{0, 1}},
		"a gang takes both nodes":          {[][]types.Quantity{{8, 4}, {4}, {1}}, nil, []int{0, 1}},
		"who is let in has his room":       {[][]types.Quantity{{8}, {8}, {1}}, []int{0}, []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			v, revision := view.New(), int64(0)
			put := func(key string, m types.Message) {
				revision++
				if _, _, err := v.Apply(event(key, revision, m)); err != nil {
					t.Fatal(err)
				}
			}
			for _, n := range []string{"n00", "n01"} {
				put(controlplane.NodeKey(n), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"gpu": 8})})
				put(controlplane.AliveKey(n), &types.Alive{})
			}
			var jobs []string
			for i, devices := range tt.devices {
				job := jobID(len(tt.devices) - i) // by age, not by name
				jobs = append(jobs, job)
				for n, has := range devices {
					put(controlplane.TaskKey(rig.Namespace, job+"-"+string(rune('0'+n))), &types.Task{
						Job: job, Submitted: int64(i + 1), Requests: types.NewRequests(map[string]types.Quantity{"gpu": has, job + ".in-order": 1}),
					})
				}
				if slices.Contains(tt.open, i) {
					put(controlplane.ResourceKey(rig.Namespace, job+".in-order", types.ClusterWide), &types.Resource{Capacity: types.Inf})
				}
			}
			v.Reached(revision)
			var got []int
			for _, set := range letIn(&esl.State{View: v, Namespace: rig.Namespace}, jobs).Set {
				for i := range tt.devices {
					if set.Name == jobID(len(tt.devices)-i)+".in-order" {
						got = append(got, i)
					}
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("let in are %v, want %v", got, tt.want)
			}
		})
	}
}
