package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/lease"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// fullCluster is a full store with the servers' actions on it.
type fullCluster struct {
	*memstore.Store
	t *testing.T
	// asked counts the requested leases.
	asked atomic.Int64
	// leading is the number of leading collectors, and led the number of terms.
	leading, led atomic.Int64
	servers      []*Rescue
}

func (f *fullCluster) GrantLease(ctx context.Context, ttl time.Duration) (controlplane.LeaseID, error) {
	f.asked.Add(1)
	return f.Store.GrantLease(ctx, ttl)
}

// fill creates ended tasks, a waiting one and a running one.
func (f *fullCluster) fill() {
	f.t.Helper()
	for i := range 20 {
		id := fmt.Sprint("ended-", i)
		write(f.t, f, aTask(id, types.Task{Name: "web"}), status(id, types.Status{Phase: types.Succeeded, Ended: time.Now().UnixNano()}))
	}
	write(f.t, f, aTask("pending", types.Task{Name: "web"}),
		aTask("running", types.Task{Name: "web"}), status("running", types.Status{Phase: types.Bound, Attempt: 1, Node: "n"}))
}

// junk puts a foreign key, and reports whether the store accepted it.
func (f *fullCluster) junk(key string, bytes int) bool {
	f.t.Helper()
	_, err := f.Commit(f.t.Context(), controlplane.Txn{
		Compares: []controlplane.Compare{{Key: key}}, Ops: []controlplane.Op{{Key: key, Value: make([]byte, bytes)}},
	})
	if err != nil && !errors.Is(err, controlplane.ErrFull) {
		f.t.Fatal(err)
	}
	return err == nil
}

// run starts servers until the end of the test.
func (f *fullCluster) run(ctx context.Context, servers int) {
	for i := range servers {
		collect := func(ctx context.Context, guard []controlplane.Compare) error {
			c, err := NewCollector(f, f.Maintenance(), DefaultPolicy(), guard, Options{Logger: zaptest.NewLogger(f.t)})
			if err != nil {
				return err
			}
			return c.Run(ctx)
		}
		r := &Rescue{Store: f, Maintenance: f.Maintenance(), Role: "collector", Collect: collect, Log: zaptest.NewLogger(f.t)}
		f.servers = append(f.servers, r)
		go func() {
			if err := r.Run(ctx); !errors.Is(err, context.Canceled) {
				f.t.Errorf("the rescue ended with %v", err)
			}
		}()
		go func() {
			err := Lead(ctx, f, "collector", &types.Leader{Holder: fmt.Sprint("server-", i)}, func(ctx context.Context, guard []controlplane.Compare) error {
				f.leading.Add(1)
				f.led.Add(1)
				defer f.leading.Add(-1)
				return collect(ctx, guard)
			})
			if !errors.Is(err, context.Canceled) {
				f.t.Errorf("the server ended with %v", err)
			}
		}()
	}
}

func (f *fullCluster) full() bool {
	f.t.Helper()
	u, err := f.Maintenance().Usage(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return u.Alarm
}

func (f *fullCluster) warned(want string) {
	f.t.Helper()
	for i, r := range f.servers {
		if got := r.Warning(); (got == "") != (want == "") || !strings.Contains(got, want) {
			f.t.Errorf("server %d warns %q, want %q", i, got, want)
		}
	}
}

// kept checks that no live object was deleted.
func (f *fullCluster) kept() {
	f.t.Helper()
	for _, key := range []string{controlplane.TaskKey("ns", "pending"), controlplane.TaskKey("ns", "running"), controlplane.StatusKey("ns", "running")} {
		page, err := f.List(f.t.Context(), controlplane.ListOptions{Key: key})
		if err != nil || len(page.KVs) != 1 {
			f.t.Errorf("%s is gone, %v", key, err)
		}
	}
}

// TestRescue restarts every server of a cluster with a full store. They must free space, one must
// lead, and everything accepted must exist.
func TestRescue(t *testing.T) {
	for _, servers := range []int{1, 3} {
		t.Run(fmt.Sprint(servers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fullCluster{Store: memstore.New(memstore.WithQuota(100_000)), t: t}
				f.fill()
				r := f.Revision()
				for f.junk("/escher/status/ns/junk", 1000) {
					remove(t, f, "/escher/status/ns/junk") // only history
				}
				if !f.full() || f.Revision() == r {
					t.Fatal("the store is not full")
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f.run(ctx, servers)
				time.Sleep(time.Minute)
				if f.full() {
					t.Error("the store is full still")
				}
				if f.leading.Load() != 1 || f.led.Load() != 1 {
					t.Errorf("%d collectors lead, %d have", f.leading.Load(), f.led.Load())
				}
				f.warned("")
				f.kept()
			})
		})
	}
}

// TestRescueFromOthers fills a store with foreign keys. The servers must report it, keep those
// keys, delete their own ended tasks, and continue when a person has deleted the keys.
func TestRescueFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fullCluster{Store: memstore.New(memstore.WithQuota(100_000)), t: t}
		f.fill()
		junk := 0
		for f.junk(fmt.Sprint("/junk/", junk), 1000) {
			junk++
		}
		for f.junk("/small", 1) {
			remove(t, f, "/small")
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f.run(ctx, 2)
		synctest.Wait()
		f.warned(`such as "/junk/0": delete them`)
		time.Sleep(time.Minute)
		f.kept()
		if f.full() {
			t.Error("the store is full although tasks have ended")
		}
		// The space freed by deleting ended tasks is filled at once.
		for f.junk(fmt.Sprint("/junk/", junk), 1000) {
			junk++
		}
		for f.junk("/small", 1) {
			remove(t, f, "/small")
		}
		time.Sleep(time.Hour)
		f.warned(`such as "/junk/0": delete them`)
		if !f.full() {
			t.Error("the store has room")
		}
		for i := range junk {
			remove(t, f, fmt.Sprint("/junk/", i))
		}
		time.Sleep(time.Minute)
		f.warned("")
		if f.full() || f.leading.Load() != 1 {
			t.Errorf("full %v, %d collectors lead", f.full(), f.leading.Load())
		}
		f.kept()
	})
}

// TestHoldWaitsForRoom uses a store that grants no lease for an hour. Hold must keep asking now and
// then.
func TestHoldWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fullCluster{Store: memstore.New(), t: t}
		_ = f.SetFull(t.Context(), true)
		ctx, cancel := context.WithCancel(t.Context())
		ended, had := make(chan error, 1), make(chan int64, 1)
		const ttl = 15 * time.Second
		go func() {
			ended <- lease.Hold(ctx, f, "key", &types.Leader{}, ttl, func(revision int64) {
				if revision != 0 {
					had <- revision
				}
			})
		}()
		time.Sleep(time.Hour)
		if n := f.asked.Load(); n < 100 || n > int64(time.Hour/(ttl/3))+1 {
			t.Errorf("asked %d times for a lease", n)
		}
		_ = f.SetFull(t.Context(), false)
		<-had
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Hold = %v", err)
		}
	})
}
