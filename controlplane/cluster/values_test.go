package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// TestValuesAreWhatWasStored checks that shared and own parts together are the stored value,
// whatever its writer and its way into the view.
func TestValuesAreWhatWasStored(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(n int) int64 { return rng.Int64N(int64(n)) }
	words := []string{"", "a", "b", "web", "train"}
	word := func() string { return words[pick(len(words))] }
	id := cluster.ID{Namespace: "d", ID: "web-0123456789"}
	k := newKeys(t)
	for i := range 2000 {
		task := &types.Task{
			Name: word(), Job: word(), Submitted: pick(3), Spec: word(), Priority: int(pick(3)) - 1, Deadline: pick(2),
			Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1 + types.Quantity(pick(3))}), Evict: int(pick(2)),
		}
		status := &types.Status{Phase: types.Bound, Node: word(), Attempt: int(pick(3)), Bound: pick(3), Started: pick(3), Ended: pick(3), Reason: word()}
		binding := &types.Binding{Session: pick(3), Bound: pick(3), Spec: word(), Holds: []types.Holding{{Resource: "cpu", Amount: types.Quantity(pick(3))}}}
		report := &types.Report{Phase: types.ReportRunning, Binding: pick(3), Started: pick(3), Ended: pick(3), Reason: word(), ExitCode: int(pick(3)) - 1}
		values := map[string]types.Message{
			controlplane.TaskKey("d", id.ID): task, controlplane.StatusKey("d", id.ID): status,
			controlplane.BindingKey("n", "d", id.ID, 1): binding, controlplane.ReportKey("n", "d", id.ID, 1): report,
		}
		if i%2 == 0 {
			for key, m := range values {
				k.put(key, m)
			}
		} else {
			var writes []cluster.Write
			for key, m := range values {
				w := cluster.Write{Key: key, Value: m}
				if i%3 == 0 {
					w.Encoded = types.Encode(uint64(i), m)
				}
				writes = append(writes, w)
			}
			k.revision++
			k.Committed(k.revision, writes)
		}
		got := k.Task(id)
		for _, x := range [][2]any{
			{got.Info.V.Full(), task}, {got.Status.V.Full(), status},
			{got.Bindings[0].Info.V.Full(), binding}, {got.Bindings[0].Report.V.Full(), report},
		} {
			if !reflect.DeepEqual(x[0], x[1]) {
				t.Fatalf("got %+v, want %+v", x[0], x[1])
			}
		}
		if v := got.Info.V; v.Name != task.Name || v.Job != task.Job || v.Submitted != task.Submitted || got.Status.V.Node != status.Node {
			t.Fatalf("got %+v, want %+v", v, task)
		}
	}
}

// TestValuesAreNoMessages checks that a value cannot be stored, because it would lack its own
// fields.
func TestValuesAreNoMessages(t *testing.T) {
	for _, v := range []any{&cluster.TaskValue{}, &cluster.StatusValue{}, &cluster.BindingValue{}, &cluster.ReportValue{}} {
		if _, ok := v.(types.Message); ok {
			t.Errorf("a %T can be stored", v)
		}
	}
	if (*cluster.TaskValue)(nil).Full() != nil || (*cluster.StatusValue)(nil).Full() != nil ||
		(*cluster.BindingValue)(nil).Full() != nil || (*cluster.ReportValue)(nil).Full() != nil {
		t.Error("nothing is something in full")
	}
}

// TestBindingsComeAndGo checks that a node lists each present binding once.
func TestBindingsComeAndGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	k := newKeys(t)
	there := make(map[string]bool)
	for range 3000 {
		key := controlplane.BindingKey(fmt.Sprint("n", rng.IntN(2)), "d", fmt.Sprint("t", rng.IntN(5)), 1+rng.IntN(2))
		was, _ := controlplane.Parse(key)
		before := k.Binding(was)
		if there[key] = rng.IntN(2) == 0; there[key] {
			k.put(key, &types.Binding{})
		} else {
			k.put(key, nil)
			delete(there, key)
		}
		if before != nil && before.Gone() == there[key] {
			t.Fatalf("%s is gone: %t", key, before.Gone())
		}
		got := make(map[string]bool)
		for _, n := range k.Nodes {
			for _, b := range n.Bindings {
				key := controlplane.BindingKey(n.Name, "d", b.Task.ID.ID, b.Number)
				if at, _ := controlplane.Parse(key); got[key] || k.Binding(at) != b || b.Gone() || k.Task(b.Task.ID) != b.Task {
					t.Fatalf("%s is listed, and is not what is there", key)
				}
				got[key] = true
			}
		}
		if !reflect.DeepEqual(got, there) {
			t.Fatalf("got %v, want %v", got, there)
		}
	}
}
