// Package clustertest builds clusters of any size for tests and benchmarks.
package clustertest

import (
	"fmt"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Bound returns the keys of a cluster with bound tasks, sorted, as if each key had been written at
// its own revision, from 2 on. The cluster is consistent: allocated amounts are those of the
// bindings. Half of the tasks belong to jobs of 100 tasks, and there are 200 kinds of requests. A
// quarter of the tasks hold devices.
func Bound(nodes, tasks int) []controlplane.KV {
	b := builder{used: make([]map[types.ResourceID]types.Quantity, nodes), held: make([][]types.DeviceShare, nodes)}
	for i := range nodes {
		b.node(i)
	}
	for i := range tasks {
		b.task(i, i%nodes)
	}
	for i := range nodes {
		b.allocated(i)
	}
	return b.sorted()
}

// Waiting returns the keys of tasks that each wait for a different resource.
func Waiting(tasks int) []controlplane.KV {
	var b builder
	for i := range tasks {
		id, t := b.intent(i)
		t.Job, t.Requests = "", types.NewRequests(map[string]types.Quantity{fmt.Sprintf("thing-%07d", i): 1})
		b.put(controlplane.TaskKey(namespace, id), t)
	}
	return b.sorted()
}

// Ended returns the keys of ended tasks, half of them in jobs of 100.
func Ended(tasks int) []controlplane.KV {
	var b builder
	for i := range tasks {
		id, t := b.intent(i)
		t.Job = job(i)
		b.put(controlplane.TaskKey(namespace, id), t)
		at := t.Submitted + 5_000_000
		b.put(controlplane.StatusKey(namespace, id), &types.Status{
			Phase: types.Succeeded, Node: name(i % 10_000), Attempt: 1, Bound: at, Started: at + 1e8, Ended: at + 7e8 + int64(i),
		})
	}
	return b.sorted()
}

// sorted returns the keys in order, each at its own revision.
func (b *builder) sorted() []controlplane.KV {
	slices.SortFunc(b.kvs, func(x, y controlplane.KV) int {
		if x.Key < y.Key {
			return -1
		}
		return 1
	})
	for i := range b.kvs {
		b.kvs[i].CreateRevision, b.kvs[i].ModRevision = int64(i)+2, int64(i)+2
	}
	return b.kvs
}

// Events returns the keys as the events of a listing.
func Events(kvs []controlplane.KV) []controlplane.Event {
	events := make([]controlplane.Event, len(kvs))
	for i, kv := range kvs {
		events[i] = controlplane.Event{KV: kv}
	}
	return events
}

// namespace is the namespace of all tasks.
const namespace = "default"

// submitted is the submission time of the first task.
const submitted = 1_760_000_000_000_000_000

// builder collects keys.
type builder struct {
	kvs  []controlplane.KV
	used []map[types.ResourceID]types.Quantity
	held [][]types.DeviceShare
}

func (b *builder) put(key string, m types.Message) {
	b.kvs = append(b.kvs, controlplane.KV{Key: key, Value: types.Encode(uint64(len(b.kvs))+1, m)})
}

func name(node int) string { return fmt.Sprintf("node-%05d", node) }

func (b *builder) node(i int) {
	b.used[i] = make(map[types.ResourceID]types.Quantity)
	b.put(controlplane.NodeKey(name(i)), &types.Node{
		Capacity: types.NewRequests(map[string]types.Quantity{
			"cpu": 4_000_000, "memory": 64 << 40, "disk": 64 << 40, "gpu": 1_000_000,
		}),
		Labels:  []types.Label{{Name: "rack", Value: fmt.Sprintf("rack-%03d", i%500)}, {Name: "zone", Value: fmt.Sprintf("zone-%d", i%3)}},
		Address: fmt.Sprintf("10.%d.%d.%d:7400", i>>16, i>>8&255, i&255), Version: "1.0.0",
	})
	b.put(controlplane.AliveKey(name(i)), &types.Alive{})
}

// kinds is the number of kinds of requests.
const kinds = 200

// requests returns the requests of a task.
func requests(task int) types.Requests {
	k := task * 7919 % kinds
	amounts := map[string]types.Quantity{
		"cpu": types.Quantity(100 + 50*(k%20)), "memory": types.Quantity(1+k/20) << 28,
	}
	if k%4 == 0 {
		amounts["gpu"] = 250
	}
	return types.NewRequests(amounts)
}

// job returns the job id of a task.
func job(task int) string { return fmt.Sprintf("batch-%05d-abcdefghij", task/200) }

// intent returns a task and its id; every other task belongs to a job.
func (b *builder) intent(i int) (id string, t *types.Task) {
	id = fmt.Sprintf("worker-%05d-%010x", i%1000, uint64(i)*0x9e3779b97f4a7c15>>24)
	t = &types.Task{
		Name: fmt.Sprintf("worker-%05d", i%1000), Requests: requests(i), Submitted: submitted + int64(i)*1000,
		Spec: fmt.Sprintf("sha256-%056x", i%kinds),
	}
	if i%2 == 0 {
		t.Job = job(i)
		if i%200 == 0 {
			b.put(controlplane.JobKey(namespace, t.Job), &types.Job{Name: "batch", Tasks: 100, Submitted: t.Submitted})
		}
	}
	return id, t
}

func (b *builder) task(i, node int) {
	id, t := b.intent(i)
	b.put(controlplane.TaskKey(namespace, id), t)
	bound := t.Submitted + 5_000_000
	b.put(controlplane.BindingKey(name(node), namespace, id, 1), &types.Binding{
		Session: int64(node) + 2, Holds: b.take(node, t.Requests), Spec: t.Spec, Bound: bound,
	})
	b.put(controlplane.StatusKey(namespace, id), &types.Status{Phase: types.Bound, Node: name(node), Attempt: 1, Bound: bound})
}

// take allocates the requests of a task on a node.
func (b *builder) take(node int, requests types.Requests) []types.Holding {
	var holds []types.Holding
	for _, r := range requests {
		h := types.Holding{Resource: types.ResourceID(r.Name), Amount: r.Amount}
		if r.Name == "gpu" {
			h.Devices = []types.DeviceShare{{ID: fmt.Sprintf("gpu%d", len(b.held[node])/4), Share: r.Amount}}
			b.held[node] = append(b.held[node], h.Devices...)
		}
		b.used[node][h.Resource] += r.Amount
		holds = append(holds, h)
	}
	return holds
}

func (b *builder) allocated(i int) {
	a := &types.Allocated{}
	for _, rid := range []types.ResourceID{"cpu", "gpu", "memory"} {
		if b.used[i][rid] == 0 {
			continue
		}
		h := types.Holding{Resource: rid, Amount: b.used[i][rid]}
		if rid == "gpu" {
			for _, d := range b.held[i] {
				if k := len(h.Devices); k > 0 && h.Devices[k-1].ID == d.ID {
					h.Devices[k-1].Share += d.Share
				} else {
					h.Devices = append(h.Devices, d)
				}
			}
		}
		a.Holds = append(a.Holds, h)
	}
	b.put(controlplane.AllocatedKey(name(i)), a)
}
