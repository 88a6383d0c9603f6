package division

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// live sets the live schedulers of a view.
func live(v *cluster.View, names ...string) {
	v.Schedulers = make(map[string]*cluster.Cell[types.Leader])
	for _, name := range names {
		v.Schedulers[name] = &cluster.Cell[types.Leader]{V: &types.Leader{Holder: name}}
	}
}

// TestEveryNamespaceHasOneOwner: among any schedulers, one serves a namespace, and when one of them
// goes, only its namespaces change hands.
func TestEveryNamespaceHasOneOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, all := cluster.New(), make(map[string]*Division)
		var names []string
		for i := range rapid.IntRange(1, 6).Draw(t, "schedulers") {
			name := fmt.Sprintf("s%d", i)
			names, all[name] = append(names, name), New(v, name, true)
		}
		live(v, names...)
		owner := make(map[string]string)
		for i := range 50 {
			ns := fmt.Sprintf("ns%d", i)
			for name, d := range all {
				if !d.Owns(ns, "") {
					continue
				}
				if owner[ns] != "" {
					t.Fatalf("%s belongs to %s and %s", ns, owner[ns], name)
				}
				owner[ns] = name
			}
			if owner[ns] == "" {
				t.Fatalf("%s belongs to none of %v", ns, names)
			}
		}
		if len(names) == 1 {
			return
		}
		gone := names[len(names)-1]
		live(v, names[:len(names)-1]...)
		for _, name := range names[:len(names)-1] {
			moved, named := all[name].Changed(gone)
			for ns := range moved {
				if owner[ns] != gone || !all[name].Owns(ns, "") || named {
					t.Fatalf("%s of %s moved to %s", ns, owner[ns], name)
				}
			}
		}
	})
}

// TestPartsCoverAllNodes: the parts of the live schedulers cover all nodes, without an overlap.
func TestPartsCoverAllNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, names := cluster.New(), []string{"a", "b", "c", "d", "e"}[:rapid.IntRange(1, 5).Draw(t, "schedulers")]
		live(v, names...)
		n, next := rapid.IntRange(0, 100).Draw(t, "nodes"), 0
		for _, name := range names {
			from, to := New(v, name, true).Part(n)
			if from != next || to < from {
				t.Fatalf("%s has %d to %d of %d, after %d", name, from, to, n, next)
			}
			next = to
		}
		if next != n {
			t.Fatalf("%d of %d nodes are covered", next, n)
		}
	})
}

// TestSettles: tasks that name a scheduler belong to it. Another one settles them while that one
// does not run, and learns when it comes.
func TestSettles(t *testing.T) {
	v := cluster.New()
	live(v, "mine")
	d := New(v, "mine", true)
	task := &cluster.Task{ID: cluster.ID{Namespace: "a", ID: "t"}, Info: cluster.Cell[cluster.TaskValue]{V: cluster.NewTask(&types.Task{Scheduler: "other"})}}
	if d.OwnsTask(task) || !d.Settles(task) {
		t.Errorf("while the other is absent: owns %t, settles %t", d.OwnsTask(task), d.Settles(task))
	}
	live(v, "mine", "other")
	if _, named := d.Changed("other"); !named || d.Settles(task) {
		t.Errorf("once the other is there: named %t, settles %t", named, d.Settles(task))
	}
	alone := New(v, "mine", false)
	if from, to := alone.Part(7); !alone.Owns("any", "") || alone.Owns("any", "other") || from != 0 || to != 7 {
		t.Error("a scheduler that shares nothing serves all namespaces and all nodes")
	}
}
