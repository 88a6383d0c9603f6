package draft

import (
	"cmp"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/schedulertest"
	"github.com/escher-sched/escher/types"
)

// world is a running attempt as it is stored; nil means that a key is absent.
type world struct {
	alive   *types.Alive
	task    *types.Task
	status  *types.Status
	binding *types.Binding
	report  *types.Report
	// more are further keys and values, from revision 7 on.
	more []any
}

// attempt returns the attempt after a change of what is stored.
func attempt(t *testing.T, change func(*world)) (*cluster.Task, *cluster.Binding) {
	t.Helper()
	_, x, b := stored(t, change)
	return x, b
}

// stored is attempt, with its view.
func stored(t *testing.T, change func(*world)) (*cluster.View, *cluster.Task, *cluster.Binding) {
	t.Helper()
	w := world{
		&types.Alive{}, &types.Task{Requests: schedulertest.Vector(100, 0)}, &types.Status{Phase: types.Running, Node: "n1", Attempt: 1},
		&types.Binding{Session: 2}, &types.Report{Binding: 5, Phase: types.ReportRunning}, nil,
	}
	change(&w)
	kvs := []any{
		controlplane.NodeKey("n1"), &types.Node{Capacity: schedulertest.Vector(1000, 0)}, controlplane.AliveKey("n1"), &types.Alive{},
		controlplane.TaskKey("a", "t"), cmp.Or(w.task, &types.Task{}), controlplane.StatusKey("a", "t"), w.status,
		controlplane.BindingKey("n1", "a", "t", 1), w.binding, controlplane.ReportKey("n1", "a", "t", 1), cmp.Or(w.report, &types.Report{Phase: types.ReportRunning}),
	}
	v := schedulertest.Snapshot(t, append(kvs, w.more...)...)
	for key, there := range map[string]bool{
		controlplane.AliveKey("n1"): w.alive != nil, controlplane.TaskKey("a", "t"): w.task != nil, controlplane.ReportKey("n1", "a", "t", 1): w.report != nil,
	} {
		if there {
			continue
		}
		if _, _, err := v.Apply(controlplane.Event{Delete: true, KV: controlplane.KV{Key: key, ModRevision: 100}}); err != nil {
			t.Fatal(err)
		}
	}
	x := v.Task(cluster.ID{Namespace: "a", ID: "t"})
	if len(x.Bindings) != 1 {
		t.Fatalf("%d bindings", len(x.Bindings))
	}
	return v, x, x.Bindings[0]
}

func TestActionFor(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*world)
		want   Action
	}{
		"it runs":                           {func(*world) {}, NoAction},
		"it has ended":                      {func(w *world) { w.report.Phase = types.ReportExited }, EndExited},
		"an earlier binding has ended":      {func(w *world) { w.report.Phase, w.report.Binding = types.ReportExited, 4 }, NoAction},
		"its node has another session":      {func(w *world) { w.binding.Session = 1 }, EndLost},
		"its node is gone":                  {func(w *world) { w.alive = nil }, EndLost},
		"it ended before its node was lost": {func(w *world) { w.alive, w.report.Phase = nil, types.ReportExited }, EndExited},
		"it is to stop":                     {func(w *world) { w.task.Stop = &types.Stop{Reason: "enough"} }, TellStop},
		"it was told to stop": {func(w *world) {
			w.task.Stop, w.binding.Stop = &types.Stop{Grace: time.Second}, &types.Stop{Grace: time.Second}
		}, NoAction},
		"it is to stop sooner than was told": {func(w *world) {
			w.task.Stop, w.binding.Stop = &types.Stop{Grace: time.Second}, &types.Stop{Grace: time.Minute}
		}, TellStop},
		"it has started":       {func(w *world) { w.status.Phase = types.Bound }, CopyReport},
		"it has restarted":     {func(w *world) { w.report.Restarts = 1 }, CopyReport},
		"its health changed":   {func(w *world) { w.report.Health = types.Healthy }, CopyReport},
		"its status has ended": {func(w *world) { w.status.Phase, w.report.Health = types.Failed, types.Healthy }, NoAction},
	} {
		if got := ActionFor(attempt(t, test.change)); got != test.want {
			t.Errorf("%s: action %d, want %d", name, got, test.want)
		}
	}
}

// TestRetry: a failed attempt waits for another one while retries remain, unless it was to stop or
// its deadline leaves no time.
func TestRetry(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, test := range []struct {
		name     string
		task     types.Task
		failures int
		phase    types.Phase
		want     types.Phase
	}{
		{"retries remain", types.Task{Retries: 2}, 1, types.Failed, types.Pending},
		{"none remain", types.Task{Retries: 2}, 2, types.Failed, types.Failed},
		{"none were given", types.Task{}, 0, types.Failed, types.Failed},
		{"it succeeded", types.Task{Retries: 2}, 0, types.Succeeded, types.Succeeded},
		{"it is to stop", types.Task{Retries: 2, Stop: &types.Stop{}}, 0, types.Failed, types.Failed},
		{"the deadline is now", types.Task{Retries: 2, Deadline: now.UnixNano()}, 0, types.Failed, types.Failed},
		{"the deadline is far", types.Task{Retries: 2, Deadline: now.Add(time.Hour).UnixNano()}, 0, types.Failed, types.Pending},
	} {
		task, _ := attempt(t, func(w *world) { w.task, w.status.Failures = &test.task, test.failures })
		s := &types.Status{Phase: test.phase, ExitCode: 3}
		retry(task, s, now)
		if s.Phase != test.want || (s.Phase == types.Pending) != (s.Retry > now.UnixNano()) {
			t.Errorf("%s: %s, retry at %d", test.name, s.Phase, s.Retry)
		}
	}
}
