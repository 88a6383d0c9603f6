package bench

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/types"
)

// boundFleet is a cluster whose tasks are bound from the start, written as schedulers would have.
// That creates a million bound tasks within a minute.
type boundFleet struct {
	*workload.Fleet
	// sessions are the sessions of the nodes, by name.
	sessions map[string]int64
	// allocated is the allocated amounts of each node.
	allocated []types.Allocated
	capacity  []types.Requests
	// shares are the used shares of each device of each node.
	shares [][]types.DeviceShare
	cursor int
}

// loadBound makes a cluster with the given numbers of nodes and bound tasks.
func loadBound(ctx context.Context, c *rig.Cluster, nodes, tasks int) (*boundFleet, error) {
	f, err := workload.NewFleet(nodes, tasks, 1)
	if err != nil {
		return nil, err
	}
	h := rig.HollowOf(f)
	if err := c.LoadNodes(ctx, h); err != nil {
		return nil, err
	}
	b := &boundFleet{Fleet: f, sessions: c.Sessions, allocated: make([]types.Allocated, nodes)}
	for i, n := range h.Nodes {
		b.capacity = append(b.capacity, n.Capacity)
		b.shares = append(b.shares, unused(h.Devices[i]))
	}
	// Nothing watches: the job may exist before its tasks.
	if err := putJob(ctx, c, rig.Namespace, "bench", tasks); err != nil {
		return nil, err
	}
	return b, rig.LoadAll(ctx, c.Store, b.taskItems(tasks), nil)
}

// taskItems are the keys of the tasks, and of their combined allocations.
func (b *boundFleet) taskItems(n int) iter.Seq[rig.Item] {
	return func(yield func(rig.Item) bool) {
		now := time.Now().UnixNano()
		for i := range n {
			requests := b.Requests(i)
			node, holds := b.place(requests)
			if node < 0 { // a rare task without a fitting node requests little
				requests = types.Requests{{Name: string(types.CPU), Amount: 1}}
				node, holds = b.place(requests)
			}
			id, name := rig.TaskName(i), rig.NodeName(node)
			if !yield(rig.Item{Key: controlplane.TaskKey(rig.Namespace, id), Value: &types.Task{Name: "bench", Job: "bench", Spec: rig.SpecDigest, Submitted: int64(i + 1), Requests: requests}}) ||
				!yield(rig.Item{Key: controlplane.BindingKey(name, rig.Namespace, id, 1), Value: &types.Binding{Session: b.sessions[name], Holds: holds, Spec: rig.SpecDigest, Bound: now}}) ||
				!yield(rig.Item{Key: controlplane.StatusKey(rig.Namespace, id), Value: &types.Status{Phase: types.Bound, Node: name, Attempt: 1, Bound: now}}) {
				return
			}
		}
		for i := range b.allocated {
			if !yield(rig.Item{Key: controlplane.AllocatedKey(rig.NodeName(i)), Value: &b.allocated[i]}) {
				return
			}
		}
	}
}

// place takes the next node that fits requests, and returns its holdings there; -1 means no node
// fits.
func (b *boundFleet) place(requests types.Requests) (node int, holds []types.Holding) {
	for range b.Machines {
		node = b.cursor
		b.cursor = (b.cursor + 1) % len(b.Machines)
		if holds := b.fit(node, requests); holds != nil {
			b.take(node, holds)
			return node, holds
		}
	}
	return -1, nil
}

// unused are devices with nothing allocated.
func unused(d *types.Devices) []types.DeviceShare {
	if d == nil {
		return nil
	}
	all := make([]types.DeviceShare, len(d.Devices))
	for i := range all {
		all[i].ID = d.Devices[i].ID
	}
	return all
}

// take records holdings on a node.
func (b *boundFleet) take(node int, holds []types.Holding) {
	for _, h := range holds {
		b.allocated[node].Take(h)
		for _, s := range h.Devices {
			i := slices.IndexFunc(b.shares[node], func(x types.DeviceShare) bool { return x.ID == s.ID })
			b.shares[node][i].Share += s.Share
		}
	}
}

// fit returns the holdings that requests would get on a node; nil if they do not fit.
func (b *boundFleet) fit(node int, requests types.Requests) []types.Holding {
	for _, r := range requests {
		if b.capacity[node].Get(r.Name)-b.allocated[node].Of(types.ResourceID(r.Name)) < r.Amount {
			return nil
		}
	}
	holds := make([]types.Holding, 0, len(requests))
	for _, r := range requests {
		h := types.Holding{Resource: types.ResourceID(r.Name), Amount: r.Amount}
		if h.Resource == types.GPU {
			if h.Devices = b.devices(node, r.Amount); h.Devices == nil {
				return nil
			}
		}
		holds = append(holds, h)
	}
	return holds
}

// devices returns devices of a node that make up an amount: whole ones, or a part of the most used
// one that fits; nil if there are none.
func (b *boundFleet) devices(node int, amount types.Quantity) []types.DeviceShare {
	var out []types.DeviceShare
	best := types.DeviceShare{Share: -1}
	for _, d := range b.shares[node] {
		switch {
		case amount >= rig.WholeDevice && d.Share == 0:
			out = append(out, types.DeviceShare{ID: d.ID, Share: rig.WholeDevice})
			if rig.WholeDevice*types.Quantity(len(out)) == amount {
				return out
			}
		case amount < rig.WholeDevice && d.Share+amount <= rig.WholeDevice && d.Share > best.Share:
			best = d
		}
	}
	if amount < rig.WholeDevice && best.Share >= 0 {
		return []types.DeviceShare{{ID: best.ID, Share: amount}}
	}
	return nil
}
