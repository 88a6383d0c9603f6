package controlplane_test

import (
	"context"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// keysOf returns the number of keys of a kind in the namespace.
func (w *world) keysOf(kind controlplane.Kind) int {
	w.t.Helper()
	kvs, _, err := controlplane.ListAll(context.Background(), w.store, controlplane.ListOptions{Prefix: controlplane.Prefix(kind, "team")})
	if err != nil {
		w.t.Fatal(err)
	}
	return len(kvs)
}

func (w *world) wantKeys(kind controlplane.Kind, want int) {
	w.t.Helper()
	if got := w.keysOf(kind); got != want {
		w.t.Errorf("there are %d %s, want %d", got, kind, want)
	}
}

func TestRemoveTask(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	if _, err := w.Launch(ctx, one("a")); err != nil {
		t.Fatal(err)
	}
	w.refused(types.Precondition, func() error { return w.Remove(ctx, "a") }, "remove task a", "pending", "stop it first")
	w.put(controlplane.StatusKey("team", "a"), &types.Status{Phase: types.Running, Attempt: 1})
	w.refused(types.Precondition, func() error { return w.Remove(ctx, "a") }, "running")
	w.put(controlplane.StatusKey("team", "a"), &types.Status{Phase: types.Failed, Attempt: 1})
	// An unanswered commit is checked.
	w.lossy.next(lost)
	if err := w.Remove(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	w.wantKeys(controlplane.Tasks, 0)
	w.wantKeys(controlplane.Statuses, 0)
	if err := w.Remove(ctx, "a"); err != nil {
		t.Errorf("what is gone: %v", err)
	}
}

func TestRemoveJob(t *testing.T) {
	w, ctx := newWorld(t, memstore.WithLimits(controlplane.Limits{Ops: 128, Bytes: 1 << 20})), t.Context()
	const n = 200
	if _, err := w.LaunchJob(ctx, controlplane.Job{ID: "j", Tasks: several(n)}); err != nil {
		t.Fatal(err)
	}
	w.refused(types.NotFound, func() error { _, err := w.RemoveJob(ctx, "k"); return err }, "no job k")
	for _, s := range several(n)[1:] {
		w.put(controlplane.StatusKey("team", s.ID), &types.Status{Phase: types.Succeeded, Attempt: 1})
	}
	w.refused(types.Precondition, func() error { _, err := w.RemoveJob(ctx, "j"); return err }, "1 of its 200 tasks have not ended", "stop it first")
	w.put(controlplane.StatusKey("team", several(1)[0].ID), &types.Status{Phase: types.Cancelled})
	if got, err := w.RemoveJob(ctx, "j"); err != nil || got != n {
		t.Fatal(got, err)
	}
	for _, kind := range []controlplane.Kind{controlplane.Tasks, controlplane.Statuses, controlplane.Jobs} {
		w.wantKeys(kind, 0)
	}
}

// unnamed returns tasks without ids.
func unnamed(n int) []controlplane.Submission {
	tasks := several(n)
	for i := range tasks {
		tasks[i].ID = ""
	}
	return tasks
}

// A launch that breaks off half-way leaves nothing, unless the caller can continue it.
func TestLaunchBrokenOff(t *testing.T) {
	w := newWorld(t, memstore.WithLimits(controlplane.Limits{Ops: 128, Bytes: 1 << 20}))
	ctx, cancel := context.WithCancel(t.Context())
	w.lossy.before = func(n int) {
		if n == 3 {
			cancel()
		}
	}
	if _, err := w.Launch(ctx, unnamed(300)...); err == nil {
		t.Fatal("it was not broken off")
	}
	w.wantKeys(controlplane.Tasks, 0)
	w.wantKeys(controlplane.Jobs, 0)

	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	w.lossy.commits()
	if _, err := w.LaunchJob(ctx, controlplane.Job{ID: "j", Tasks: several(300)}); err == nil {
		t.Fatal("it was not broken off")
	}
	if w.keysOf(controlplane.Tasks) == 0 {
		t.Error("what can be gone on with was deleted")
	}
	w.lossy.before = nil
	if _, err := w.LaunchJob(t.Context(), controlplane.Job{ID: "j", Tasks: several(300)}); err != nil {
		t.Error(err)
	}
	w.wantKeys(controlplane.Tasks, 300)
}

// The last part was committed without an answer.
func TestLaunchBrokenOffAfterItsEnd(t *testing.T) {
	w := newWorld(t, memstore.WithLimits(controlplane.Limits{Ops: 128, Bytes: 1 << 20}))
	ctx, cancel := context.WithCancel(t.Context())
	w.lossy.before = func(n int) {
		if n == 1 {
			w.lossy.next(lost, forgotten, forgotten)
		}
		if n == 3 {
			cancel()
		}
	}
	if _, err := w.Launch(ctx, unnamed(150)...); err == nil {
		t.Fatal("it was not broken off")
	}
	w.wantKeys(controlplane.Tasks, 150)
	w.wantKeys(controlplane.Jobs, 1)
}

// The last part is committed after the earlier parts were deleted: it must not create the job.
func TestLaunchBrokenOffBeforeItsEndArrives(t *testing.T) {
	w := newWorld(t, memstore.WithLimits(controlplane.Limits{Ops: 128, Bytes: 1 << 20}))
	ctx, cancel := context.WithCancel(t.Context())
	w.lossy.before = func(n int) {
		switch n {
		case 1:
			w.lossy.next(late)
		case 2:
			cancel()
		}
	}
	if _, err := w.Launch(ctx, unnamed(150)...); !types.Is(err, types.Unknown) {
		t.Fatalf("got %v", err)
	}
	w.wantKeys(controlplane.Tasks, 0)
	w.wantKeys(controlplane.Jobs, 0)
}

func TestPreview(t *testing.T) {
	w, ctx := newWorld(t, memstore.WithLimits(controlplane.Limits{Ops: 128, Bytes: 1 << 20})), t.Context()
	w.node("n1")
	before := w.store.Revision()
	tx := w.Begin()
	tx.SetResource("x", 1000, controlplane.OnEvery(), controlplane.SetOptions{})
	tx.Launch(one("a"))
	p, err := tx.Preview(ctx)
	if err != nil || p.TooLarge != nil || len(p.Writes) != 3 {
		t.Errorf("%+v, %v", p, err)
	}
	tx.LaunchJob(controlplane.Job{Tasks: unnamed(200)})
	if p, err = tx.Preview(ctx); err != nil || !types.Is(p.TooLarge, types.Invalid) {
		t.Errorf("%v, %v", p.TooLarge, err)
	}
	if w.store.Revision() != before {
		t.Error("it has written")
	}
	if _, err := w.SetResource(ctx, "x", 1000, controlplane.OnEvery(), controlplane.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	if p, err = w.Begin().SetResource("x", 1000, controlplane.OnEvery(), controlplane.SetOptions{}).Preview(ctx); err != nil || len(p.Writes) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

// Launches in one transaction may share a spec.
func TestTransactionWritesASpecOnce(t *testing.T) {
	w := newWorld(t)
	tx := w.Begin()
	tx.Launch(one("a"))
	tx.LaunchJob(controlplane.Job{Tasks: []controlplane.Submission{one("b"), one("c")}})
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantKeys(controlplane.Tasks, 3)
	w.wantKeys(controlplane.Specs, 1)
}
