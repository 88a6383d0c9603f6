package identity_test

import (
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/identity"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// TestKeepEpoch keeps an epoch for one etcd, and renews it for another one and on request.
func TestKeepEpoch(t *testing.T) {
	s := memstore.New()
	ids := make(map[string]bool)
	at := func(etcd identity.Etcd, wantNew, wantRenewed bool) {
		t.Helper()
		id, renewed, err := identity.KeepEpoch(t.Context(), s, etcd)
		if err != nil || id == "" || renewed != wantRenewed || ids[id] == wantNew {
			t.Errorf("KeepEpoch(%+v) = %q, %v, %v; new %v", etcd, id, renewed, err, !ids[id])
		}
		ids[id] = true
	}
	keep := func(etcd string, wantNew, wantRenewed bool) {
		t.Helper()
		at(identity.Etcd{Cluster: etcd}, wantNew, wantRenewed)
	}
	keep("a", true, false)
	keep("a", false, false)
	keep("b", true, true)
	id, err := identity.MarkRestored(t.Context(), s)
	if err != nil || ids[id] {
		t.Errorf("MarkRestored = %q, %v", id, err)
	}
	ids[id] = true
	keep("b", false, false)
	junk := controlplane.Txn{Ops: []controlplane.Op{{Key: controlplane.EpochKey(), Value: []byte("junk")}}}
	if _, err := s.Commit(t.Context(), junk); err != nil {
		t.Fatal(err)
	}
	keep("b", true, false)

	// Raft's index starts over at a restore; the revision reveals a member that lags behind.
	b := func(index, revision int64) identity.Etcd {
		return identity.Etcd{Cluster: "b", Index: index, Revision: revision}
	}
	at(b(1000, 900), false, false)
	at(b(1001, 901), false, false)
	at(b(990, 1), false, false)
	at(b(990, 1000), true, true)
	at(b(991, 1001), false, false)
	at(b(5000, 2000), false, false)
	at(b(100, 3000), true, true)
	// MarkRestored has renewed the epoch; KeepEpoch does not renew it again.
	at(b(5000, 5000), false, false)
	if id, err = identity.MarkRestored(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	ids[id] = true
	at(b(100, 6000), false, false)
	at(b(10, 7000), true, true)
	// An etcd without a known index is trusted.
	at(b(0, 7000), false, false)
}

// TestProgressIsWrittenSeldom lets an etcd advance far. KeepEpoch stores few of its steps, and the
// stored one is never far behind.
func TestProgressIsWrittenSeldom(t *testing.T) {
	s, notes := memstore.New(), make(map[int64]bool)
	var last string
	for index := int64(1); index < 100_000; index += 10 {
		id, _, err := identity.KeepEpoch(t.Context(), s, identity.Etcd{Cluster: "a", Index: index, Revision: index})
		if err != nil || last != "" && id != last {
			t.Fatalf("at %d: %q, %v; want %q", index, id, err, last)
		}
		last = id
		page, err := s.List(t.Context(), controlplane.ListOptions{Key: controlplane.ProgressKey()})
		if err != nil || len(page.KVs) != 1 {
			t.Fatalf("progress: %+v, %v", page, err)
		}
		var p types.Progress
		if !controlplane.Read(page.KVs[0], &p) || p.Index > index || index > 200 && p.Index < index/2 {
			t.Fatalf("at %d it is noted as %d", index, p.Index)
		}
		notes[p.Index] = true
	}
	if len(notes) > 80 {
		t.Errorf("it was noted %d times", len(notes))
	}
}
