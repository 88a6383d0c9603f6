package controlplane_test

import (
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
)

// TestKeepEpoch keeps an epoch for one etcd, renews it for another one, and when told.
func TestKeepEpoch(t *testing.T) {
	s := memstore.New()
	ids := make(map[string]bool)
	keep := func(etcd string, wantNew, wantRenewed bool) {
		t.Helper()
		id, renewed, err := controlplane.KeepEpoch(t.Context(), s, etcd)
		if err != nil || id == "" || renewed != wantRenewed || ids[id] == wantNew {
			t.Errorf("KeepEpoch(%s) = %q, %v, %v; new %v", etcd, id, renewed, err, !ids[id])
		}
		ids[id] = true
	}
	keep("a", true, false)
	keep("a", false, false)
	keep("b", true, true)
	id, err := controlplane.MarkRestored(t.Context(), s)
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
}
