package outbox

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// refusing is a store that refuses transactions for now while full is set, and counts them.
type refusing struct {
	controlplane.Store
	full atomic.Bool
	sent atomic.Int32
}

func (r *refusing) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	r.sent.Add(1)
	if r.full.Load() {
		return controlplane.Result{}, types.Errorf(types.Precondition, "the database is full")
	}
	return r.Store.Commit(ctx, txn)
}

// withStore runs f with an outbox on a store, in a bubble of synctest. report returns the outcome
// of the report in words.
func withStore(t *testing.T, open func() controlplane.Store, f func(store controlplane.Store, report func(id string, r types.Report) *string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := open()
		out := New(store, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := atomic.Bool{}
		go func() {
			_ = out.Run(ctx)
			done.Store(true)
		}()
		f(store, func(id string, r types.Report) *string {
			outcome := new(string)
			r.Binding = at(t, store, attempt(id).String()).CreateRevision
			out.Put(&Letter{Attempt: attempt(id), Report: &r, Done: func(o Outcome) { *outcome = fmt.Sprint(*outcome, o) }})
			return outcome
		})
		if done.Load() {
			t.Error("the outbox ended")
		}
		cancel()
		synctest.Wait()
	})
}

// TestReportsWaitForSpace counts the transactions while the store is full.
func TestReportsWaitForSpace(t *testing.T) {
	full := &refusing{}
	withStore(t, func() controlplane.Store { full.Store = memstore.New(); return full }, func(store controlplane.Store, report func(string, types.Report) *string) {
		put(t, store, attempt("a").String(), &types.Binding{})
		put(t, store, attempt("b").String(), &types.Binding{})
		full.full.Store(true)
		full.sent.Store(0)
		a := report("a", types.Report{Phase: types.ReportExited})
		b := report("b", types.Report{Phase: types.ReportExited})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := full.sent.Load(); n < 10 || n > 45 || *a != "" || *b != "" {
			t.Errorf("%d transactions in ten minutes; a: %q, b: %q", n, *a, *b)
		}
		full.full.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if *a != fmt.Sprint(Stored) || *b != fmt.Sprint(Stored) || phaseOf(t, store, "a") != types.ReportExited {
			t.Errorf("with space: a: %q, b: %q", *a, *b)
		}
	})
}

// TestReportsFillByBytes stores reports that fit a transaction by number but not by bytes, one that
// fits only without its texts, and one that never fits.
func TestReportsFillByBytes(t *testing.T) {
	const bytes = 4000
	small := func() controlplane.Store {
		return memstore.New(memstore.WithLimits(controlplane.Limits{Ops: 4096, Bytes: bytes}))
	}
	withStore(t, small, func(store controlplane.Store, report func(string, types.Report) *string) {
		never := strings.Repeat("n", 2*bytes)
		ids := []string{"a", "b", "c", "d", "e", "f", "large"}
		for _, id := range ids {
			put(t, store, attempt(id).String(), &types.Binding{})
		}
		outcomes := make(map[string]*string)
		for _, id := range ids {
			r := types.Report{Phase: types.ReportExited, ExitCode: 3, Reason: strings.Repeat("r", 900)}
			if id == "large" {
				r.Image = strings.Repeat("i", 2*bytes)
			}
			outcomes[id] = report(id, r)
		}
		outcomes[never] = report(never, types.Report{Phase: types.ReportExited})
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, id := range ids {
			var r types.Report
			if err := types.Decode(at(t, store, reportKey(id)).Value, &r); err != nil || r.ExitCode != 3 || *outcomes[id] != fmt.Sprint(Stored) {
				t.Errorf("%s: %v, code %d, %q", id, err, r.ExitCode, *outcomes[id])
			}
			if short := strings.HasPrefix(r.Reason, "the report of the node was too large"); short != (id == "large") || id == "large" && r.Image != "" {
				t.Errorf("%s: reason %.50s", id, r.Reason)
			}
		}
		if *outcomes[never] != fmt.Sprint(Refused) {
			t.Errorf("one that never fits: %q", *outcomes[never])
		}
	})
}
