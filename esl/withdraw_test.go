package esl_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// TestWithdrawLeavesOthers removes only the policy's objects, not those of others with names that
// begin like it, or those of a job.
func TestWithdrawLeavesOthers(t *testing.T) {
	w := esltest.NewWorld(t, esltest.NewRecord(nil))
	ctx := t.Context()
	if err := w.Jobs.Declare(ctx, "train", &esltest.Shared{Counter: esltest.Counter{Name: "one"}}, ""); err != nil {
		t.Fatal(err)
	}
	w.Submit("train.night", 1, place.Colocate{})
	w.Submit("train.shared", 1, place.Pack{})
	w.Pool("train.licences", 5000)
	w.Pool("train.sharedalike", 5000)
	before := w.Resources()
	w.Pool("train.shared.more", 5000)
	if err := w.Jobs.Withdraw(ctx, "train", false); err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(before, func(name string) bool { return strings.HasPrefix(name, "train.shared/") })
	if got := w.Resources(); !slices.Equal(got, want) || len(got) < 4 {
		t.Errorf("left is %q: want %q", got, want)
	}
}

// TestWithdrawAfterJobs refuses while a job that refers to the policy lives, and not after its end,
// before its policies are collected.
func TestWithdrawAfterJobs(t *testing.T) {
	w := esltest.NewWorld(t, esltest.NewRecord(nil))
	ctx := t.Context()
	if err := w.Jobs.Declare(ctx, "train", &esltest.Shared{Counter: esltest.Counter{Name: "one"}}, ""); err != nil {
		t.Fatal(err)
	}
	ended := w.Submit("ended", 2, esl.Use{Name: "train"})
	end := func(task string) {
		w.Put(controlplane.StatusKey("d", task), &types.Status{Phase: types.Succeeded, Attempt: 1, Node: "n1"})
	}
	refused := func() {
		t.Helper()
		if err := w.Jobs.Withdraw(ctx, "train", false); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "by 1 job, such as ended:") {
			t.Errorf("withdrawn: %v", err)
		}
	}
	refused()
	end(ended.Tasks[0])
	refused()
	end(ended.Tasks[1])
	if err := w.Jobs.Withdraw(ctx, "train", false); err != nil {
		t.Error(err)
	}
}

// TestWithdrawFormer removes resources of an older version without a lifetime, too, even more than
// one transaction takes, and whether the policy runs meanwhile or not.
func TestWithdrawFormer(t *testing.T) {
	for name, kept := range map[string]bool{"kept": true, "not kept": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := esltest.StartLeft(t)
				ctx := t.Context()
				if err := l.Declare(ctx, "teams", &esltest.Shared{Counter: esltest.Counter{Name: "one"}}, ""); err != nil {
					t.Fatal(err)
				}
				esltest.Pass(20 * time.Second)
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
					if err := esltest.Put(l.Cluster.Store, kv.Key, &r); err != nil {
						t.Fatal(err)
					}
				}
				if kept {
					l.Keep()
					esltest.Pass(20 * time.Second)
				}
				if err := l.Withdraw(ctx, "teams", false); err != nil {
					t.Fatal(err)
				}
				if !kept {
					l.Keep()
				}
				esltest.Pass(20 * time.Second)
				esltest.NothingLeft(t, l.Cluster)
				if err := l.Declare(ctx, "teams", &esltest.Shared{Counter: esltest.Counter{Name: "one"}}, ""); err != nil {
					t.Errorf("declared again: %v", err)
				}
			})
		})
	}
}
