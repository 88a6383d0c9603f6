package server

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/identity"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/types"
)

// TestEpochs restores an etcd under a running server. Its work must end at once, and resume once
// the agents know, whatever the revision of the store.
func TestEpochs(t *testing.T) {
	for name, restore := range map[string]func(t *testing.T, s *memstore.Store, etcd *atomic.Value){
		"other members": func(_ *testing.T, _ *memstore.Store, etcd *atomic.Value) { etcd.Store(identity.Etcd{Cluster: "b"}) },
		"a new log of raft": func(_ *testing.T, _ *memstore.Store, etcd *atomic.Value) {
			etcd.Store(identity.Etcd{Cluster: "a", Index: 10, Revision: 1000})
		},
		"told": func(t *testing.T, s *memstore.Store, _ *atomic.Value) {
			if _, err := identity.MarkRestored(t.Context(), s); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, etcd := memstore.New(), new(atomic.Value)
				etcd.Store(identity.Etcd{Cluster: "a", Index: 1000, Revision: 900})
				e := &Epochs{
					Store: s, Log: zaptest.NewLogger(t),
					Etcd: func(context.Context) (identity.Etcd, error) { return etcd.Load().(identity.Etcd), nil },
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

// TestEpochsOfAFullStore checks that freeing space does not wait for an epoch that cannot be
// written.
func TestEpochsOfAFullStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		_ = s.SetFull(t.Context(), true)
		e := &Epochs{Store: s, Log: zaptest.NewLogger(t), Etcd: func(context.Context) (identity.Etcd, error) { return identity.Etcd{Cluster: "a"}, nil }}
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

// TestRestoreOfASnapshot restores a snapshot with the earlier token and addresses, so that the
// cluster keeps its id, and lets the new history outgrow the old one.
func TestRestoreOfASnapshot(t *testing.T) {
	dir, err := os.MkdirTemp("", "etcd") // not t.TempDir: the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	saved := filepath.Join(dir, "backup.db")
	write := func(client *clientv3.Client, n int) {
		t.Helper()
		for range n {
			if _, err := client.Put(t.Context(), "other", ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	var last string
	var before int64
	checkOnce := func(srv *etcdtest.Server, wantRenewed bool) {
		t.Helper()
		etcd, err := AskEtcd(srv.Client)(t.Context())
		if err != nil || etcd.Cluster == "" || etcd.Cluster == "0" || etcd.Index == 0 || etcd.Revision == 0 {
			t.Fatalf("etcd says %+v, %v", etcd, err)
		}
		if wantRenewed && etcd.Revision <= before {
			t.Errorf("revision %d after %d: it is easy to tell", etcd.Revision, before)
		}
		id, renewed, err := identity.KeepEpoch(t.Context(), etcdstore.New(srv.Client, controlplane.Limits{Ops: 128, Bytes: 1 << 20}), etcd)
		if err != nil || renewed != wantRenewed || last != "" && (id != last) != wantRenewed {
			t.Errorf("epoch %q after %q, %v, %v; want renewed %v", id, last, renewed, err, wantRenewed)
		}
		last, before = id, etcd.Revision
	}
	var cfg embed.Config
	var id string
	t.Run("before", func(t *testing.T) {
		srv := etcdtest.Start(t, etcdtest.WithDir(dir))
		checkOnce(srv, false)
		write(srv.Client, 300)
		checkOnce(srv, false)
		save(t, srv.Client, saved)
		write(srv.Client, 20)
		checkOnce(srv, false)
		cfg, id = srv.Etcd.Config(), srv.Etcd.Server.Cluster().ID().String()
	})
	data := cfg.Dir + ".restored"
	err = snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: saved, OutputDataDir: data, Name: cfg.Name, InitialCluster: cfg.InitialCluster,
		InitialClusterToken: cfg.InitialClusterToken, PeerURLs: []string{cfg.AdvertisePeerUrls[0].String()},
	})
	if err == nil {
		err = os.RemoveAll(cfg.Dir)
	}
	if err == nil {
		err = os.Rename(data, cfg.Dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Run("after", func(t *testing.T) {
		srv := etcdtest.Start(t, etcdtest.WithDir(dir))
		if is := srv.Etcd.Server.Cluster().ID().String(); is != id {
			t.Fatalf("it is cluster %s after %s: it is easy to tell", is, id)
		}
		write(srv.Client, 40)
		checkOnce(srv, true)
		checkOnce(srv, false)
	})
}

// save writes a snapshot to a file.
func save(t *testing.T, client *clientv3.Client, path string) {
	t.Helper()
	from, err := client.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.Create(path)
	if err == nil {
		_, err = io.Copy(to, from)
	}
	if err := errors.Join(err, to.Close()); err != nil {
		t.Fatal(err)
	}
}
