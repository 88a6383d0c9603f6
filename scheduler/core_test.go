package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// bench is one core on a store in memory, stepped by hand.
type bench struct {
	t     *testing.T
	store *memstore.Store
	core  *Core
	audit *audit.Checker
	seen  int64
	now   time.Time
}

func newBench(t *testing.T, cfg Config) *bench {
	if cfg.Gather == 0 {
		cfg.Gather = 1 // a test has little work
	}
	if cfg.FoldFrom == 0 {
		cfg.FoldFrom = 1
	}
	b := &bench{t: t, store: memstore.New(), core: New(cfg), audit: audit.NewChecker(), now: time.Unix(1000, 0)}
	t.Cleanup(b.check)
	return b
}

// check passes every revision to the audit.
func (b *bench) check() {
	for _, batch := range b.store.Events(b.audit.Revision() + 1) {
		for _, f := range b.audit.Apply(batch) {
			if f.Guarantee != audit.JobWhole && f.Guarantee != audit.SpecKept { // jobs come before their tasks, and there are no specs
				b.t.Error(f)
			}
		}
	}
}

// put writes values unconditionally.
func (b *bench) put(kvs ...any) int64 {
	b.t.Helper()
	c := controlplane.NewChange(1)
	for i := 0; i < len(kvs); i += 2 {
		c.Put(kvs[i].(string), kvs[i+1].(types.Message))
	}
	res, err := b.store.Commit(context.Background(), c.Txn())
	if err != nil || !res.Committed {
		b.t.Fatal(res, err)
	}
	return res.Revision
}

func (b *bench) del(keys ...string) {
	b.t.Helper()
	c := controlplane.NewChange(1)
	for _, k := range keys {
		c.Delete(k)
	}
	if _, err := b.store.Commit(context.Background(), c.Txn()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) node(name string, cpu types.Quantity) {
	b.put(controlplane.NodeKey(name), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": cpu})},
		controlplane.AliveKey(name), &types.Alive{})
}

func (b *bench) task(id string, requests map[string]types.Quantity, edit ...func(*types.Task)) {
	t := &types.Task{Requests: types.NewRequests(requests), Submitted: b.now.UnixNano()}
	for _, f := range edit {
		f(t)
	}
	b.put(controlplane.TaskKey("d", id), t)
}

// settle steps the core until it has nothing to do.
func (b *bench) settle() {
	b.t.Helper()
	for i := 0; ; i++ {
		if i > 1000 {
			b.t.Fatal("does not settle")
		}
		for _, batch := range b.store.Events(b.seen + 1) {
			b.seen = batch.Revision
			b.core.Apply(batch, b.now)
		}
		drafts := b.core.Next(b.now)
		if len(drafts) == 0 {
			return
		}
		for _, d := range drafts {
			res, refused := b.store.Commit(context.Background(), d.Change.Txn())
			if refused != nil && b.core.cfg.Limits == b.store.Limits() {
				b.t.Fatal(refused)
			}
			b.core.Done(d, res, refused, b.now)
		}
	}
}

func (b *bench) where(id string) string {
	t := b.core.view.Task(clusterID("d", id))
	if t == nil || t.Status.V == nil {
		return "pending"
	}
	return fmt.Sprintf("%s on %s", t.Status.V.Phase, t.Status.V.Node)
}

func (b *bench) expect(id, want string) {
	b.t.Helper()
	if got := b.where(id); got != want {
		b.t.Errorf("%s is %s, want %s", id, got, want)
	}
}

// later advances the time and settles.
func (b *bench) later(d time.Duration) {
	b.t.Helper()
	b.now = b.now.Add(d)
	b.settle()
}

func bundleOf(amounts map[string]types.Quantity) types.Bundle {
	return types.Bundle{Requests: types.NewRequests(amounts)}
}

func TestBindAndWait(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 2000)
	b.task("a", map[string]types.Quantity{"cpu": 1500})
	b.task("b", map[string]types.Quantity{"cpu": 1000})
	b.task("c", map[string]types.Quantity{"co": 1000})
	b.settle()
	b.expect("a", "bound on n1")
	b.expect("b", "pending")
	b.expect("c", "pending")
	b.node("n2", 1000)
	b.put(controlplane.ResourceKey("d", "co", "n1"), &types.Resource{Capacity: 1000, NodeSession: b.core.view.Nodes["n1"].Session()})
	b.settle()
	b.expect("b", "bound on n2")
	b.expect("c", "bound on n1")
}

func TestGang(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 2000)
	b.node("n2", 2000)
	b.task("hog", map[string]types.Quantity{"cpu": 1500})
	b.settle()
	b.put(controlplane.ReservationKey("d", "train"), &types.Reservation{Bundles: []types.Bundle{
		{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 2000})},
		{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 2000})},
	}})
	b.task("m1", map[string]types.Quantity{"cpu@train": 2000})
	b.task("m2", map[string]types.Quantity{"cpu@train": 2000})
	b.settle()
	b.expect("m1", "pending")
	for name, n := range b.core.view.Nodes {
		if bs := n.Bindings; len(bs) > 0 {
			for _, x := range bs {
				b.put(controlplane.ReportKey(name, "d", x.Task.ID.ID, x.Number), &types.Report{Phase: types.ReportExited, Binding: x.Info.Create})
			}
		}
	}
	b.settle()
	b.expect("hog", "succeeded on "+b.core.view.Task(clusterID("d", "hog")).Status.V.Node)
	if b.where("m1") == "pending" || b.where("m1") == b.where("m2") {
		t.Error(b.where("m1"), b.where("m2"))
	}
	b.del(controlplane.ReservationKey("d", "train"))
	b.settle()
	g := b.core.view.Reservations[clusterID("d", "train")]
	if g == nil || g.Grant.V.Phase != types.Releasing {
		t.Fatal("not releasing", g)
	}
	for name, n := range b.core.view.Nodes {
		for _, x := range n.Bindings {
			b.put(controlplane.ReportKey(name, "d", x.Task.ID.ID, x.Number), &types.Report{Phase: types.ReportExited, Binding: x.Info.Create})
		}
	}
	b.settle()
	if g := b.core.view.Reservations[clusterID("d", "train")]; g != nil {
		t.Error("grant is left", g.Grant.V)
	}
	for name, n := range b.core.view.Nodes {
		if n.Used("cpu") != 0 {
			t.Error(name, n.Allocated.V)
		}
	}
}

func clusterID(ns, id string) cluster.ID { return cluster.ID{Namespace: ns, ID: id} }

// TestGathers: while a transaction is in flight, a little work waits for the answer and joins later
// work; a lot does not wait.
func TestGathers(t *testing.T) {
	b := newBench(t, Config{Gather: 3})
	for _, n := range []string{"n1", "n2", "n3", "n4"} {
		b.node(n, 8000)
	}
	cpu := map[string]types.Quantity{"cpu": 100}
	b.task("a", cpu)
	b.see()
	first, answer := b.commit()
	b.task("b", cpu)
	b.task("c", cpu)
	b.see()
	if drafts := b.core.Next(b.now); len(drafts) != 0 {
		t.Fatalf("%d drafts for two tasks while one is in flight", len(drafts))
	}
	b.done(first, answer)
	second, answer := b.commit()
	if len(second.Binds) != 2 {
		t.Fatalf("%d bound together, want 2", len(second.Binds))
	}
	for _, id := range []string{"d", "e", "f"} {
		b.task(id, cpu)
	}
	b.see()
	third, more := b.commit()
	if len(third.Binds) != 3 {
		t.Fatalf("%d bound while one is in flight, want 3", len(third.Binds))
	}
	b.done(second, answer)
	b.done(third, more)
	b.settle()
}

// TestSleepsWhileItGathers: work that falls due during the wait for an answer is done with the
// answer, without an earlier wake.
func TestSleepsWhileItGathers(t *testing.T) {
	b := newBench(t, Config{Gather: 3})
	b.node("n1", 1000)
	b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{
		Accumulate: true, Submitted: b.now.UnixNano(), Bundles: []types.Bundle{bundleOf(map[string]types.Quantity{"cpu": 5000})},
	})
	b.settle()
	b.task("a", map[string]types.Quantity{"cpu": 100})
	b.see()
	d, answer := b.commit()
	b.now = b.now.Add(2 * time.Second)
	if drafts := b.core.Next(b.now); len(drafts) != 0 {
		t.Fatalf("%d drafts", len(drafts))
	}
	if at := b.core.Wake(); !at.IsZero() && !at.After(b.now) {
		t.Errorf("it wakes at %s, and it is %s", at, b.now)
	}
	b.done(d, answer)
	b.settle()
}
