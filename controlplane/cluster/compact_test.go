package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// said returns the content of a view's tasks as text.
func said(v *cluster.View) []string {
	var out []string
	say := func(t *cluster.Task, from string) {
		out = append(out, fmt.Sprintf("%s %s %+v %d %d %+v %d %d %d", from, t.ID, t.Info.V.Full(), t.Info.Mod, t.Info.Create,
			t.Status.V.Full(), t.Status.Mod, t.Status.Create, len(t.Bindings)))
	}
	for t := range v.Tasks() {
		say(t, "all")
	}
	for _, job := range []string{"j0", "j1"} {
		for _, ns := range []string{"d", "e"} {
			for _, t := range v.Members(cluster.ID{Namespace: ns, ID: job}) {
				say(t, job)
			}
		}
	}
	for _, e := range v.Gone(1, func(string) bool { return false }) {
		out = append(out, e.Key)
	}
	slices.Sort(out)
	return append(out, fmt.Sprint(v.NumTasks()))
}

// TestCompaction checks that compaction never changes the content of a view, whatever happens to the
// tasks, even with many hash collisions.
func TestCompaction(t *testing.T) {
	for name, mask := range map[string]uint64{"of other hashes": ^uint64(0), "of few hashes": 7, "of one hash": 0} {
		t.Run(name, func(t *testing.T) { checkCompaction(t, mask) })
	}
}

func checkCompaction(t *testing.T, mask uint64) {
	rng := rand.New(rand.NewPCG(1, 2))
	compacting, other := newKeys(t), newKeys(t)
	compacting.MaskCompacted(mask)
	id := func() cluster.ID {
		return cluster.ID{Namespace: []string{"d", "e"}[rng.IntN(2)], ID: fmt.Sprint("t", rng.IntN(20))}
	}
	value := func() *types.Task {
		x := &types.Task{
			Name: fmt.Sprint("t", rng.IntN(20)), Job: []string{"", "j0", "j1"}[rng.IntN(3)], Submitted: rng.Int64N(5), Priority: rng.IntN(3),
			Requests: types.NewRequests(map[string]types.Quantity{fmt.Sprint("r", rng.IntN(1000)): 1}),
		}
		if rng.IntN(10) == 0 {
			for i := range types.MaxProvides { // too long to be compacted
				x.Provides = append(x.Provides, types.Provide{Name: fmt.Sprint("provided-", i), Amount: 1, When: types.WhenBound})
			}
		}
		return x
	}
	put := func(key string, m types.Message) {
		compacting.put(key, m)
		other.put(key, m)
	}
	compacted := 0
	for range 2500 {
		switch x := id(); rng.IntN(9) {
		case 0, 1, 2:
			put(controlplane.TaskKey(x.Namespace, x.ID), value())
		case 3:
			put(controlplane.TaskKey(x.Namespace, x.ID), nil)
		case 4:
			put(controlplane.StatusKey(x.Namespace, x.ID), &types.Status{Phase: types.Bound})
		case 5:
			put(controlplane.StatusKey(x.Namespace, x.ID), nil)
			put(controlplane.BindingKey("n", x.Namespace, x.ID, 1), nil)
		case 6:
			put(controlplane.BindingKey("n", x.Namespace, x.ID, 1), &types.Binding{})
		default:
			if task := compacting.Task(x); task != nil {
				compacting.Compact(task)
				if compacting.Task(x) != task {
					compacted++
				}
				if again := compacting.Task(x); rng.IntN(2) == 0 {
					compacting.Compact(again)
				}
			}
		}
		if got, want := compacting.Task(id()), other.Task(id()); rng.IntN(50) == 0 && got != nil && want != nil && got.ID == want.ID && got.Info.Mod != want.Info.Mod {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		if rng.IntN(50) == 0 {
			if got, want := said(compacting.View), said(other.View); !slices.Equal(got, want) {
				t.Fatalf("got %s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
	if compacted < 100 {
		t.Errorf("%d were compacted", compacted)
	}
}

// TestCompactionKeeps checks that a compacted task is complete when it is expanded, with unknown fields.
// A task with a status or bindings is not compacted. A stale change of a compacted task is ignored,
// and leaves it compacted.
func TestCompactionKeeps(t *testing.T) {
	k := newKeys(t)
	key, id := controlplane.TaskKey("d", "t"), cluster.ID{Namespace: "d", ID: "t"}
	unknown := append(types.Encode(1, &types.Task{Name: "t", Requests: types.NewRequests(map[string]types.Quantity{"x": 1})}), 0xfa, 0x3f, 1, 'x')
	if _, _, err := k.Apply(controlplane.Event{KV: controlplane.KV{Key: key, Value: unknown, ModRevision: 7, CreateRevision: 5}}); err != nil {
		t.Fatal(err)
	}
	first := k.Task(id)
	want := first.Info.V.Full()
	k.Compact(first)
	if _, changed, _ := k.Apply(controlplane.Event{KV: controlplane.KV{Key: key, Value: unknown, ModRevision: 6}}); changed {
		t.Error("what is old changed it")
	}
	if once, twice := slices.Collect(k.Tasks()), slices.Collect(k.Tasks()); len(once) != 1 || once[0] == twice[0] {
		t.Error("it is not compacted") // copies are temporary
	}
	got := k.Task(id)
	if got == first || got != k.Task(id) || !reflect.DeepEqual(got.Info.V.Full(), want) || got.Info.Mod != 7 || got.Info.Create != 5 {
		t.Errorf("got %+v, want %+v", got.Info, first.Info)
	}
	if !strings.HasSuffix(string(types.Encode(1, got.Info.V.Full())), "\xfa\x3f\x01x") {
		t.Error("what is not known of it is lost")
	}
	k.revision = 10
	k.put(controlplane.StatusKey("d", "t"), &types.Status{Phase: types.Bound})
	k.put(controlplane.BindingKey("n", "d", "t", 1), &types.Binding{})
	if k.Compact(k.Task(id)); k.Task(id) != got {
		t.Error("it is compacted, and is bound")
	}
}

// TestSuppose checks that a hypothetical task of a copy is not in the view.
func TestSuppose(t *testing.T) {
	k := newKeys(t)
	k.put(controlplane.TaskKey("d", "t"), &types.Task{Name: "t"})
	k.Compact(k.Task(cluster.ID{Namespace: "d", ID: "t"}))
	c := k.Copy()
	c.AddHypothetical(&cluster.Task{ID: cluster.ID{Namespace: "d", ID: "u"}, Info: cluster.Cell[cluster.TaskValue]{V: cluster.NewTask(&types.Task{Name: "u"})}})
	if k.NumTasks() != 1 || c.NumTasks() != 2 || c.Task(cluster.ID{Namespace: "d", ID: "t"}).Info.V.Name != "t" || k.Task(cluster.ID{Namespace: "d", ID: "u"}) != nil {
		t.Errorf("%d and %d tasks", k.NumTasks(), c.NumTasks())
	}
}
