package controlplane_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// counted counts the calls of a store.
type counted struct {
	controlplane.Store
	n atomic.Int32
}

func (c *counted) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	c.n.Add(1)
	return c.Store.List(ctx, opts)
}

func (c *counted) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	c.n.Add(1)
	return c.Store.Commit(ctx, txn)
}

// TestRoundTrips checks the number of consecutive calls of the store for each action, by a client
// that starts without memory.
func TestRoundTrips(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"n1", "n2"} {
		w.node(name)
	}
	store := &counted{Store: w.store}
	c, err := controlplane.New(store, "team")
	if err != nil {
		t.Fatal(err)
	}
	set := func(name string, capacity types.Quantity, where controlplane.Where, opts controlplane.SetOptions) func() error {
		return func() error {
			_, err := c.SetResource(t.Context(), name, capacity, where, opts)
			return err
		}
	}
	launch := func(tasks ...controlplane.Submission) func() error {
		return func() error {
			_, err := c.Launch(t.Context(), tasks...)
			return err
		}
	}
	inSession := one("")
	inSession.Task.Session = "s"
	w.put(controlplane.SessionKey("team", "s"), &types.Session{})
	ofSession := controlplane.SetOptions{Lifetime: types.OfSession, Owner: "s"}
	for _, x := range []struct {
		what string
		do   func() error
		want int32
	}{
		{"a node that is not known", set("x", 1, controlplane.OnNode("n1"), controlplane.SetOptions{}), 2},
		{"a new resource", set("y", 1, controlplane.OnNode("n1"), controlplane.SetOptions{}), 1},
		{"one that it set before", set("x", 2, controlplane.OnNode("n1"), controlplane.SetOptions{}), 1},
		{"as it is", set("x", 2, controlplane.OnNode("n1"), controlplane.SetOptions{}), 1},
		{"another node", set("x", 2, controlplane.OnNode("n1", "n2"), controlplane.SetOptions{}), 2},
		{"both", set("x", 3, controlplane.OnNode("n1", "n2"), controlplane.SetOptions{}), 1},
		{"to remove what it set", set("x", 0, controlplane.OnNode("n1"), controlplane.SetOptions{}), 1},
		{"and to set it again", set("x", 5, controlplane.OnNode("n1"), controlplane.SetOptions{}), 1},
		{"a pool", set("p", 1, controlplane.InCluster(), controlplane.SetOptions{}), 1},
		{"a pool again", set("p", 2, controlplane.InCluster(), controlplane.SetOptions{}), 1},
		{"to remove a pool", set("p", 0, controlplane.InCluster(), controlplane.SetOptions{}), 1},
		{"to remove what it does not know", set("q", 0, controlplane.InCluster(), controlplane.SetOptions{}), 2},
		{"of a session that is not known", set("z", 1, controlplane.OnNode("n1"), ofSession), 2},
		{"of a session that is", set("z2", 1, controlplane.OnNode("n1"), ofSession), 1},
		{"a task", launch(one("")), 1},
		{"a task in a session", launch(inSession), 1},
		{"a job", launch(several(10)...), 1},
		{"a reservation", func() error { return c.Reserve(t.Context(), "r", bundles(8)) }, 1},
		{"a resource that another client has set meanwhile", func() error {
			w.put(controlplane.ResourceKey("team", "y", "n1"), &types.Resource{Capacity: 7})
			store.n.Store(0)
			return set("y", 9, controlplane.OnNode("n1"), controlplane.SetOptions{})()
		}, 4},
	} {
		store.n.Store(0)
		if err := x.do(); err != nil {
			t.Errorf("%s: %v", x.what, err)
		}
		if n := store.n.Load(); n != x.want {
			t.Errorf("%s: it took %d round trips, want %d", x.what, n, x.want)
		}
	}
	w.wantHas("x", caps{"n1": 5, "n2": 3})
	w.wantHas("y", caps{"n1": 9})
	w.wantHas("p", caps{})
}

// TestSetManyAtOnce checks that a thousand resources in one transaction take one round trip, once
// their nodes are known.
func TestSetManyAtOnce(t *testing.T) {
	w := newWorld(t)
	nodes := make([]string, 50)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("n%02d", i)
		w.node(nodes[i])
	}
	store := &counted{Store: w.store}
	c, err := controlplane.New(store, "team")
	if err != nil {
		t.Fatal(err)
	}
	for round, most := range []int32{1000, 1, 1} {
		store.n.Store(0)
		tx := c.Begin()
		for i := range 20 {
			tx.SetResource(fmt.Sprintf("many-%d", i), types.Quantity(round+1), controlplane.OnNode(nodes...), controlplane.SetOptions{})
		}
		if _, err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := store.n.Load(); n > most {
			t.Errorf("round %d: it took %d round trips, want %d at most", round, n, most)
		}
	}
	if got := w.has("many-7"); len(got) != 50 || got["n49"] != 3 {
		t.Errorf("there is %v", got)
	}
}

// TestMemoryIsNotTrusted checks that a client sets the requested value, whatever others did to its
// earlier values.
func TestMemoryIsNotTrusted(t *testing.T) {
	for name, meanwhile := range map[string]func(w *world){
		"removed":         func(w *world) { w.delete(controlplane.ResourceKey("team", "x", "n1")) },
		"changed":         func(w *world) { w.put(controlplane.ResourceKey("team", "x", "n1"), &types.Resource{Capacity: 99}) },
		"another session": func(w *world) { w.delete(controlplane.AliveKey("n1")); w.node("n1") },
		"nothing":         func(*world) {},
	} {
		for _, capacity := range []types.Quantity{0, 1, 2} {
			w := newWorld(t, memstore.WithLimits(controlplane.Limits{Ops: 128, Bytes: 1 << 20}))
			session := w.node("n1")
			w.set("x", 1, controlplane.OnNode("n1"))
			meanwhile(w)
			w.set("x", capacity, controlplane.OnNode("n1"))
			want := caps{"n1": capacity}
			if capacity == 0 {
				want = caps{}
			}
			w.wantHas("x", want)
			var r types.Resource
			if w.get(controlplane.ResourceKey("team", "x", "n1"), &r) && name == "another session" && r.NodeSession == session {
				t.Errorf("%s: it is of the former session of the node", name)
			}
		}
	}
}

// TestRefusedLaunchReadsLittle checks that a launch refused before its first write looks for no
// leftovers.
func TestRefusedLaunchReadsLittle(t *testing.T) {
	w := newWorld(t)
	w.put(controlplane.AdmissionKey(), &types.Admission{Reason: "full"})
	store := &counted{Store: w.store}
	c, err := controlplane.New(store, "team")
	if err != nil {
		t.Fatal(err)
	}
	w.refused(types.Precondition, func() error {
		_, err := c.Launch(t.Context(), several(5000)...)
		return err
	}, "full")
	if n := store.n.Load(); n != 2 {
		t.Errorf("it took %d round trips, want 2", n)
	}
}

// TestWaitForManyPrefixes checks that prefixes need no more requests, however many, and that
// ambiguous and unknown ones are refused.
func TestWaitForManyPrefixes(t *testing.T) {
	w := newWorld(t)
	var prefixes []string
	for i := range 300 {
		w.put(controlplane.TaskKey("team", fmt.Sprintf("t%03d-abcdefghij", i)), &types.Task{})
		w.put(controlplane.StatusKey("team", fmt.Sprintf("t%03d-abcdefghij", i)), &types.Status{Phase: types.Succeeded, Attempt: 1})
		prefixes = append(prefixes, fmt.Sprintf("t%03d-", i))
	}
	store := &counted{Store: w.store}
	c, err := controlplane.New(store, "team")
	if err != nil {
		t.Fatal(err)
	}
	found, err := c.Wait(t.Context(), controlplane.UntilEnded, prefixes...)
	if n := store.n.Load(); err != nil || len(found) != 300 || n > 5 {
		t.Errorf("%d found with %d requests, %v", len(found), n, err)
	}
	for id, want := range map[string]types.Class{"t0": types.Invalid, "x": types.NotFound} {
		if _, err := c.Wait(t.Context(), controlplane.UntilEnded, append(prefixes, id)...); !types.Is(err, want) {
			t.Errorf("%s: %v", id, err)
		}
	}
}
