package events

import (
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// put is the event of a value, created at once if first is set.
func put(key string, m types.Message, first bool) controlplane.Event {
	kv := controlplane.KV{Key: key, Value: types.Encode(1, m), CreateRevision: 1, ModRevision: 2}
	if first {
		kv.ModRevision = 1
	}
	return controlplane.Event{KV: kv}
}

func deleted(key string) controlplane.Event {
	return controlplane.Event{KV: controlplane.KV{Key: key, ModRevision: 3}, Delete: true}
}

func TestStatusRow(t *testing.T) {
	for _, x := range []struct {
		status types.Status
		want   string
		at     int64
	}{
		{types.Status{Phase: types.Bound, Node: "n1", Attempt: 1, Bound: 5}, "bound to n1 (attempt 1)", 5},
		{types.Status{Phase: types.Running, Node: "n1", Attempt: 2, Started: 6, Reason: "again"}, "running on n1 (attempt 2): again", 6},
		{types.Status{Phase: types.Pending, Ended: 7, Attempt: 2, Reason: "its node is lost"}, "waits again: its node is lost", 7},
		{types.Status{Phase: types.Succeeded, Ended: 8, Attempt: 1}, "succeeded (attempt 1)", 8},
		{types.Status{Phase: types.Failed, Ended: 9, Attempt: 1, Started: 3, ExitCode: 2}, "failed with exit code 2 (attempt 1)", 9},
		{types.Status{Phase: types.Cancelled, Reason: "it was stopped"}, "cancelled: it was stopped", 0},
	} {
		row := StatusRow("a-1", x.status)
		if row.Event != x.want || row.Node != x.status.Node || x.at == 0 != row.Time.IsZero() || x.at != 0 && row.Time.UnixNano() != x.at {
			t.Errorf("%+v: %+v, want %q", x.status, row, x.want)
		}
	}
}

// TestStatusChanges tells a new phase, and within a phase restarts, health and new reasons only.
func TestStatusChanges(t *testing.T) {
	reader := newEventReader("d", new(cmdutil.Selection))
	key := controlplane.StatusKey("d", "a")
	status := types.Status{Phase: types.Running, Node: "n", Attempt: 1, Started: 5}
	for _, x := range []struct {
		change func(*types.Status)
		want   string
	}{
		{func(*types.Status) {}, "running on n (attempt 1)"},
		{func(*types.Status) {}, ""},
		{func(s *types.Status) { s.Health = types.Healthy }, "is healthy on n"},
		{func(s *types.Status) { s.Restarts, s.Reason = 1, "exit code 1" }, "runs again on n: exit code 1"},
		{func(s *types.Status) { s.Health, s.Reason = types.Unhealthy, "no answer" }, "is unhealthy on n: no answer"},
		{func(s *types.Status) { s.Reason = "" }, ""},
		{func(s *types.Status) { s.Reason = "its disk is full" }, "running on n (attempt 1): its disk is full"},
		{func(*types.Status) {}, ""},
		{func(s *types.Status) { s.Attempt, s.Reason = 2, "" }, "running on n (attempt 2)"},
	} {
		x.change(&status)
		row, err := reader.read(put(key, &status, false))
		if err != nil || (row == nil) != (x.want == "") || row != nil && row.Event != x.want {
			t.Errorf("%+v: %+v, %v, want %q", status, row, err, x.want)
		}
	}
	if row, err := reader.read(deleted(key)); row != nil || err != nil || len(reader.statuses) != 0 {
		t.Errorf("deleted: %+v, %v, %d statuses stay", row, err, len(reader.statuses))
	}
}

// TestEventTexts reads each kind of key: a first value, a later one, and its end.
func TestEventTexts(t *testing.T) {
	owned := &types.Resource{Capacity: 2000, Owner: "j", Lifetime: types.OfJob}
	for _, x := range []struct {
		event      controlplane.Event
		id, says   string
		isOnNode   bool
		noSentence bool
	}{
		{event: put(controlplane.TaskKey("d", "a"), &types.Task{Submitted: 5}, true), id: "a", says: "submitted"},
		{event: put(controlplane.TaskKey("d", "a"), &types.Task{Stop: &types.Stop{Reason: "enough"}}, false), id: "a", says: "is to stop: enough"},
		{event: put(controlplane.TaskKey("d", "a"), &types.Task{Evict: 3}, false), id: "a", says: "is to leave its node, in attempt 3"},
		{event: put(controlplane.TaskKey("d", "a"), &types.Task{}, false), noSentence: true},
		{event: deleted(controlplane.TaskKey("d", "a")), id: "a", says: "removed"},
		{event: put(controlplane.JobKey("d", "j"), &types.Job{Tasks: 1}, true), id: "j", says: "complete, with 1 task"},
		{event: put(controlplane.JobKey("d", "j"), &types.Job{Tasks: 2}, false), noSentence: true},
		{event: deleted(controlplane.JobKey("d", "j")), id: "j", says: "removed"},
		{event: put(controlplane.CordonKey("n1"), &types.Cordon{}, true), id: "n1", says: "takes no more tasks", isOnNode: true},
		{event: deleted(controlplane.CordonKey("n1")), id: "n1", says: "takes tasks again", isOnNode: true},
		{event: put(controlplane.ResourceKey("d", "slot", "n1"), owned, true), id: "slot", says: "is 2 on n1, until job j ends", isOnNode: true},
		{event: put(controlplane.ResourceKey("d", "slot", types.EveryNode), &types.Resource{Capacity: types.Inf}, true), id: "slot", says: "is inf on every node"},
		{event: deleted(controlplane.ResourceKey("d", "slot", types.ClusterWide)), id: "slot", says: "removed from the cluster"},
		{event: put(controlplane.SessionKey("d", "s"), &types.Session{}, true), id: "s", says: "opened"},
		{event: put(controlplane.SessionKey("d", "s"), &types.Session{}, false), noSentence: true},
		{event: deleted(controlplane.SessionKey("d", "s")), id: "s", says: "ended"},
		{event: put(controlplane.AdmissionKey(), &types.Admission{Reason: "the store is full"}, true), says: "admits no new tasks: the store is full"},
		{event: deleted(controlplane.AdmissionKey()), says: "admits new tasks again"},
	} {
		row, err := newEventReader("d", new(cmdutil.Selection)).read(x.event)
		if err != nil || (row == nil) != x.noSentence {
			t.Errorf("%s: %+v, %v", x.event.Key, row, err)
			continue
		}
		if row != nil && (row.Event != x.says || row.ID != x.id || (row.Node != "") != x.isOnNode) {
			t.Errorf("%s: %+v, want %q", x.event.Key, row, x.says)
		}
	}
}

// TestUnreadableValues shows values that are none as such, and goes on.
func TestUnreadableValues(t *testing.T) {
	for _, key := range []string{
		controlplane.TaskKey("d", "a"), controlplane.StatusKey("d", "a"), controlplane.JobKey("d", "j"), controlplane.CordonKey("n1"),
		controlplane.ResourceKey("d", "slot", "n1"), controlplane.AdmissionKey(),
	} {
		e := controlplane.Event{KV: controlplane.KV{Key: key, Value: []byte{0xff, 0xff}, CreateRevision: 1, ModRevision: 1}}
		if row, err := newEventReader("d", new(cmdutil.Selection)).read(e); err != nil || row == nil || row.Event != "was given a value that cannot be read" || row.ID == "" {
			t.Errorf("%s: %+v, %v", key, row, err)
		}
	}
}

// TestOtherNamespaces reads nothing of another namespace, and nothing of a key that is none.
func TestOtherNamespaces(t *testing.T) {
	for _, key := range []string{controlplane.TaskKey("other", "a"), controlplane.SessionKey("other", "s"), "/elsewhere", ""} {
		if row, err := newEventReader("d", new(cmdutil.Selection)).read(deleted(key)); row != nil || err != nil {
			t.Errorf("%s: %+v, %v", key, row, err)
		}
	}
}

// TestSteps makes the past of a task from its status.
func TestSteps(t *testing.T) {
	for _, x := range []struct {
		status types.Status
		want   string
	}{
		{types.Status{Phase: types.Pending}, ""},
		{types.Status{Phase: types.Bound, Node: "n", Attempt: 1, Bound: 1}, "bound to n (attempt 1)"},
		{types.Status{Phase: types.Running, Node: "n", Attempt: 1, Bound: 1, Started: 2, Reason: "odd"}, "bound to n (attempt 1); running on n (attempt 1)"},
		{types.Status{Phase: types.Failed, Node: "n", Attempt: 1, Bound: 1, Ended: 3, Reason: "no image"}, "bound to n (attempt 1); failed (attempt 1): no image"},
	} {
		var got []string
		for _, r := range steps("a", x.status) {
			got = append(got, r.Event)
		}
		if strings.Join(got, "; ") != x.want {
			t.Errorf("%+v: %q, want %q", x.status, got, x.want)
		}
	}
}

// TestDatesRows gives rows without a time that of a neighbor, and marks it as inexact.
func TestDatesRows(t *testing.T) {
	at := func(n int64) time.Time { return time.Unix(n, 0) }
	rows := []eventRow{{}, {Time: at(10)}, {}, {Time: at(8)}, {}, {Time: at(12)}}
	h := new(history)
	h.date(rows)
	for i, want := range []int64{10, 10, 10, 8, 10, 12} {
		if rows[i].Time.Unix() != want || rows[i].About != (i%2 == 0) {
			t.Errorf("row %d is at %d, about %t, want %d", i, rows[i].Time.Unix(), rows[i].About, want)
		}
	}
	if h.begins.Unix() != 10 {
		t.Errorf("the history begins at %v", h.begins)
	}
	unknown := []eventRow{{}}
	h.date(unknown)
	if got := unknown[0].when(); got != "~?" && got != "?" || !h.begins.IsZero() {
		t.Errorf("without any time: %s, %v", got, h.begins)
	}
}

// TestEventLine shows the date of an event of another day, and no id of the cluster.
func TestEventLine(t *testing.T) {
	old := time.Date(2020, 1, 2, 3, 4, 5, 0, time.Local)
	for want, row := range map[string]eventRow{
		"2020-01-02 03:04:05 task a removed":                         {Time: old, Kind: "task", ID: "a", Event: "removed"},
		"~2020-01-02 03:04:05 cluster admits":                        {Time: old, About: true, Kind: "cluster", Event: "admits"},
		"? node n1 joined":                                           {Kind: "node", ID: "n1", Event: "joined"},
		time.Unix(1<<33, 0).Format(time.TimeOnly) + " job j removed": {Time: time.Unix(1<<33, 0), Kind: "job", ID: "j", Event: "removed"},
	} {
		if got := row.Line(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
