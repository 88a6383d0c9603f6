package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// world is a store with a client of namespace team.
type world struct {
	*controlplane.Client
	t     *testing.T
	store *memstore.Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, store: memstore.New()}
	c, err := controlplane.New(w.store, "team")
	if err != nil {
		t.Fatal(err)
	}
	w.Client = c
	return w
}

func (w *world) put(key string, m types.Message) int64 {
	w.t.Helper()
	res, err := w.store.Commit(context.Background(), controlplane.Txn{Ops: []controlplane.Op{{Key: key, Value: types.Encode(1, m)}}})
	if err != nil {
		w.t.Fatal(err)
	}
	return res.Revision
}

func (w *world) node(name string) int64 {
	w.t.Helper()
	w.put(controlplane.NodeKey(name), &types.Node{
		Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000, "memory": 8 << 30}),
		Labels:   []types.Label{{Name: "rack", Value: "r-" + name}},
	})
	return w.put(controlplane.AliveKey(name), &types.Alive{})
}

func (w *world) state() *cluster.State {
	w.t.Helper()
	s, err := cluster.ClusterState(context.Background(), w.Client)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) set(name string, q types.Quantity, where controlplane.Where) {
	w.t.Helper()
	if _, err := w.SetResource(context.Background(), name, q, where, controlplane.SetOptions{Declare: true}); err != nil {
		w.t.Fatal(err)
	}
}

// busy returns a cluster with one of everything that a state shows.
func busy(t *testing.T) *world {
	w := newWorld(t)
	session := w.node("n1")
	w.node("n2")
	w.put(controlplane.CordonKey("n2"), &types.Cordon{})
	w.put(controlplane.NodeKey("n3"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 1000})})
	w.set("own", 500, controlplane.OnNode("n1"))
	w.set("every", types.Inf, controlplane.OnEvery())
	w.set("pool", 7000, controlplane.InCluster())
	w.set("shrunk", 1000, controlplane.OnNode("n1"))
	w.put(controlplane.ResourceKey("team", "stale", "n1"), &types.Resource{Capacity: 5000, NodeSession: session - 1})
	w.put(controlplane.ResourceKey("other", "secret", "n1"), &types.Resource{Capacity: 5000, NodeSession: session})
	w.put(controlplane.ProvidedKey("team", "signal", "n1"), &types.Provided{Amount: 1000, NodeSession: session})
	w.put(controlplane.ReservationKey("team", "train"), &types.Reservation{})
	w.put(controlplane.GrantKey("team", "train"), &types.Grant{Phase: types.Granted, Nodes: []types.GrantNode{{Node: "n1", Holds: []types.Holding{{Resource: "memory", Amount: 1 << 30}}}}})
	provides := []types.Provide{
		{Name: "bound", Amount: 100, When: types.WhenBound}, {Name: "running", Amount: 100, When: types.WhenRunning}, {Name: "done", Amount: 100, When: types.WhenSucceeded},
		{Name: "healthy", Amount: 100, When: types.WhenHealthy},
	}
	w.put(controlplane.TaskKey("team", "web-1"), &types.Task{Provides: provides})
	w.put(controlplane.BindingKey("n1", "team", "web-1", 1), &types.Binding{Session: session, Provides: provides})
	w.put(controlplane.ReportKey("n1", "team", "web-1", 1), &types.Report{Phase: types.ReportRunning, Health: types.Healthy})
	w.put(controlplane.StatusKey("team", "web-1"), &types.Status{Phase: types.Running, Node: "n1", Attempt: 1})
	var a types.Allocated
	for rid, q := range map[types.ResourceID]types.Quantity{"cpu": 1500, "memory": 3 << 30, "team:shrunk": 3000, "team:removed": 1000, "team:memory@train": 1 << 28, "other:secret": 1} {
		a.Take(types.Holding{Resource: rid, Amount: q})
	}
	w.put(controlplane.AllocatedKey("n1"), &a)
	w.put(controlplane.PoolKey("team", "pool"), &types.Allocated{Holds: []types.Holding{{Resource: "team:pool", Amount: 2000}}})
	w.put(controlplane.PoolKey("other", "theirs"), &types.Allocated{Holds: []types.Holding{{Resource: "other:theirs", Amount: 1}}})
	return w
}

func TestClusterState(t *testing.T) {
	w := busy(t)
	s := w.state()
	if s.Revision != w.store.Revision() || s.Namespace != "team" {
		t.Errorf("revision %d, namespace %s", s.Revision, s.Namespace)
	}
	got := describe(s)
	want := `n1 alive: bound 0.1-0=0.1, cpu 4-1.5=2.5, every inf-0=inf, healthy 0.1-0=0.1, memory 8Gi-3Gi=5Gi, memory@train 1Gi-256Mi=768Mi, own 0.5-0=0.5, removed 0-1=-1, running 0.1-0=0.1, shrunk 1-3=-2, signal 1-0=1
n2 alive cordoned: cpu 4-0=4, every inf-0=inf, memory 8Gi-0=8Gi
n3: cpu 1-0=1, every inf-0=inf
pools: pool 7-2=5
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if n := s.Node("n1"); n == nil || n.Free("own") != 500 || n.Free("none") != 0 || s.Node("n9") != nil {
		t.Errorf("%+v", n)
	}
	if p, ok := s.Pool("pool"); !ok || p.Free != 5000 {
		t.Errorf("%+v", p)
	}
}

func describe(s *cluster.State) string {
	var b strings.Builder
	list := func(all []cluster.Amounts) {
		var texts []string
		for _, a := range all {
			f := func(q types.Quantity) string { return q.Format(types.ResourceID(a.Name)) }
			texts = append(texts, fmt.Sprintf("%s %s-%s=%s", a.Name, f(a.Capacity), f(a.Allocated), f(a.Free)))
		}
		b.WriteString(": " + strings.Join(texts, ", ") + "\n")
	}
	for _, n := range s.Nodes {
		b.WriteString(n.Name)
		if n.Alive {
			b.WriteString(" alive")
		}
		if n.Cordoned {
			b.WriteString(" cordoned")
		}
		list(n.Resources)
	}
	b.WriteString("pools")
	list(s.Pools)
	return b.String()
}

func TestStateAsJSON(t *testing.T) {
	s := busy(t).state()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"name":"shrunk","capacity":"1","allocated":"3","free":"-2"}`; !strings.Contains(string(data), want) {
		t.Errorf("%s lacks %s", data, want)
	}
	var back cluster.State
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back.Nodes, s.Nodes) || !reflect.DeepEqual(back.Pools, s.Pools) {
		t.Errorf("got %+v", back)
	}
	if reads := back.Relied("n1", "own"); reads[controlplane.NodeKey("n1")] != 0 {
		t.Errorf("what came as JSON knows what was read: %v", reads)
	}
	if err := json.Unmarshal([]byte(`{"nodes":[{"resources":[{"name":"cpu","capacity":"x"}]}]}`), &back); err == nil {
		t.Error("an amount that is none is accepted")
	}
}

// listed records the reads of a store.
type listed struct {
	controlplane.Store
	what []string
}

func (l *listed) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	l.what = append(l.what, opts.Prefix+opts.Key)
	return l.Store.List(ctx, opts)
}

// TestStateOfManyBindings checks that the bindings of providers are read one by one, and no key of
// another namespace, however many there are.
func TestStateOfManyBindings(t *testing.T) {
	w := newWorld(t)
	session := w.node("n1")
	provides := []types.Provide{{Name: "x", Amount: 10, When: types.WhenBound}}
	for i := range 100 {
		id := fmt.Sprintf("web-%d", i)
		w.put(controlplane.TaskKey("team", id), &types.Task{Provides: provides})
		w.put(controlplane.BindingKey("n1", "team", id, 1), &types.Binding{Session: session, Provides: provides})
		w.put(controlplane.BindingKey("n1", "other", id, 1), &types.Binding{Session: session, Provides: provides})
		w.put(controlplane.StatusKey("team", id), &types.Status{Phase: types.Bound, Node: "n1", Attempt: 1})
		w.put(controlplane.TaskKey("team", "plain-"+id), &types.Task{})
		w.put(controlplane.BindingKey("n1", "team", "plain-"+id, 1), &types.Binding{Session: session})
		w.put(controlplane.StatusKey("team", "plain-"+id), &types.Status{Phase: types.Bound, Node: "n1", Attempt: 1})
	}
	store := &listed{Store: w.store}
	s, err := cluster.Read(t.Context(), store, "team")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Node("n1").Free("x"); got != 1000 {
		t.Errorf("got %d, want 100 of 10 each", got)
	}
	single := 0
	for _, what := range store.what {
		k, one := controlplane.Parse(what)
		switch {
		case one && k.Namespace == "team" && !strings.HasPrefix(k.ID, "plain"):
			single++
		case one || strings.HasPrefix(what, controlplane.Prefix(controlplane.Bindings)) || strings.HasPrefix(what, controlplane.Prefix(controlplane.Reports)):
			t.Errorf("%s was read", what)
		}
	}
	if single != 2*100 {
		t.Errorf("%d keys were read one by one, want the bindings and reports of 100", single)
	}
}

// Every key that a resource depends on makes a change that relies on it fail; no other key does.
func TestRelied(t *testing.T) {
	for name, c := range map[string]struct {
		relies   string
		change   func(w *world)
		conflict bool
	}{
		"nothing":          {"own", func(*world) {}, false},
		"another resource": {"own", func(w *world) { w.set("bystander", 1, controlplane.OnNode("n1")) }, false},
		"another node":     {"own", func(w *world) { w.put(controlplane.AllocatedKey("n2"), &types.Allocated{}) }, false},
		"the resource":     {"own", func(w *world) { w.set("own", 1, controlplane.OnNode("n1")) }, true},
		"allocated":        {"own", func(w *world) { w.put(controlplane.AllocatedKey("n1"), &types.Allocated{}) }, true},
		"cordoned":         {"cpu", func(w *world) { w.put(controlplane.CordonKey("n1"), &types.Cordon{}) }, true},
		"node":             {"cpu", func(w *world) { w.node("n1") }, true},
		"made a pool": {"own", func(w *world) {
			if _, err := w.SetResource(t.Context(), "own", 0, controlplane.OnEvery(), controlplane.SetOptions{}); err != nil {
				t.Fatal(err)
			}
			w.set("own", 1, controlplane.InCluster())
		}, true},
		"provided, made a pool": {"bound", func(w *world) { w.set("bound", 1, controlplane.InCluster()) }, true},
		"own over every":        {"every", func(w *world) { w.set("every", 1, controlplane.OnNode("n1")) }, true},
		"every":                 {"every", func(w *world) { w.set("every", 1, controlplane.OnEvery()) }, true},
		"came to be":            {"absent", func(w *world) { w.set("absent", 1, controlplane.OnNode("n1")) }, true},
		"provider":              {"bound", func(w *world) { w.put(controlplane.BindingKey("n1", "team", "web-1", 1), &types.Binding{}) }, true},
		"provider's start":      {"running", func(w *world) { w.put(controlplane.ReportKey("n1", "team", "web-1", 1), &types.Report{}) }, true},
		"provider's health": {"healthy", func(w *world) {
			w.put(controlplane.ReportKey("n1", "team", "web-1", 1), &types.Report{Phase: types.ReportRunning, Health: types.Unhealthy})
		}, true},
		"signal":          {"signal", func(w *world) { w.put(controlplane.ProvidedKey("team", "signal", "n1"), &types.Provided{}) }, true},
		"grant":           {"memory@train", func(w *world) { w.put(controlplane.GrantKey("team", "train"), &types.Grant{}) }, true},
		"pool":            {"pool", func(w *world) { w.set("pool", 1, controlplane.InCluster()) }, true},
		"use of the pool": {"pool", func(w *world) { w.put(controlplane.PoolKey("team", "pool"), &types.Allocated{}) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := busy(t)
			s := w.state()
			c.change(w)
			_, err := w.Begin(s.Relied("n1", c.relies)).SetResource("decision", 1, controlplane.OnNode("n1"), controlplane.SetOptions{}).Commit(t.Context())
			if c.conflict != types.Is(err, types.Conflict) || !c.conflict && err != nil {
				t.Errorf("got %v", err)
			}
			_, err = w.Begin(s.Reads()).SetResource("decision", 2, controlplane.OnNode("n1"), controlplane.SetOptions{}).Commit(t.Context())
			if (c.conflict || name == "another node") && name != "came to be" && name != "provided, made a pool" && name != "own over every" && !types.Is(err, types.Conflict) {
				t.Errorf("relying on all: got %v", err)
			}
		})
	}
}

func TestWithFree(t *testing.T) {
	s := busy(t).state()
	for request, want := range map[string]string{
		"cpu=2": "[n1]", "cpu=3": "[]", "own=0.5": "[n1]", "own=0.6": "[]", "every=1000": "[n1]", "node/n1=1": "[n1]", "node/n3=1": "[]",
		"rack/r-n1=1": "[n1]", "rack/r7=1": "[]", "shrunk=0.001": "[]", "none=1": "[]", "memory@train=768Mi": "[n1]",
		"pool=5": "[n1]", "pool=6": "[]",
	} {
		name, amount, _ := strings.Cut(request, "=")
		r, err := types.MakeRequests(map[string]string{name: amount})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(match.WithFree(s.View(), "team", r)); got != want {
			t.Errorf("%s: got %s, want %s", request, got, want)
		}
	}
}

func TestWhereAvailable(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"n1", "n2", "n3"} {
		w.node(name)
	}
	w.put(controlplane.AllocatedKey("n2"), &types.Allocated{Holds: []types.Holding{{Resource: "cpu", Amount: 3000}}})
	set := func(sel types.Selector) error {
		_, err := w.SetResource(t.Context(), "x", 1, manifest.NodesOf(sel), controlplane.SetOptions{})
		return err
	}
	if err := set(types.Selector{Available: types.Requests{{Name: "cpu", Amount: 2000}}}); err != nil {
		t.Fatal(err)
	}
	s := w.state()
	if s.Node("n1").Free("x") != 1 || s.Node("n2").Free("x") != 0 || s.Node("n3").Free("x") != 1 {
		t.Errorf("got %s", describe(s))
	}
	before := w.store.Revision()
	for says, sel := range map[string]types.Selector{
		"none of 3 nodes has 5 cpu free":              {Available: types.Requests{{Name: "cpu", Amount: 5000}}},
		"none of 3 nodes has 2 cpu":                   {Nodes: []string{"n2"}, Available: types.Requests{{Name: "cpu", Amount: 2000}}},
		`where.nodes[0]: "n9" is unknown`:             {Nodes: []string{"n9"}, Available: types.Requests{{Name: "cpu", Amount: 2000}}},
		"where.available.cpu: -1 is not positive":     {Available: types.Requests{{Name: "cpu", Amount: -1000}}},
		`where.nodes: "n8" is unknown`:                {Nodes: []string{"n8"}},
		"where.labels: none of 3 nodes has rack=none": {Labels: []types.Label{{Name: "rack", Value: "none"}}},
	} {
		if err := set(sel); err == nil || !strings.Contains(err.Error(), says) || w.store.Revision() != before {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

// A state has one revision, whatever happens while it is read.
func TestStateIsOfOneRevision(t *testing.T) {
	w := busy(t)
	want := describe(w.state())
	s := &disturbed{Store: w.store, t: t}
	got, err := cluster.Read(t.Context(), s, "team")
	if err != nil || describe(got) != want {
		t.Errorf("got\n%s, %v, want\n%s", describe(got), err, want)
	}
}

// disturbed is a store in which everything changes after each listing.
type disturbed struct {
	*memstore.Store
	t *testing.T
}

func (d *disturbed) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	page, err := d.Store.List(ctx, opts)
	var ops []controlplane.Op
	for _, kind := range []string{controlplane.AliveKey("n1"), controlplane.AllocatedKey("n1"), controlplane.CordonKey("n1"), controlplane.GrantKey("team", "train"),
		controlplane.ResourceKey("team", "own", "n1"), controlplane.ProvidedKey("team", "signal", "n1"), controlplane.BindingKey("n1", "team", "web-1", 1)} {
		ops = append(ops, controlplane.Op{Key: kind, Delete: true})
	}
	if _, err := d.Commit(ctx, controlplane.Txn{Ops: ops}); err != nil {
		d.t.Fatal(err)
	}
	return page, err
}

// A state whose revision is compacted during the read is read again.
func TestStateIsReadAgainAfterCompaction(t *testing.T) {
	w := busy(t)
	c := &compacting{Store: w.store, t: t, left: 2}
	if _, err := cluster.Read(t.Context(), c, "team"); err != nil {
		t.Error(err)
	}
	c.left = 100
	if _, err := cluster.Read(t.Context(), c, "team"); !types.Is(err, types.Compacted) {
		t.Errorf("got %v", err)
	}
}

// compacting is a store that compacts each revision after its listing.
type compacting struct {
	*memstore.Store
	t    *testing.T
	left int
}

func (c *compacting) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	page, err := c.Store.List(ctx, opts)
	if c.left--; c.left >= 0 {
		put := controlplane.Txn{Ops: []controlplane.Op{{Key: controlplane.CordonKey("n9"), Value: types.Encode(1, &types.Cordon{})}}}
		res, cerr := c.Commit(ctx, put)
		if cerr == nil {
			cerr = c.Compact(ctx, res.Revision)
		}
		if cerr != nil {
			c.t.Fatal(cerr)
		}
	}
	return page, err
}
