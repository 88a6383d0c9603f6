package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/types"
)

// Every test here is a bug that the simulation found.

// see passes everything stored to the core.
func (b *bench) see() {
	b.t.Helper()
	for _, batch := range b.store.Events(b.seen + 1) {
		b.seen = batch.Revision
		b.core.Apply(batch, b.now)
	}
}

// commit commits the one draft that the core makes, and returns the answer.
func (b *bench) commit() (*Transaction, controlplane.Result) {
	b.t.Helper()
	drafts := b.core.Next(b.now)
	if len(drafts) != 1 {
		b.t.Fatalf("%d drafts", len(drafts))
	}
	res, err := b.store.Commit(context.Background(), drafts[0].Change.Txn())
	if err != nil {
		b.t.Fatal(err)
	}
	return drafts[0], res
}

func (b *bench) done(d *Transaction, res controlplane.Result) {
	b.t.Helper()
	b.core.Done(d, res, nil, b.now)
}

// exited reports the end of the attempts of a task.
func (b *bench) exited(id string) {
	b.t.Helper()
	for _, x := range b.core.view.Task(clusterID("d", id)).Bindings {
		b.put(controlplane.ReportKey(x.Node.Name, "d", id, x.Number), &types.Report{Phase: types.ReportExited, Binding: x.Info.Create})
	}
}

// other is a second core on the same store.
func (b *bench) other() *bench {
	return &bench{t: b.t, store: b.store, core: New(Config{Name: "other"}), now: b.now}
}

// TestAnswerThatIsOlderThanTheWatch: an answer does not restore state that was undone since.
func TestAnswerThatIsOlderThanTheWatch(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 1000)
	b.task("a", map[string]types.Quantity{"cpu": 10})
	b.see()
	d, res := b.commit()
	o := b.other()
	o.settle()
	o.exited("a")
	o.settle()
	b.see()
	b.done(d, res)
	b.expect("a", "succeeded on n1")
	if n := len(b.core.view.Nodes["n1"].Bindings); n != 0 {
		t.Errorf("%d bindings came back", n)
	}
}

// TestWhatVanishedBetweenAnswerAndReload: a key put ahead of the watch, and gone again at the next
// listing, appears in no difference of listings.
func TestWhatVanishedBetweenAnswerAndReload(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 1000)
	b.task("a", map[string]types.Quantity{"cpu": 10})
	b.see()
	delivered := b.store.Revision()
	d, res := b.commit()
	b.done(d, res)
	o := b.other()
	o.settle()
	o.exited("a")
	o.settle()
	// The list-watch loop delivers the changes.
	page, err := b.store.List(t.Context(), controlplane.ListOptions{Prefix: controlplane.Root})
	if err != nil {
		t.Fatal(err)
	}
	batch := controlplane.Batch{Revision: page.Revision}
	for _, kv := range page.KVs {
		if kv.ModRevision > delivered {
			batch.Events = append(batch.Events, controlplane.Event{KV: kv})
		}
	}
	b.core.Apply(batch, b.now)
	if n := len(b.core.view.Nodes["n1"].Bindings); n != 0 {
		t.Errorf("%d bindings are left", n)
	}
}

// TestNoRelyingOnWhatEndsInTheSameTransaction: a released provider provides nothing.
func TestNoRelyingOnWhatEndsInTheSameTransaction(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 1000)
	b.task("a", map[string]types.Quantity{"cpu": 10}, func(t *types.Task) {
		t.Provides = []types.Provide{{Name: "p", Amount: types.Inf, When: types.WhenBound}}
	})
	b.settle()
	b.exited("a")
	b.task("b", map[string]types.Quantity{"p": 10})
	b.settle()
	b.expect("a", "succeeded on n1")
	b.expect("b", "pending")
}

// TestReleaseAndRebindAreOneTransaction: freed capacity is used at once.
func TestReleaseAndRebindAreOneTransaction(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 1000)
	b.task("a", map[string]types.Quantity{"cpu": 1000})
	b.settle()
	b.task("b", map[string]types.Quantity{"cpu": 1000})
	b.settle()
	b.exited("a")
	b.see()
	d, res := b.commit()
	b.done(d, res)
	b.settle()
	b.expect("b", "bound on n1")
}

// TestRefusedDraftGivesBackItsRoom: entries that failed because of the draft are tried again.
func TestRefusedDraftGivesBackItsRoom(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 1000)
	b.task("a", map[string]types.Quantity{"cpu": 900})
	b.task("b", map[string]types.Quantity{"cpu": 800}) // a is first, by its id
	b.see()
	drafts := b.core.Next(b.now)
	b.task("a", map[string]types.Quantity{"cpu": 900}, func(t *types.Task) { t.Stop = &types.Stop{} })
	res, err := b.store.Commit(t.Context(), drafts[0].Change.Txn())
	if err != nil || res.Committed {
		t.Fatal(res, err)
	}
	b.done(drafts[0], res)
	b.settle()
	b.expect("b", "bound on n1")
}

// TestNodesAreLookedAtThoughAPoolWasShort: a shape that failed on a pool has not visited the nodes.
func TestNodesAreLookedAtThoughAPoolWasShort(t *testing.T) {
	b := newBench(t, Config{})
	b.put(controlplane.ResourceKey("d", "lic", types.ClusterWide), &types.Resource{Capacity: 1})
	b.node("n1", 1000)
	for _, name := range []string{"n2", "n3", "n4", "n5"} {
		b.node(name, 10)
	}
	b.task("holder", map[string]types.Quantity{"lic": 1, "node/n2": 1})
	b.settle()
	b.task("a", map[string]types.Quantity{"cpu": 900, "lic": 1})
	b.settle()
	b.expect("a", "pending")
	b.exited("holder")
	b.settle()
	b.expect("a", "bound on n1")
}

// TestNodesAreLookedAtOnceAResourceIsEverywhere: a task that waits for a pool when a resource
// reaches all nodes visits all of them afterwards.
func TestNodesAreLookedAtOnceAResourceIsEverywhere(t *testing.T) {
	b := newBench(t, Config{})
	for i := range 8 {
		b.node(fmt.Sprint("n", i), 1000)
	}
	foo := func(where string, q types.Quantity) {
		r := &types.Resource{Capacity: q}
		if where != types.EveryNode {
			r.NodeSession = b.session(where)
		}
		b.put(controlplane.ResourceKey("d", "foo", where), r)
		b.settle()
	}
	b.put(controlplane.ResourceKey("d", "quota", types.ClusterWide), &types.Resource{Capacity: 1})
	b.task("hog", map[string]types.Quantity{"cpu": 1000, "node/n0": 1})
	b.settle()
	foo("n0", 0)
	b.task("a", map[string]types.Quantity{"cpu": 500, "foo": 1, "quota": 1})
	b.settle()
	b.task("holder", map[string]types.Quantity{"quota": 1})
	b.settle()
	foo("n0", 1)
	foo(types.EveryNode, 1)
	b.expect("a", "pending")
	b.exited("holder")
	b.settle()
	if b.where("a") == "pending" {
		t.Error("it waits, and fits on seven nodes")
	}
}

// TestReservationMadeAnewWhileOneIsRefused: the end of a draft for a reservation does not affect
// the next one of the same name.
func TestReservationMadeAnewWhileOneIsRefused(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 1000)
	r := func(cpu types.Quantity) *types.Reservation {
		return &types.Reservation{Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": cpu})}}}
	}
	b.put(controlplane.ReservationKey("d", "r"), r(500))
	b.see()
	drafts := b.core.Next(b.now)
	b.del(controlplane.ReservationKey("d", "r"))
	b.put(controlplane.ReservationKey("d", "r"), r(600))
	b.see()
	res, err := b.store.Commit(t.Context(), drafts[0].Change.Txn())
	if err != nil || res.Committed {
		t.Fatal(res, err)
	}
	b.done(drafts[0], res)
	b.settle()
	if n := b.core.view.Nodes["n1"].Used("cpu"); n != 600 {
		t.Errorf("%d are held", n)
	}
}

// TestBundlesAreMovedToFit: the first choice for a bundle may leave no capacity for the rest.
func TestBundlesAreMovedToFit(t *testing.T) {
	for seed := range uint64(20) {
		b := newBench(t, Config{Seed: seed})
		b.node("n1", 1000)
		b.node("n2", 1000)
		b.put(controlplane.ResourceKey("d", "x", "n1"), &types.Resource{Capacity: 1000, NodeSession: b.session("n1")})
		// Either node fits the first bundle, but on n1 that leaves no capacity for the other.
		b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{Bundles: []types.Bundle{
			{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 800})},
			{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 700, "x": 1})},
		}})
		b.settle()
		if g := b.core.view.Reservations[clusterID("d", "r")].Grant.V; g == nil {
			t.Errorf("seed %d: it is not granted", seed)
		}
	}
}

// session returns the session of a node, as stored.
func (b *bench) session(node string) int64 {
	page, err := b.store.List(b.t.Context(), controlplane.ListOptions{Key: controlplane.AliveKey(node)})
	if err != nil || len(page.KVs) == 0 {
		b.t.Fatal(page, err)
	}
	return page.KVs[0].CreateRevision
}

// TestNothingToWakeFor: the core does not wait for a past time.
func TestNothingToWakeFor(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 1000)
	b.task("hog", map[string]types.Quantity{"cpu": 1000})
	b.settle()
	for _, id := range []string{"r1", "r2"} {
		b.now = b.now.Add(10 * time.Millisecond)
		b.put(controlplane.ReservationKey("d", id), &types.Reservation{
			Accumulate: true, Submitted: b.now.UnixNano(),
			Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}},
		})
		b.settle()
	}
	for range 10 {
		at := b.core.Wake()
		if at.IsZero() {
			return
		}
		if !at.After(b.now) {
			t.Fatalf("it wakes at %s, and it is %s", at, b.now)
		}
		b.now = at
		b.settle()
	}
	t.Error("it wakes again and again")
}

// TestBatchesOfARestartedScheduler: Run never reuses a transaction id, whatever the seed; a Core
// alone repeats its seed.
func TestBatchesOfARestartedScheduler(t *testing.T) {
	a, b := New(Config{Seed: 1}), New(Config{Seed: 1})
	if a.newBatch() != b.newBatch() {
		t.Error("a core is not its seed")
	}
	a.newBatch, b.newBatch = controlplane.NewBatch, controlplane.NewBatch
	if a.newBatch() == b.newBatch() {
		t.Error("two lives have the same ids")
	}
}

// TestCreatedAheadOfAStaleView: the create revision of a key deleted and recreated ahead of the
// watch is known.
func TestCreatedAheadOfAStaleView(t *testing.T) {
	v := cluster.New()
	event := func(create, mod int64) controlplane.Event {
		return controlplane.Event{KV: controlplane.KV{
			Key: controlplane.LeaderKey(grants.AccumulateRole), Value: types.Encode(1, &types.Leader{}), CreateRevision: create, ModRevision: mod,
		}}
	}
	for _, apply := range []func() (controlplane.Key, bool, error){
		func() (controlplane.Key, bool, error) { return v.Apply(event(5, 5)) },
		func() (controlplane.Key, bool, error) {
			v.Committed(9, []cluster.Write{{Key: controlplane.LeaderKey(grants.AccumulateRole), Value: &types.Leader{}, Made: true}})
			return controlplane.Key{}, true, nil
		},
		func() (controlplane.Key, bool, error) { return v.Apply(event(9, 9)) },
	} {
		if _, _, err := apply(); err != nil {
			t.Fatal(err)
		}
	}
	if c := v.Leaders[grants.AccumulateRole]; c.Create != 9 || c.Mod != 9 {
		t.Errorf("it is of %d, created at %d", c.Mod, c.Create)
	}
}

// TestReleaseWaitsForThePoolOfAReleasingGrant: drawn amounts return to the pool behind the
// transactions in flight, or after them at the maximum depth.
func TestReleaseWaitsForThePoolOfAReleasingGrant(t *testing.T) {
	for _, most := range []int{1, 2} {
		t.Run(fmt.Sprint(most), func(t *testing.T) { releaseToAPool(t, most) })
	}
}

func releaseToAPool(t *testing.T, most int) {
	b := newBench(t, Config{})
	b.core.depth.most = most
	b.node("n1", 1000)
	b.put(controlplane.ResourceKey("d", "lic", types.ClusterWide), &types.Resource{Capacity: 3000})
	b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{Bundles: []types.Bundle{bundleOf(map[string]types.Quantity{"lic": 1000})}})
	b.task("drawer", map[string]types.Quantity{"lic@r": 1000})
	b.settle()
	b.del(controlplane.ReservationKey("d", "r"))
	b.settle()
	b.node("n2", 1000)
	b.task("other", map[string]types.Quantity{"lic": 1000, "node/n2": 1})
	b.see()
	bind, bound := b.commit()
	b.exited("drawer")
	b.see()
	drafts := b.line(most - 1)
	b.done(bind, bound)
	for _, d := range drafts {
		b.done(d, b.arrives(d, true))
	}
	b.settle()
	b.expect("drawer", "succeeded on n1")
	if n := b.core.view.Pools["d:lic"].Allocated.V.Of("d:lic"); n != 1000 {
		t.Errorf("%d are in use", n)
	}
}

// TestBatchesGrowAgain: a too large transaction makes later ones smaller, but not forever.
func TestBatchesGrowAgain(t *testing.T) {
	b := newBench(t, Config{BatchTasks: 64})
	b.node("n1", 4000)
	add := func(n int) {
		for i := range n {
			b.task(fmt.Sprintf("t%d-%d", b.store.Revision(), i), map[string]types.Quantity{"cpu": 1})
		}
	}
	add(64)
	b.see()
	d := b.core.Next(b.now)[0]
	b.core.Done(d, controlplane.Result{}, types.Errorf(types.Invalid, "too large"), b.now)
	if b.core.batch != 32 {
		t.Fatalf("it binds up to %d", b.core.batch)
	}
	for range 12 {
		add(64)
		b.settle()
	}
	if b.core.batch != 64 {
		t.Errorf("it binds up to %d", b.core.batch)
	}
}

// TestComparesCountAsBytes: compares count towards the size of a transaction, like writes.
func TestComparesCountAsBytes(t *testing.T) {
	limits := controlplane.Limits{Ops: 10_000, Bytes: 20_000}
	b := newLimitedBench(t, limits, Config{})
	b.node("n1", 4000)
	for i := range 40 {
		b.put(controlplane.ResourceKey("d", fmt.Sprintf("a-resource-with-a-name-that-is-as-long-as-some-are-%d", i), types.EveryNode), &types.Resource{Capacity: 1000})
	}
	for i := range 40 {
		b.task(fmt.Sprintf("t%d", i), map[string]types.Quantity{fmt.Sprintf("a-resource-with-a-name-that-is-as-long-as-some-are-%d", i): 1})
	}
	b.see()
	d := b.core.Next(b.now)[0]
	if n := d.Change.Bytes(); n > limits.Bytes {
		t.Errorf("it has %d bytes, and the store takes %d", n, limits.Bytes)
	}
}

// TestNothingIsRememberedOfWhatIsGone: a conflict about a task deleted meanwhile leaves no state
// behind.
func TestNothingIsRememberedOfWhatIsGone(t *testing.T) {
	for _, first := range []bool{false, true} {
		b := newBench(t, Config{})
		b.node("n1", 1000)
		b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{Submitted: b.now.UnixNano(), Bundles: []types.Bundle{bundleOf(map[string]types.Quantity{"cpu": 1000})}})
		b.see()
		d := b.core.Next(b.now)[0]
		b.del(controlplane.ReservationKey("d", "r"))
		res, err := b.store.Commit(t.Context(), d.Change.Txn())
		if err != nil || res.Committed {
			t.Fatal(res, err)
		}
		if first {
			b.see()
		}
		b.done(d, res)
		b.settle()
		if len(b.core.retries) > 0 || len(b.core.locks) > 0 || b.core.Waiting() > 0 {
			t.Errorf("%v retries, %v locks, %v entries are left", b.core.retries, b.core.locks, b.core.Waiting())
		}
	}
}
