package collecting

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/types"
)

// TestBackfillNeedsItsPools: capacity lent by a reservation does not replace a missing license.
func TestBackfillNeedsItsPools(t *testing.T) {
	b := newBench(t, config{after: time.Second})
	b.node("n1", 1000)
	b.put(controlplane.ResourceKey("d", "lic", types.ClusterWide), &types.Resource{Capacity: 1})
	b.task("long", map[string]types.Quantity{"cpu": 500, "lic": 1}, func(t *types.Task) { t.MaxRun = time.Hour })
	b.settle()
	b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{
		Accumulate: true, Submitted: b.now.UnixNano(),
		Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}},
	})
	b.now = b.now.Add(2 * time.Second)
	b.settle()
	b.task("short", map[string]types.Quantity{"cpu": 10, "lic": 1}, func(t *types.Task) { t.MaxRun = time.Second })
	b.settle()
	b.expect("short", "pending")
	b.task("shorter", map[string]types.Quantity{"cpu": 10}, func(t *types.Task) { t.MaxRun = time.Second })
	b.settle()
	b.expect("shorter", "bound on n1")
}

// collected returns what the accumulating reservation holds on n1.
func (b *bench) collected() types.Quantity {
	r := b.core.View().Reservations[clusterID("d", "r")]
	if r == nil || r.Grant.V == nil {
		return 0
	}
	return grants.HeldOf(r.Grant.V.On("n1"), types.CPU)
}

// TestCollectsAfterARefusal: a collection refused because of an unrelated change happens without
// newly free capacity.
func TestCollectsAfterARefusal(t *testing.T) {
	b := newBench(t, config{after: time.Second})
	b.node("n1", 1000)
	b.task("hog", map[string]types.Quantity{"cpu": 400})
	b.settle()
	b.put(controlplane.ReservationKey("d", "r"), b.large())
	b.settle()
	b.now = b.now.Add(2 * time.Second)
	b.direct()
	b.see()
	drafts := b.core.Next(b.now)
	b.put(controlplane.NamespaceKey("d"), &types.Namespace{})
	res, err := b.store.Commit(t.Context(), drafts[0].Change.Txn())
	if err != nil || res.Committed {
		t.Fatal(res, err)
	}
	b.done(drafts[0], res)
	b.settle()
	if got := b.collected(); got != 600 {
		t.Errorf("it has collected %d", got)
	}
}

// TestCollectsWhatWasInFlight: what a transaction in flight leaves of a node is collected once it
// is answered.
func TestCollectsWhatWasInFlight(t *testing.T) {
	b := newBench(t, config{after: time.Second})
	b.node("n1", 1000)
	b.task("hog", map[string]types.Quantity{"cpu": 400})
	b.settle()
	b.put(controlplane.ReservationKey("d", "r"), b.large())
	b.settle()
	b.task("small", map[string]types.Quantity{"cpu": 1})
	b.see()
	bind, bound := b.commit()
	b.now = b.now.Add(2 * time.Second)
	b.direct()
	b.see()
	begin, begun := b.commit() // it begins to accumulate, and n1 is in flight
	b.done(bind, bound)
	b.done(begin, begun)
	b.settle()
	if got := b.collected(); got != 599 {
		t.Errorf("it has collected %d", got)
	}
}

// TestCompletedWhenAQuotaGoes: a reservation that no longer lacks anything is granted without newly
// free capacity.
func TestCompletedWhenAQuotaGoes(t *testing.T) {
	b := newBench(t, config{after: time.Second})
	b.node("n1", 1000)
	b.node("n2", 1000)
	b.put(controlplane.ResourceKey("admin", "q", types.ClusterWide), &types.Resource{Capacity: 1000},
		controlplane.NamespaceKey("d"), &types.Namespace{Quotas: []types.Quota{{Resource: types.CPU, Pool: "admin:q"}}})
	b.task("on2", map[string]types.Quantity{"cpu": 400, "node/n2": 1})
	b.settle()
	b.put(controlplane.ReservationKey("d", "r"), b.large())
	b.now = b.now.Add(2 * time.Second)
	b.settle()
	if got := b.collected(); got != 1000 {
		t.Errorf("it has collected %d", got)
	}
	b.del(controlplane.NamespaceKey("d"))
	b.settle()
	if g := b.core.View().Reservations[clusterID("d", "r")].Grant.V; g.Phase != types.Granted {
		t.Errorf("it is %s", g.Phase)
	}
}
