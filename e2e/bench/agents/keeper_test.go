package agents

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// faltering is a store that answers some renewals late or never.
type faltering struct {
	*memstore.Store
	renew func(ctx context.Context) error
}

func (s *faltering) RenewLease(ctx context.Context, id controlplane.LeaseID) (time.Duration, error) {
	if err := s.renew(ctx); err != nil {
		return 0, err
	}
	return s.Store.RenewLease(ctx, id)
}

// TestSessionsOutlastAnOutage: sessions outlast an outage shorter than their time to live.
func TestSessionsOutlastAnOutage(t *testing.T) {
	for name, outage := range map[string]func(ctx context.Context) error{
		"refused": func(context.Context) error { return types.Errorf(types.Unavailable, "away") },
		"silent":  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testOutage(t, outage) }) })
	}
}

func testOutage(t *testing.T, outage func(context.Context) error) {
	store := &faltering{Store: memstore.New()}
	began := time.Now()
	store.renew = func(ctx context.Context) error {
		if since := time.Since(began); since > 25*time.Second && since < 32*time.Second {
			return outage(ctx)
		}
		return nil
	}
	names := register(t, store.Store, 3)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := Run(ctx, Config{Stores: []controlplane.Store{store}, Nodes: names, TTL: 15 * time.Second, Ready: func() {}})
	if err != context.DeadlineExceeded {
		t.Errorf("agents ended with %v", err)
	}
	page, err := store.List(t.Context(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Alive)})
	if err != nil || len(page.KVs) != 3 {
		t.Errorf("%d are alive, %v", len(page.KVs), err)
	}
	for _, kv := range page.KVs {
		if kv.CreateRevision != kv.ModRevision {
			t.Errorf("%s is another session", kv.Key)
		}
	}
}
