package controlplane_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// TestRemoveProvidedInParts removes keys that fit one transaction by number but not by bytes.
func TestRemoveProvidedInParts(t *testing.T) {
	s := memstore.New(memstore.WithLimits(controlplane.Limits{Ops: 4096, Bytes: 10_000}))
	client, err := controlplane.New(s, "team")
	if err != nil {
		t.Fatal(err)
	}
	name := "data." + strings.Repeat("x", 50)
	for i := range 100 {
		c := controlplane.NewChange(controlplane.NewBatch())
		c.Put(controlplane.ProvidedKey("team", name, fmt.Sprintf("node-%d", i)), &types.Provided{Amount: 1})
		if _, err := s.Commit(t.Context(), c.Txn()); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.RemoveProvided(t.Context(), name); err != nil {
		t.Error(err)
	}
	page, err := s.List(t.Context(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Provided)})
	if err != nil || len(page.KVs) > 0 {
		t.Errorf("%d are left, %v", len(page.KVs), err)
	}
}
