package cluster_test

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// TestInvalidCountsAsAbsent puts values that are decodable but invalid. Each key counts as absent,
// with its revision, until it gets a valid value or is deleted.
func TestInvalidCountsAsAbsent(t *testing.T) {
	id := cluster.ID{Namespace: "d", ID: "a"}
	cpu := func(amount types.Quantity) types.Requests { return types.Requests{{Name: "cpu", Amount: amount}} }
	for name, x := range map[string]struct {
		key    string
		bad    types.Message
		good   types.Message
		unread func(v *cluster.View) bool
		says   string
	}{
		"negative amount": {
			controlplane.TaskKey("d", "a"), &types.Task{Requests: cpu(-1000)}, &types.Task{Requests: cpu(1000)},
			func(v *cluster.View) bool { return v.Task(id).Info.Unread() }, "requests.cpu: -1 is not positive",
		},
		"amount that overflows": {
			controlplane.TaskKey("d", "a"), &types.Task{Requests: types.Requests{{Name: "x", Amount: 1 << 60}}}, &types.Task{Requests: types.Requests{{Name: "x", Amount: 1}}},
			func(v *cluster.View) bool { return v.Task(id).Info.Unread() }, "requests.x",
		},
		"resource of another namespace": {
			controlplane.TaskKey("d", "a"), &types.Task{Requests: types.Requests{{Name: "other:licence", Amount: 1}}}, &types.Task{Requests: cpu(1)},
			func(v *cluster.View) bool { return v.Task(id).Info.Unread() }, "other:licence",
		},
		"own part of a task": {
			controlplane.TaskKey("d", "a"), &types.Task{Job: "../x", Requests: cpu(1)}, &types.Task{Job: "j", Requests: cpu(1)},
			func(v *cluster.View) bool { return v.Task(id).Info.Unread() }, `job: "../x"`,
		},
		"status": {
			controlplane.StatusKey("d", "a"), &types.Status{Phase: "odd"}, &types.Status{Phase: types.Failed},
			func(v *cluster.View) bool { return v.Task(id).Status.Unread() }, `phase: "odd" is unknown`,
		},
		"binding": {
			controlplane.BindingKey("n", "d", "a", 1), &types.Binding{Holds: []types.Holding{{Resource: "cpu", Amount: -1}}}, &types.Binding{},
			func(v *cluster.View) bool { return v.Task(id).Bindings[0].Info.Unread() }, "holds[0].amount",
		},
		"report": {
			controlplane.ReportKey("n", "d", "a", 1), &types.Report{Phase: types.ReportExited, Restarts: -1}, &types.Report{Phase: types.ReportExited},
			func(v *cluster.View) bool { return v.Task(id).Bindings[0].Report.Unread() }, "restarts: -1",
		},
		"node": {
			controlplane.NodeKey("n"), &types.Node{Capacity: cpu(-1)}, &types.Node{Capacity: cpu(1)},
			func(v *cluster.View) bool { return v.Nodes["n"].Info.Unread() }, "capacity.cpu",
		},
		"what is in use": {
			controlplane.AllocatedKey("n"), &types.Allocated{Holds: []types.Holding{{Resource: "cpu", Amount: types.MaxAllocated + 1}}}, &types.Allocated{},
			func(v *cluster.View) bool { return v.Nodes["n"].Allocated.Unread() }, "holds[0].amount",
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := cluster.New()
			apply := func(revision int64, m types.Message) error {
				_, changed, err := v.Apply(controlplane.Event{KV: controlplane.KV{Key: x.key, Value: types.Encode(1, m), ModRevision: revision}})
				if !changed {
					t.Errorf("revision %d changes nothing", revision)
				}
				return err
			}
			for _, revision := range []int64{2, 4} { // the second equal value may be shared
				if err := apply(revision, x.bad); !types.Is(err, types.Internal) || !strings.Contains(err.Error(), x.says) || !strings.Contains(err.Error(), x.key) {
					t.Errorf("%v; want the key, and %q", err, x.says)
				}
				if count, some := v.Quarantined(); count != 1 || some[0] != x.key || !x.unread(v) {
					t.Errorf("%d are quarantined, such as %q", count, some)
				}
				if err := apply(revision+1, x.good); err != nil {
					t.Error(err)
				}
				if count, _ := v.Quarantined(); count != 0 || x.unread(v) {
					t.Errorf("%d are quarantined", count)
				}
			}
		})
	}
}

// TestKeysOfNoNames checks that a key with an invalid name is not Escher's.
func TestKeysOfNoNames(t *testing.T) {
	v := cluster.New()
	for _, key := range []string{
		controlplane.TaskKey("d", ".."), controlplane.TaskKey("d", "a\nb"), controlplane.TaskKey("d", strings.Repeat("x", 64)),
		controlplane.StatusKey("..", "a"), controlplane.NodeKey("n 1"), controlplane.ResourceKey("d", "x", "-"),
		controlplane.BindingKey("n", "d", "*", 1), controlplane.SpecKey("d", strings.Repeat("-", 64)),
	} {
		if _, changed, err := v.Apply(controlplane.Event{KV: controlplane.KV{Key: key, Value: []byte("junk"), ModRevision: 2}}); changed || err != nil {
			t.Errorf("%q: changed %t, %v", key, changed, err)
		}
	}
}
