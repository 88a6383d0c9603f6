package draft

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/scheduler/schedulertest"
	"github.com/escher-sched/escher/types"
)

// TestBindCompares: a bind compares what its needs depend on, each key once, and no more.
func TestBindCompares(t *testing.T) {
	devices := []any{controlplane.DevicesKey("n1"), &types.Devices{Devices: []types.Device{schedulertest.GPU(0, "H100"), schedulertest.GPU(1, "H100")}}}
	request := func(name string, q types.Quantity) types.Task {
		return types.Task{Requests: types.NewRequests(map[string]types.Quantity{name: q})}
	}
	for name, test := range map[string]struct {
		task types.Task
		more []any
		want []string
	}{
		"a physical resource":        {request("cpu", 1000), nil, nil},
		"nothing":                    {types.Task{}, nil, nil},
		"a resource made of devices": {request("gpu", 1000), devices, []string{"if devices/n1 = 6"}},
		"a resource without devices": {request("gpu", 1000), nil, nil},
		"a port":                     {request("port", 1000), devices, nil},
		"restricted devices":         {types.Task{Requests: request("gpu", 1000).Requests, Devices: []types.DeviceRequest{{Resource: "gpu", Models: []string{"H100"}}}}, devices, []string{"if devices/n1 = 6"}},
		"a pool that is new":         {request("x", 1), []any{controlplane.ResourceKey("a", "x", types.ClusterWide), &types.Resource{Capacity: 5}}, []string{"if resources/a/x/* = 6", "if allocated/*/a/x = 0", "put allocated/*/a/x"}},
		"a pool with some in use":    {request("x", 1), []any{controlplane.ResourceKey("a", "x", types.ClusterWide), &types.Resource{Capacity: 5}, controlplane.PoolKey("a", "x"), &types.Allocated{Holds: []types.Holding{{Resource: "a:x", Amount: 2}}}}, []string{"if resources/a/x/* = 6", "if allocated/*/a/x = 7", "put allocated/*/a/x"}},
		"a resource of the node":     {request("x", 1), []any{controlplane.ResourceKey("a", "x", "n1"), &types.Resource{Capacity: 5, NodeSession: 3}}, []string{"if resources/a/x/n1 = 6"}},
		"a grant":                    {request("cpu@r", 1000), []any{controlplane.GrantKey("a", "r"), &types.Grant{Phase: types.Granted, Nodes: []types.GrantNode{{Node: "n1", Holds: cpus(1000)}}}}, []string{"if grants/a/r = 6"}},
		"what its namespace adds": {request("cpu", 1000), []any{
			controlplane.NamespaceKey("a"), &types.Namespace{Requests: types.Requests{{Name: "b:x", Amount: 1}}},
			controlplane.ResourceKey("b", "x", types.ClusterWide), &types.Resource{Capacity: 5},
		}, []string{"if namespaces/a = 6", "if resources/b/x/* = 7", "if allocated/*/b/x = 0", "put allocated/*/b/x"}},
	} {
		want := append([]string{
			"if nodes/n1 = 2", "if alive/n1 made 3", "if cordons/n1 = 0", "if allocated/n1 = 0", "if tasks/a/t = 1", "if status/a/t = 4",
			"put allocated/n1", "put bindings/n1/a/t/3", "put status/a/t",
		}, test.want...)
		if name != "what its namespace adds" {
			want = append(want, "if namespaces/a = 0")
		}
		v := schedulertest.Snapshot(t, append([]any{
			controlplane.TaskKey("a", "t"), &test.task, controlplane.NodeKey("n1"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000, "gpu": 2000}), PortFirst: 300, PortLast: 308},
			controlplane.AliveKey("n1"), &types.Alive{}, controlplane.StatusKey("a", "t"), &types.Status{Phase: types.Pending, Attempt: 2, Failures: 1},
			controlplane.SessionKey("a", "s"), &types.Session{},
		}, test.more...)...)
		d, task, n := New(v, unlimited, 1), v.Task(cluster.ID{Namespace: "a", ID: "t"}), v.Nodes["n1"]
		needs := grants.Vectors(v, task)[0]
		if short, ok := d.Fits(n, needs); !ok {
			t.Errorf("%s: it lacks %s", name, short)
		}
		if !d.Bind(task, n, 0, needs, time.Unix(1, 0)) {
			t.Errorf("%s: there is space", name)
		}
		sameTransaction(t, name, d, want...)
		if s := written[*types.Status](d, controlplane.StatusKey("a", "t")); s == nil || s.Attempt != 3 || s.Failures != 1 || s.Phase != types.Bound {
			t.Errorf("%s: the status is %+v", name, s)
		}
	}
}

// TestCordonsAreComparedTogether: with few cordons one compare covers those of all nodes, with many
// each node has its own.
func TestCordonsAreComparedTogether(t *testing.T) {
	v := small(t, 2, 0)
	for cordons, want := range map[int][]string{
		0: {"if cordons/ none since 8"}, ManyCordons: {"if cordons/ none since 8"}, ManyCordons + 1: {"if cordons/n0 = 0", "if cordons/n1 = 0"},
	} {
		d := NewFor(&Hooks{Cordons: func() int { return cordons }}, v, unlimited, 1, 0)
		for _, name := range []string{"n0", "n1", "n0"} {
			d.CompareNode(v.Nodes[name])
		}
		var got []string
		for _, x := range transaction(d) {
			if len(x) > 10 && x[:10] == "if cordons" {
				got = append(got, x)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("with %d cordons it compares %v", cordons, got)
		}
	}
}

// TestDrawBehind: a draft that draws on a pool behind one in flight sees what that leaves, and
// compares the value that it writes.
func TestDrawBehind(t *testing.T) {
	v := schedulertest.Snapshot(t, controlplane.NodeKey("n1"), &types.Node{}, controlplane.AliveKey("n1"), &types.Alive{},
		controlplane.ResourceKey("a", "x", types.ClusterWide), &types.Resource{Capacity: 5})
	n, p, needs := v.Nodes["n1"], v.Pool("a:x"), []cluster.Need{{ID: "a:x", Amount: 3}}
	draw := func(d *Draft) {
		holds := d.Hold(n, needs)
		d.Take(n, holds)
		d.Keep(n, holds)
	}
	first := New(v, unlimited, 1)
	if first.DrawsAny() || first.Considers(p) || first.PoolFree(p) != 5 {
		t.Error("it has drawn nothing")
	}
	draw(first)
	if !first.DrawsAny() || !first.Considers(p) || first.PoolFree(p) != 2 || !first.Has(p) {
		t.Errorf("%d is free", first.PoolFree(p))
	}
	if rid, short := first.PoolShort(needs); !short || rid != "a:x" {
		t.Errorf("short of %q: %t", rid, short)
	}
	sameTransaction(t, "the first", first, "if allocated/*/a/x = 0", "if allocated/n1 = 0", "put allocated/*/a/x", "put allocated/n1")
	second := NewFor(&Hooks{Behind: func(*cluster.Pool) *Draft { return first }}, v, unlimited, 2, 0)
	if second.PoolFree(p) != 2 || second.IsFree(n, []types.Holding{{Resource: "a:x", Amount: 3, Cluster: true}}) || !second.IsFree(n, []types.Holding{{Resource: "a:x", Amount: 2, Cluster: true}}) {
		t.Errorf("%d is free", second.PoolFree(p))
	}
	needs[0].Amount = 2
	draw(second)
	for _, behind := range second.Draws() {
		if !behind {
			t.Error("it draws behind the first")
		}
	}
	sameTransaction(t, "the second", second, "if allocated/*/a/x is a value", "if allocated/n1 = 0", "put allocated/*/a/x", "put allocated/n1")
	if a := written[*types.Allocated](second, controlplane.PoolKey("a", "x")); a.Of("a:x") != 5 || second.PoolFree(p) != 0 {
		t.Errorf("%d are allocated, %d free", a.Of("a:x"), second.PoolFree(p))
	}
	if w := second.Writes(); w[len(w)-1].Made || !first.Writes()[len(w)-1].Made {
		t.Error("the first makes the allocation of the pool, and the second changes it")
	}
	compares := second.Change.Txn().Compares
	at := slices.IndexFunc(compares, func(x controlplane.Compare) bool { return x.Target == controlplane.Value })
	if compares[at].Content != string(first.Writes()[len(first.Writes())-1].Encoded) {
		t.Error("it assumes another value than the first writes")
	}
}

// TestIsFree: holdings are free if their amounts, their very devices and their ports are.
func TestIsFree(t *testing.T) {
	gpus := func(q types.Quantity, shares ...types.DeviceShare) types.Holding {
		return types.Holding{Resource: types.GPU, Amount: q, Devices: shares}
	}
	v := schedulertest.Snapshot(t, controlplane.NodeKey("n1"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000, "gpu": 2000})},
		controlplane.AliveKey("n1"), &types.Alive{}, controlplane.DevicesKey("n1"), &types.Devices{Devices: []types.Device{schedulertest.GPU(0, "H100"), schedulertest.GPU(1, "H100")}},
		controlplane.AllocatedKey("n1"), &types.Allocated{Holds: []types.Holding{
			{Resource: types.CPU, Amount: 1000}, gpus(600, types.DeviceShare{ID: "g0", Share: 600}), {Resource: types.FixedPort(80), Amount: 1000},
		}})
	d := New(v, unlimited, 1)
	for name, test := range map[string]struct {
		holds []types.Holding
		want  bool
	}{
		"nothing":                    {nil, true},
		"all that is left":           {cpus(3000), true},
		"more than is left":          {cpus(3001), false},
		"the rest of a device":       {[]types.Holding{gpus(400, types.DeviceShare{ID: "g0", Share: 400})}, true},
		"more than a device has":     {[]types.Holding{gpus(401, types.DeviceShare{ID: "g0", Share: 401})}, false},
		"another device":             {[]types.Holding{gpus(1000, types.DeviceShare{ID: "g1", Share: 1000})}, true},
		"the second of two is short": {append(cpus(1000), gpus(1000, types.DeviceShare{ID: "g0", Share: 1000})), false},
		"another port":               {[]types.Holding{{Resource: types.FixedPort(81), Amount: 1000}}, true},
		"a port that is taken":       {[]types.Holding{{Resource: types.FixedPort(80), Amount: 1000}}, false},
		"a pool that is gone":        {[]types.Holding{{Resource: "a:x", Amount: 1, Cluster: true}}, false},
	} {
		if got := d.IsFree(v.Nodes["n1"], test.holds); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	d.Clear(v.Nodes["n1"])
	if !d.IsFree(v.Nodes["n1"], append(cpus(4000), gpus(1000, types.DeviceShare{ID: "g0", Share: 1000}))) || len(d.Holds(v.Nodes["n1"])) != 0 {
		t.Error("all is free on a cleared node")
	}
}

// TestCollect: a grant collects what is free of what it wants, compares the node only if it gains
// something, and has all when nothing is missing.
func TestCollect(t *testing.T) {
	gpu := func(i int, share types.Quantity) types.DeviceShare {
		return types.DeviceShare{ID: fmt.Sprint("g", i), Share: share}
	}
	gpus := func(shares ...types.DeviceShare) []types.Holding {
		h := types.Holding{Resource: types.GPU, Devices: shares}
		for _, x := range shares {
			h.Amount += x.Share
		}
		return []types.Holding{h}
	}
	bind := func(key string) []string {
		return []string{"if nodes/n1 = 1", "if alive/n1 made 2", "if cordons/n1 = 0", "if namespaces/a = 0", "if allocated/n1 = " + key, "put allocated/n1"}
	}
	with := func(more string, all []string) []string { return append([]string{more}, all...) }
	used := func(holds []types.Holding) []any {
		return []any{controlplane.DevicesKey("n1"), &types.Devices{Devices: []types.Device{schedulertest.GPU(0, "H100"), schedulertest.GPU(1, "A100")}},
			controlplane.AllocatedKey("n1"), &types.Allocated{Holds: holds}}
	}
	for name, test := range map[string]struct {
		need types.Quantity
		rid  types.ResourceID
		of   []string // models
		held []types.Holding
		more []any
		all  bool
		want []types.Holding
		txn  []string
	}{
		"all is free":             {3000, types.CPU, nil, nil, used(cpus(500)), true, cpus(3000), bind("7")},
		"some is free":            {3000, types.CPU, nil, nil, used(cpus(3000)), false, cpus(1000), bind("7")},
		"some is held":            {3000, types.CPU, nil, cpus(1000), used(cpus(4000)), false, cpus(1000), nil},
		"the rest is free":        {3000, types.CPU, nil, cpus(1000), used(cpus(2000)), true, cpus(3000), bind("7")},
		"all is held":             {3000, types.CPU, nil, cpus(3000), used(cpus(4000)), true, cpus(3000), nil},
		"more than all is held":   {3000, types.CPU, nil, cpus(3500), used(cpus(4000)), true, cpus(3500), nil},
		"both devices are free":   {2000, types.GPU, nil, nil, used(nil), true, gpus(gpu(0, 1000), gpu(1, 1000)), with("if devices/n1 = 6", bind("7"))},
		"a device is free":        {2000, types.GPU, nil, nil, used(gpus(gpu(0, 1))), false, gpus(gpu(1, 1000)), with("if devices/n1 = 6", bind("7"))},
		"no device is free":       {2000, types.GPU, nil, nil, used(gpus(gpu(0, 1), gpu(1, 1))), false, nil, nil},
		"its device is held":      {1000, types.GPU, nil, gpus(gpu(1, 1000)), used(gpus(gpu(1, 1000))), true, gpus(gpu(1, 1000)), nil},
		"of a model":              {1000, types.GPU, []string{"A100"}, nil, used(nil), true, gpus(gpu(1, 1000)), with("if devices/n1 = 6", bind("7"))},
		"its device does not do":  {1000, types.GPU, []string{"A100"}, gpus(gpu(0, 1000)), used(gpus(gpu(0, 1000))), true, gpus(gpu(1, 1000)), with("if devices/n1 = 6", bind("7"))},
		"its device alone is one": {1000, types.GPU, []string{"A100"}, gpus(gpu(0, 1000)), used(gpus(gpu(0, 1000), gpu(1, 1))), false, nil, with("if devices/n1 = 6", bind("7"))},
	} {
		v, r := reserved(t, bundlesOf(1000), nil, test.more...)
		need := cluster.Need{ID: test.rid, Amount: test.need}
		if test.of != nil {
			need.Devices = &types.DeviceRequest{Resource: "gpu", Models: test.of}
		}
		d, at := New(v, unlimited, 1), &types.GrantNode{Node: "n1", Holds: test.held}
		x := grants.Want{ID: test.rid, Needs: []cluster.Need{need}}
		if all := d.Collect(r, at, x); all != test.all || fmt.Sprint(at.Holds) != fmt.Sprint(test.want) {
			t.Errorf("%s: holds all: %t, %+v", name, all, at.Holds)
		}
		if holds := d.HoldsAll(at, x); holds != (test.all && test.rid == types.CPU) {
			t.Errorf("%s: it holds all without a look: %t", name, holds)
		}
		sameTransaction(t, name, d, test.txn...)
	}
}

// TestCollectPorts: ports are collected whole, the lowest free ones first.
func TestCollectPorts(t *testing.T) {
	v := schedulertest.Snapshot(t, controlplane.NodeKey("n1"), &types.Node{PortFirst: 300, PortLast: 302}, controlplane.AliveKey("n1"), &types.Alive{},
		controlplane.AllocatedKey("n1"), &types.Allocated{Holds: []types.Holding{{Resource: types.Port, Amount: 1000, Devices: []types.DeviceShare{{ID: "301", Share: 1000}}}}})
	d, at := New(v, unlimited, 1), &types.GrantNode{Node: "n1"}
	r := &cluster.Reservation{ID: cluster.ID{Namespace: "a", ID: "r"}}
	if d.Collect(r, at, grants.Want{ID: types.Port, Needs: []cluster.Need{{ID: types.Port, Amount: 3000}}}) {
		t.Error("it has all three")
	}
	want := []types.Holding{{Resource: types.Port, Amount: 2000, Devices: []types.DeviceShare{{ID: "300", Share: 1000}, {ID: "302", Share: 1000}}}}
	if fmt.Sprint(at.Holds) != fmt.Sprint(want) {
		t.Errorf("it has %+v", at.Holds)
	}
}

// TestRelyOnDevices: a grant depends on the devices of each node where a bundle restricts them; one
// compare covers those of very many nodes.
func TestRelyOnDevices(t *testing.T) {
	gpus := func(models ...string) types.Bundle {
		b := types.Bundle{Requests: schedulertest.Vector(0, 1000)}
		if models != nil {
			b.Devices = []types.DeviceRequest{{Resource: "gpu", Models: models}}
		}
		return b
	}
	for name, test := range map[string]struct {
		nodes int
		first types.Bundle // the others restrict the devices
		want  []string
	}{
		"two":                    {2, gpus("H100"), []string{"if devices/m00 = 1", "if devices/m01 = 3"}},
		"one takes any":          {2, gpus(), []string{"if devices/m01 = 3"}},
		"as many as one by one":  {grants.ManyDevices + 1, gpus(), nil},
		"more than are compared": {grants.ManyDevices + 1, gpus("H100"), []string{"if devices/ none since 132"}},
	} {
		var kvs []any
		r, g := &types.Reservation{Bundles: []types.Bundle{test.first}}, &types.Grant{Phase: types.Granted}
		for i := range test.nodes {
			node := fmt.Sprintf("m%02d", i)
			kvs = append(kvs, controlplane.DevicesKey(node), &types.Devices{}, controlplane.NodeKey(node), &types.Node{})
			if i > 0 {
				r.Bundles = append(r.Bundles, gpus("H100"))
			}
			g.Nodes, g.Bundles = append(g.Nodes, types.GrantNode{Node: node}), append(g.Bundles, node)
			if test.nodes > grants.ManyDevices && i > 0 && test.first.Devices == nil {
				test.want = append(test.want, fmt.Sprintf("if devices/%s = %d", node, 2*i+1))
			}
		}
		v := schedulertest.Snapshot(t, kvs...)
		d := New(v, unlimited, 1)
		d.RelyOnDevices(&cluster.Reservation{ID: cluster.ID{Namespace: "a", ID: "r"}, Info: cluster.Cell[types.Reservation]{V: r}}, g)
		sameTransaction(t, name, d, test.want...)
	}
}

// TestEverHas: a node may come to have what it has now and what is in use or unhealthy, and no more.
func TestEverHas(t *testing.T) {
	v := schedulertest.Snapshot(t, controlplane.NodeKey("n1"), &types.Node{Capacity: schedulertest.Vector(0, 2000)},
		controlplane.DevicesKey("n1"), &types.Devices{Devices: []types.Device{schedulertest.GPU(0, "H100!"), schedulertest.GPU(1, "A100")}},
		controlplane.AllocatedKey("n1"), &types.Allocated{Holds: []types.Holding{{Resource: types.GPU, Amount: 1000, Devices: []types.DeviceShare{{ID: "g1", Share: 1000}}}}})
	h100 := &types.DeviceRequest{Resource: "gpu", Models: []string{"H100"}}
	for name, test := range map[string]struct {
		needs []cluster.Need
		want  bool
	}{
		"both":                   {[]cluster.Need{{ID: types.GPU, Amount: 2000}}, true},
		"three":                  {[]cluster.Need{{ID: types.GPU, Amount: 3000}}, false},
		"the unhealthy one":      {[]cluster.Need{{ID: types.GPU, Amount: 1000, Devices: h100}}, true},
		"two of which it is one": {[]cluster.Need{{ID: types.GPU, Amount: 2000, Devices: h100}}, false},
		"two halves of one":      {[]cluster.Need{{ID: types.GPU, Amount: 500, Devices: h100}, {ID: types.GPU, Amount: 500, Devices: h100}}, true},
		"parts that share none":  {[]cluster.Need{{ID: types.GPU, Amount: 600}, {ID: types.GPU, Amount: 600}, {ID: types.GPU, Amount: 600}}, false},
	} {
		if got := New(v, unlimited, 1).EverHas(v.Nodes["n1"], grants.Want{ID: types.GPU, Needs: test.needs}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestCompareReservation: a hand-over depends on the reservation, its grant and its namespace.
func TestCompareReservation(t *testing.T) {
	v, r := reserved(t, bundlesOf(1000), &types.Grant{Phase: types.Collecting, Bundles: []string{""}})
	d := New(v, unlimited, 1)
	d.CompareReservation(r)
	d.CompareReservation(r)
	sameTransaction(t, "twice", d, "if reservations/a/r = 5", "if grants/a/r = 6", "if namespaces/a = 0")
}
