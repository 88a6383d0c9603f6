package controlplane_test

import (
	"context"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// A name is either one cluster-wide pool or on nodes.
func TestNameIsOneKind(t *testing.T) {
	for name, c := range map[string]struct {
		first, second controlplane.Where
		says          []string
	}{
		"on a node, then a pool":      {controlplane.OnNode("n1"), controlplane.InCluster(), []string{`where.cluster: "x" is on node n1`, "remove it on every node first"}},
		"on every node, then a pool":  {controlplane.OnEvery(), controlplane.InCluster(), []string{`"x" is on every node`, "remove it on every node first"}},
		"a pool, then on a node":      {controlplane.InCluster(), controlplane.OnNode("n1"), []string{`where: "x" is one pool`, "remove it there first"}},
		"a pool, then on every node":  {controlplane.InCluster(), controlplane.OnEvery(), []string{`"x" is one pool`, "remove it there first"}},
		"a pool, then on some labels": {controlplane.InCluster(), controlplane.OnEvery(types.Label{Name: "rack", Value: "r1"}), []string{`"x" is one pool`}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", "rack=r1")
			w.set("x", 1, c.first)
			before := w.has("x")
			second := func() error {
				_, err := w.SetResource(t.Context(), "x", 2, c.second, controlplane.SetOptions{})
				return err
			}
			w.refused(types.Precondition, second, c.says...)
			w.refused(types.Precondition, func() error {
				_, err := w.Begin().SetResource("x", 2, c.second, controlplane.SetOptions{}).Preview(t.Context())
				return err
			}, c.says...)
			// Removing a missing resource is no mistake.
			w.set("x", 0, c.second)
			w.wantHas("x", before)
			w.set("x", 0, c.first)
			if err := second(); err != nil {
				t.Errorf("after it was removed: %v", err)
			}
		})
	}
}

// Two clients create both kinds at once: one of them is refused.
func TestNameIsOneKindAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		where controlplane.Where
		meet  string
	}{
		"a pool, as it comes to a node":       {controlplane.InCluster(), "n1"},
		"a pool, as it comes to every node":   {controlplane.InCluster(), "+"},
		"on a node, as it becomes a pool":     {controlplane.OnNode("n1"), "*"},
		"on every node, as it becomes a pool": {controlplane.OnEvery(), "*"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1")
			w.lossy.before = func(n int) {
				if n == 1 {
					w.put(controlplane.ResourceKey("team", "x", c.meet), &types.Resource{Capacity: 7})
				}
			}
			w.lossy.commits()
			if _, err := w.SetResource(t.Context(), "x", 2, c.where, controlplane.SetOptions{}); !types.Is(err, types.Precondition) {
				t.Errorf("got %v", err)
			}
			w.wantHas("x", caps{c.meet: 7})
		})
	}
}

// A resource that a client remembers on a node is now a pool.
func TestNameIsOneKindThoughRemembered(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.set("x", 1, controlplane.OnNode("n1"))
	w.delete(controlplane.ResourceKey("team", "x", "n1"))
	w.put(controlplane.ResourceKey("team", "x", "*"), &types.Resource{Capacity: 7})
	w.refused(types.Precondition, func() error {
		_, err := w.SetResource(t.Context(), "x", 2, controlplane.OnNode("n1"), controlplane.SetOptions{})
		return err
	}, "one pool")
	w.wantHas("x", caps{"*": 7})
}

// The compares of a transaction do not see its own writes.
func TestNameIsOneKindInATransaction(t *testing.T) {
	on, every, pool := controlplane.OnNode("n1"), controlplane.OnEvery(), controlplane.InCluster()
	type step struct {
		capacity types.Quantity
		where    controlplane.Where
	}
	for name, c := range map[string]struct {
		has   *step
		steps []step
		ok    bool
	}{
		"both":                              {nil, []step{{1, on}, {1, pool}}, false},
		"both, the other way round":         {nil, []step{{1, pool}, {1, every}}, false},
		"a pool of what is removed":         {&step{1, on}, []step{{0, every}, {1, pool}}, false},
		"what is removed first is no pool":  {&step{1, pool}, []step{{0, pool}, {1, on}}, false},
		"made on a node, and no pool":       {nil, []step{{1, on}, {0, pool}}, false},
		"all of it is removed":              {&step{1, on}, []step{{0, pool}, {0, every}}, true},
		"all of it is removed, then a pool": {nil, []step{{0, pool}, {0, every}, {1, pool}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1")
			if c.has != nil {
				w.set("x", c.has.capacity, c.has.where)
			}
			before := w.store.Revision()
			tx := w.Begin()
			for _, s := range c.steps {
				tx.SetResource("x", s.capacity, s.where, controlplane.SetOptions{})
			}
			if c.ok {
				if _, err := tx.Commit(t.Context()); err != nil {
					t.Error(err)
				}
				return
			}
			w.refused(types.Invalid, func() error {
				_, err := tx.Commit(t.Context())
				return err
			}, `where: "x" is set in the cluster and on nodes`, "remove one first")
			if w.store.Revision() != before {
				t.Error("something was written")
			}
		})
	}
	w := newWorld(t)
	w.node("n1")
	if _, err := w.Begin().SetResource("x", 1, on, controlplane.SetOptions{}).SetResource("y", 1, pool, controlplane.SetOptions{}).Commit(t.Context()); err != nil {
		t.Errorf("of two names: %v", err)
	}
}

// comparing records the compares of the last transaction.
type comparing struct {
	controlplane.Store
	last int
}

func (c *comparing) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	c.last = len(txn.Compares)
	return c.Store.Commit(ctx, txn)
}

// A change of an existing key relies on that key alone.
func TestChangeOfWhatIsThereComparesNoPool(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	compared := func(capacity types.Quantity, where controlplane.Where) int {
		store := &comparing{Store: w.store}
		c, err := controlplane.New(store, "team")
		if err != nil {
			t.Fatal(err)
		}
		// The client remembers the key.
		for range 2 {
			if _, err := c.SetResource(t.Context(), "x", capacity, where, controlplane.SetOptions{}); err != nil {
				t.Fatal(err)
			}
			capacity++
		}
		return store.last
	}
	// The compares are the key, and the session of its node.
	if n := compared(5, controlplane.OnNode("n1")); n != 2 {
		t.Errorf("changing it on a node compares %d keys", n)
	}
	w.set("x", 0, controlplane.OnEvery())
	if n := compared(5, controlplane.InCluster()); n != 1 {
		t.Errorf("changing a pool compares %d keys", n)
	}
}
