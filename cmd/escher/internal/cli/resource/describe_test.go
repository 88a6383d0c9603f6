package resource

import (
	"fmt"
	"strings"
	"testing"

	"github.com/escher-sched/escher/api/contexts"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// TestPlaceText says where a resource was set, and how long it stays.
func TestPlaceText(t *testing.T) {
	for want, test := range map[string]struct {
		where string
		r     types.Resource
	}{
		"2 on node n1":                                 {"n1", types.Resource{Capacity: 2000}},
		"0 in the cluster":                             {types.ClusterWide, types.Resource{}},
		"inf on every node":                            {types.EveryNode, types.Resource{Capacity: types.Inf, Selector: &types.Selector{}}},
		"1 on every node with rack=r1,zone=a":          {types.EveryNode, types.Resource{Capacity: 1000, Selector: &types.Selector{Labels: []types.Label{{Name: "rack", Value: "r1"}, {Name: "zone", Value: "a"}}}}},
		"1 on node n1, until the end of session shell": {"n1", types.Resource{Capacity: 1000, Lifetime: types.OfSession, Owner: "shell"}},
	} {
		if got := placeText(test.where, "slot", &test.r); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestDescribeLists names the tasks of the namespace that hold a resource or wait for it, and cuts the
// text.
func TestDescribeLists(t *testing.T) {
	store := memstore.New()
	change := controlplane.NewChange(controlplane.NewBatch())
	slot := types.NewRequests(map[string]types.Quantity{"slot": 1000})
	change.Put(controlplane.NodeKey("n1"), &types.Node{})
	change.Put(controlplane.AliveKey("n1"), &types.Alive{})
	change.Put(controlplane.ResourceKey("team", "slot", types.EveryNode), &types.Resource{Capacity: 30_000})
	change.Put(controlplane.AllocatedKey("n1"), &types.Allocated{Holds: []types.Holding{{Resource: "team:slot", Amount: 1000}}})
	bound := func(ns, id string, holds ...types.Holding) {
		change.Put(controlplane.TaskKey(ns, id), &types.Task{Requests: slot})
		change.Put(controlplane.StatusKey(ns, id), &types.Status{Phase: types.Running, Node: "n1", Attempt: 1})
		change.Put(controlplane.BindingKey("n1", ns, id, 1), &types.Binding{Holds: holds})
	}
	bound("team", "holder", types.Holding{Resource: "team:slot", Amount: 1000})
	bound("team", "idle")
	bound("other", "stranger", types.Holding{Resource: "other:slot", Amount: 1000})
	change.Put(controlplane.TaskKey("team", "either"), &types.Task{Alternatives: []types.Alternative{{Requests: slot}}})
	change.Put(controlplane.TaskKey("team", "none"), &types.Task{})
	for i := range mostTasks {
		change.Put(controlplane.TaskKey("team", fmt.Sprintf("late-%02d", i)), &types.Task{Requests: slot})
	}
	if _, err := store.Commit(t.Context(), change.Txn()); err != nil {
		t.Fatal(err)
	}
	f := &cmdutil.Factory{Outside: cmdutil.Outside{Getenv: func(string) string { return "" }}, Opened: store, Given: contexts.Given{Namespace: "team"}}
	d, err := describe(t.Context(), f, "slot")
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(d.Set, d.Holders) != "[30 on every node] [holder on n1]" || len(d.Waiting) != mostTasks+1 || d.Waiting[0] != "either" {
		t.Errorf("%+v", d)
	}
	var out strings.Builder
	if err := d.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"n1", "1 of 30", "late-18", "… and 1 more"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "late-19") || strings.Contains(out.String(), "stranger") {
		t.Error(out.String())
	}
	if _, err := describe(t.Context(), f, "other"); !types.Is(err, types.NotFound) {
		t.Error(err)
	}
}
