package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

// TestLives runs a cluster of hollow agents: its tasks run as long as they should, one is stopped,
// and every revision keeps the invariants.
func TestLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		ctx, cancel := context.WithCancel(t.Context())
		g, ctx := errgroup.WithContext(ctx)
		names := register(t, store, 3)
		ready := make(chan struct{})
		g.Go(func() error {
			return Run(ctx, Config{
				Stores: []controlplane.Store{store}, Nodes: names, TTL: 15 * time.Second, Ready: func() { close(ready) },
				RunFor: func(k controlplane.Key, _ *types.Binding) time.Duration {
					if k.ID == "endless" {
						return 1000 * time.Hour
					}
					return time.Duration(k.ID[0]-'0') * time.Second
				},
			})
		})
		<-ready
		g.Go(func() error { return scheduler.Run(ctx, store, scheduler.Config{Seed: 1}, zap.NewNop()) })
		var found []audit.Finding
		g.Go(func() error {
			return audit.Follow(ctx, store, nil, func(_ int64, more []audit.Finding) error {
				found = append(found, more...)
				return nil
			})
		})
		c, err := controlplane.New(store, "bench")
		if err != nil {
			t.Fatal(err)
		}
		spec := &types.Spec{Image: "escher.local/hollow"}
		began := time.Now()
		for _, id := range []string{"0", "1", "3", "endless"} {
			if _, err := c.Launch(ctx, controlplane.Submission{ID: id, Task: types.Task{Requests: types.Requests{{Name: "cpu", Amount: 100}}}, Spec: spec}); err != nil {
				t.Fatal(err)
			}
		}
		wait := func(id string) types.Status {
			t.Helper()
			all, err := c.Wait(ctx, controlplane.UntilEnded, id)
			if err != nil {
				t.Fatal(err)
			}
			return all[id]
		}
		for _, id := range []string{"0", "1", "3"} {
			s := wait(id)
			want := time.Duration(id[0]-'0') * time.Second
			if took := time.Since(began); s.Phase != types.Succeeded || took < want || took > want+500*time.Millisecond {
				t.Errorf("%s %s after %s: want it to succeed after %s", id, s.Phase, took, want)
			}
		}
		if err := c.Stop(ctx, "endless", controlplane.StopOptions{Reason: "enough"}); err != nil {
			t.Fatal(err)
		}
		if s := wait("endless"); s.Phase != types.Cancelled {
			t.Errorf("endless is %s: want cancelled", s.Phase)
		}
		cancel()
		if err := g.Wait(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for _, f := range found {
			t.Error(f)
		}
	})
}

// TestShortRunIsOneReport: a process that ends at once is reported once.
func TestShortRunIsOneReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, runs := range []time.Duration{0, time.Minute} {
			store := memstore.New()
			ctx, cancel := context.WithCancel(t.Context())
			register(t, store, 1)
			put(t, store, controlplane.BindingKey("node-0", "bench", "t", 1), &types.Binding{})
			done := make(chan error, 1)
			go func() {
				done <- Run(ctx, Config{
					Stores: []controlplane.Store{store}, Nodes: []string{"node-0"}, TTL: 15 * time.Second, Ready: func() {},
					RunFor: func(controlplane.Key, *types.Binding) time.Duration { return runs },
				})
			}()
			var phases []types.ReportPhase
			watching, stop := context.WithTimeout(t.Context(), 2*time.Minute)
			for b := range store.Watch(watching, controlplane.WatchOptions{Prefix: controlplane.Prefix(controlplane.Reports), From: 1}) {
				for _, e := range b.Events {
					var r types.Report
					if err := types.Decode(e.Value, &r); err != nil {
						t.Fatal(err)
					}
					phases = append(phases, r.Phase)
				}
			}
			stop()
			cancel()
			want := []types.ReportPhase{types.ReportExited}
			if runs > 0 {
				want = []types.ReportPhase{types.ReportRunning, types.ReportExited}
			}
			if !slices.Equal(phases, want) {
				t.Errorf("a run of %s was reported as %v: want %v", runs, phases, want)
			}
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
}

// TestLostSession: the end of a session is an error.
func TestLostSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		names := register(t, store, 2)
		done := make(chan error, 1)
		ready := make(chan struct{})
		go func() {
			done <- Run(t.Context(), Config{
				Stores: []controlplane.Store{store}, Nodes: names, TTL: 15 * time.Second, Ready: func() { close(ready) },
				RunFor: func(controlplane.Key, *types.Binding) time.Duration { return 0 },
			})
		}()
		<-ready
		page, err := store.List(t.Context(), controlplane.ListOptions{Key: controlplane.AliveKey("node-1")})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.RevokeLease(t.Context(), page.KVs[0].Lease); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !types.Is(err, types.Precondition) {
			t.Errorf("the error is %v: want Precondition", err)
		}
	})
}

// register registers n nodes.
func register(t *testing.T, store controlplane.Store, n int) []string {
	t.Helper()
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("node-%d", i)
		put(t, store, controlplane.NodeKey(names[i]), &types.Node{Capacity: types.Requests{{Name: "cpu", Amount: 1000}}})
	}
	return names
}

func put(t *testing.T, store controlplane.Store, key string, m types.Message) {
	t.Helper()
	c := controlplane.NewChange(controlplane.NewBatch())
	c.Put(key, m)
	if _, err := store.Commit(t.Context(), c.Txn()); err != nil {
		t.Fatal(err)
	}
}
