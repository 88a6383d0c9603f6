package controlplane_test

import (
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestNamespaces creates, changes and removes what is set for a namespace, each time with
// an answer that is lost.
func TestNamespaces(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	keys := func(n int64) types.Namespace { return types.Namespace{Budget: &types.Budget{Keys: n}} }
	set := func(n int64) func(*types.Namespace) error {
		return func(ns *types.Namespace) error { *ns = keys(n); return nil }
	}
	w.refused(types.Invalid, func() error { return w.CreateNamespace(ctx, "A b", keys(1)) }, "create namespace", "A b")
	w.refused(types.Invalid, func() error { return w.CreateNamespace(ctx, "a", keys(-1)) }, "budget.keys", "-1")
	w.refused(types.NotFound, func() error { _, err := w.GetNamespace(ctx, "a"); return err }, "nothing is set for namespace a")
	w.refused(types.NotFound, func() error { return w.RemoveNamespace(ctx, "a") }, "remove namespace a")
	w.lossy.next(lost)
	if err := w.CreateNamespace(ctx, "a", keys(7)); err != nil {
		t.Fatal(err)
	}
	w.refused(types.AlreadyExists, func() error { return w.CreateNamespace(ctx, "a", keys(7)) }, "escher namespace set a")
	w.lossy.next(lost)
	for _, name := range []string{"a", "b"} {
		if err := w.SetNamespace(ctx, name, set(8)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := w.Namespaces(ctx)
	if err != nil || len(all) != 2 || all[0].Name != "a" || all[0].Allowed().Keys != 8 || all[1].Name != "b" || all[1].Allowed().Bytes != types.DefaultBytes {
		t.Errorf("there is %+v, %v", all, err)
	}
	w.put(controlplane.TaskKey("a", "t"), &types.Task{})
	w.refused(types.Precondition, func() error { return w.RemoveNamespace(ctx, "a") }, "in use", controlplane.TaskKey("a", "t"))
	w.delete(controlplane.TaskKey("a", "t"))
	w.lossy.next(lost)
	if err := w.RemoveNamespace(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	w.refused(types.NotFound, func() error { _, err := w.GetNamespace(ctx, "a"); return err }, "escher namespace ls")
}
