package gateway_test

import (
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// TestScheduler: a scheduler with its rights binds what a member of a namespace launches.
func TestScheduler(t *testing.T) {
	w := start(t, nil)
	w.grant("scheduler", types.Right{
		Subjects: []string{"service:s"}, Role: rights.Viewer, Allow: []string{"read bindings", "write bindings"}, Namespaces: []string{types.Everywhere},
	})
	w.grant("alice", types.Right{Subjects: []string{"user:alice"}, Role: rights.Member, Namespaces: []string{"a"}})
	store, _ := w.as("service:s")
	alice, _ := w.as("user:alice")
	w.put(map[string]types.Message{
		controlplane.NodeKey("n1"):  &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000, "memory": 1 << 30})},
		controlplane.AliveKey("n1"): &types.Alive{},
	})
	go func() {
		_ = scheduler.Run(t.Context(), store, scheduler.Config{Name: "s"}, zaptest.NewLogger(t))
	}()
	client, err := controlplane.New(alice, "a")
	if err != nil {
		t.Fatal(err)
	}
	launched, err := client.Launch(t.Context(), controlplane.Submission{Task: types.Task{Name: "t", Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}, Spec: &types.Spec{Image: "busybox"}})
	if err != nil {
		t.Fatal(err)
	}
	w.await("the task is bound", func() bool {
		var s types.Status
		kv, err := controlplane.Get(t.Context(), alice, controlplane.StatusKey("a", launched.Tasks[0]))
		return err == nil && controlplane.Read(kv, &s) && s.Phase == types.Bound
	})
}
