package sim

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// clientRace is a resource that a client sets, and one that another client sets between its
// decision and its commit.
type clientRace struct {
	name       string
	where      controlplane.Where
	other      string
	unguarded  func(controlplane.Compare) bool
	wantedText string
}

// clientRaces are about a name being a pool of the cluster or on nodes. Schedulers rely on that:
// they do not check for a pool where a node has a key of its own.
func clientRaces() []clientRace {
	pool := func(c controlplane.Compare) bool {
		return c.Target != controlplane.Newest && strings.HasSuffix(c.Key, "/"+types.ClusterWide)
	}
	nodes := func(c controlplane.Compare) bool { return c.Target == controlplane.Newest }
	return []clientRace{
		{"a node gets what becomes a pool", controlplane.OnNode("n0"), types.ClusterWide, pool, "one pool"},
		{"every node gets what becomes a pool", controlplane.OnEvery(), types.ClusterWide, pool, "one pool"},
		{"a pool is made of what a node gets", controlplane.InCluster(), "n0", nodes, "on node n0"},
		{"a pool is made of what every node gets", controlplane.InCluster(), types.EveryNode, nodes, "on every node"},
	}
}

// between is a store in which something happens before the first commit, which then lacks some
// compares.
type between struct {
	controlplane.Store
	do        func()
	unguarded func(controlplane.Compare) bool
}

func (s *between) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	if s.do != nil {
		s.do()
		s.do = nil
	}
	if s.unguarded != nil {
		txn.Compares = slices.DeleteFunc(slices.Clone(txn.Compares), s.unguarded)
	}
	return s.Store.Commit(ctx, txn)
}

func (r clientRace) run(t *testing.T, unguarded func(controlplane.Compare) bool) (findings []string, err error) {
	b := newBench(t, Config{Seed: 1, Schedulers: 1, Nodes: 2, Tasks: 1})
	s := &between{Store: b.store, do: func() { b.resource("x", r.other, 1000) }, unguarded: unguarded}
	c, err := controlplane.New(s, "a")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.SetResource(t.Context(), "x", 1000, r.where, controlplane.SetOptions{})
	b.check()
	return b.findings, err
}

// TestClientRaces: of two clients that make a name a pool and on nodes, the later one is refused.
func TestClientRaces(t *testing.T) {
	for _, r := range clientRaces() {
		t.Run(strings.ReplaceAll(r.name, " ", "-"), func(t *testing.T) {
			findings, err := r.run(t, nil)
			if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), r.wantedText) || len(findings) > 0 {
				t.Errorf("%v, found %v", err, findings)
			}
		})
	}
}

// TestClientUnguarded: without the compare of the race it becomes both.
func TestClientUnguarded(t *testing.T) {
	for _, r := range clientRaces() {
		t.Run(strings.ReplaceAll(r.name, " ", "-"), func(t *testing.T) {
			findings, err := r.run(t, r.unguarded)
			if err != nil || !slices.ContainsFunc(findings, func(f string) bool { return strings.Contains(f, "NameIsOneKind") }) {
				t.Errorf("%v, found %v", err, findings)
			}
		})
	}
}
