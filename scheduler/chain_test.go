package scheduler

import (
	"fmt"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// four is more than are in flight on one pool by default: several pools make longer lines.
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

// inUse is how much of the pool is, as the core knows.
func (b *bench) inUse() types.Quantity {
	p := b.core.view.Pool("d:quota")
	if p.Allocated.V == nil {
		return 0
	}
	return p.Allocated.V.Of("d:quota")
}

// line lets the core decide, and expects so many transactions.
func (b *bench) line(n int) []*Draft {
	b.t.Helper()
	drafts := b.core.Next(b.now)
	if len(drafts) != n {
		b.t.Fatalf("%d drafts, want %d", len(drafts), n)
	}
	return drafts
}

// arrives commits a draft.
func (b *bench) arrives(d *Draft, committed bool) controlplane.Result {
	b.t.Helper()
	res, err := b.store.Commit(b.t.Context(), d.Change.Txn())
	if err != nil || res.Committed != committed {
		b.t.Fatal(res, err)
	}
	return res
}

// ends lets all be placed, of which so much is in use then, and nothing be left.
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

// TestPoolInFlight: several transactions that draw on a pool are in flight, no more than
// allowed, each on what the one before it leaves.
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

// TestPoolIsNotOverdrawn: those in flight are counted.
func TestPoolIsNotOverdrawn(t *testing.T) {
	b := pooled(t, 12)
	b.put(controlplane.ResourceKey("d", "quota", types.ClusterWide), &types.Resource{Capacity: 6000})
	b.see()
	for _, d := range b.line(2) {
		b.done(d, b.arrives(d, true))
	}
	b.ends(6000)
}

// TestOvertakenIsSentAgain: what overtakes the one before it is sent again as it is, with those
// behind it, before anything else; that was no conflict.
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
	b.done(sent[3], b.arrives(sent[3], true)) // it took its time
	if len(b.core.retries) > 0 || b.core.depth.most != four {
		t.Errorf("%v conflicted, %d may be in flight", b.core.retries, b.core.depth.most)
	}
	b.ends(20_000)
}

// TestBehindTheUnanswered: what was refused twice while the one before it is not answered
// waits for that, and so does all behind it.
func TestBehindTheUnanswered(t *testing.T) {
	b := pooled(t, 12)
	sent := b.line(3)
	refuse := func(d *Draft) { b.done(d, b.arrives(d, false)) }
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

// TestAnswersOvertake: what was committed counts when it is known of the one before, and
// is behind that in the view.
func TestAnswersOvertake(t *testing.T) {
	b := pooled(t, 12)
	sent := b.line(3)
	var answers []controlplane.Result
	for _, d := range sent {
		answers = append(answers, b.arrives(d, true))
	}
	b.done(sent[2], answers[2])
	b.done(sent[1], answers[1])
	if b.inUse() != 0 || !b.core.locked(sent[1].order[0].node) {
		t.Error("it counts")
	}
	b.done(sent[0], answers[0])
	if b.inUse() != 12_000 {
		t.Errorf("%d are in use", b.inUse())
	}
	b.ends(12_000)
}

// TestBehindTwo: of three transactions, of which each is behind those before it on another
// pool, each counts once, in whatever order they are answered.
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

// TestLineIsForgotten: what is behind a transaction that is refused, can never be
// committed, or after which somebody else drew on the pool, is decided anew; fewer are in
// flight for a while.
func TestLineIsForgotten(t *testing.T) {
	refuse := func(b *bench, sent []*Draft) {
		for _, d := range sent {
			b.done(d, b.arrives(d, false))
		}
	}
	gone := func(b *bench, sent []*Draft) { b.del(controlplane.AliveKey(sent[0].order[0].node.Name)) }
	for name, x := range map[string]struct {
		play      func(b *bench, sent []*Draft)
		conflicts int
	}{
		"refused": {func(b *bench, sent []*Draft) { gone(b, sent); refuse(b, sent) }, 4},
		"refused while others are to be sent again": {func(b *bench, sent []*Draft) {
			gone(b, sent)
			refuse(b, sent[1:])
			refuse(b, sent[:1])
		}, 4},
		"refused while others wait": {func(b *bench, sent []*Draft) {
			gone(b, sent)
			refuse(b, sent[1:])
			refuse(b, b.line(2)[:1])
			refuse(b, sent[:1])
			refuse(b, sent[2:])
		}, 4},
		"impossible": {func(b *bench, sent []*Draft) {
			b.core.Done(sent[0], controlplane.Result{}, types.Errorf(types.Invalid, "too large"), b.now)
			refuse(b, sent[1:])
		}, 4},
		"overtaken by somebody else": {func(b *bench, sent []*Draft) {
			b.done(sent[0], b.arrives(sent[0], true))
			o := b.other()
			o.core.batch = 1
			o.see()
			d, res := o.commit()
			o.done(d, res)
			refuse(b, sent[1:])
			refuse(b, b.line(2))
		}, 0},
		"said to be refused": {func(b *bench, sent []*Draft) {
			// An earlier copy was not answered, and all that it put is overwritten.
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

// TestLineGrows: after a refusal there are fewer in flight, until many were committed.
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

// TestReleaseIsNotHeldUpByAPool: what returns to a pool goes with the next transaction that
// draws on it, however many more wait.
func TestReleaseIsNotHeldUpByAPool(t *testing.T) {
	b := pooled(t, 60)
	sent := b.line(four)
	answer := func() {
		b.done(sent[0], b.arrives(sent[0], true))
		sent = append(sent[1:], b.core.Next(b.now)...)
	}
	first := sent[0].Binds[0].Task.ID
	answer()
	b.exited(first) // as many are in flight as may be
	b.see()
	for range four + 1 {
		answer()
	}
	b.expect(first, "succeeded on "+b.core.view.Task(clusterID("d", first)).Status.V.Node)
}
