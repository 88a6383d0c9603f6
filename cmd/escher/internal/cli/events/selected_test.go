package events

import (
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestEventsOfSelected knows the tasks and jobs with labels from their first event to their last.
func TestEventsOfSelected(t *testing.T) {
	var labels cmdutil.Selection
	if err := labels.Set("team=vision"); err != nil {
		t.Fatal(err)
	}
	vision := []types.Label{{Name: "team", Value: "vision"}}
	put := func(key string, m types.Message) controlplane.Event {
		return controlplane.Event{KV: controlplane.KV{Key: key, Value: types.Encode(1, m), CreateRevision: 1, ModRevision: 1}}
	}
	gone := func(key string) controlplane.Event {
		return controlplane.Event{KV: controlplane.KV{Key: key, ModRevision: 2}, Delete: true}
	}
	task, other, job := controlplane.TaskKey("d", "a"), controlplane.TaskKey("d", "b"), controlplane.JobKey("d", "j")
	for _, test := range []struct {
		labels *cmdutil.Selection
		want   int
	}{{&labels, 5}, {new(cmdutil.Selection), 8}} {
		reader := newEventReader("d", test.labels)
		list := &eventList{selected: reader.selected}
		shown := 0
		for _, e := range []controlplane.Event{
			put(task, &types.Task{Labels: vision}), put(other, &types.Task{}), put(job, &types.Job{Tasks: 1, Labels: vision}),
			put(controlplane.StatusKey("d", "a"), &types.Status{Phase: types.Running, Node: "n", Attempt: 1}),
			put(controlplane.StatusKey("d", "b"), &types.Status{Phase: types.Running, Node: "n", Attempt: 1}),
			gone(task), gone(other), gone(job),
		} {
			row, err := reader.read(e)
			if err != nil || row == nil {
				t.Fatal(e.Key, row, err)
			}
			if list.wanted(*row) {
				shown++
			}
		}
		if shown != test.want {
			t.Errorf("%s: %d events, want %d", test.labels, shown, test.want)
		}
	}
}
