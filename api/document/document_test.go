package document

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

func TestMoment(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	if Moment(0) != nil {
		t.Errorf("no time is %v", Moment(0))
	}
	if at := Moment(now.UnixNano()); at == nil || !at.Equal(now) || at.Location() != time.UTC {
		t.Errorf("%v, want %v", at, now)
	}
}

// TestPhaseOf sums up the phases of tasks.
func TestPhaseOf(t *testing.T) {
	for _, c := range []struct {
		phases []types.Phase
		want   types.Phase
	}{
		{nil, types.Succeeded},
		{[]types.Phase{types.Succeeded, types.Succeeded}, types.Succeeded},
		{[]types.Phase{types.Succeeded, types.Cancelled}, types.Cancelled},
		{[]types.Phase{types.Cancelled, types.Failed}, types.Failed},
		{[]types.Phase{types.Failed, types.Pending}, types.Pending},
		{[]types.Phase{types.Pending, types.Bound}, types.Bound},
		{[]types.Phase{types.Bound, types.Running, types.Failed}, types.Running},
	} {
		phases := make(map[types.Phase]int)
		for _, p := range c.phases {
			phases[p]++
		}
		if got := phaseOf(phases); got != c.want {
			t.Errorf("%v: %s, want %s", c.phases, got, c.want)
		}
	}
}

// TestTaskOf compares the JSON of tasks: one that waits, one that is being stopped, and one that has ended.
func TestTaskOf(t *testing.T) {
	requests := types.NewRequests(map[string]types.Quantity{"cpu": 500})
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	for _, c := range []struct {
		task   types.Task
		status *types.Status
		want   string
	}{
		{types.Task{Requests: requests, Submitted: at}, nil, `{"id":"x","phase":"pending","exitCode":0,"requests":{"cpu":"0.5"},"submitted":"2026-03-01T12:00:00Z"}`},
		{
			types.Task{Job: "j", Count: 3, Index: 2, Requests: requests, Stop: &types.Stop{Reason: "enough"}},
			&types.Status{Phase: types.Running, Node: "n1", Attempt: 2},
			`{"id":"x","job":"j","index":2,"phase":"running","ending":"enough","node":"n1","attempt":2,"exitCode":0,"requests":{"cpu":"0.5"}}`,
		},
		{
			types.Task{Requests: requests, Stop: &types.Stop{}},
			&types.Status{Phase: types.Failed, Node: "n1", Attempt: 1, ExitCode: 3, Reason: "it failed", Ended: at},
			`{"id":"x","phase":"failed","node":"n1","attempt":1,"exitCode":3,"reason":"it failed","requests":{"cpu":"0.5"},"ended":"2026-03-01T12:00:00Z"}`,
		},
	} {
		got, err := json.Marshal(TaskOf(controlplane.TaskState{ID: "x", Task: &c.task, Status: c.status}))
		if err != nil || string(got) != c.want {
			t.Errorf("%s, want %s (%v)", got, c.want, err)
		}
	}
}
