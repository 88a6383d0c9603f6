package controlplane_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// bundles returns n bundles of one cpu each.
func bundles(n int) types.Reservation {
	r := types.Reservation{Bundles: make([]types.Bundle, n)}
	for i := range r.Bundles {
		r.Bundles[i].Requests = types.Requests{{Name: "cpu", Amount: 1000}}
	}
	return r
}

func TestReserveAndUnreserve(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	r := bundles(3)
	r.Bundles[0].Node = "n1"
	if err := w.Reserve(t.Context(), "train", r); err != nil {
		t.Fatal(err)
	}
	var got types.Reservation
	if !w.get(controlplane.ReservationKey("team", "train"), &got) || len(got.Bundles) != 3 || got.Submitted == 0 {
		t.Errorf("%+v", got)
	}
	w.refused(types.AlreadyExists, func() error { return w.Reserve(t.Context(), "train", r) }, "reservation train", "choose another id")
	if err := w.Unreserve(t.Context(), "train"); err != nil {
		t.Fatal(err)
	}
	w.refused(types.NotFound, func() error { return w.Unreserve(t.Context(), "train") }, "no reservation train in namespace team")
	w.refused(types.Invalid, func() error { return w.Unreserve(t.Context(), "a/b") })
	if err := w.Reserve(t.Context(), "train", r); err != nil {
		t.Error(err)
	}
}

func TestReserveRefuses(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	unknown, session, both, policy, nowhere := bundles(2), bundles(1), bundles(1), bundles(1), bundles(1)
	policy.Policy, nowhere.Collect = "q", &types.Collect{HandOver: true}
	unknown.Bundles[1].Node = "n9"
	session.Session = "s-1"
	both.Bundles[0].Requests[0].Amount = 0
	for name, c := range map[string]struct {
		id    string
		r     types.Reservation
		class types.Class
		says  []string
	}{
		"id":      {"a b", both, types.Invalid, []string{"id: ", "bundles[0].requests.cpu: 0"}},
		"empty":   {"train", types.Reservation{}, types.Invalid, []string{"bundles: is empty"}},
		"policy":  {"train", policy, types.Precondition, []string{`policy: there is no policy "q"`}},
		"nowhere": {"train", nowhere, types.Invalid, []string{"collect.on: has 0 nodes for 1 bundles"}},
		"node":    {"train", unknown, types.Invalid, []string{`bundles[1].node: "n9" is unknown`, "such as n1"}},
		"session": {"train", session, types.Precondition, []string{`no session "s-1"`}},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			w.refused(c.class, func() error { return w.Reserve(t.Context(), c.id, c.r) }, c.says...)
		})
	}
}

// A reservation may span any number of nodes, whatever the limit of operations, unless it collects
// for its job: the hand-over is one transaction.
func TestReserveLargerThanATransaction(t *testing.T) {
	w := newWorld(t, memstore.WithLimits(controlplane.Limits{Ops: 128, Bytes: 1536 << 10}))
	for i := range 40 {
		w.node("n" + strings.Repeat("i", i+1))
	}
	on := func(nodes int) types.Reservation {
		r := bundles(nodes + 30)
		for i := range r.Bundles {
			r.Bundles[i].Node = "n" + strings.Repeat("i", max(1, i-29))
		}
		return r
	}
	for id, r := range map[string]types.Reservation{"anywhere": bundles(4000), "named": on(40)} {
		if err := w.Reserve(t.Context(), id, r); err != nil {
			t.Error(err)
		}
	}
	some, many := on(28), on(29)
	some.Collect, many.Collect = types.NewCollect(some.Bundles, true), types.NewCollect(many.Bundles, true)
	kept := on(40)
	kept.Collect = types.NewCollect(kept.Bundles, false)
	if err := w.Reserve(t.Context(), "kept", kept); err != nil {
		t.Error(err)
	}
	if err := w.Reserve(t.Context(), "some", some); err != nil {
		t.Error(err)
	}
	w.refused(types.Invalid, func() error { return w.Reserve(t.Context(), "many", many) },
		"on 29 nodes", "takes 128 at once", "at most 28", "--max-txn-ops")
}

func TestReserveNotAnswered(t *testing.T) {
	for _, fates := range [][]fate{{lost}, {forgotten}, {late}, {late, lost}, {lost, lost}, {unavailable, lost}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1")
			w.lossy.next(fates...)
			if err := w.Reserve(t.Context(), "train", bundles(1)); err != nil || w.writes(controlplane.ReservationKey("team", "train")) != 1 {
				t.Errorf("%v: %v, written %d times", fates, err, w.writes(controlplane.ReservationKey("team", "train")))
			}
			w.lossy.next(fates...)
			if err := w.Unreserve(t.Context(), "train"); err != nil || w.has1(controlplane.ReservationKey("team", "train")) {
				t.Errorf("%v: %v", fates, err)
			}
		})
	}
}

// A reservation that was created without an answer, and deleted by another client, is not created
// again.
func TestReserveLateIsNotMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node("n1")
		w.lossy.next(lost)
		w.lossy.before = func(n int) {
			if n == 2 {
				w.put(controlplane.ReservationKey("team", "train"), &types.Reservation{})
			}
		}
		if err := w.Reserve(t.Context(), "train", bundles(1)); !types.Is(err, types.Conflict) {
			t.Errorf("got %v", err)
		}
	})
}
