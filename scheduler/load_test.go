package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster/clustertest"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// unaudited is a bench without the audit.
func unaudited(t *testing.T) *bench {
	return &bench{t: t, store: memstore.New(), core: New(Config{FoldFrom: 1}), now: time.Unix(1000, 0)}
}

// listed is the state of the bench's store, as events.
func (b *bench) listed() (events []controlplane.Event, revision int64) {
	b.t.Helper()
	kvs, revision, err := controlplane.ListAll(b.t.Context(), b.store, controlplane.ListOptions{Prefix: controlplane.Root})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, kv := range kvs {
		events = append(events, controlplane.Event{KV: kv})
	}
	return events, revision
}

// reload passes a listing to the core in parts of up to n keys.
func (b *bench) reload(events []controlplane.Event, revision int64, n int, has func(string) bool) {
	for len(events) > 0 {
		k := min(n, len(events))
		b.core.ApplyUpdate(controlplane.Update{Events: events[:k], Synced: true, More: true}, b.now)
		events = events[k:]
	}
	b.core.ApplyUpdate(controlplane.Update{Revision: revision, Synced: true, Has: has}, b.now)
	b.seen = revision
}

// TestListingInParts: a scheduler started on a busy cluster continues, however the listing is cut.
func TestListingInParts(t *testing.T) {
	for _, n := range []int{1, 2, 7, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			b := newBench(t, Config{})
			for i := range 4 {
				b.node(fmt.Sprint("n", i), 1000)
			}
			for i := range 9 {
				b.task(fmt.Sprint("t", i), map[string]types.Quantity{"cpu": 500})
			}
			b.put(controlplane.JobKey("d", "j"), &types.Job{Tasks: 1})
			b.settle()
			b.task("member", map[string]types.Quantity{"cpu": 500}, func(t *types.Task) { t.Job = "j" })
			ended := b.core.view.Task(clusterID("d", "t0"))
			binding := ended.Bindings[0]
			b.put(controlplane.ReportKey(binding.Node.Name, "d", "t0", 1), &types.Report{Phase: types.ReportExited, Binding: binding.Info.Create})
			b.task("stopped", map[string]types.Quantity{"cpu": 9000}, func(t *types.Task) { t.Stop = &types.Stop{} })
			b.core = New(Config{FoldFrom: 1})
			events, revision := b.listed()
			b.reload(events, revision, n, nil)
			b.settle()
			b.expect("t0", "succeeded on "+binding.Node.Name)
			b.expect("stopped", "cancelled on ")
			bound := 0
			for _, id := range []string{"t8", "member"} {
				if b.where(id) != "pending" {
					bound++
				}
			}
			if bound != 1 {
				t.Errorf("%d of the tasks that waited are bound, want 1", bound)
			}
		})
	}
}

// TestReloadInParts: keys deleted before a reload, which does not mention them, leave the view.
func TestReloadInParts(t *testing.T) {
	b := unaudited(t)
	everything := map[string]types.Message{
		controlplane.NodeKey("n1"): &types.Node{}, controlplane.AliveKey("n1"): &types.Alive{},
		controlplane.CordonKey("n1"): &types.Cordon{}, controlplane.DevicesKey("n1"): &types.Devices{},
		controlplane.AllocatedKey("n1"): &types.Allocated{}, controlplane.PoolKey("d", "lic"): &types.Allocated{},
		controlplane.NamespaceKey("d"): &types.Namespace{}, controlplane.SessionKey("d", "s"): &types.Session{},
		controlplane.ResourceKey("d", "cache", "n1"): &types.Resource{}, controlplane.ResourceKey("d", "cache", types.EveryNode): &types.Resource{},
		controlplane.ResourceKey("d", "lic", types.ClusterWide): &types.Resource{}, controlplane.ProvidedKey("d", "left", "n1"): &types.Provided{},
		controlplane.JobKey("d", "j"): &types.Job{}, controlplane.TaskKey("d", "t"): &types.Task{Job: "j"},
		controlplane.StatusKey("d", "t"): &types.Status{Phase: types.Bound, Node: "n1"}, controlplane.BindingKey("n1", "d", "t", 1): &types.Binding{},
		controlplane.ReportKey("n1", "d", "t", 1): &types.Report{}, controlplane.ReservationKey("d", "r"): &types.Reservation{},
		controlplane.GrantKey("d", "r"): &types.Grant{}, controlplane.SchedulerKey("x"): &types.Leader{},
		controlplane.LeaderKey("accumulate"): &types.Leader{}, controlplane.AdmissionKey(): &types.Admission{},
	}
	for key, m := range everything {
		b.put(key, m)
	}
	unread := controlplane.TaskKey("d", "unread")
	if _, err := b.store.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{{Key: unread, Value: []byte("?")}}}); err != nil {
		t.Fatal(err)
	}
	events, revision := b.listed()
	b.reload(events, revision, 3, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		keep := rng.IntN(3)
		has := func(key string) bool { return keep > 0 && len(key)%keep == 0 }
		var want, got []string
		for _, e := range events {
			if !has(e.Key) {
				want = append(want, e.Key)
			}
		}
		for _, e := range b.core.View().Gone(revision, has) {
			got = append(got, e.Key)
		}
		if !slices.Equal(got, want) {
			t.Errorf("gone are %q, want %q", got, want)
		}
	}
	b.reload(nil, revision+1, 1, func(string) bool { return false })
	if left := b.core.View().Gone(revision+2, func(string) bool { return false }); len(left) > 0 {
		t.Errorf("left after all is gone: %v", left)
	}
}

// cut is a store whose watches end on demand, the first one with Compacted.
type cut struct {
	*memstore.Store
	end chan struct{}
}

func (s *cut) Watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	inner, cancel := context.WithCancel(ctx)
	out := make(chan controlplane.Batch)
	in := s.Store.Watch(inner, opts)
	go func() {
		defer cancel()
		defer close(out)
		for {
			select {
			case batch, ok := <-in:
				if !ok {
					return
				}
				select {
				case out <- batch:
				case <-ctx.Done():
				}
			case <-s.end:
				s.end = nil
				out <- controlplane.Batch{Err: types.Errorf(types.Compacted, "cut")}
				return
			}
		}
	}()
	return out
}

// TestRunReloads: the loop applies a listing in parts, and another one after the watch was lost for
// good, in which a known task is gone.
func TestRunReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := unaudited(t)
		b.node("n1", 1000)
		b.task("a", map[string]types.Quantity{"cpu": 600})
		b.task("b", map[string]types.Quantity{"cpu": 600}, func(t *types.Task) { t.Submitted++ })
		store := &cut{Store: b.store, end: make(chan struct{})}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Run(ctx, store, Config{}, zap.NewNop()) }()
		synctest.Wait()
		b.see()
		b.expect("a", "bound on n1")
		b.expect("b", "pending")
		store.end <- struct{}{}
		b.del(controlplane.TaskKey("d", "b"))
		b.node("n2", 1000)
		b.task("c", map[string]types.Quantity{"cpu": 1000})
		time.Sleep(time.Minute) // in the bubble: it waits before it lists again
		synctest.Wait()
		b.see()
		b.expect("c", "bound on n2")
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// BenchmarkLoad: the cost of starting a scheduler on a cluster of 100,000 bound tasks, up to its
// first transaction.
func BenchmarkLoad(b *testing.B) {
	const tasks, part = 100_000, 5000
	events := clustertest.Events(clustertest.Bound(tasks/100, tasks))
	waiting := controlplane.Event{KV: controlplane.KV{
		Key: controlplane.TaskKey("default", "probe"), CreateRevision: 1 << 30, ModRevision: 1 << 30,
		Value: types.Encode(1, &types.Task{Submitted: 1, Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1})}),
	}}
	events = append(events, waiting)
	b.ReportAllocs()
	for b.Loop() {
		core := New(Config{Limits: controlplane.Limits{Ops: 128, Bytes: 1 << 20}})
		for i := 0; i < len(events); i += part {
			core.ApplyUpdate(controlplane.Update{Events: events[i:min(i+part, len(events))], Synced: true, More: true}, time.Unix(0, 1))
		}
		core.ApplyUpdate(controlplane.Update{Revision: 1 << 30, Synced: true}, time.Unix(0, 1))
		if drafts := core.Next(time.Unix(0, 1)); len(drafts) != 1 || len(drafts[0].Binds) != 1 {
			b.Fatal(drafts)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*tasks), "ns/task")
}
