package search

import (
	"fmt"
	"slices"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
)

func TestChoices(t *testing.T) {
	for choice, valid := range map[Choice]bool{"": true, Auto: true, Spread: true, Pack: true, "Pack": false, "best": false} {
		if err := choice.Validate(); (err == nil) != valid || !valid && !types.Is(err, types.Invalid) {
			t.Errorf("%q: %v", choice, err)
		}
	}
}

// TestAutoPacksDevices: what requests devices is packed, unless all is to be spread.
func TestAutoPacksDevices(t *testing.T) {
	for _, c := range []struct {
		choice Choice
		needs  []types.ResourceID
		want   Choice
	}{
		{"", nil, Spread},
		{"", []types.ResourceID{types.CPU, types.Memory, "port", "port/80", "rack/r1.a", "ns:lic.ense"}, Spread},
		{Auto, []types.ResourceID{types.CPU, types.GPU}, Pack},
		{"", []types.ResourceID{"acme.com/fpga"}, Pack},
		{Auto, []types.ResourceID{"ns:gpu@train"}, Spread},
		{Spread, []types.ResourceID{types.GPU}, Spread},
		{Pack, []types.ResourceID{types.CPU}, Pack},
	} {
		var needs []cluster.Need
		for _, id := range c.needs {
			needs = append(needs, cluster.Need{ID: id, Amount: 1})
		}
		if got := c.choice.of(needs); got != c.want {
			t.Errorf("%q of %v is %s, want %s", c.choice, c.needs, got, c.want)
		}
	}
}

// TestBestFitOfDevices: of nodes that fit, the one with the fewest devices left is found; of equal
// ones, the one whose cpu is the least used. It does not matter how the nodes are visited.
func TestBestFitOfDevices(t *testing.T) {
	gpus := func(cpu, gpu types.Quantity) []types.Holding {
		return []types.Holding{{Resource: types.CPU, Amount: cpu}, {Resource: types.GPU, Amount: gpu}}
	}
	for _, size := range []int{5, lookAtAll} {
		all, d := registered(t, size, "")
		for i, n := range all.All() {
			n.Info.V.Labels = []types.Label{{Name: "rack", Value: "r1"}}
			n.Info.V.Capacity = types.NewRequests(map[string]types.Quantity{"cpu": 64_000, "gpu": 8000})
			all.Register(n)
			all.Relabel(n)
			all.Note(nil, n)
			switch i {
			case 1:
				d.Take(n, gpus(60_000, 6000))
			case 2:
				d.Take(n, gpus(20_000, 6000))
			case 0: // more is left than on n002, and cpu is idle
				d.Take(n, gpus(0, 5900))
			case 3:
				d.Take(n, gpus(1000, 4000))
			case 4:
				d.Take(n, gpus(63_500, 7000))
			}
		}
		for _, by := range []types.ResourceID{"", "rack/r1"} {
			for gpu, want := range map[types.Quantity]string{500: "n002", 2000: "n002", 3000: "n003", 4000: "n003"} {
				asked := []cluster.Need{{ID: types.CPU, Amount: 1000}, {ID: types.GPU, Amount: gpu}}
				if by != "" {
					asked = append(asked, cluster.Need{ID: by, Amount: 1})
				}
				if n, lacks, _ := all.Find(d, queue.NewShape(), asked); n == nil || n.Name != want {
					t.Errorf("%d of %d nodes by %q: %v, lacks %v, want %s", gpu, size, by, n, lacks, want)
				}
			}
		}
	}
}

// take makes cpu of the named nodes used.
func take(all *Nodes, d *draft.Draft, used map[string]types.Quantity) {
	for name, q := range used {
		d.Take(all.view.Nodes[name], []types.Holding{{Resource: types.CPU, Amount: q}})
	}
}

// TestLoadDecides: the least loaded node is found, or the fullest one where it fits. It does not
// matter whether a search visits all nodes by their index or some of them by their name.
func TestLoadDecides(t *testing.T) {
	for choice, want := range map[Choice]string{Spread: "n003", Pack: "n001"} {
		for _, by := range []types.ResourceID{"", "rack/r1"} {
			all, d := registered(t, 5, choice)
			for _, n := range all.All() {
				n.Info.V.Labels = []types.Label{{Name: "rack", Value: "r1"}}
				all.Relabel(n)
			}
			take(all, d, map[string]types.Quantity{"n000": 900, "n001": 500, "n002": 300, "n003": 100, "n004": 300})
			asked := needs(400)
			if by != "" {
				asked = append(asked, cluster.Need{ID: by, Amount: 1})
			}
			if n, lacks, skipped := all.Find(d, queue.NewShape(), asked); n == nil || n.Name != want {
				t.Errorf("%s by %q: %v, lacks %v, skipped %t, want %s", choice, by, n, lacks, skipped, want)
			}
		}
	}
}

// TestPackFillsOneNode: tasks of one shape fill a node before they try another one, in clusters of
// any size.
func TestPackFillsOneNode(t *testing.T) {
	for _, size := range []int{3, lookAtAll, lookAtAll + 1, 200} {
		all, d := registered(t, size, Pack)
		s, got := queue.NewShape(), make(map[string]int)
		for range 12 {
			n, _, _ := all.Find(d, s, needs(250))
			if n == nil {
				t.Fatalf("of %d nodes none fits", size)
			}
			holds := d.Hold(n, needs(250))
			d.Take(n, holds)
			got[n.Name]++
		}
		if len(got) != 3 {
			t.Errorf("of %d nodes it fills %v", size, got)
		}
	}
}

// TestFindLacks: what a search lacks is what the shape is to wait for.
func TestFindLacks(t *testing.T) {
	all, d := registered(t, 3, Spread)
	all.view.Nodes["n001"].Info.V.Labels = []types.Label{{Name: "zone", Value: "z1"}, {Name: "zone", Value: "z1"}, {Name: "color", Value: "red"}}
	all.Relabel(all.view.Nodes["n001"])
	for name, capacity := range map[string]types.Quantity{"n000": 1, "n001": 5} {
		kv := controlplane.KV{Key: controlplane.ResourceKey("a", "x", name), CreateRevision: 9, ModRevision: 9,
			Value: types.Encode(1, &types.Resource{Capacity: capacity, NodeSession: all.view.Nodes[name].Session()})}
		if _, _, err := all.view.Apply(controlplane.Event{KV: kv}); err != nil {
			t.Fatal(err)
		}
	}
	take(all, d, map[string]types.Quantity{"n001": 800})
	for name, test := range map[string]struct {
		needs []cluster.Need
		want  []types.ResourceID
		node  string
	}{
		"too much":                  {needs(1001), []types.ResourceID{grants.AnyNode, types.CPU}, ""},
		"of a resource of no node":  {append(needs(1), cluster.Need{ID: "a:y", Amount: 1}), []types.ResourceID{"a:y"}, ""},
		"too much of a resource":    {append(needs(1), cluster.Need{ID: "a:x", Amount: 6}), []types.ResourceID{"a:x"}, ""},
		"one here and one there":    {append(needs(500), cluster.Need{ID: "a:x", Amount: 2}), []types.ResourceID{grants.AnyNode, "a:x", types.CPU}, ""},
		"where both are":            {append(needs(200), cluster.Need{ID: "a:x", Amount: 2}), nil, "n001"},
		"on its node":               {append(needs(200), cluster.Need{ID: "node/n001", Amount: 1}), nil, "n001"},
		"too much on its node":      {append(needs(201), cluster.Need{ID: "node/n001", Amount: 1}), []types.ResourceID{grants.AnyNode, types.CPU, "node/n001"}, ""},
		"on a node that is unknown": {append(needs(1), cluster.Need{ID: "node/n009", Amount: 1}), []types.ResourceID{"node/n009"}, ""},
		"in its zone":               {append(needs(200), cluster.Need{ID: "zone/z1", Amount: 1}), nil, "n001"},
		"in a zone without nodes":   {append(needs(1), cluster.Need{ID: "zone/z2", Amount: 1}), []types.ResourceID{"zone/z2"}, ""},
	} {
		n, lacks, skipped := all.Find(d, queue.NewShape(), test.needs)
		if slices.Sort(lacks); !slices.Equal(lacks, test.want) || skipped || (n == nil) != (test.node == "") || n != nil && n.Name != test.node {
			t.Errorf("%s: %v, lacks %v, want %v", name, n, lacks, test.want)
		}
	}
	for rid, want := range map[types.ResourceID]*cluster.Node{"zone/z1": all.view.Nodes["n001"], "node/n002": all.view.Nodes["n002"], "zone/z2": nil, "node/n009": nil, types.CPU: nil} {
		if got := all.OnlyAt(rid); got != want {
			t.Errorf("%s is at %v alone", rid, got)
		}
	}
}

// TestRelabel: a node is found by its present labels, and by none when it is gone.
func TestRelabel(t *testing.T) {
	all, _ := registered(t, 2, Spread)
	n := all.All()[0]
	for _, step := range []struct {
		racks []string
		gone  bool
		want  []types.ResourceID
	}{
		{[]string{"r1"}, false, []types.ResourceID{"rack/r1"}}, {[]string{"r1", "r2"}, false, []types.ResourceID{"rack/r1", "rack/r2"}},
		{[]string{"r2"}, false, []types.ResourceID{"rack/r2"}}, {[]string{"r2"}, true, nil},
	} {
		n.Info.V.Labels = nil
		for _, r := range step.racks {
			n.Info.V.Labels = append(n.Info.V.Labels, types.Label{Name: "rack", Value: r})
		}
		if step.gone {
			n.Info.V = nil
		}
		all.Relabel(n)
		var got []types.ResourceID
		for rid, nodes := range all.labelled {
			if got = append(got, rid); !slices.Equal(nodes, []*cluster.Node{n}) {
				t.Errorf("%s: %d nodes", rid, len(nodes))
			}
		}
		if slices.Sort(got); !slices.Equal(got, step.want) {
			t.Errorf("with %v it is found by %v", step.racks, got)
		}
	}
}

// TestSeenBefore: a shape that did not fit visits only nodes that have gained capacity since, unless
// the log of them is gone or has become long.
func TestSeenBefore(t *testing.T) {
	all, d := registered(t, 9, Spread)
	used := make(map[string]types.Quantity)
	for _, n := range all.All() {
		used[n.Name] = 1000
	}
	take(all, d, used)
	s := queue.NewShape()
	visits := func(want int) {
		t.Helper()
		if nodes, _ := all.candidates(d, s, needs(500)); len(nodes) != want {
			t.Errorf("it visits %d nodes, want %d", len(nodes), want)
		}
	}
	visits(9)
	if n, _, _ := all.Find(d, s, needs(500)); n != nil || s.Seen != all.End() {
		t.Fatalf("%v fits, seen up to %d of %d", n, s.Seen, all.End())
	}
	visits(0)
	for i := range 5 {
		all.Log(all.All()[i])
		visits([]int{1, 2, 3, 9, 9}[i])
	}
	s.Seen = all.End()
	d.Undo(all.All()[7], []types.Holding{{Resource: types.CPU, Amount: 1000}})
	all.Log(all.All()[7])
	if n, _, _ := all.Find(d, s, needs(500)); n != all.All()[7] {
		t.Errorf("%v fits", n)
	}
	end := all.End()
	if all.ForgetLog(); all.End() == end {
		t.Error("the end of the log stays")
	}
	visits(9)
	s.Seen = all.End()
	visits(0)
	for range 5000 {
		all.Log(all.All()[0])
	}
	if visits(9); len(all.changed) > 4*9+1025 || all.End() != s.Seen+5000 {
		t.Errorf("the log has %d entries, and ends at %d", len(all.changed), all.End())
	}
}

// TestCounts: cordons and nodes that are kept count once each.
func TestCounts(t *testing.T) {
	all, _ := registered(t, 3, Spread)
	n, m := all.All()[0], all.All()[1]
	for i, cordoned := range []bool{true, true, false, false, true} {
		n.Cordon = cluster.Cell[types.Cordon]{}
		if cordoned {
			n.Cordon = cluster.Cell[types.Cordon]{Mod: int64(i + 1), V: &types.Cordon{}}
		}
		all.CountCordon(n)
		all.CountCordon(m)
		if want := map[bool]int{true: 1}[cordoned]; all.Cordons() != want {
			t.Errorf("step %d: %d cordons, want %d", i, all.Cordons(), want)
		}
	}
	all.Keep([]*cluster.Node{n, m})
	all.Keep([]*cluster.Node{n})
	all.Unkeep([]*cluster.Node{n, m})
	if all.Kept() != 1 || !all.Closed(n) || all.Closed(m) {
		t.Errorf("%d are kept", all.Kept())
	}
	if all.Keys(n) != draft.KeysOf(n) || all.Blank().View() != all.view {
		t.Error("keys or view are those of another node")
	}
}

// TestMayFit: a shape may fit a node if one of its alternatives may, or if its needs are unknown.
func TestMayFit(t *testing.T) {
	all, d := registered(t, 1, Spread)
	n := all.All()[0]
	take(all, d, map[string]types.Quantity{n.Name: 400})
	for name, test := range map[string]struct {
		resolved [][]cluster.Need
		want     bool
	}{
		"unknown": {nil, true}, "all": {[][]cluster.Need{needs(600)}, true}, "too much": {[][]cluster.Need{needs(601)}, false},
		"the second": {[][]cluster.Need{needs(601), needs(600)}, true}, "nothing": {[][]cluster.Need{nil}, true},
	} {
		s := queue.NewShape()
		if s.Resolved = test.resolved; all.MayFit(s, n) != test.want {
			t.Errorf("%s: %t", name, !test.want)
		}
	}
	info := n.Info.V
	n.Info.V = nil
	if all.Register(n); all.MayFit(&queue.Shape{Resolved: [][]cluster.Need{needs(1)}}, n) {
		t.Error("a node that is gone may fit")
	}
	n.Info.V = info
}

// TestPoolsComeFirst: a pool that is short or in flight decides before any node is visited.
func TestPoolsComeFirst(t *testing.T) {
	all, d := registered(t, 1, Spread)
	key := controlplane.ResourceKey("a", "x", types.ClusterWide)
	if _, _, err := all.view.Apply(controlplane.Event{KV: controlplane.KV{Key: key, Value: types.Encode(1, &types.Resource{Capacity: 2}), CreateRevision: 9, ModRevision: 9}}); err != nil {
		t.Fatal(err)
	}
	inFlight := false
	all.cfg.PoolInFlight = func(*draft.Draft, []cluster.Need) bool { return inFlight }
	for _, test := range []struct {
		cpu, amount types.Quantity
		inFlight    bool
		want        string
	}{{1000, 2, false, "n000 [] false"}, {2000, 3, false, "- [a:x] false"}, {1000, 2, true, "- [] true"}} {
		inFlight = test.inFlight
		n, lacks, skipped := all.Find(d, queue.NewShape(), append(needs(test.cpu), cluster.Need{ID: "a:x", Amount: test.amount}))
		name := "-"
		if n != nil {
			name = n.Name
		}
		if got := fmt.Sprint(name, " ", lacks, " ", skipped); got != test.want {
			t.Errorf("%d, in flight %t: %s, want %s", test.amount, test.inFlight, got, test.want)
		}
	}
}
