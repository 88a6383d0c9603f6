package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// TestNextDrain decides which attempts to tell, by mode, time and number of leaving ones.
func TestNextDrain(t *testing.T) {
	now := time.Unix(100, 0)
	past, later := now.UnixNano(), now.UnixNano()+1
	for _, c := range []struct {
		cordon         types.Cordon
		there, leaving int
		want           int
	}{
		{types.Cordon{}, 3, 0, 0},
		{types.Cordon{DrainBy: past}, 3, 0, 0},
		{types.Cordon{Drain: types.DrainFinish}, 3, 0, 0},
		{types.Cordon{Drain: types.DrainFinish, DrainBy: later}, 3, 0, 0},
		{types.Cordon{Drain: types.DrainFinish, DrainBy: past}, 3, 0, 3},
		{types.Cordon{Drain: types.DrainMove}, 3, 1, 2},
		{types.Cordon{Drain: types.DrainStop}, 3, 3, 0},
		{types.Cordon{Drain: types.DrainMove}, 100, 0, drainAtOnce},
		{types.Cordon{Drain: types.DrainMove}, 100, 30, drainAtOnce - 30},
		{types.Cordon{Drain: types.DrainMove}, 100, 50, 0},
		{types.Cordon{Drain: "of a version to come"}, 3, 0, 0},
	} {
		there := make([]boundHere, c.there)
		for i := range there {
			there[i] = boundHere{attempt: attempt{key: fmt.Sprint(i)}, leaving: i < c.leaving, told: i < c.leaving}
		}
		got := nextDrain(&c.cordon, there, now)
		if len(got) != c.want || len(got) > 0 && got[0].key != fmt.Sprint(c.leaving) {
			t.Errorf("%+v, %d of %d leaving: told %v, want %d", c.cordon, c.leaving, c.there, got, c.want)
		}
	}
}

// TestNextDrainTellsAgain checks that attempts leaving under another cordon, or for another reason,
// are told too. They count against the limit, but do not need a slot.
func TestNextDrainTellsAgain(t *testing.T) {
	there := make([]boundHere, drainAtOnce+8)
	for i := range there {
		there[i] = boundHere{attempt: attempt{key: fmt.Sprint(i)}, leaving: i >= 8}
	}
	if got := nextDrain(&types.Cordon{Drain: types.DrainMove}, there, time.Now()); len(got) != drainAtOnce || got[0].key != "8" {
		t.Errorf("told %v", got)
	}
}

// TestDrainedAsSaidLast drains a node in several ways, one after the other: each one applies as far
// as it ends attempts sooner, or for good.
func TestDrainedAsSaidLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		spec := &types.Spec{Image: "i", Grace: 20 * time.Second}
		write(t, s, put{controlplane.SpecKey("ns", "digest"), spec}, put{controlplane.BindingKey("n1", "ns", "a", 3), &types.Binding{}})
		write(t, s, aTask("a", types.Task{Spec: "digest"}))
		_ = draintest(t, nil, s, func(pass func()) {
			for i, c := range []struct {
				mode        types.DrainMode
				grace       time.Duration
				evict, stop time.Duration // -1 means that it is not told
			}{
				{types.DrainMove, 0, 0, -1},
				{types.DrainMove, time.Minute, 0, -1}, // longer than the spec's
				{types.DrainMove, 9 * time.Second, 9 * time.Second, -1},
				{types.DrainMove, 0, 9 * time.Second, -1},
				{types.DrainStop, 10 * time.Second, 9 * time.Second, 9 * time.Second},
				{types.DrainStop, 2 * time.Second, 9 * time.Second, 2 * time.Second},
				{types.DrainMove, time.Second, 9 * time.Second, time.Second},
				{types.DrainStop, 0, 9 * time.Second, time.Second},
			} {
				write(t, s, put{controlplane.CordonKey("n1"), &types.Cordon{Drain: c.mode, Grace: c.grace}})
				pass()
				pass()
				got := taskOf(t, s, "a")
				stop := time.Duration(-1)
				if got.Stop != nil {
					stop = got.Stop.Grace
				}
				if got.Evict != 3 || got.EvictGrace != c.evict || stop != c.stop {
					t.Errorf("drain %d: evicted in attempt %d with %s, %+v; want %+v", i, got.Evict, got.EvictGrace, got.Stop, c)
				}
				write(t, s, put{controlplane.BindingKey("n1", "ns", "a", 3), &types.Binding{Stop: got.Leaving(3)}})
			}
		})
	})
}

// bound returns the keys of a bound task with an attempt.
func bound(node, id string, number int) []put {
	return []put{
		aTask(id, types.Task{}),
		{controlplane.BindingKey(node, "ns", id, number), &types.Binding{}},
	}
}

// draintest runs a drainer in a bubble, and calls body after the first pass.
func draintest(t *testing.T, guard []controlplane.Compare, s *memstore.Store, body func(pass func())) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	d := NewDrainer(s, guard, Options{Logger: zaptest.NewLogger(t)})
	go func() { ended <- d.Run(ctx) }()
	pass := func() {
		pass, stop := context.WithTimeout(t.Context(), drainGap)
		defer stop()
		<-pass.Done()
		synctest.Wait()
	}
	pass()
	body(pass)
	cancel()
	return <-ended
}

func taskOf(t *testing.T, s controlplane.Store, id string) *types.Task {
	t.Helper()
	page, err := s.List(t.Context(), controlplane.ListOptions{Key: controlplane.TaskKey("ns", id)})
	if err != nil || len(page.KVs) != 1 {
		t.Fatalf("task %s: %+v, %v", id, page, err)
	}
	task := new(types.Task)
	if err := types.Decode(page.KVs[0].Value, task); err != nil {
		t.Fatal(err)
	}
	return task
}

// TestDrainMoves evicts the present attempts on a node under drain, and none on others.
func TestDrainMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		write(t, s, bound("n1", "a", 3)...)
		write(t, s, bound("n2", "b", 1)...)
		write(t, s, bound("n3", "c", 1)...)
		write(t, s, put{controlplane.CordonKey("n1"), &types.Cordon{Drain: types.DrainMove}}, put{controlplane.CordonKey("n2"), &types.Cordon{}})
		err := draintest(t, nil, s, func(pass func()) {
			pass()
			revision := s.Revision()
			pass()
			if got := taskOf(t, s, "a"); got.Evict != 3 || got.Stop != nil {
				t.Errorf("a: %+v", got)
			}
			for _, id := range []string{"b", "c"} {
				if got := taskOf(t, s, id); got.Evict != 0 || got.Stop != nil {
					t.Errorf("%s: %+v", id, got)
				}
			}
			if s.Revision() != revision {
				t.Error("it is told twice")
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestDrainMovesWithGrace evicts attempts with the grace of the cordon.
func TestDrainMovesWithGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		write(t, s, bound("n1", "a", 3)...)
		write(t, s, put{controlplane.CordonKey("n1"), &types.Cordon{Drain: types.DrainMove, Grace: 7 * time.Second}})
		_ = draintest(t, nil, s, func(pass func()) {
			pass()
			if got := taskOf(t, s, "a"); got.Evict != 3 || got.EvictGrace != 7*time.Second {
				t.Errorf("a: %+v", got)
			}
		})
	})
}

// TestDrainFinish lets attempts end by themselves until the deadline, and then evicts them. If the
// cordon is removed before that, they stay.
func TestDrainFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		write(t, s, bound("n1", "a", 1)...)
		write(t, s, bound("n2", "b", 1)...)
		by := &types.Cordon{Drain: types.DrainFinish, DrainBy: time.Now().Add(4 * drainGap).UnixNano()}
		write(t, s, put{controlplane.CordonKey("n1"), by}, put{controlplane.CordonKey("n2"), by})
		err := draintest(t, nil, s, func(pass func()) {
			pass()
			if got := taskOf(t, s, "a"); got.Evict != 0 {
				t.Error("it is evicted before its time")
			}
			remove(t, s, controlplane.CordonKey("n2"))
			for range 4 {
				pass()
			}
			if got := taskOf(t, s, "a"); got.Evict != 1 {
				t.Error("it is not evicted")
			}
			if got := taskOf(t, s, "b"); got.Evict != 0 {
				t.Error("it is evicted from a node that is not drained any more")
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestDrainStops stops tasks for good, with the grace and the reason of the cordon.
func TestDrainStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		write(t, s, bound("n1", "a", 1)...)
		write(t, s, put{controlplane.CordonKey("n1"), &types.Cordon{Drain: types.DrainStop, Reason: "disk", Grace: time.Second}})
		_ = draintest(t, nil, s, func(pass func()) {
			pass()
			if got := taskOf(t, s, "a").Stop; got == nil || got.Reason != "node n1 is drained: disk" || got.Grace != time.Second {
				t.Errorf("a: %+v", got)
			}
		})
	})
}

// TestDrainIsBounded checks the limit of leaving attempts, also when another drainer takes over,
// and that the drain continues when some have left.
func TestDrainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		const n = drainAtOnce + 8
		for i := range n {
			write(t, s, bound("n1", fmt.Sprintf("t%02d", i), 1)...)
		}
		write(t, s, put{controlplane.CordonKey("n1"), &types.Cordon{Drain: types.DrainMove}})
		evicted := func() int {
			count := 0
			for i := range n {
				count += taskOf(t, s, fmt.Sprintf("t%02d", i)).Evict
			}
			return count
		}
		_ = draintest(t, nil, s, func(pass func()) {
			pass()
			pass()
			if got := evicted(); got != drainAtOnce {
				t.Errorf("%d leave at a time", got)
			}
		})
		// Told attempts leave, as their bindings say.
		for i := range drainAtOnce {
			key := controlplane.BindingKey("n1", "ns", fmt.Sprintf("t%02d", i), 1)
			write(t, s, put{key, &types.Binding{Stop: &types.Stop{Evicted: true}}})
		}
		_ = draintest(t, nil, s, func(pass func()) {
			pass()
			if got := evicted(); got != drainAtOnce {
				t.Errorf("%d leave at a time", got)
			}
			for i := range 5 {
				remove(t, s, controlplane.BindingKey("n1", "ns", fmt.Sprintf("t%02d", i), 1))
			}
			pass()
			pass()
			if got := evicted(); got != drainAtOnce+5 {
				t.Errorf("%d were told, want 5 more", got)
			}
		})
	})
}

// before is a store in which an event happens just before a commit.
type before struct {
	*memstore.Store
	do func()
}

func (b *before) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	if do := b.do; do != nil {
		b.do = nil
		do()
	}
	return b.Store.Commit(ctx, txn)
}

// TestDrainComparesWhatItGoesBy changes what a decision relied on just before the commit, which
// must fail.
func TestDrainComparesWhatItGoesBy(t *testing.T) {
	leads := controlplane.LeaderKey("collector")
	for _, c := range []struct {
		name     string
		meet     func(s *memstore.Store)
		conflict bool
	}{
		{"uncordoned", func(s *memstore.Store) { remove(t, s, controlplane.CordonKey("n1")) }, false},
		{"cordoned otherwise", func(s *memstore.Store) {
			write(t, s, put{controlplane.CordonKey("n1"), &types.Cordon{Drain: types.DrainFinish}})
		}, false},
		{"attempt over", func(s *memstore.Store) { remove(t, s, controlplane.BindingKey("n1", "ns", "a", 1)) }, false},
		{"stopped", func(s *memstore.Store) { write(t, s, aTask("a", types.Task{Stop: &types.Stop{}})) }, false},
		{"another leads", func(s *memstore.Store) { remove(t, s, leads) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &before{Store: memstore.New()}
			write(t, s, put{leads, &types.Leader{}})
			lead := s.Revision()
			write(t, s, bound("n1", "a", 1)...)
			write(t, s, put{controlplane.CordonKey("n1"), &types.Cordon{Drain: types.DrainMove}})
			d := NewDrainer(s, []controlplane.Compare{created(leads, lead)}, Options{})
			page, err := s.List(t.Context(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Cordons)})
			if err != nil {
				t.Fatal(err)
			}
			if err := d.apply(controlplane.Update{Events: []controlplane.Event{{KV: page.KVs[0]}}}); err != nil {
				t.Fatal(err)
			}
			s.do = func() { c.meet(s.Store) }
			err = d.runPass(t.Context(), time.Now())
			if c.conflict != types.Is(err, types.Conflict) || !c.conflict && err != nil {
				t.Errorf("it ended with %v", err)
			}
			if s.do != nil {
				t.Error("nothing was written")
			}
			if got := taskOf(t, s, "a"); got.Evict != 0 {
				t.Error("it is evicted all the same")
			}
			if c.conflict && !strings.Contains(err.Error(), "another one leads") {
				t.Error(err)
			}
		})
	}
}

// TestDrainGoesOnPastWhatDoesNotEnd checks that attempts that outlive their grace do not keep
// others from leaving.
func TestDrainGoesOnPastWhatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		const n = 2*drainAtOnce + 8
		for i := range n {
			write(t, s, bound("n1", fmt.Sprintf("t%02d", i), 1)...)
		}
		write(t, s, put{controlplane.CordonKey("n1"), &types.Cordon{Drain: types.DrainMove, Grace: 20 * time.Second}})
		evicted := func() int {
			count := 0
			for i := range n {
				count += taskOf(t, s, fmt.Sprintf("t%02d", i)).Evict
			}
			return count
		}
		_ = draintest(t, nil, s, func(pass func()) {
			pass()
			for _, want := range []int{drainAtOnce, 2 * drainAtOnce, n} {
				if got := evicted(); got != want {
					t.Errorf("%d were told, want %d", got, want)
				}
				time.Sleep(20*time.Second + stuckAfter - 3*time.Second)
				pass()
				if got := evicted(); got != want {
					t.Errorf("%d were told before their time", got)
				}
				time.Sleep(3 * time.Second)
				pass()
			}
		})
	})
}
