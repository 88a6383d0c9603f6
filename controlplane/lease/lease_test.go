package lease_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/lease"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// TestHoldRemovesUnheld holds a role whose key is there without a lease: it has no holder.
func TestHoldRemovesUnheld(t *testing.T) {
	for name, value := range map[string][]byte{"readable": types.Encode(1, &types.Leader{Holder: "nothing"}), "junk": []byte("junk")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, key := memstore.New(), controlplane.LeaderKey("x")
				if _, err := s.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{{Key: key, Value: value}}}); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				had := false
				err := lease.Hold(ctx, s, key, &types.Leader{Holder: "me"}, time.Second, func(revision int64) {
					if revision != 0 {
						had = true
						cancel()
					}
				})
				if !had || !errors.Is(err, context.Canceled) {
					t.Errorf("held: %t, %v", had, err)
				}
			})
		})
	}
}

// TestHoldRefusesInvalidMessages requests a role under a name that is too long.
func TestHoldRefusesInvalidMessages(t *testing.T) {
	s := memstore.New()
	err := lease.Hold(t.Context(), s, controlplane.LeaderKey("x"), &types.Leader{Holder: strings.Repeat("x", 2<<20)}, time.Second, nil)
	if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "hold /escher/leaders/x: holder: ") {
		t.Errorf("got %v, want Invalid", err)
	}
	if page, err := s.List(t.Context(), controlplane.ListOptions{Key: controlplane.LeaderKey("x")}); err != nil || len(page.KVs) > 0 {
		t.Errorf("there is %+v, %v", page.KVs, err)
	}
}
