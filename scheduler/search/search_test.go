package search

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/scheduler/schedulertest"
	"github.com/escher-sched/escher/types"
)

// registered returns n registered nodes of one cpu each.
func registered(t interface{ Fatal(...any) }, n int, choice Choice) (*Nodes, *draft.Draft) {
	var kvs []any
	for i := range n {
		name := fmt.Sprintf("n%03d", i)
		kvs = append(kvs, controlplane.NodeKey(name), &types.Node{Capacity: schedulertest.Vector(1000, 0)}, controlplane.AliveKey(name), &types.Alive{})
	}
	v := schedulertest.Snapshot(t, kvs...)
	all := New(v, Config{
		Choice: choice, Rng: rand.New(rand.NewPCG(1, 2)),
		Part: func() (int, int) { return 0, n }, ToPlace: func() int { return 1 },
		PoolInFlight: func(*draft.Draft, []cluster.Need) bool { return false },
	})
	for i := range n {
		at := v.Nodes[fmt.Sprintf("n%03d", i)]
		all.Register(at)
		all.Relabel(at)
		all.Note(nil, at)
	}
	hooks := &draft.Hooks{Keys: all.Keys, Noted: all.NoteOf}
	return all, draft.NewFor(hooks, v, controlplane.Limits{Ops: 1 << 20, Bytes: 1 << 30}, 1, 0)
}

// bundles returns n bundles of so much cpu.
func bundles(v *cluster.View, n int, cpu types.Quantity) []grants.BundlePlacement {
	r := &types.Reservation{}
	for range n {
		r.Bundles = append(r.Bundles, types.Bundle{Requests: schedulertest.Vector(cpu, 0)})
	}
	return grants.BundleOrder(v, &cluster.Reservation{ID: cluster.ID{Namespace: "d", ID: "r"}, Info: cluster.Cell[types.Reservation]{V: r}})
}

func needs(cpu types.Quantity) []cluster.Need { return []cluster.Need{{ID: types.CPU, Amount: cpu}} }

// TestBundlesAreSearchedForInTurn: the search for a bundle continues after the node of the previous
// one.
func TestBundlesAreSearchedForInTurn(t *testing.T) {
	all, d := registered(t, 200, Spread)
	if p := NewPacking(all, d, bundles(d.View(), 100, 1000)); !p.Place() || all.window.cursor == 0 {
		t.Error("it begins where it began")
	}
}

// TestPackingIsAllOrNothing: bundles that do not all fit leave the draft and the index as they were.
func TestPackingIsAllOrNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, d := registered(t, rapid.IntRange(1, 80).Draw(t, "nodes"), Spread)
		n, cpu := rapid.IntRange(1, 120).Draw(t, "bundles"), types.Quantity(rapid.IntRange(1, 11).Draw(t, "cpu")*100)
		fits := cpu <= 1000 && n <= len(all.All())*int(1000/cpu)
		p := NewPacking(all, d, bundles(d.View(), n, cpu))
		if placed := p.Place(); placed != fits {
			t.Fatalf("%d bundles of %d on %d nodes: placed %t", n, cpu, len(all.All()), placed)
		} else if placed {
			p.Undo()
		}
		for _, at := range all.All() {
			if free, _ := d.Free(at, types.CPU); free != 1000 {
				t.Fatalf("%s has %d free", at.Name, free)
			}
			room := d.RoomOn(at)
			if err := all.Index().Check(all.Pos(at), &room); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestFindSkips: nodes in flight and nodes that a collection keeps are not found, and the caller
// learns that they might fit. Avoided nodes are found when no others fit.
func TestFindSkips(t *testing.T) {
	all, d := registered(t, 2, Spread)
	first, second := all.All()[0], all.All()[1]
	found := func(want *cluster.Node, skipped bool) {
		t.Helper()
		n, lacks, may := all.Find(d, queue.NewShape(), needs(600))
		if n != want || may != skipped || (n == nil && !may) != (len(lacks) > 0 && n == nil && !may) {
			t.Errorf("found %v, lacks %v, skipped %t; want %v, %t", n, lacks, may, want, skipped)
		}
	}
	all.SetLocked(first, true)
	found(second, false)
	all.Keep([]*cluster.Node{second})
	found(nil, true)
	all.Unkeep([]*cluster.Node{second})
	all.SetLocked(first, false)
	all.Avoid([]*cluster.Node{first})
	for range 10 {
		found(second, false)
	}
	d.Take(second, []types.Holding{{Resource: types.CPU, Amount: 500}})
	found(first, false)
	d.Take(first, []types.Holding{{Resource: types.CPU, Amount: 500}})
	found(nil, false)
}

// TestRegister: the positions of nodes and the index stay consistent as nodes come and go.
func TestRegister(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, d := registered(t, 6, Spread)
		nodes := append([]*cluster.Node(nil), all.All()...)
		info := nodes[0].Info.V
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			n := rapid.SampledFrom(nodes).Draw(t, "node")
			switch there := n.Info.V != nil; {
			case there:
				n.Info.V = nil
			default:
				n.Info.V = info
			}
			if !all.Register(n) || all.Register(n) {
				t.Fatal("a change is noticed once")
			}
			all.Note(nil, n)
		}
		for pos, n := range all.All() {
			room := d.RoomOn(n)
			if all.Pos(n) != pos || n.Info.V == nil || all.Index().Check(pos, &room) != nil {
				t.Fatalf("%s is at %d, not %d: %v", n.Name, all.Pos(n), pos, all.Index().Check(pos, &room))
			}
		}
	})
}
