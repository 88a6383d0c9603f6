package cluster_test

import (
	"reflect"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// TestFork changes a view and its fork, each without the other.
func TestFork(t *testing.T) {
	v := cluster.New()
	revision := int64(0)
	put := func(v *cluster.View, key string, m types.Message) {
		t.Helper()
		revision++
		kv := controlplane.KV{Key: key, Value: types.Encode(0, m), CreateRevision: revision, ModRevision: revision}
		if _, _, err := v.Apply(controlplane.Event{KV: kv}); err != nil {
			t.Fatal(err)
		}
		v.Reached(revision)
	}
	put(v, controlplane.NodeKey("n1"), &types.Node{Version: "1"})
	put(v, controlplane.AllocatedKey("n1"), &types.Allocated{Holds: []types.Holding{{Resource: types.CPU, Amount: 1}}})
	put(v, controlplane.NamespaceKey("a"), &types.Namespace{})
	put(v, controlplane.SchedulerKey("s1"), &types.Leader{})
	put(v, controlplane.ResourceKey("a", "x", "n1"), &types.Resource{Capacity: 1})
	put(v, controlplane.TaskKey("a", "t"), &types.Task{})
	put(v, controlplane.BindingKey("n1", "a", "t", 1), &types.Binding{})
	f := v.Fork()
	n := f.Nodes["n1"]
	if f.Revision != revision || n == nil || n.Info.V.Version != "1" || n.Used(types.CPU) != 1 || f.Namespaces["a"] == nil || f.Schedulers["s1"] == nil {
		t.Fatalf("%+v", f)
	}
	if f.NumTasks() != 0 || len(n.Bindings) != 0 || len(n.Own) != 0 || len(f.At(types.Resolve("a", "x"))) != 0 {
		t.Errorf("it knows of %d tasks, %v and %v", f.NumTasks(), n.Bindings, n.Own)
	}
	before := *f.Namespaces["a"]
	put(v, controlplane.NodeKey("n1"), &types.Node{Version: "2"})
	put(v, controlplane.NodeKey("n2"), &types.Node{})
	put(v, controlplane.NamespaceKey("a"), &types.Namespace{Defaults: types.Requests{{Name: "cpu", Amount: 1}}})
	if n.Info.V.Version != "1" || len(f.Nodes) != 1 || !reflect.DeepEqual(*f.Namespaces["a"], before) {
		t.Error("a change of the view changes its fork")
	}
	put(f, controlplane.NodeKey("n1"), &types.Node{Version: "3"})
	put(f, controlplane.ResourceKey("a", "y", "n1"), &types.Resource{Capacity: 1})
	put(f, controlplane.TaskKey("a", "u"), &types.Task{})
	put(f, controlplane.BindingKey("n1", "a", "u", 1), &types.Binding{})
	if o := v.Nodes["n1"]; o.Info.V.Version != "2" || len(o.Own) != 1 || len(o.Bindings) != 1 || v.NumTasks() != 1 {
		t.Error("a change of the fork changes the view")
	}
	again := v.Fork()
	if n1, n2 := again.Nodes["n1"], again.Nodes["n2"]; n1.Info.V.Version != "2" || n2 == nil || n1.Serial != 0 || n2.Serial != 1 || len(n1.Own) != 0 {
		t.Errorf("the second fork has %+v and %+v", n1, n2)
	}
	put(v, controlplane.CordonKey("n2"), &types.Cordon{})
	if x := v.Fork().Nodes["n2"]; x.Cordon.V == nil || again.Nodes["n2"].Cordon.V != nil {
		t.Error("the third fork lacks a change, or the second has it")
	}
	put(v, controlplane.NodeKey("n0"), &types.Node{})
	if x := v.Fork(); x.Nodes["n0"].Serial != 0 || x.Nodes["n2"].Serial != 2 || x.Nodes["n2"].Cordon.V == nil {
		t.Errorf("the fork after a new node has %+v", x.Nodes)
	}
	if len(f.At(types.Resolve("a", "y"))) != 1 || len(n.Bindings) != 1 {
		t.Errorf("the fork has not %v, %v", f.At(types.Resolve("a", "y")), n.Bindings)
	}
}
