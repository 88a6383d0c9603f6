package controlplane_test

import (
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestRequest changes what a waiting task requests, and leaves a task with a node unchanged: its attempt
// holds what it requested.
func TestRequest(t *testing.T) {
	w := newWorld(t)
	had, wants := types.NewRequests(map[string]types.Quantity{"memory": 1 << 30}), types.NewRequests(map[string]types.Quantity{"memory": 2 << 30})
	w.put(controlplane.TaskKey("team", "waits"), &types.Task{Requests: had})
	w.put(controlplane.TaskKey("team", "failed"), &types.Task{Requests: had})
	w.put(controlplane.StatusKey("team", "failed"), &types.Status{Phase: types.Pending, Attempt: 1})
	w.put(controlplane.TaskKey("team", "runs"), &types.Task{Requests: had})
	w.put(controlplane.StatusKey("team", "runs"), &types.Status{Phase: types.Running, Attempt: 1})
	for range 2 {
		if _, err := w.Begin().Request("waits", wants).Request("failed", wants).Request("runs", wants).Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]types.Quantity{"waits": 2 << 30, "failed": 2 << 30, "runs": 1 << 30} {
		var got types.Task
		w.get(controlplane.TaskKey("team", id), &got)
		if got.Requests.Get("memory") != want {
			t.Errorf("%s requests %d, want %d", id, got.Requests.Get("memory"), want)
		}
	}
	w.refused(types.Invalid, func() error {
		_, err := w.Begin().Request("waits", types.Requests{{Name: "memory", Amount: -1}}).Commit(t.Context())
		return err
	}, "requests")
	w.refused(types.NotFound, func() error { _, err := w.Begin().Request("none", wants).Commit(t.Context()); return err }, "none")
}
