package bench

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
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
func (c *cluster) loadBound(ctx context.Context, nodes, tasks int) (*boundFleet, error) {
	f, err := workload.NewFleet(nodes, tasks, 1)
	if err != nil {
		return nil, err
	}
	h := newHollowOf(f)
	if err := c.loadNodes(ctx, h); err != nil {
		return nil, err
	}
	b := &boundFleet{Fleet: f, sessions: c.sessions, allocated: make([]types.Allocated, nodes)}
	for i, n := range h.nodes {
		b.capacity = append(b.capacity, n.Capacity)
		b.shares = append(b.shares, unused(h.devices[i]))
	}
	// Nothing watches: the job may exist before its tasks.
	if err := c.putJob(ctx, ns, "bench", tasks); err != nil {
		return nil, err
	}
	return b, loadAll(ctx, c.store, b.taskItems(tasks), nil)
}

// taskItems are the keys of the tasks, and of their combined allocations.
func (b *boundFleet) taskItems(n int) iter.Seq[item] {
	return func(yield func(item) bool) {
		now := time.Now().UnixNano()
		for i := range n {
			requests := b.Requests(i)
			node, holds := b.place(requests)
			if node < 0 { // a rare task without a fitting node requests little
				requests = types.Requests{{Name: string(types.CPU), Amount: 1}}
				node, holds = b.place(requests)
			}
			id, name := taskName(i), nodeName(node)
			if !yield(item{controlplane.TaskKey(ns, id), &types.Task{Name: "bench", Job: "bench", Spec: specDigest, Submitted: int64(i + 1), Requests: requests}}) ||
				!yield(item{controlplane.BindingKey(name, ns, id, 1), &types.Binding{Session: b.sessions[name], Holds: holds, Spec: specDigest, Bound: now}}) ||
				!yield(item{controlplane.StatusKey(ns, id), &types.Status{Phase: types.Bound, Node: name, Attempt: 1, Bound: now}}) {
				return
			}
		}
		for i := range b.allocated {
			if !yield(item{controlplane.AllocatedKey(nodeName(i)), &b.allocated[i]}) {
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
		case amount >= wholeDevice && d.Share == 0:
			out = append(out, types.DeviceShare{ID: d.ID, Share: wholeDevice})
			if wholeDevice*types.Quantity(len(out)) == amount {
				return out
			}
		case amount < wholeDevice && d.Share+amount <= wholeDevice && d.Share > best.Share:
			best = d
		}
	}
	if amount < wholeDevice && best.Share >= 0 {
		return []types.DeviceShare{{ID: best.ID, Share: amount}}
	}
	return nil
}
