package controlplane_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// TestNothingUnreadableIsWritten: a value that every reader would take for absent is refused, and
// nothing is written.
func TestNothingUnreadableIsWritten(t *testing.T) {
	store := memstore.New()
	c, err := controlplane.New(store, "d")
	if err != nil {
		t.Fatal(err)
	}
	var large types.Reservation
	for i := range 150 {
		amounts := make(map[string]types.Quantity)
		for j := range types.MaxRequests {
			amounts[fmt.Sprintf("acme.com/n%s.%d-%d", strings.Repeat("x", 50), i, j)] = 1000
		}
		large.Bundles = append(large.Bundles, types.Bundle{Requests: types.NewRequests(amounts)})
	}
	many := types.Policies{}
	for range 20 {
		many.Policies = append(many.Policies, types.Policy{Kind: "acme.com/large", With: `{"a":"` + strings.Repeat("x", 60_000) + `"}`})
	}
	before := store.Revision()
	for says, write := range map[string]func() error{
		"reserve \"r\": bundles: are ": func() error { return c.Reserve(t.Context(), "r", large) },
		"write /escher/policies/d/p: ": func() error {
			tx := c.Begin()
			tx.SetPolicies("p", many, 0)
			_, err := tx.Commit(t.Context())
			return err
		},
	} {
		if err := write(); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.300v, want %s", err, says)
		}
	}
	if now := store.Revision(); now != before {
		t.Errorf("something was written: revision %d, before %d", now, before)
	}
}
