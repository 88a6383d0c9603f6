package esl_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
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

// TestWithdrawFormer: what a version has made that gave it no lifetime goes, too, be it more than
// goes into one transaction, and whether the policy is kept meanwhile or not.
func TestWithdrawFormer(t *testing.T) {
	for name, kept := range map[string]bool{"kept": true, "not kept": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := startLeft(t)
				ctx := t.Context()
				if err := l.Declare(ctx, "teams", &shared{counter{Name: "one"}}, ""); err != nil {
					t.Fatal(err)
				}
				pass(20 * time.Second)
				l.StopKeeping()
				kvs, _, err := controlplane.ListAll(ctx, l.Cluster.Store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Resources, "d")})
				if err != nil || len(kvs) < 140 {
					t.Fatalf("it has made %d, %v", len(kvs), err)
				}
				for _, kv := range kvs {
					var r types.Resource
					if err := types.Decode(kv.Value, &r); err != nil {
						t.Fatal(err)
					}
					r.Lifetime, r.Owner = types.Forever, ""
					if err := put(l.Cluster.Store, kv.Key, &r); err != nil {
						t.Fatal(err)
					}
				}
				if kept {
					l.Keep()
					pass(20 * time.Second)
				}
				if err := l.Withdraw(ctx, "teams", false); err != nil {
					t.Fatal(err)
				}
				if !kept {
					l.Keep()
				}
				pass(20 * time.Second)
				nothingLeft(t, l.Cluster)
				if err := l.Declare(ctx, "teams", &shared{counter{Name: "one"}}, ""); err != nil {
					t.Errorf("declared again: %v", err)
				}
			})
		})
	}
}
