package draft

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/backoff"
)

// transaction returns what the sealed draft compares and does, sorted, one in a line.
func transaction(d *Draft) []string {
	var out []string
	txn := d.Seal()
	for _, x := range txn.Compares {
		key := strings.TrimPrefix(x.Key, controlplane.Root)
		switch x.Target {
		case controlplane.ModRevision:
			out = append(out, fmt.Sprintf("if %s = %d", key, x.Revision))
		case controlplane.CreateRevision:
			out = append(out, fmt.Sprintf("if %s made %d", key, x.Revision))
		case controlplane.Newest:
			out = append(out, fmt.Sprintf("if %s none since %d", key, x.Revision))
		case controlplane.Value:
			out = append(out, fmt.Sprintf("if %s is a value", key))
		}
	}
	for _, op := range txn.Ops {
		key := strings.TrimPrefix(op.Key, controlplane.Root)
		if op.Delete {
			out = append(out, "delete "+key)
		} else {
			out = append(out, "put "+key)
		}
	}
	slices.Sort(out)
	return out
}

// written returns the last value that a sealed draft writes under a key; the zero value if none.
func written[T types.Message](d *Draft, key string) T {
	var out T
	for _, w := range d.Writes() {
		if w.Key == key && w.Value != nil {
			out = w.Value.(T)
		}
	}
	return out
}

// sameTransaction reports a transaction that differs from the wanted one.
func sameTransaction(t *testing.T, name string, d *Draft, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := transaction(d); !slices.Equal(got, want) {
		t.Errorf("%s: the transaction is\n\t%s\nwant\n\t%s", name, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// TestActCompares: each action compares the keys that it was decided by, and writes no others.
func TestActCompares(t *testing.T) {
	holds := []types.Holding{{Resource: types.CPU, Amount: 100}}
	ends := []string{"put status/a/t", "delete bindings/n1/a/t/1", "delete reports/n1/a/t/1", "if allocated/n1 = 0", "put allocated/n1"}
	for name, test := range map[string]struct {
		action Action
		change func(*world)
		want   []string
	}{
		"it ended": {EndExited, func(w *world) { w.report.Phase = types.ReportExited }, ends},
		"it ended, and leaves something behind": {EndExited, func(w *world) {
			w.report.Phase = types.ReportExited
			w.binding.Provides = []types.Provide{{Name: "x", Amount: 5, When: types.WhenSucceeded}}
		}, append([]string{"if provided/a/x/n1 = 0", "put provided/a/x/n1"}, ends...)},
		"its node is lost": {EndLost, func(w *world) { w.alive = nil }, append([]string{"if alive/n1 made 0", "if reports/n1/a/t/1 = 6"}, ends...)},
		"its node is lost without a report": {EndLost, func(w *world) { w.alive, w.report = nil, nil }, []string{
			"if alive/n1 made 0", "if reports/n1/a/t/1 = 0", "put status/a/t", "delete bindings/n1/a/t/1", "if allocated/n1 = 0", "put allocated/n1",
		}},
		"its node is dead, and would keep it": {EndLost, func(w *world) {
			w.alive, w.binding.OnDisconnect = nil, types.Keep
			w.more = []any{controlplane.CordonKey("n1"), &types.Cordon{Dead: true}}
		}, append([]string{"if alive/n1 made 0", "if cordons/n1 = 7", "if reports/n1/a/t/1 = 6"}, ends...)},
		"it is to stop": {TellStop, func(w *world) { w.task.Stop = &types.Stop{Reason: "enough"} }, []string{"if bindings/n1/a/t/1 = 5", "put bindings/n1/a/t/1"}},
		"it runs":       {CopyReport, func(w *world) { w.status.Phase = types.Bound }, []string{"if reports/n1/a/t/1 = 6", "if status/a/t = 4", "put status/a/t"}},
	} {
		v, x, b := stored(t, func(w *world) { w.binding.Holds = holds; test.change(w) })
		d := New(v, unlimited, 1)
		if action := ActionFor(x, b); action != test.action {
			t.Errorf("%s: action %d", name, action)
		}
		if !d.Act(test.action, x, b, time.Unix(9, 0)) || !d.Has(x) || d.Len() != 1 {
			t.Errorf("%s: there is space", name)
		}
		sameTransaction(t, name, d, test.want...)
	}
}

// TestActStatus: the status after the end of an attempt says how it ended, and whether another
// attempt follows.
func TestActStatus(t *testing.T) {
	now, end := time.Unix(1000, 0), int64(5)
	exited := func(change func(*world)) func(*world) {
		return func(w *world) {
			w.report.Phase, w.report.Started, w.report.Ended = types.ReportExited, 3, end
			change(w)
		}
	}
	stop := &types.Stop{Reason: "enough"}
	base := types.Status{Node: "n1", Attempt: 1, Started: 3, Ended: end}
	with := func(change func(*types.Status)) types.Status { s := base; change(&s); return s }
	lost := types.Status{Node: "n1", Attempt: 1, Ended: now.UnixNano(), Phase: types.Pending, Cause: types.CauseLost, Reason: "node n1 was lost"}
	lostWith := func(change func(*types.Status)) types.Status { s := lost; change(&s); return s }
	for name, test := range map[string]struct {
		action Action
		change func(*world)
		want   types.Status
	}{
		"it succeeded": {EndExited, exited(func(*world) {}), with(func(s *types.Status) { s.Phase = types.Succeeded })},
		"it failed": {EndExited, exited(func(w *world) { w.report.ExitCode = 3 }), with(func(s *types.Status) {
			s.Phase, s.ExitCode, s.Failures = types.Failed, 3, 1
		})},
		"it failed without an exit code": {EndExited, exited(func(w *world) { w.report.Reason = "no image" }), with(func(s *types.Status) {
			s.Phase, s.Reason, s.Failures = types.Failed, "no image", 1
		})},
		"it failed again": {EndExited, exited(func(w *world) { w.report.ExitCode, w.status.Failures, w.task.Retries = 3, 1, 1 }), with(func(s *types.Status) {
			s.Phase, s.ExitCode, s.Failures = types.Failed, 3, 2
		})},
		"it may be retried": {EndExited, exited(func(w *world) { w.report.ExitCode, w.status.Failures, w.task.Retries = 3, 1, 2 }), with(func(s *types.Status) {
			s.Phase, s.ExitCode, s.Failures, s.Reason = types.Pending, 3, 2, "failure 2: exit code 3"
			s.Retry = now.Add(backoff.Delay(2, 2)).UnixNano()
		})},
		"it was fenced": {EndExited, exited(func(w *world) { w.report.Fenced, w.report.ExitCode, w.status.Failures = true, 137, 1 }), with(func(s *types.Status) {
			s.Phase, s.ExitCode, s.Failures = types.Pending, 137, 1
		})},
		"it was stopped": {EndExited, exited(func(w *world) { w.report.Stopped, w.report.ExitCode, w.binding.Stop = true, 143, stop }), with(func(s *types.Status) {
			s.Phase, s.ExitCode, s.Reason = types.Cancelled, 143, "enough"
		})},
		"it was evicted": {EndExited, exited(func(w *world) {
			w.report.Stopped, w.binding.Stop = true, &types.Stop{Reason: "others need it", Evicted: true}
		}), with(func(s *types.Status) {
			s.Phase, s.Reason, s.Cause = types.Pending, "others need it", types.CauseEvicted
		})},
		"it ended by itself before its stop": {EndExited, exited(func(w *world) { w.binding.Stop = stop }), with(func(s *types.Status) { s.Phase = types.Succeeded })},
		"its node was lost":                  {EndLost, func(w *world) { w.status.Failures = 2 }, lostWith(func(s *types.Status) { s.Failures = 2 })},
		"its node and its task were lost":    {EndLost, func(w *world) { w.task = nil }, lostWith(func(s *types.Status) { s.Phase = types.Cancelled })},
		"it is to end with its node": {EndLost, func(w *world) {
			w.binding.OnDisconnect, w.report.Started, w.report.Restarts = types.StopLost, 3, 4
		}, lostWith(func(s *types.Status) {
			s.Phase, s.Started, s.Restarts, s.Reason = types.Failed, 3, 4, "node n1 was lost, and it is not to be run again then"
		})},
		"it is to end with its node, and an earlier attempt started": {EndLost, func(w *world) {
			w.binding.OnDisconnect, w.report.Started, w.report.Binding = types.StopLost, 3, 4
		}, lostWith(func(s *types.Status) {
			s.Phase, s.Reason = types.Failed, "node n1 was lost, and it is not to be run again then"
		})},
		"its report names its image":            {EndExited, exited(func(w *world) { w.report.Image = "i@2" }), with(func(s *types.Status) { s.Phase, s.Image = types.Succeeded, "i@2" })},
		"an earlier attempt pinned its image":   {EndExited, exited(func(w *world) { w.report.Image, w.status.Image = "i@2", "i@1" }), with(func(s *types.Status) { s.Phase, s.Image = types.Succeeded, "i@1" })},
		"the time of its bind outlasts its end": {EndExited, exited(func(w *world) { w.binding.Bound = 2 }), with(func(s *types.Status) { s.Phase, s.Bound = types.Succeeded, 2 })},
		"it has started": {CopyReport, func(w *world) { w.status.Phase, w.report.Started, w.report.Health = types.Bound, 3, types.Healthy }, types.Status{
			Phase: types.Running, Node: "n1", Attempt: 1, Started: 3, Health: types.Healthy,
		}},
		"it is delayed": {CopyReport, func(w *world) {
			w.status.Phase, w.report.Phase, w.report.Reason = types.Bound, types.ReportStarting, "it pulls"
		}, types.Status{Phase: types.Bound, Node: "n1", Attempt: 1, Reason: "it pulls"}},
	} {
		v, x, b := stored(t, test.change)
		d := New(v, unlimited, 1)
		d.Act(test.action, x, b, now)
		if got := written[*types.Status](d, controlplane.StatusKey("a", "t")); got == nil || fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", test.want) {
			t.Errorf("%s: the status is\n%+v, want\n%+v", name, got, test.want)
		}
	}
}

// TestActLeavesBehind: what tasks provide on success adds up in one session of the node, and a
// failure, another session or another moment leaves nothing.
func TestActLeavesBehind(t *testing.T) {
	before := func(session int64) []any {
		return []any{controlplane.ProvidedKey("a", "j.x", "n1"), &types.Provided{Amount: 3, NodeSession: session, Job: "j", Task: "u"}}
	}
	for name, test := range map[string]struct {
		change func(*world)
		want   *types.Provided
	}{
		"the first":            {func(*world) {}, &types.Provided{Amount: 5, Task: "t", NodeSession: 2}},
		"another one":          {func(w *world) { w.more = before(2) }, &types.Provided{Amount: 8, Task: "t", NodeSession: 2, Job: "j"}},
		"one of a session ago": {func(w *world) { w.more = before(1) }, &types.Provided{Amount: 5, Task: "t", NodeSession: 2}},
		"of its job":           {func(w *world) { w.task.Job = "j" }, &types.Provided{Amount: 5, Task: "t", NodeSession: 2, Job: "j"}},
		"of another job":       {func(w *world) { w.task.Job = "jj" }, &types.Provided{Amount: 5, Task: "t", NodeSession: 2}},
		"of a deleted task":    {func(w *world) { w.task = nil }, &types.Provided{Amount: 5, Task: "t", NodeSession: 2}},
		"of a failed task":     {func(w *world) { w.report.ExitCode = 1 }, nil},
		"of a former session":  {func(w *world) { w.binding.Session = 1 }, nil},
		"while it is bound":    {func(w *world) { w.binding.Provides[0].When = types.WhenBound }, nil},
		"the largest amount": {func(w *world) { w.binding.Provides[0].Amount, w.more = types.MaxQuantity, before(2) }, &types.Provided{
			Amount: types.MaxQuantity.Add(3), Task: "t", NodeSession: 2, Job: "j",
		}},
	} {
		v, x, b := stored(t, func(w *world) {
			w.report.Phase, w.binding.Provides = types.ReportExited, []types.Provide{{Name: "j.x", Amount: 5, When: types.WhenSucceeded}}
			test.change(w)
		})
		d := New(v, unlimited, 1)
		d.Act(EndExited, x, b, time.Unix(9, 0))
		d.Seal()
		got := written[*types.Provided](d, controlplane.ProvidedKey("a", "j.x", "n1"))
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", test.want) {
			t.Errorf("%s: it leaves %+v, want %+v", name, got, test.want)
		}
	}
}

// TestStopOf: a stop overrides an eviction, and of two orders the sooner one stays.
func TestStopOf(t *testing.T) {
	evicted := func(grace time.Duration) *types.Stop { return &types.Stop{Evicted: true, Grace: grace} }
	for name, test := range map[string]struct {
		change func(*world)
		want   *types.Stop
	}{
		"a deleted task":                  {func(w *world) { w.task = nil }, &types.Stop{Reason: "the task was deleted"}},
		"a deleted task that was told":    {func(w *world) { w.task, w.binding.Stop = nil, &types.Stop{} }, nil},
		"an eviction":                     {func(w *world) { w.task.Evict = 1 }, &types.Stop{Reason: "evicted", Evicted: true}},
		"an eviction of another attempt":  {func(w *world) { w.task.Evict = 2 }, nil},
		"a stop after an eviction":        {func(w *world) { w.task.Stop, w.binding.Stop = &types.Stop{Reason: "x"}, evicted(0) }, &types.Stop{Reason: "x"}},
		"a slow stop after an eviction":   {func(w *world) { w.task.Stop, w.binding.Stop = &types.Stop{Grace: 5}, evicted(2) }, &types.Stop{Grace: 2}},
		"a fast stop after an eviction":   {func(w *world) { w.task.Stop, w.binding.Stop = &types.Stop{Grace: 2}, evicted(5) }, &types.Stop{Grace: 2}},
		"an eviction after a stop":        {func(w *world) { w.task.Evict, w.task.EvictGrace, w.binding.Stop = 1, 2, &types.Stop{Grace: 5} }, nil},
		"a sooner eviction":               {func(w *world) { w.task.Evict, w.task.EvictGrace, w.binding.Stop = 1, 2, evicted(5) }, &types.Stop{Reason: "evicted", Evicted: true, Grace: 2}},
		"a later eviction":                {func(w *world) { w.task.Evict, w.task.EvictGrace, w.binding.Stop = 1, 5, evicted(2) }, nil},
		"a grace after the task's own":    {func(w *world) { w.task.Stop, w.binding.Stop = &types.Stop{Grace: 5}, &types.Stop{} }, &types.Stop{Grace: 5}},
		"the task's own grace after five": {func(w *world) { w.task.Stop, w.binding.Stop = &types.Stop{}, &types.Stop{Grace: 5} }, nil},
	} {
		if got := stopOf(attempt(t, test.change)); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// TestTells: a report is worth a write if the status changes by it in a way that users see.
func TestTells(t *testing.T) {
	running, starting := types.ReportRunning, types.ReportStarting
	for name, test := range map[string]struct {
		report types.Report
		status *types.Status
		want   bool
	}{
		"without a status":              {types.Report{Phase: running}, nil, false},
		"of a waiting task":             {types.Report{Phase: running, Reason: "x"}, &types.Status{Phase: types.Pending}, false},
		"it runs":                       {types.Report{Phase: running}, &types.Status{Phase: types.Bound}, true},
		"it starts":                     {types.Report{Phase: starting}, &types.Status{Phase: types.Bound}, false},
		"it starts late":                {types.Report{Phase: starting, Reason: "it pulls"}, &types.Status{Phase: types.Bound}, true},
		"it starts, as known":           {types.Report{Phase: starting, Reason: "it pulls"}, &types.Status{Phase: types.Bound, Reason: "it pulls"}, false},
		"an old report of its start":    {types.Report{Phase: starting, Reason: "it pulls"}, &types.Status{Phase: types.Running}, false},
		"its trouble is over":           {types.Report{Phase: running}, &types.Status{Phase: types.Running, Reason: "unhealthy"}, true},
		"an old report of its restarts": {types.Report{Phase: running, Restarts: 1}, &types.Status{Phase: types.Running, Restarts: 2}, false},
		"its image alone":               {types.Report{Phase: running, Image: "i@1"}, &types.Status{Phase: types.Running}, false},
	} {
		_, x, b := stored(t, func(w *world) {
			w.report = &test.report
			if test.status != nil {
				w.status = test.status
			}
		})
		s := x.Status.V
		if test.status == nil {
			s = nil
		}
		if got := tells(b.Report.V, s); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestActNeedsSpace: an action that exceeds what is left of a transaction changes nothing, but an
// empty draft takes any.
func TestActNeedsSpace(t *testing.T) {
	v, x, b := stored(t, func(w *world) { w.report.Phase = types.ReportExited })
	d := New(v, controlplane.Limits{Ops: 8, Bytes: 1 << 20}, 1)
	d.Decide("something")
	if d.Act(EndExited, x, b, time.Unix(9, 0)) || d.Has(x) || d.Len() != 1 {
		t.Error("it is more than fits")
	}
	sameTransaction(t, "nothing", d)
	if d = New(v, controlplane.Limits{Ops: 1, Bytes: 1}, 1); !d.Act(EndExited, x, b, time.Unix(9, 0)) {
		t.Error("it is the first")
	}
}

// TestCancel: a waiting task ends as stopped or as overdue, keeps the story of its attempts, and the
// transaction depends on it not being bound.
func TestCancel(t *testing.T) {
	was := types.Status{Phase: types.Pending, Node: "n1", Attempt: 2, Bound: 3, Image: "i@1", Failures: 1, Reason: "failure 1", Retry: 8}
	for name, test := range map[string]struct {
		task types.Task
		want types.Status
	}{
		"it is overdue": {types.Task{Deadline: 5}, types.Status{Phase: types.Failed, Reason: overdue, Cause: types.CauseDeadline}},
		"it is stopped": {types.Task{Deadline: 5, Stop: &types.Stop{Reason: "enough"}}, types.Status{Phase: types.Cancelled, Reason: "enough"}},
	} {
		v, x, _ := stored(t, func(w *world) { w.task, w.status = &test.task, &was })
		d, full := New(v, unlimited, 1), New(v, controlplane.Limits{Ops: Spare + 1, Bytes: 1 << 20}, 1)
		if !d.Cancel(x) || full.Cancel(x) || !full.Empty() {
			t.Errorf("%s: it fits, or does not", name)
		}
		sameTransaction(t, name, d, "if tasks/a/t = 3", "if status/a/t = 4", "put status/a/t")
		test.want.Attempt, test.want.Node, test.want.Bound, test.want.Image, test.want.Failures = 2, "n1", 3, "i@1", 1
		if got := written[*types.Status](d, controlplane.StatusKey("a", "t")); fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
	for _, test := range []struct {
		deadline, now int64
		want          bool
	}{{0, 5, false}, {5, 4, false}, {5, 5, true}, {5, 6, true}} {
		x, _ := attempt(t, func(w *world) { w.task.Deadline = test.deadline })
		if got := IsOverdue(x.Info.V, time.Unix(0, test.now)); got != test.want {
			t.Errorf("deadline %d at %d: %t", test.deadline, test.now, got)
		}
	}
}
