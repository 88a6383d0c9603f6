package agents

import (
	"context"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// TestOutboxRefused shows that a report is stored only if its binding is the one it is
// about, and follows what is stored of it, and that one that is refused holds up no other.
func TestOutboxRefused(t *testing.T) {
	store := memstore.New()
	o := newOutbox(store)
	key := func(id string) controlplane.Key {
		return controlplane.Key{Kind: controlplane.Bindings, Node: "n", Namespace: "bench", ID: id, Attempt: 1}
	}
	report := func(id string, created int64, phase types.ReportPhase) letter {
		return letter{key(id), &types.Report{Phase: phase, Binding: created}}
	}
	created := make(map[string]int64)
	for _, id := range []string{"stays", "anew", "gone"} {
		put(t, store, key(id).String(), &types.Binding{})
		created[id] = at(t, store, key(id).String()).CreateRevision
	}
	remove(t, store, key("gone").String())
	remove(t, store, key("anew").String())
	put(t, store, key("anew").String(), &types.Binding{})
	// A former life of the agent stored a report that this one does not know of.
	put(t, store, report("stays", 0, "").report(), &types.Report{Phase: types.ReportRunning, Binding: created["stays"]})

	err := o.deliver(t.Context(), []letter{
		report("gone", created["gone"], types.ReportRunning),
		report("stays", created["stays"], types.ReportExited),
		report("anew", created["anew"], types.ReportRunning),
	})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]types.ReportPhase{"stays": types.ReportExited, "anew": "", "gone": ""} {
		var got types.Report
		if kv := at(t, store, report(id, 0, "").report()); kv.ModRevision != 0 {
			if err := types.Decode(kv.Value, &got); err != nil {
				t.Fatal(err)
			}
		}
		if got.Phase != want {
			t.Errorf("%s: %q is stored, want %q", id, got.Phase, want)
		}
	}
	if len(o.stored) != 0 {
		t.Errorf("%v are remembered, and all have ended", o.stored)
	}
}

// TestOutboxLateCopy shows that a copy of a report that comes late changes nothing.
func TestOutboxLateCopy(t *testing.T) {
	store := &recorded{Store: memstore.New()}
	k := controlplane.Key{Kind: controlplane.Bindings, Node: "n", Namespace: "bench", ID: "t", Attempt: 1}
	put(t, store, k.String(), &types.Binding{})
	created := at(t, store, k.String()).CreateRevision
	o := newOutbox(store)
	for _, phase := range []types.ReportPhase{types.ReportRunning, types.ReportExited} {
		if err := o.deliver(t.Context(), []letter{{k, &types.Report{Phase: phase, Binding: created}}}); err != nil {
			t.Fatal(err)
		}
	}
	late := store.txns[1] // the first put the binding
	if res, err := store.Commit(t.Context(), late); err != nil || res.Committed {
		t.Errorf("committed: %t, %v", res.Committed, err)
	}
}

// recorded remembers what was committed.
type recorded struct {
	controlplane.Store
	txns []controlplane.Txn
}

func (r *recorded) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	r.txns = append(r.txns, txn)
	return r.Store.Commit(ctx, txn)
}

// at returns a key, empty if it is absent.
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

func remove(t *testing.T, store controlplane.Store, key string) {
	t.Helper()
	c := controlplane.NewChange(controlplane.NewBatch())
	c.Delete(key)
	if _, err := store.Commit(t.Context(), c.Txn()); err != nil {
		t.Fatal(err)
	}
}
