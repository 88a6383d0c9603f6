package scheduler

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/scheduler/schedulertest"
	"github.com/escher-sched/escher/scheduler/search"
	"github.com/escher-sched/escher/types"
)

// equalNodes are the keys of n nodes of 4 cores.
func equalNodes(n int) []any {
	var kvs []any
	for i := range n {
		name := fmt.Sprintf("n%04d", i)
		kvs = append(kvs, controlplane.NodeKey(name), &types.Node{Capacity: schedulertest.Vector(4000, 0)}, controlplane.AliveKey(name), &types.Alive{})
	}
	return kvs
}

// cores are the keys of tasks with the given numbers of cores.
func cores(prefix string, amounts ...types.Quantity) []any {
	var kvs []any
	for i, q := range amounts {
		id := fmt.Sprintf("%s%04d", prefix, i)
		kvs = append(kvs, controlplane.TaskKey("a", id), &types.Task{Requests: schedulertest.Vector(q*1000, 0), Submitted: int64(i)})
	}
	return kvs
}

func repeat(q types.Quantity, n int) []types.Quantity {
	out := make([]types.Quantity, n)
	for i := range out {
		out[i] = q
	}
	return out
}

// TestPlacement: spread uses as many nodes as it can, pack as few, in small clusters and in large
// ones.
func TestPlacement(t *testing.T) {
	for _, x := range []struct {
		placement           search.Choice
		nodes, tasks, wants int
	}{
		{"", 10, 10, 10},
		{search.Spread, 10, 10, 10},
		{search.Pack, 10, 10, 3},
		{search.Pack, 10, 12, 3},
		{search.Spread, 1000, 250, 250},
		{search.Pack, 1000, 400, 100},
	} {
		v := schedulertest.Snapshot(t, append(equalNodes(x.nodes), cores("t", repeat(1, x.tasks)...)...)...)
		used := make(map[string]int)
		for _, b := range Schedule(v, Config{Placement: x.placement}, time.Unix(1, 0)).Binds {
			used[b.Node]++
		}
		if len(used) != x.wants {
			t.Errorf("%s: %d tasks use %d of %d nodes, want %d", x.placement, x.tasks, len(used), x.nodes, x.wants)
		}
	}
}

// TestPackKeepsRoomForTheLarge: packed small tasks leave an empty node for a large one; spread ones
// do not.
func TestPackKeepsRoomForTheLarge(t *testing.T) {
	kvs := append(equalNodes(4), cores("small", 1, 1, 1, 1, 1, 1)...)
	kvs = append(kvs, controlplane.TaskKey("a", "zlarge"), &types.Task{Requests: schedulertest.Vector(4000, 0), Submitted: 100})
	for placement, waits := range map[search.Choice]int{search.Spread: 1, search.Pack: 0} {
		if got := Schedule(schedulertest.Snapshot(t, kvs...), Config{Placement: placement}, time.Unix(1, 0)); len(got.Waiting) != waits {
			t.Errorf("%s: %v wait", placement, got.Waiting)
		}
	}
}

// TestPlacementIsReplayable: equal snapshots and seeds give equal placements; another seed gives
// others.
func TestPlacementIsReplayable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Seed: rapid.Uint64().Draw(t, "seed"), Placement: rapid.SampledFrom([]search.Choice{search.Spread, search.Pack}).Draw(t, "placement")}
		var asked []types.Quantity
		for range rapid.IntRange(0, 40).Draw(t, "tasks") {
			asked = append(asked, types.Quantity(rapid.IntRange(1, 4).Draw(t, "cores")))
		}
		kvs := append(equalNodes(rapid.IntRange(0, 100).Draw(t, "nodes")), cores("t", asked...)...)
		first := Schedule(schedulertest.Snapshot(t, kvs...), cfg, time.Unix(1, 0))
		if again := Schedule(schedulertest.Snapshot(t, kvs...), cfg, time.Unix(1, 0)); !reflect.DeepEqual(first, again) {
			t.Fatalf("%+v, then %+v", first, again)
		}
	})
	v := schedulertest.Snapshot(t, append(equalNodes(8), cores("t", 1, 1, 1)...)...)
	places := make(map[string]bool)
	for seed := range uint64(20) {
		places[fmt.Sprint(Schedule(v, Config{Seed: seed}, time.Unix(1, 0)).Binds)] = true
	}
	if len(places) < 2 {
		t.Error("all seeds give the same places")
	}
}

// TestTheNodeWithNearerDevices: of two nodes that fit, the one with linked devices wins, although
// more of it is allocated.
func TestTheNodeWithNearerDevices(t *testing.T) {
	for _, placement := range []search.Choice{search.Spread, search.Pack} {
		b := newBench(t, Config{Placement: placement})
		for _, node := range []string{"n1", "n2", "n3"} {
			b.node(node, 1000)
			d := &types.Devices{}
			for i := range 4 {
				dev := types.Device{ID: fmt.Sprintf("g%d", i), Resource: types.GPU, NUMA: i / 2}
				if node == "n2" {
					dev.Links = []string{"switch"}
				}
				d.Devices = append(d.Devices, dev)
			}
			b.putDevices(node, d)
		}
		b.task("busy", map[string]types.Quantity{"gpu": 1000, "node/n2": 1})
		b.settle()
		b.task("three", map[string]types.Quantity{"gpu": 3000})
		b.settle()
		b.expect("three", "bound on n2")
	}
}

func TestPlacementValidate(t *testing.T) {
	err := Config{Placement: "tight"}.Validate()
	if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), `placement: "tight" is unknown: give auto, spread or pack`) {
		t.Error(err)
	}
	for _, c := range []search.Choice{"", search.Auto, search.Spread, search.Pack} {
		if err := (Config{Placement: c}).Validate(); err != nil {
			t.Error(c, err)
		}
	}
}

// BenchmarkPlacement places 20,000 tasks of ten kinds on 10,000 nodes.
func BenchmarkPlacement(b *testing.B) {
	kvs := equalNodes(10_000)
	for i := range 20_000 {
		t := &types.Task{Requests: schedulertest.Vector(types.Quantity(1000+i%10), 0), Submitted: int64(i)}
		kvs = append(kvs, controlplane.TaskKey("a", fmt.Sprintf("t%05d", i)), t)
	}
	v := schedulertest.Snapshot(b, kvs...)
	for _, placement := range []search.Choice{search.Spread, search.Pack} {
		b.Run(string(placement), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Schedule(v, Config{Placement: placement}, time.Unix(1, 0))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/20_000, "ns/task")
		})
	}
}
