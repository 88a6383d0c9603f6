package nodeagent_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// refusing is a store that refuses some requests, and counts all but renewals and watches.
type refusing struct {
	controlplane.Store
	mu sync.Mutex
	// full refuses puts and grants, forbidden everything.
	full, forbidden bool
	requests        int
}

func (r *refusing) set(full, forbidden bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.full, r.forbidden, r.requests = full, forbidden, 0
}

// count returns the number of requests since the last set.
func (r *refusing) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// refuse counts a request, and returns why it is refused.
func (r *refusing) refuse(puts bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	switch {
	case r.forbidden:
		return types.Errorf(types.Precondition, "etcd: permission denied")
	case r.full && puts:
		return types.Errorf(types.Precondition, "etcd: the database is full")
	}
	return nil
}

func (r *refusing) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	if err := r.refuse(false); err != nil {
		return controlplane.Page{}, err
	}
	return r.Store.List(ctx, opts)
}

func (r *refusing) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	puts := slices.ContainsFunc(txn.Ops, func(op controlplane.Op) bool { return !op.Delete })
	if err := r.refuse(puts); err != nil {
		return controlplane.Result{}, err
	}
	return r.Store.Commit(ctx, txn)
}

func (r *refusing) GrantLease(ctx context.Context, ttl time.Duration) (controlplane.LeaseID, error) {
	if err := r.refuse(true); err != nil {
		return 0, err
	}
	return r.Store.GrantLease(ctx, ttl)
}

func (r *refusing) RenewLease(ctx context.Context, id controlplane.LeaseID) (time.Duration, error) {
	r.mu.Lock()
	forbidden := r.forbidden
	r.mu.Unlock()
	if forbidden {
		return 0, types.Errorf(types.Precondition, "etcd: permission denied")
	}
	return r.Store.RenewLease(ctx, id)
}

// withRefusing runs f with an agent over a store that refuses on request.
func withRefusing(t *testing.T, f func(b *bench, store *refusing)) {
	t.Helper()
	bubble(t, simruntime.Config{Script: script}, func(t *testing.T, b *bench) {
		b.crash()
		store := &refusing{Store: b.store}
		b.cfg.Store = store
		b.start()
		f(b, store)
	})
}

// TestFullStoreIsNotFlooded ends a task while the store is full: the session goes on, the agent
// retries at intervals, and the report is stored when there is space again.
func TestFullStoreIsNotFlooded(t *testing.T) {
	withRefusing(t, func(b *bench, store *refusing) {
		session := b.session()
		b.bind("t1")
		b.pass(time.Second)
		store.set(true, false)
		b.stop("t1", types.Stop{Reason: "enough", Grace: time.Second})
		b.pass(10 * time.Minute)
		if n := store.count(); n < 10 || n > 60 {
			t.Errorf("%d requests in ten minutes", n)
		}
		store.set(false, false)
		b.pass(time.Minute)
		if r := b.report("t1"); r.Phase != types.ReportExited || b.session() != session {
			t.Errorf("reported %+v in session %d, want %d", r, b.session(), session)
		}
	})
}

// TestSessionBeginsWhenThereIsSpace makes an agent lose its session while the store is full, and
// later while the store refuses everything.
func TestSessionBeginsWhenThereIsSpace(t *testing.T) {
	withRefusing(t, func(b *bench, store *refusing) {
		first := b.session()
		for _, forbidden := range []bool{false, true} {
			b.store.set(true)
			b.pass(time.Minute)
			store.set(true, forbidden)
			b.store.set(false)
			b.pass(10 * time.Minute)
			if n := store.count(); n < 10 || n > 300 || b.session() != 0 {
				t.Errorf("forbidden %t: %d requests in ten minutes, session %d", forbidden, n, b.session())
			}
			store.set(false, false)
			b.pass(time.Minute)
			if b.session() <= first {
				t.Errorf("forbidden %t: no session after a minute", forbidden)
			}
			first = b.session()
		}
		b.bind("t0")
		b.pass(10 * time.Second)
		if r := b.report("t0"); r.Phase == "" {
			t.Error("it does not work")
		}
	})
}

// TestHugeErrorsAreReportedShort binds a task whose path is huge, and one whose start fails with an
// error larger than a transaction: both end, and a third one runs.
func TestHugeErrorsAreReportedShort(t *testing.T) {
	long := "/" + strings.Repeat("a", 500_000)
	rt := simruntime.Config{Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
		if c.Attempt.Task == "verbose" {
			return simruntime.Behaviour{}, types.Errorf(types.Invalid, "the registry says %s", strings.Repeat(long, 3))
		}
		return simruntime.Behaviour{Forever: true}, nil
	}}
	bubble(t, rt, func(t *testing.T, b *bench) {
		b.bind("path", b.runs(func(s *types.Spec) { s.Mounts = []types.Mount{{Source: long, Target: "/x"}} }))
		b.bind("verbose")
		b.bind("fine")
		b.pass(time.Second)
		for task, begins := range map[string]string{"path": "", "verbose": "the registry says /aaaa"} {
			r := b.expect(task, types.ReportExited)
			if r.ExitCode != 126 || len(r.Reason) > types.MaxReason || !strings.HasPrefix(r.Reason, begins) {
				t.Errorf("%s: code %d, a reason of %d bytes: %.200s", task, r.ExitCode, len(r.Reason), r.Reason)
			}
		}
		b.expect("fine", types.ReportRunning)
	})
}
