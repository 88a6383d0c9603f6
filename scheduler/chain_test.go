package scheduler

import (
	"fmt"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// four exceeds the default number in flight per pool: several pools make longer lines.
const four = 4

// pooled is a core with nodes, and tasks that draw on one pool, in transactions of 4.
func pooled(t *testing.T, tasks int) *bench {
	b := newBench(t, Config{Seed: 1, BatchTasks: 4})
	b.core.depth.most = four
	b.put(controlplane.ResourceKey("d", "quota", types.ClusterWide), &types.Resource{Capacity: 1_000_000})
	for i := range 60 {
		b.node(fmt.Sprintf("n%02d", i), 100_000)
	}
	for i := range tasks {
		b.task(fmt.Sprintf("t%02d", i), map[string]types.Quantity{"cpu": 100, "quota": 1000})
	}
	b.see()
	return b
}

// inUse is the allocated amount of the pool in the core's view.
func (b *bench) inUse() types.Quantity {
	p := b.core.view.Pool("d:quota")
	if p.Allocated.V == nil {
		return 0
	}
	return p.Allocated.V.Of("d:quota")
}

// line lets the core decide, and expects n transactions.
func (b *bench) line(n int) []*Transaction {
	b.t.Helper()
	drafts := b.core.Next(b.now)
	if len(drafts) != n {
		b.t.Fatalf("%d drafts, want %d", len(drafts), n)
	}
	return drafts
}

// arrives commits a draft.
func (b *bench) arrives(d *Transaction, committed bool) controlplane.Result {
	b.t.Helper()
	res, err := b.store.Commit(b.t.Context(), d.Change.Txn())
	if err != nil || res.Committed != committed {
		b.t.Fatal(res, err)
	}
	return res
}

// ends settles, and checks the allocated amount and that nothing is left in flight.
func (b *bench) ends(want types.Quantity) {
	b.t.Helper()
	b.settle()
	c := b.core
	if b.inUse() != want || len(c.drawing)+len(c.locks)+len(c.inFlight)+len(c.behind)+len(c.repeats) > 0 {
		b.t.Errorf("%d are in use, want %d; %v, %v, %v, %v, %v", b.inUse(), want, c.drawing, c.locks, c.inFlight, c.behind, c.repeats)
	}
	b.see()
	for _, batch := range b.store.Events(1) {
		for _, e := range batch.Events {
			if p := c.view.Pool("d:quota"); e.Key == controlplane.PoolKey("d", "quota") && p.Allocated.Create != e.CreateRevision {
				b.t.Errorf("the pool is known to be of %d, and is of %d", p.Allocated.Create, e.CreateRevision)
			}
		}
	}
}

// TestPoolInFlight: several transactions that draw on a pool are in flight, at most the allowed
// number, each based on what the previous one leaves.
func TestPoolInFlight(t *testing.T) {
	b := pooled(t, 24)
	drafts := b.line(four)
	for i, d := range drafts {
		b.done(d, b.arrives(d, true))
		if want := types.Quantity(4000 * (i + 1)); b.inUse() != want {
			t.Errorf("%d are in use, want %d", b.inUse(), want)
		}
	}
	b.line(2)
}

// TestPoolIsNotOverdrawn: the draws in flight count.
func TestPoolIsNotOverdrawn(t *testing.T) {
	b := pooled(t, 12)
	b.put(controlplane.ResourceKey("d", "quota", types.ClusterWide), &types.Resource{Capacity: 6000})
	b.see()
	for _, d := range b.line(2) {
		b.done(d, b.arrives(d, true))
	}
	b.ends(6000)
}

// TestOvertakenIsSentAgain: a draft that overtakes its predecessor is sent again unchanged, with
// its successors, before anything else. That does not count as a conflict.
func TestOvertakenIsSentAgain(t *testing.T) {
	b := pooled(t, 20)
	sent := b.line(four)
	for _, d := range sent[1:3] {
		b.done(d, b.arrives(d, false))
	}
	again := b.line(2)
	if again[0] != sent[1] || again[1] != sent[2] {
		t.Error("something else is sent")
	}
	b.done(sent[0], b.arrives(sent[0], true))
	for _, d := range again {
		b.done(d, b.arrives(d, true))
	}
	b.done(sent[3], b.arrives(sent[3], true)) // its answer was slow
	if len(b.core.retries) > 0 || b.core.depth.most != four {
		t.Errorf("%v conflicted, %d may be in flight", b.core.retries, b.core.depth.most)
	}
	b.ends(20_000)
}

// TestBehindTheUnanswered: a draft that was refused twice while its predecessor is unanswered waits
// for that, as do its successors.
func TestBehindTheUnanswered(t *testing.T) {
	b := pooled(t, 12)
	sent := b.line(3)
	refuse := func(d *Transaction) { b.done(d, b.arrives(d, false)) }
	refuse(sent[1])
	b.line(1)
	refuse(sent[1])
	refuse(sent[2])
	b.line(0)
	b.done(sent[0], b.arrives(sent[0], true))
	if again := b.line(1); again[0] != sent[1] {
		t.Fatal("something else is sent")
	}
	b.done(sent[1], b.arrives(sent[1], true))
	if again := b.line(1); again[0] != sent[2] {
		t.Fatal("something else is sent")
	}
	b.done(sent[2], b.arrives(sent[2], true))
	b.ends(12_000)
}

// TestAnswersOvertake: a commit counts once the answer of its predecessor is known, and comes after
// that in the view.
func TestAnswersOvertake(t *testing.T) {
	b := pooled(t, 12)
	sent := b.line(3)
	var answers []controlplane.Result
	for _, d := range sent {
		answers = append(answers, b.arrives(d, true))
	}
	b.done(sent[2], answers[2])
	b.done(sent[1], answers[1])
	if b.inUse() != 0 || !b.core.locked(firstNode(sent[1])) {
		t.Error("it counts")
	}
	b.done(sent[0], answers[0])
	if b.inUse() != 12_000 {
		t.Errorf("%d are in use", b.inUse())
	}
	b.ends(12_000)
}

// TestBehindTwo: of three transactions, each behind the previous ones on another pool, each counts
// once, whatever the order of their answers.
func TestBehindTwo(t *testing.T) {
	b := newBench(t, Config{Seed: 1, BatchTasks: 2})
	for _, pool := range []string{"quota", "q", "r"} {
		b.put(controlplane.ResourceKey("d", pool, types.ClusterWide), &types.Resource{Capacity: 1_000_000})
	}
	for i := range 60 {
		b.node(fmt.Sprintf("n%02d", i), 100_000)
	}
	for i, pools := range []string{"quota", "q", "quota", "r", "q", "r"} {
		b.task(fmt.Sprintf("t%d", i), map[string]types.Quantity{"cpu": 100, pools: 1000})
	}
	b.see()
	sent := b.line(3)
	if len(sent[0].before) != 2 || len(sent[2].after) != 2 {
		t.Fatalf("%d are behind the first, and the last is behind %d", len(sent[0].before), len(sent[2].after))
	}
	var answers []controlplane.Result
	for _, d := range sent {
		answers = append(answers, b.arrives(d, true))
	}
	for _, i := range []int{1, 2, 0} {
		b.done(sent[i], answers[i])
	}
	if n := b.core.depth.committed; n != 3 {
		t.Errorf("%d were counted as committed", n)
	}
	b.ends(2000)
}

// TestLineIsForgotten: the successors of a transaction are decided again if it is refused, can
// never commit, or another scheduler drew on the pool after it. Fewer are in flight for a while.
func TestLineIsForgotten(t *testing.T) {
	refuse := func(b *bench, sent []*Transaction) {
		for _, d := range sent {
			b.done(d, b.arrives(d, false))
		}
	}
	gone := func(b *bench, sent []*Transaction) { b.del(controlplane.AliveKey(firstNode(sent[0]).Name)) }
	for name, x := range map[string]struct {
		play      func(b *bench, sent []*Transaction)
		conflicts int
	}{
		"refused": {func(b *bench, sent []*Transaction) { gone(b, sent); refuse(b, sent) }, 4},
		"refused while others are to be sent again": {func(b *bench, sent []*Transaction) {
			gone(b, sent)
			refuse(b, sent[1:])
			refuse(b, sent[:1])
		}, 4},
		"refused while others wait": {func(b *bench, sent []*Transaction) {
			gone(b, sent)
			refuse(b, sent[1:])
			refuse(b, b.line(2)[:1])
			refuse(b, sent[:1])
			refuse(b, sent[2:])
		}, 4},
		"impossible": {func(b *bench, sent []*Transaction) {
			b.core.Done(sent[0], controlplane.Result{}, types.Errorf(types.Invalid, "too large"), b.now)
			refuse(b, sent[1:])
		}, 4},
		"overtaken by another task": {func(b *bench, sent []*Transaction) {
			b.done(sent[0], b.arrives(sent[0], true))
			o := b.other()
			o.core.batch = 1
			o.see()
			d, res := o.commit()
			o.done(d, res)
			refuse(b, sent[1:])
			refuse(b, b.line(2))
		}, 0},
		"said to be refused": {func(b *bench, sent []*Transaction) {
			// An earlier copy was not answered, and all its values were overwritten.
			res := b.arrives(sent[0], true)
			last := b.arrives(sent[1], true)
			b.done(sent[0], controlplane.Result{Revision: res.Revision, Read: []controlplane.KV{{}}})
			b.done(sent[1], last)
			b.done(sent[2], b.arrives(sent[2], true))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := pooled(t, 12)
			x.play(b, b.line(3))
			if len(b.core.behind) > 0 && !b.core.locked(b.core.view.Pool("d:quota")) {
				t.Error("it is drawn on before it is seen what was refused")
			}
			if b.core.depth.most != four/2 {
				t.Errorf("%d may be in flight", b.core.depth.most)
			}
			b.see()
			if n := len(b.core.retries); n != x.conflicts {
				t.Errorf("%d conflicted, want %d", n, x.conflicts)
			}
			b.ends(12_000)
		})
	}
}

// TestLineGrows: after a refusal fewer are in flight, until many have committed.
func TestLineGrows(t *testing.T) {
	d := depth{most: 1}
	for range calm*(deepest-1) - 1 {
		d.grow()
	}
	if d.most != deepest-1 {
		t.Errorf("%d", d.most)
	}
	for range 2 * calm {
		d.grow()
	}
	if d.most != deepest {
		t.Errorf("%d", d.most)
	}
}

// TestReleaseIsNotHeldUpByAPool: an amount that returns to a pool joins the next transaction on it,
// however many more tasks wait.
func TestReleaseIsNotHeldUpByAPool(t *testing.T) {
	b := pooled(t, 60)
	sent := b.line(four)
	answer := func() {
		b.done(sent[0], b.arrives(sent[0], true))
		sent = append(sent[1:], b.core.Next(b.now)...)
	}
	first := sent[0].Binds[0].Task.ID
	answer()
	b.exited(first) // the depth is exhausted
	b.see()
	for range four + 1 {
		answer()
	}
	b.expect(first, "succeeded on "+b.core.view.Task(clusterID("d", first)).Status.V.Node)
}

// firstNode returns the first node that a transaction changes; nil if it changes none.
func firstNode(d *Transaction) *cluster.Node {
	for n := range d.Nodes() {
		return n
	}
	return nil
}
