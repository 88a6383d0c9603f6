package show

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// TestEnding: a task is ending if it is being stopped, or if its present attempt is being evicted.
func TestEnding(t *testing.T) {
	stop := &types.Stop{Reason: "enough"}
	for _, x := range []struct {
		task    types.Task
		phase   types.Phase
		attempt int
		want    string
	}{
		{types.Task{}, types.Running, 1, ""},
		{types.Task{Stop: stop}, types.Running, 1, "enough"},
		{types.Task{Stop: &types.Stop{}}, types.Bound, 1, "it was stopped"},
		{types.Task{Stop: stop}, types.Pending, 0, "enough"},
		{types.Task{Stop: stop}, types.Cancelled, 1, ""},
		{types.Task{Evict: 2, Later: &types.Later{EvictReason: "for b"}}, types.Running, 2, "for b"},
		{types.Task{Evict: 2}, types.Running, 3, ""},
		{types.Task{Evict: 2}, types.Pending, 2, ""},
	} {
		state := controlplane.TaskState{ID: "a-1", Task: &x.task, Status: &types.Status{Phase: x.phase, Attempt: x.attempt, Node: "n1"}}
		row := NewTaskRow(state, time.Now())
		cells := row.Row()
		if row.Ending != x.want || (x.want != "") != (cells[1] == "ending") || (x.phase == types.Pending) != (cells[2] == "") {
			t.Errorf("%+v: %q, %q", x, row.Ending, cells)
		}
	}
}

// TestGoneBy: a kill comes after the warning, the stop signal and the grace.
func TestGoneBy(t *testing.T) {
	at, spec := time.Unix(1000, 0), &types.Spec{Grace: 30 * time.Second, Warn: &types.Warn{Before: time.Minute}}
	for _, x := range []struct {
		stop  types.Stop
		steps []nodeagent.Step
		want  time.Duration
	}{
		{types.Stop{}, nil, 0},
		{types.Stop{}, []nodeagent.Step{nodeagent.StepStarted}, 0},
		{types.Stop{}, []nodeagent.Step{nodeagent.StepWarned}, 90 * time.Second},
		{types.Stop{Grace: time.Second}, []nodeagent.Step{nodeagent.StepStarted, nodeagent.StepWarned}, 61 * time.Second},
		{types.Stop{}, []nodeagent.Step{nodeagent.StepWarned, nodeagent.StepSignalled}, 30 * time.Second},
	} {
		row := TaskRow{stop: &x.stop, Task: document.Task{Ending: "enough", Phase: types.Running}}
		var events []nodeapi.Event
		for _, step := range x.steps {
			events = append(events, nodeapi.Event{At: at, Step: step})
		}
		row.setGoneBy(events, spec, at)
		if row.left != x.want || (row.GoneBy != nil) != (x.want > 0) || (x.want > 0) != strings.Contains(row.reason(), "gone in") {
			t.Errorf("%+v: %v, %s", x, row.left, row.reason())
		}
	}
}

// TestPsListsTheNewest: of more tasks than the limit, and of many of the same age, the newest stay,
// whatever their names.
func TestPsListsTheNewest(t *testing.T) {
	p := psFlags{limit: 3}
	for _, x := range []struct {
		ages []time.Duration
		want string
	}{
		{[]time.Duration{5, 5, 1}, "551"},
		{[]time.Duration{5, 5, 5, 1}, "551"},
		{[]time.Duration{9, 5, 5, 5, 1, 2, 9}, "512"},
		{[]time.Duration{4, 3, 2, 1}, "321"},
		{[]time.Duration{7, 7, 7, 7, 7}, "777"},
	} {
		var rows []TaskRow
		for _, age := range x.ages {
			rows = append(rows, TaskRow{Age: age})
		}
		got := ""
		for _, row := range p.newest(rows) {
			got += fmt.Sprint(int(row.Age))
		}
		if got != x.want {
			t.Errorf("of %v it lists %s, want %s", x.ages, got, x.want)
		}
	}
}

// TestPsOfVeryMany leaves tasks out of the list while it reads them, and counts them.
func TestPsOfVeryMany(t *testing.T) {
	const many = 5000
	store := memstore.New(memstore.WithLimits(controlplane.Limits{Ops: 1 << 20, Bytes: 1 << 30}))
	c := controlplane.NewChange(1)
	for i := range many {
		c.Put(controlplane.TaskKey("team", fmt.Sprintf("t%04d", i)), &types.Task{Submitted: int64(i * 7919 % many)})
	}
	if _, err := store.Commit(context.Background(), c.Txn()); err != nil {
		t.Fatal(err)
	}
	client, err := controlplane.New(store, "team")
	if err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	p := psFlags{limit: 10}
	if err := p.list(t.Context(), &cmdutil.Factory{Outside: cmdutil.Outside{Out: &out, Err: &errs, Getenv: func(string) string { return "" }}}, client); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 11 || !strings.Contains(errs.String(), "these are the newest 10; 4990 more") {
		t.Fatalf("it lists\n%s%s", out.String(), errs.String())
	}
	for _, line := range lines[1:] {
		var i int
		if _, err := fmt.Sscanf(line, "t%d", &i); err != nil || i*7919%many < many-10 {
			t.Errorf("%q is not of the newest", line)
		}
	}
}

// TestPsInOrderOfTheIndex: the ids of tasks have no order once an update has replaced some, or the count
// has more digits.
func TestPsInOrderOfTheIndex(t *testing.T) {
	store := memstore.New()
	c := controlplane.NewChange(1)
	for id, task := range map[string]types.Task{
		"web-b.2": {Job: "web-x", Index: 2, Count: 12}, "web-c.10": {Job: "web-x", Index: 10, Count: 12}, "web-d.1": {Job: "web-x", Index: 1, Count: 12, Submitted: 2},
		"web-e.1": {Job: "web-x", Index: 1, Count: 12, Submitted: 1}, "web-z.0": {Job: "web-x", Index: 0, Count: 12}, "web-f": {}, "zoo": {}, "old-2": {Job: "old"}, "old-1": {Job: "old"},
	} {
		c.Put(controlplane.TaskKey("team", id), &task)
	}
	for _, job := range []string{"old", "web-x"} {
		c.Put(controlplane.JobKey("team", job), &types.Job{Tasks: 1})
	}
	if _, err := store.Commit(t.Context(), c.Txn()); err != nil {
		t.Fatal(err)
	}
	client, err := controlplane.New(store, "team")
	if err != nil {
		t.Fatal(err)
	}
	const want = "old-1 old-2 web-f web-z.0 web-e.1 web-d.1 web-b.2 web-c.10 zoo"
	var out strings.Builder
	f := &cmdutil.Factory{Outside: cmdutil.Outside{Out: &out, Err: &out}, Format: table.Name}
	if err := (&psFlags{}).list(t.Context(), f, client); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(out.String()), " "); got != want {
		t.Errorf("ps lists %s, want %s", got, want)
	}
	view, err := cluster.ReadView(t.Context(), store, controlplane.Root)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range TaskRows(view, "team", time.Unix(9, 0), func(TaskRow) bool { return true }) {
		got = append(got, row.ID)
	}
	if strings.Join(got, " ") != want {
		t.Errorf("others list %s, want %s", got, want)
	}
}
