package esl_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// resources returns the resources of the namespace, with where they are, sorted.
func (w *world) resources() []string {
	w.t.Helper()
	prefix := controlplane.Prefix(controlplane.Resources, "d")
	kvs, _, err := controlplane.ListAll(w.t.Context(), w.store, controlplane.ListOptions{Prefix: prefix})
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, kv := range kvs {
		out = append(out, strings.TrimPrefix(kv.Key, prefix))
	}
	return out
}

// TestWithdrawLeavesOthers: only what the policy has made goes, not what others have made
// under names that begin like it, or that is of a job.
func TestWithdrawLeavesOthers(t *testing.T) {
	w := newWorld(t, newRecord(nil))
	ctx := t.Context()
	if err := w.jobs.Declare(ctx, "train", &shared{counter{Name: "one"}}, ""); err != nil {
		t.Fatal(err)
	}
	w.submit("train.night", 1, esl.Colocate{})
	w.submit("train.shared", 1, esl.Pack{})
	w.pool("train.licences", 5000)
	w.pool("train.sharedalike", 5000)
	before := w.resources()
	w.pool("train.shared.more", 5000)
	if err := w.jobs.Withdraw(ctx, "train", false); err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(before, func(name string) bool { return strings.HasPrefix(name, "train.shared/") })
	if got := w.resources(); !slices.Equal(got, want) || len(got) < 4 {
		t.Errorf("left is %q: want %q", got, want)
	}
}

// TestWithdrawLarge: more than goes into one transaction of a stock etcd, and one that is
// declared again meanwhile keeps what it has.
func TestWithdrawLarge(t *testing.T) {
	for name, again := range map[string]bool{"alone": false, "declared again meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newRecord(nil))
			w.store = memstore.New(memstore.WithLimits(controlplane.Limits{Ops: 128, Bytes: 1536 << 10}))
			w.jobs = w.client("d")
			ctx := t.Context()
			declare := func() {
				t.Helper()
				if err := w.jobs.Declare(ctx, "teams", &shared{counter{Name: "one"}}, ""); err != nil {
					t.Fatal(err)
				}
			}
			declare()
			for i := range 140 {
				w.pool(fmt.Sprintf("teams.shared.u%d", i), 1000)
			}
			for i := range 150 {
				node := fmt.Sprintf("n%03d", i)
				w.put(controlplane.NodeKey(node), &types.Node{})
				w.put(controlplane.AliveKey(node), &types.Alive{})
				for _, name := range []string{"teams.shared.at", "teams.shared.all"} {
					if _, err := w.jobs.SetResource(ctx, name, 1000, controlplane.OnNode(node), controlplane.SetOptions{}); err != nil {
						t.Fatal(err)
					}
				}
			}
			w.put(controlplane.ResourceKey("d", "teams.shared.all", types.EveryNode), &types.Resource{Capacity: 1000})
			store := newTrouble(w.store)
			c, err := controlplane.New(store, "d")
			if err != nil {
				t.Fatal(err)
			}
			jobs := esl.New(c)
			jobs.Kinds = w.jobs.Kinds
			store.set(func(controlplane.Txn) (bool, bool) {
				if store.commits == 2 && again {
					declare()
				}
				return true, false
			})
			if err := jobs.Withdraw(ctx, "teams", false); err != nil {
				t.Fatal(err)
			}
			left := w.resources()
			if _, _, err := w.jobs.Policies(ctx, "teams"); again == types.Is(err, types.NotFound) {
				t.Errorf("the policy: %v", err)
			}
			if again != (len(left) == 140+2*150+2) || !again && len(left) > 0 {
				t.Errorf("left are %d: %q", len(left), left)
			}
		})
	}
}
