package keep

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/esl/collect"
	"github.com/escher-sched/escher/types"
)

// TestPanicOfCollections: a panic while collections are decided ends neither the loop nor policies;
// the next decision comes later.
func TestPanicOfCollections(t *testing.T) {
	k := newLoop(memstore.New(), Options{Collect: &collect.Config{}, Log: zap.NewNop()})
	id := cluster.ID{Namespace: "d", ID: "r"}
	value := types.Encode(1, &types.Reservation{Accumulate: true, Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1})}}})
	key, _, err := k.view.Apply(controlplane.Event{KV: controlplane.KV{Key: controlplane.ReservationKey(id.Namespace, id.ID), Value: value, CreateRevision: 1, ModRevision: 1}})
	if err != nil {
		t.Fatal(err)
	}
	k.collections.touch(k.view, key)
	k.view = nil // a decision panics
	now := time.Now()
	k.collect(t.Context(), now)
	if c := &k.collections; c.failures != 1 || !c.retry.After(now) || c.busy || c.said == "" {
		t.Errorf("%d failures, again at %s, busy %t, said %q", c.failures, c.retry, c.busy, c.said)
	}
}
