package controlplane_test

import (
	"context"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestForget refuses while the node is alive or holds anything, and then deletes all of its keys.
func TestForget(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	forget := func() error { return w.Forget(ctx, "n1") }
	w.refused(types.NotFound, forget, "remove node n1", "no node n1")
	w.put(controlplane.NodeKey("n1"), &types.Node{})
	w.put(controlplane.NodeKey("n10"), &types.Node{})
	w.put(controlplane.DevicesKey("n1"), &types.Devices{})
	w.put(controlplane.CordonKey("n1"), &types.Cordon{})
	w.put(controlplane.AliveKey("n1"), &types.Alive{})
	w.refused(types.Precondition, forget, "its agent is alive")
	w.delete(controlplane.AliveKey("n1"))
	binding := controlplane.BindingKey("n1", "team", "a", 1)
	w.put(binding, &types.Binding{})
	w.put(controlplane.BindingKey("n10", "team", "b", 1), &types.Binding{})
	w.refused(types.Precondition, forget, "team/a", "on-disconnect keep")
	w.delete(binding)
	held := &types.Allocated{Holds: []types.Holding{{Resource: "cpu", Amount: 1}}}
	w.put(controlplane.AllocatedKey("n1"), held)
	w.refused(types.Precondition, forget, "reservations hold capacity there")
	w.put(controlplane.AllocatedKey("n1"), &types.Allocated{})
	// An unanswered commit is checked.
	w.lossy.next(lost)
	if err := forget(); err != nil && !types.Is(err, types.NotFound) {
		t.Fatal(err)
	}
	for _, key := range []string{
		controlplane.NodeKey("n1"), controlplane.DevicesKey("n1"), controlplane.CordonKey("n1"), controlplane.AllocatedKey("n1"),
	} {
		if page, err := w.store.List(ctx, controlplane.ListOptions{Key: key}); err != nil || len(page.KVs) != 0 {
			t.Errorf("%s is there: %v", key, err)
		}
	}
	if page, err := w.store.List(ctx, controlplane.ListOptions{Key: controlplane.NodeKey("n10")}); err != nil || len(page.KVs) != 1 {
		t.Errorf("another node is gone: %v", err)
	}
}

// meeting is a store in which an event happens just before the first commit.
type meeting struct {
	controlplane.Store
	do func()
}

func (m *meeting) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	if do := m.do; do != nil {
		m.do = nil
		do()
	}
	return m.Store.Commit(ctx, txn)
}

// TestForgetComparesWhatItGoesBy checks that an event just before the commit prevents it.
func TestForgetComparesWhatItGoesBy(t *testing.T) {
	for name, come := range map[string]func(w *world){
		"alive": func(w *world) { w.put(controlplane.AliveKey("n1"), &types.Alive{}) },
		"bound": func(w *world) { w.put(controlplane.BindingKey("n1", "team", "a", 1), &types.Binding{}) },
		"allocated": func(w *world) {
			w.put(controlplane.AllocatedKey("n1"), &types.Allocated{Holds: []types.Holding{{Resource: "cpu", Amount: 1}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put(controlplane.NodeKey("n1"), &types.Node{})
			c, err := controlplane.New(&meeting{w.store, func() { come(w) }}, "team")
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Forget(t.Context(), "n1"); !types.Is(err, types.Precondition) {
				t.Errorf("it ended with %v", err)
			}
			if page, err := w.store.List(t.Context(), controlplane.ListOptions{Key: controlplane.NodeKey("n1")}); err != nil || len(page.KVs) != 1 {
				t.Errorf("it is gone: %v", err)
			}
		})
	}
}

// TestDeclareDead accepts the word of an administrator for a node that is not alive, and for no
// other.
func TestDeclareDead(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	declare := func() error { return w.DeclareDead(ctx, "n1", "burnt") }
	w.refused(types.NotFound, declare, "declare node n1 dead", "no node n1")
	w.put(controlplane.NodeKey("n1"), &types.Node{})
	w.put(controlplane.AliveKey("n1"), &types.Alive{})
	w.refused(types.Precondition, declare, "its agent is alive")
	if c := w.cordonOf("n1"); c != nil {
		t.Errorf("refused, and there is %+v", c)
	}
	w.delete(controlplane.AliveKey("n1"))
	w.put(controlplane.CordonKey("n1"), &types.Cordon{Reason: "disk", Drain: types.DrainMove})
	if err := declare(); err != nil {
		t.Fatal(err)
	}
	if c := w.cordonOf("n1"); c == nil || !c.Dead || c.Reason != "burnt" || c.Drain != types.DrainMove {
		t.Errorf("there is %+v", c)
	}
	// A later cordon neither sets nor clears it.
	if _, err := w.Cordon(ctx, "n1", types.Cordon{Reason: "x"}); err != nil || !w.cordonOf("n1").Dead {
		t.Errorf("cordoned again: %+v, %v", w.cordonOf("n1"), err)
	}
	w.put(controlplane.NodeKey("n2"), &types.Node{})
	if _, err := w.Cordon(ctx, "n2", types.Cordon{Dead: true}); err != nil || w.cordonOf("n2").Dead {
		t.Errorf("cordoned: %+v, %v", w.cordonOf("n2"), err)
	}
	if _, err := w.Uncordon(ctx, "n1"); err != nil || w.cordonOf("n1") != nil {
		t.Error("it cannot be taken back")
	}
}

// TestDeclareDeadComparesAlive brings the agent back just before the commit.
func TestDeclareDeadComparesAlive(t *testing.T) {
	w := newWorld(t)
	w.put(controlplane.NodeKey("n1"), &types.Node{})
	c, err := controlplane.New(&meeting{w.store, func() { w.put(controlplane.AliveKey("n1"), &types.Alive{}) }}, "team")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.DeclareDead(t.Context(), "n1", ""); !types.Is(err, types.Precondition) || w.cordonOf("n1") != nil {
		t.Errorf("it ended with %v, and there is %+v", err, w.cordonOf("n1"))
	}
}
