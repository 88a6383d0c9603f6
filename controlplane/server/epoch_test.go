package server

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/types"
)

// TestEpochs restores an etcd while a server runs: what runs there ends at once, and begins
// again when the agents know, whatever the revision of the store is.
func TestEpochs(t *testing.T) {
	for name, restore := range map[string]func(t *testing.T, s *memstore.Store, etcd *atomic.Value){
		"other members": func(_ *testing.T, _ *memstore.Store, etcd *atomic.Value) { etcd.Store("b") },
		"told": func(t *testing.T, s *memstore.Store, _ *atomic.Value) {
			if _, err := controlplane.MarkRestored(t.Context(), s); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, etcd := memstore.New(), new(atomic.Value)
				etcd.Store("a")
				e := &Epochs{
					Store: s, Log: zaptest.NewLogger(t),
					Identity: func(context.Context) (string, error) { return etcd.Load().(string), nil },
				}
				ctx, cancel := context.WithCancel(t.Context())
				go func() { _ = e.Run(ctx) }()
				var began, ended atomic.Int32
				go func() {
					for ctx.Err() == nil {
						err := e.During(ctx, func(ctx context.Context) error {
							began.Add(1)
							defer ended.Add(1)
							<-ctx.Done()
							return ctx.Err()
						})
						if ctx.Err() == nil && !types.Is(err, types.Unavailable) {
							t.Errorf("During = %v", err)
						}
					}
				}()
				at := func(after time.Duration, wantBegan, wantEnded int32) {
					t.Helper()
					time.Sleep(after)
					if began.Load() != wantBegan || ended.Load() != wantEnded {
						t.Errorf("began %d, ended %d times, want %d and %d", began.Load(), ended.Load(), wantBegan, wantEnded)
					}
				}
				at(time.Minute, 1, 0)
				restore(t, s, etcd)
				at(epochEvery+time.Millisecond, 1, 1)
				at(EpochPause-2*epochEvery, 1, 1)
				at(time.Minute, 2, 1)
				cancel()
				synctest.Wait()
			})
		})
	}
}

// TestEpochsOfAFullStore has what makes room not wait for an epoch that cannot be written.
func TestEpochsOfAFullStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		_ = s.SetFull(t.Context(), true)
		e := &Epochs{Store: s, Log: zaptest.NewLogger(t), Identity: func(context.Context) (string, error) { return "a", nil }}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = e.Run(ctx) }()
		err := e.During(ctx, func(ctx context.Context) error {
			_ = s.SetFull(t.Context(), false)
			time.Sleep(time.Minute)
			if ctx.Err() != nil {
				t.Error("the first epoch ended it")
			}
			cancel()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("During = %v", err)
		}
	})
}

func TestEtcdIdentity(t *testing.T) {
	srv := etcdtest.Start(t)
	id, err := EtcdIdentity(srv.Client)(t.Context())
	if err != nil || id == "" || id == "0" {
		t.Errorf("identity %q, %v", id, err)
	}
}
