package outbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// recorded records commits and their times.
type recorded struct {
	controlplane.Store

	mu    sync.Mutex
	began time.Time
	txns  []noted
}

// noted is a transaction and the time it was sent.
type noted struct {
	at  time.Duration
	txn controlplane.Txn
}

func (r *recorded) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	r.mu.Lock()
	r.txns = append(r.txns, noted{time.Since(r.began), txn})
	r.mu.Unlock()
	return r.Store.Commit(ctx, txn)
}

// reset clears the record.
func (r *recorded) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began, r.txns = time.Now(), nil
}

func (r *recorded) all() []noted {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.txns)
}

// told returns the commits and their times in words.
func (r *recorded) told() string {
	var out []string
	for _, x := range r.all() {
		var reports []string
		for _, op := range x.txn.Ops {
			k, _ := controlplane.Parse(op.Key)
			var report types.Report
			if err := types.Decode(op.Value, &report); err != nil {
				return err.Error()
			}
			reports = append(reports, k.ID+" "+string(report.Phase))
		}
		out = append(out, fmt.Sprintf("%s: %s", x.at, strings.Join(reports, ", ")))
	}
	return strings.Join(out, "; ")
}

func reportKey(id string) string {
	k := attempt(id)
	return controlplane.ReportKey(k.Node, k.Namespace, k.ID, k.Attempt)
}

// phaseOf returns the stored phase of a task; "" if there is none.
func phaseOf(t *testing.T, store controlplane.Store, id string) types.ReportPhase {
	t.Helper()
	var r types.Report
	if kv := at(t, store, reportKey(id)); kv.ModRevision != 0 {
		if err := types.Decode(kv.Value, &r); err != nil {
			t.Fatal(err)
		}
	}
	return r.Phase
}

// at returns a key; it is empty if absent.
func at(t *testing.T, store controlplane.Store, key string) controlplane.KV {
	t.Helper()
	page, err := store.List(t.Context(), controlplane.ListOptions{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.KVs) == 0 {
		return controlplane.KV{}
	}
	return page.KVs[0]
}

func put(t *testing.T, store controlplane.Store, key string, m types.Message) {
	t.Helper()
	c := controlplane.NewChange(controlplane.NewBatch())
	c.Put(key, m)
	commit(t, store, c)
}

func remove(t *testing.T, store controlplane.Store, keys ...string) {
	t.Helper()
	c := controlplane.NewChange(controlplane.NewBatch())
	for _, key := range keys {
		c.Delete(key)
	}
	commit(t, store, c)
}

func commit(t *testing.T, store controlplane.Store, c *controlplane.Change) {
	t.Helper()
	if _, err := store.Commit(t.Context(), c.Txn()); err != nil {
		t.Fatal(err)
	}
}
