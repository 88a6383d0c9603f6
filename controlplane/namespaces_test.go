package controlplane_test

import (
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestNamespaces creates, changes and removes settings of a namespace, each time with a lost
// answer.
func TestNamespaces(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	keys := func(n int64) types.Namespace { return types.Namespace{Budget: &types.Budget{Keys: n}} }
	set := func(n int64) func(*types.Namespace) error {
		return func(ns *types.Namespace) error { *ns = keys(n); return nil }
	}
	w.refused(types.Invalid, func() error { return w.CreateNamespace(ctx, "A b", keys(1)) }, "create namespace", "A b")
	w.refused(types.Invalid, func() error { return w.CreateNamespace(ctx, "a", keys(-1)) }, "budget.keys", "-1")
	w.refused(types.NotFound, func() error { _, err := w.GetNamespace(ctx, "a"); return err }, "namespace a has no settings")
	w.refused(types.NotFound, func() error { return w.RemoveNamespace(ctx, "a") }, "remove namespace a")
	w.lossy.next(lost)
	if err := w.CreateNamespace(ctx, "a", keys(7)); err != nil {
		t.Fatal(err)
	}
	w.refused(types.AlreadyExists, func() error { return w.CreateNamespace(ctx, "a", keys(7)) }, "change the settings of namespace a")
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
	for key, m := range map[string]types.Message{controlplane.TaskKey("a", "t"): &types.Task{}, controlplane.SecretKey("a", "db"): &types.Secret{}} {
		w.put(key, m)
		w.refused(types.Precondition, func() error { return w.RemoveNamespace(ctx, "a") }, "in use", key)
		w.delete(key)
	}
	w.lossy.next(lost)
	if err := w.RemoveNamespace(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	w.refused(types.NotFound, func() error { _, err := w.GetNamespace(ctx, "a"); return err }, "list the namespaces")
}

// TestNamespaceAllows checks that the highest priority and the ban on accumulation apply to tasks
// and reservations, even for a client that launched before they were set.
func TestNamespaceAllows(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	task := func(priority int, accumulate bool) controlplane.Submission {
		return controlplane.Submission{Task: types.Task{Name: "web", Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1}), Priority: priority, Accumulate: accumulate}, Spec: &types.Spec{Image: "x"}}
	}
	reserve := func(id string, priority int, accumulate bool) func() error {
		return func() error {
			return w.Reserve(ctx, id, types.Reservation{Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1})}}, Priority: priority, Accumulate: accumulate})
		}
	}
	launch := func(tasks ...controlplane.Submission) func() error {
		return func() error { _, err := w.Launch(ctx, tasks...); return err }
	}
	set := func(b types.Budget) {
		t.Helper()
		if err := w.SetNamespace(ctx, "team", func(n *types.Namespace) error { n.Budget = &b; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	accepted := func(calls ...func() error) {
		t.Helper()
		for i, call := range calls {
			if err := call(); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		}
	}
	accepted(launch(task(100, true)), reserve("a", 100, true))
	set(types.Budget{Priority: &types.Ceiling{Max: 0}})
	w.refused(types.Precondition, launch(task(0, false), task(7, false)), "tasks[1].priority: 7 is above 0", "change max-priority of namespace team")
	w.refused(types.Precondition, reserve("b", 7, false), "priority: 7 is above 0")
	accepted(launch(task(0, true)), launch(task(-5, false)), reserve("b", 0, true))
	set(types.Budget{NoAccumulate: true})
	w.refused(types.Precondition, launch(task(0, true)), "tasks[0].accumulate: namespace team may not accumulate", "change accumulate of namespace team")
	w.refused(types.Precondition, reserve("c", 0, true), "accumulate")
	accepted(launch(task(100, false)), reserve("c", 100, false))
}
