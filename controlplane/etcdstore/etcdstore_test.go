package etcdstore_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/controlplane/storetest"
	"github.com/escher-sched/escher/types"
)

func quickProgress() etcdstore.Option { return etcdstore.WithProgressInterval(50 * time.Millisecond) }

// filler is a store on an etcd whose alarm a test controls.
type filler struct {
	*etcdstore.Store
	srv *etcdtest.Server
}

func (f filler) SetFull(ctx context.Context, full bool) error { return f.srv.SetFull(ctx, full) }

func TestConformance(t *testing.T) {
	t.Parallel() // with the next test: both mostly wait
	srv := etcdtest.Start(t)
	s := etcdstore.New(srv.Client, etcdstore.ServerLimits(), quickProgress())
	storetest.Run(t, func(*testing.T) controlplane.Store { return filler{s, srv} })
}

// TestConformanceOfSharedWatches checks only what watches take part in.
func TestConformanceOfSharedWatches(t *testing.T) {
	t.Parallel()
	srv := etcdtest.Start(t)
	s := etcdstore.New(srv.Client, etcdstore.ServerLimits(), quickProgress(), etcdstore.SharedWatches())
	storetest.Run(t, func(*testing.T) controlplane.Store { return filler{s, srv} }, "Watch", "Compact", "Full", "Context")
}

func TestEquivalentToMemory(t *testing.T) {
	srv := etcdtest.Start(t)
	storetest.Equivalent(t, memstore.New(), etcdstore.New(srv.Client, etcdstore.ServerLimits(), quickProgress()))
}

// shortDir returns a directory with a path short enough for sockets, unlike t.TempDir.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "es")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func open(t *testing.T, endpoint string, opts ...etcdstore.Option) *etcdstore.Store {
	t.Helper()
	s, err := etcdstore.Open(etcdstore.Config{Endpoints: []string{endpoint}, Options: append(opts, quickProgress())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func put(key string) controlplane.Txn {
	return controlplane.Txn{
		Compares: []controlplane.Compare{{Key: key}},
		Ops:      []controlplane.Op{{Key: key, Value: []byte("x")}},
	}
}

func TestDial(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	silent, path := listen(t)
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		var conns []net.Conn
		for {
			conn, err := silent.Accept()
			if err != nil {
				break
			}
			conns = append(conns, conn)
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	defer func() { _ = silent.Close(); <-accepting }()
	for name, endpoint := range map[string]string{
		"refused": "127.0.0.1:1",
		"absent":  "unix://" + filepath.Join(shortDir(t), "absent"),
		"silent":  "unix://" + path,
	} {
		begin := time.Now()
		_, err := etcdstore.Dial(context.Background(), etcdstore.Config{Endpoints: []string{endpoint}, DialTimeout: 500 * time.Millisecond})
		if !types.Is(err, types.Unavailable) || !strings.HasPrefix(err.Error(), "reach etcd at "+endpoint+": ") {
			t.Errorf("%s: error %v", name, err)
		}
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("%s: took %s", name, took)
		}
	}
	if _, err := etcdstore.Dial(context.Background(), etcdstore.Config{}); !types.Is(err, types.Invalid) {
		t.Errorf("no endpoint: %v", err)
	}
}

func TestDialReachesEtcd(t *testing.T) {
	srv := etcdtest.Start(t)
	s, err := etcdstore.Dial(t.Context(), etcdstore.Config{Endpoints: []string{srv.Endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	if result, err := s.Commit(t.Context(), put("a")); err != nil || !result.Committed {
		t.Errorf("commit: %v, %v", result, err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func TestWhatWasNotSentIsUnavailable(t *testing.T) {
	s := open(t, "127.0.0.1:1")
	_, err := s.Commit(t.Context(), put("a"))
	if !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "reach etcd at 127.0.0.1:1: ") {
		t.Errorf("commit: %v", err)
	}
	if _, err := s.List(t.Context(), controlplane.ListOptions{Key: "a"}); !types.Is(err, types.Unavailable) {
		t.Errorf("list: %v", err)
	}
	if _, err := s.GrantLease(t.Context(), time.Second); !types.Is(err, types.Unavailable) {
		t.Errorf("grant: %v", err)
	}
	if _, err := s.RenewLease(t.Context(), 1); !types.Is(err, types.Unavailable) {
		t.Errorf("renew: %v", err)
	}
	if err := s.RevokeLease(t.Context(), 1); !types.Is(err, types.Unavailable) {
		t.Errorf("revoke: %v", err)
	}
	batch := <-s.Watch(t.Context(), controlplane.WatchOptions{Prefix: "a", From: 1})
	if !types.Is(batch.Err, types.Unavailable) {
		t.Errorf("watch: %v", batch.Err)
	}
}

// TestAnswersOfCommit gives each possible answer of etcd: the class must be right, and the
// transaction must have been sent once.
func TestAnswersOfCommit(t *testing.T) {
	for _, test := range []struct {
		answer error
		class  types.Class
	}{
		{rpctypes.ErrGRPCTimeout, types.Unknown},
		{rpctypes.ErrGRPCTimeoutDueToLeaderFail, types.Unknown},
		{rpctypes.ErrGRPCTimeoutDueToConnectionLost, types.Unknown},
		{rpctypes.ErrGRPCLeaderChanged, types.Unknown},
		{rpctypes.ErrGRPCStopped, types.Unknown},
		{rpctypes.ErrGRPCCanceled, types.Unknown},
		{rpctypes.ErrGRPCDeadlineExceeded, types.Unknown},
		{status.Error(codes.Unavailable, "transport is closing"), types.Unknown},
		{status.Error(codes.Canceled, "client connection is closing"), types.Unknown},
		{status.Error(codes.Internal, "stream terminated"), types.Unknown},
		{status.Error(codes.Unknown, "what"), types.Unknown},
		{rpctypes.ErrGRPCNoLeader, types.Unavailable},
		{rpctypes.ErrGRPCRequestTooManyRequests, types.Unavailable},
		{rpctypes.ErrGRPCTooManyOps, types.Invalid},
		{rpctypes.ErrGRPCRequestTooLarge, types.Invalid},
		{rpctypes.ErrGRPCDuplicateKey, types.Invalid},
		{rpctypes.ErrGRPCLeaseNotFound, types.NotFound},
		{rpctypes.ErrGRPCPermissionDenied, types.Denied},
		{rpctypes.ErrGRPCCorrupt, types.Internal},
	} {
		t.Run(test.answer.Error(), func(t *testing.T) {
			fake := &answering{err: test.answer}
			s := open(t, fake.serve(t))
			_, err := s.Commit(t.Context(), put("a"))
			if !types.Is(err, test.class) {
				t.Errorf("class %s of %v, want %s", types.ClassOf(err), err, test.class)
			}
			if n := fake.calls.Load(); n != 1 {
				t.Errorf("sent %d times", n)
			}
		})
	}
}

func socket(t *testing.T, endpoint string) string {
	t.Helper()
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return u.Path
}

func TestLostAnswerOfCommitIsUnknownAndMayHaveHappened(t *testing.T) {
	srv := etcdtest.Start(t)
	p := newProxy(t, socket(t, srv.Endpoint))
	s := open(t, p.endpoint())
	if _, err := s.Commit(t.Context(), put("first")); err != nil {
		t.Fatal(err)
	}
	p.deaf.Store(true)
	_, err := s.Commit(t.Context(), put("second"))
	if !types.Is(err, types.Unknown) {
		t.Errorf("error %v, want Unknown", err)
	}
	direct := etcdstore.New(srv.Client, etcdstore.ServerLimits())
	for range direct.Watch(t.Context(), controlplane.WatchOptions{Prefix: "second", From: 1}) {
		return
	}
	t.Error("the transaction did not happen, which this test was to show")
}

func TestLostStreamEndsTheWatch(t *testing.T) {
	for name, opts := range watching() {
		t.Run(name, func(t *testing.T) { testLostStream(t, opts) })
	}
}

// watching returns the ways in which a store may watch.
func watching() map[string][]etcdstore.Option {
	return map[string][]etcdstore.Option{"apart": nil, "shared": {etcdstore.SharedWatches()}}
}

// TestWatchOfStoreAtRest checks that a watch hears again and again that the store answers, although
// nothing is written after the listing that it follows.
func TestWatchOfStoreAtRest(t *testing.T) {
	for name, opts := range watching() {
		t.Run(name, func(t *testing.T) {
			srv := etcdtest.Start(t)
			s := etcdstore.New(srv.Client, etcdstore.ServerLimits(), append(opts, quickProgress())...)
			page, err := s.List(t.Context(), controlplane.ListOptions{Prefix: "/"})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ch := s.Watch(ctx, controlplane.WatchOptions{Prefix: "/", From: page.Revision + 1})
			for range 3 {
				if batch := <-ch; batch.Err != nil || batch.Revision != page.Revision {
					t.Fatalf("it heard of revision %d, %v, want %d", batch.Revision, batch.Err, page.Revision)
				}
			}
			if _, err := s.Commit(t.Context(), put("/a")); err != nil {
				t.Fatal(err)
			}
			for events := 0; events < 1; {
				batch, ok := <-ch
				if batch.Err != nil || !ok {
					t.Fatalf("the watch ended: %v", batch.Err)
				}
				events += len(batch.Events)
			}
			for range 3 {
				if batch := <-ch; batch.Err != nil || batch.Revision != page.Revision+1 {
					t.Fatalf("after the event it heard of revision %d, %v", batch.Revision, batch.Err)
				}
			}
		})
	}
}

func testLostStream(t *testing.T, opts []etcdstore.Option) {
	srv := etcdtest.Start(t)
	p := newProxy(t, socket(t, srv.Endpoint))
	s := open(t, p.endpoint(), opts...)
	ch := s.Watch(t.Context(), controlplane.WatchOptions{Prefix: "", From: 1})
	if batch := <-ch; batch.Err != nil {
		t.Fatal(batch.Err)
	}
	p.cut()
	for batch := range ch {
		if batch.Err != nil {
			if !types.Is(batch.Err, types.Unavailable) || !strings.Contains(batch.Err.Error(), p.endpoint()) {
				t.Errorf("error %v", batch.Err)
			}
			return
		}
	}
	t.Error("the watch ended without an error")
}

func TestListWatchReloadsAfterARealCompaction(t *testing.T) {
	for name, opts := range watching() {
		t.Run(name, func(t *testing.T) { testRealCompaction(t, opts) })
	}
}

func testRealCompaction(t *testing.T, with []etcdstore.Option) {
	srv := etcdtest.Start(t)
	p := newProxy(t, socket(t, srv.Endpoint))
	direct := etcdstore.New(srv.Client, etcdstore.ServerLimits())
	write := func(ops ...controlplane.Op) int64 {
		result, err := direct.Commit(t.Context(), controlplane.Txn{Ops: ops})
		if err != nil {
			t.Error(err)
		}
		return result.Revision
	}
	value := func(key, value string) controlplane.Op { return controlplane.Op{Key: key, Value: []byte(value)} }
	write(value("/gone", "1"), value("/kept", "1"), value("/changed", "1"))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got, step := "", 0
	opts := controlplane.ListWatchOptions{Prefix: "/", PageSize: 2}
	_ = controlplane.ListWatch(ctx, open(t, p.endpoint(), with...), opts, func(u controlplane.Update) error {
		if !u.Synced && len(u.Events) == 0 {
			return nil
		}
		got += fmt.Sprintf("%v", u.Synced)
		for _, e := range u.Events {
			got += fmt.Sprintf(" %s=%s,%v", e.Key, e.Value, e.Delete)
		}
		got += ";"
		switch step++; step {
		case 1:
			write(value("/new", "1"))
		case 2:
			p.cut()
			write(controlplane.Op{Key: "/gone", Delete: true})
			r := write(value("/changed", "2"))
			if err := direct.Compact(ctx, r); err != nil {
				t.Error(err)
			}
			p.mend()
		case 3:
			write(value("/kept", "2"))
		case 4:
			cancel()
		}
		return nil
	})
	want := "true /changed=1,false /gone=1,false /kept=1,false;" +
		"false /new=1,false;" +
		"true /changed=2,false /gone=,true;" +
		"false /kept=2,false;"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestFullDatabase lets writers race across the quota: each answer must be true.
func TestFullDatabase(t *testing.T) {
	srv := etcdtest.Start(t, etcdtest.WithQuota(8<<20))
	s := etcdstore.New(srv.Client, etcdstore.ServerLimits())
	value := make([]byte, 100<<10)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("%d/%d", w, i)
				txn := controlplane.Txn{
					Compares: []controlplane.Compare{{Key: key}},
					Ops:      []controlplane.Op{{Key: key, Value: append(value, key...)}},
				}
				result, err := s.Commit(t.Context(), txn)
				page, listErr := s.List(t.Context(), controlplane.ListOptions{Key: key})
				if listErr != nil {
					t.Error(listErr)
					return
				}
				if there := len(page.KVs) == 1; there != (err == nil && result.Committed) {
					t.Errorf("%s: there %v, told %v, %v", key, there, result, err)
				}
				if err == nil {
					continue
				}
				if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "the database is full") {
					t.Errorf("error %v", err)
				}
				return
			}
		})
	}
	wg.Wait()
	result, err := s.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{{Key: "0/0", Delete: true}}})
	if err != nil || !result.Committed {
		t.Errorf("delete: %v, %v", result, err)
	}
}
