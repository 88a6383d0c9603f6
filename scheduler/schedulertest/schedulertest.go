// Package schedulertest makes clusters and devices for tests of the scheduler and its explanations.
package schedulertest

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// The models of the devices that GPU makes.
const (
	ModelH100 = "NVIDIA H100 80GB HBM3"
	ModelA100 = "NVIDIA A100-SXM4-40GB"
)

// Snapshot makes a view of keys and values.
func Snapshot(t interface{ Fatal(...any) }, kvs ...any) *cluster.View {
	v := cluster.New()
	for i := 0; i < len(kvs); i += 2 {
		rev := int64(i/2 + 1)
		kv := controlplane.KV{Key: kvs[i].(string), Value: types.Encode(1, kvs[i+1].(types.Message)), CreateRevision: rev, ModRevision: rev}
		if _, _, err := v.Apply(controlplane.Event{KV: kv}); err != nil {
			t.Fatal(err)
		}
	}
	v.Reached(int64(len(kvs)))
	return v
}

// Vector is a request vector of cpu and gpu.
func Vector(cpu, gpu types.Quantity) types.Requests {
	amounts := make(map[string]types.Quantity)
	if cpu > 0 {
		amounts["cpu"] = cpu
	}
	if gpu > 0 {
		amounts["gpu"] = gpu
	}
	return types.NewRequests(amounts)
}

// AnyCluster is a cluster of up to six nodes, with waiting work.
func AnyCluster(t *rapid.T) []any {
	var kvs []any
	for i := range rapid.IntRange(0, 6).Draw(t, "nodes") {
		name := fmt.Sprint("n", i)
		n := &types.Node{Capacity: Vector(1000*types.Quantity(rapid.IntRange(1, 4).Draw(t, "cpu")), 1000*types.Quantity(rapid.IntRange(0, 2).Draw(t, "gpu")))}
		kvs = append(kvs, controlplane.NodeKey(name), n)
		if rapid.IntRange(0, 4).Draw(t, "alive") > 0 {
			kvs = append(kvs, controlplane.AliveKey(name), &types.Alive{})
		}
		if rapid.IntRange(0, 4).Draw(t, "cordoned") == 0 {
			kvs = append(kvs, controlplane.CordonKey(name), &types.Cordon{})
		}
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "tasks") {
		x := &types.Task{
			Requests: Vector(500*types.Quantity(rapid.IntRange(0, 4).Draw(t, "cpu")), 500*types.Quantity(rapid.IntRange(0, 2).Draw(t, "gpu"))),
			Priority: rapid.IntRange(0, 2).Draw(t, "priority"), Submitted: int64(i),
		}
		kvs = append(kvs, controlplane.TaskKey("a", fmt.Sprint("t", i)), x)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "reservations") {
		r := &types.Reservation{Submitted: int64(i)}
		for range rapid.IntRange(1, 3).Draw(t, "bundles") {
			r.Bundles = append(r.Bundles, types.Bundle{Requests: Vector(500*types.Quantity(rapid.IntRange(1, 4).Draw(t, "cpu")), 0)})
		}
		kvs = append(kvs, controlplane.ReservationKey("a", fmt.Sprint("r", i)), r)
	}
	return kvs
}

// GPU is a device in words: "H100", "A100/pair1" for link pair1, "A100!" for unhealthy.
func GPU(i int, text string) types.Device {
	d := types.Device{ID: fmt.Sprintf("g%d", i), Resource: types.GPU, Model: ModelA100, MemoryBytes: 40 << 30}
	text, bad := strings.CutSuffix(text, "!")
	if bad {
		d.Unhealthy = "it is hot"
	}
	model, link, linked := strings.Cut(text, "/")
	if linked {
		d.Links = []string{link}
	}
	if model == "H100" {
		d.Model, d.MemoryBytes = ModelH100, 80<<30
	}
	return d
}
