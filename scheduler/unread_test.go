package scheduler

import (
	"context"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// garble writes an unreadable value.
func (b *bench) garble(key string) {
	b.t.Helper()
	txn := controlplane.Txn{Ops: []controlplane.Op{{Key: key, Value: []byte("\x7fof a version to come")}}}
	if res, err := b.store.Commit(context.Background(), txn); err != nil || !res.Committed {
		b.t.Fatal(res, err)
	}
}

// newGarbledBench is a bench without the audit, which would report unreadable keys.
func newGarbledBench(t *testing.T) *bench {
	return &bench{t: t, store: memstore.New(), core: New(Config{}), now: time.Unix(1000, 0)}
}

// TestUnreadableValuesCountAsAbsent: for any unreadable key the scheduler settles, reports it once,
// and everything else continues.
func TestUnreadableValuesCountAsAbsent(t *testing.T) {
	for name, key := range map[string]string{
		"node": controlplane.NodeKey("n2"), "session": controlplane.AliveKey("n2"), "cordon": controlplane.CordonKey("n2"),
		"devices": controlplane.DevicesKey("n2"), "allocated": controlplane.AllocatedKey("n2"),
		"task": controlplane.TaskKey("d", "x"), "status": controlplane.StatusKey("d", "on2"), "job": controlplane.JobKey("d", "j"),
		"binding": controlplane.BindingKey("n2", "d", "on2", 1), "report": controlplane.ReportKey("n2", "d", "on2", 1),
		"namespace": controlplane.NamespaceKey("d"), "resource": controlplane.ResourceKey("d", "x", "n1"),
		"everywhere": controlplane.ResourceKey("d", "x", types.EveryNode), "pool": controlplane.ResourceKey("d", "x", types.ClusterWide),
		"pool in use": controlplane.PoolKey("d", "lic"), "reservation": controlplane.ReservationKey("d", "r"),
		"grant": controlplane.GrantKey("d", "r"), "leader": controlplane.LeaderKey(grants.GrantRole),
	} {
		t.Run(name, func(t *testing.T) {
			b := newGarbledBench(t)
			b.node("n1", 4000)
			b.node("n2", 1000)
			b.put(controlplane.ResourceKey("d", "lic", types.ClusterWide), &types.Resource{Capacity: 1000})
			b.task("on2", map[string]types.Quantity{"cpu": 100, "node/n2": 1, "lic": 100})
			b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{
				Bundles: []types.Bundle{{Node: "n1", Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}},
			})
			b.settle()
			b.garble(key)
			b.put(controlplane.ReservationKey("d", "r2"), &types.Reservation{
				Accumulate: true, Submitted: b.now.UnixNano(), Bundles: []types.Bundle{bundleOf(map[string]types.Quantity{"cpu": 1000})},
				Collect: &types.Collect{On: []string{"n1"}},
			})
			b.task("t1", map[string]types.Quantity{"cpu": 100, "node/n1": 1})
			b.now = b.now.Add(time.Minute)
			b.settle()
			if name == "namespace" {
				b.expect("t1", "pending") // its quotas are unknown
			} else {
				b.expect("t1", "bound on n1")
			}
			if errs := b.core.Unread(); len(errs) != 1 || !types.Is(errs[0], types.Internal) {
				t.Errorf("it says %v", errs)
			}
			if b.core.InFlight() > 0 || len(b.core.behind) > 0 {
				t.Error("it is not at rest")
			}
		})
	}
}

// TestUnknownUseIsNotOverwritten: the allocated amounts of a node are not written while they are
// unreadable, and are once they are readable again.
func TestUnknownUseIsNotOverwritten(t *testing.T) {
	for _, key := range []string{controlplane.AllocatedKey("n1"), controlplane.PoolKey("d", "lic")} {
		b := newGarbledBench(t)
		b.node("n1", 4000)
		b.put(controlplane.ResourceKey("d", "lic", types.ClusterWide), &types.Resource{Capacity: 1000})
		b.task("a", map[string]types.Quantity{"cpu": 100, "lic": 100})
		b.task("b", map[string]types.Quantity{"cpu": 100, "lic": 100})
		b.settle()
		page, err := b.store.List(t.Context(), controlplane.ListOptions{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		b.garble(key)
		b.exited("a")
		b.task("c", map[string]types.Quantity{"cpu": 100, "lic": 100})
		b.settle()
		b.expect("a", "bound on n1")
		b.expect("c", "pending")
		txn := controlplane.Txn{Ops: []controlplane.Op{{Key: key, Value: page.KVs[0].Value}}}
		if _, err := b.store.Commit(t.Context(), txn); err != nil {
			t.Fatal(err)
		}
		b.settle()
		b.expect("a", "succeeded on n1")
		b.expect("c", "bound on n1")
	}
}

// TestUnreadableNamespace: while the settings of a namespace are unreadable, nothing of it is
// bound, granted or collected; other namespaces continue, and bound tasks end as usual. Once it is
// readable, or deleted, its tasks are placed.
func TestUnreadableNamespace(t *testing.T) {
	key := controlplane.NamespaceKey("d")
	for name, again := range map[string]func(b *bench){
		"readable": func(b *bench) { b.put(key, &types.Namespace{}) },
		"gone":     func(b *bench) { b.del(key) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newGarbledBench(t)
			b.node("n1", 4000)
			b.task("before", map[string]types.Quantity{"cpu": 100})
			b.settle()
			b.garble(key)
			b.task("a", map[string]types.Quantity{"cpu": 100})
			b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{
				Accumulate: true, Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}},
			})
			b.put(controlplane.ReservationKey("e", "r"), &types.Reservation{
				Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}},
			})
			b.settle()
			b.now = b.now.Add(time.Minute)
			b.settle()
			b.exited("before")
			b.settle()
			b.expect("before", "succeeded on n1")
			b.expect("a", "pending")
			granted := func(ns string) bool {
				r := b.core.view.Reservations[cluster.ID{Namespace: ns, ID: "r"}]
				return r != nil && r.Grant.V != nil
			}
			if granted("d") || !granted("e") {
				t.Error("it grants what it may not, or not what it may")
			}
			again(b)
			b.settle()
			b.expect("a", "bound on n1")
			if !granted("d") {
				t.Error("the reservation is not granted")
			}
		})
	}
}
