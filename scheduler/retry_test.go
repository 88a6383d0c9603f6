package scheduler

import (
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// ended reports the end of the current attempt of a task, and settles.
func (b *bench) ended(id string, r types.Report) {
	b.t.Helper()
	x := b.core.view.Task(clusterID("d", id)).Bindings[0]
	r.Phase, r.Binding = types.ReportExited, x.Info.Create
	r.Started, r.Ended = b.now.UnixNano(), b.now.UnixNano()
	b.put(controlplane.ReportKey(x.Node.Name, "d", id, x.Number), &r)
	b.settle()
}

func (b *bench) status(id string) types.Status {
	if s := b.core.view.Task(clusterID("d", id)).Status.V; s != nil {
		return *s.Full()
	}
	return types.Status{Phase: types.Pending}
}

func retries(n int) func(*types.Task) { return func(t *types.Task) { t.Retries = n } }

// TestRetries: another attempt follows a failed one after a wait that doubles, until no retries are
// left.
func TestRetries(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 2000)
	b.task("a", map[string]types.Quantity{"cpu": 2000}, retries(2))
	b.settle()
	for i, wait := range []time.Duration{time.Second, 2 * time.Second} {
		b.ended("a", types.Report{ExitCode: 3})
		s := b.status("a")
		if s.Phase != types.Pending || s.Failures != i+1 || s.ExitCode != 3 || !strings.Contains(s.Reason, "exit code 3") || s.Retry != b.now.Add(wait).UnixNano() {
			t.Fatalf("after failure %d: %+v", i+1, s)
		}
		if n := b.core.Waiting(); n != 1 {
			t.Errorf("%d wait, want 1", n)
		}
		b.now = b.now.Add(wait - 1)
		b.settle()
		if b.expect("a", "pending on n1"); b.core.Wake() != b.now.Add(1) {
			t.Errorf("it wakes at %s, and it is %s", b.core.Wake(), b.now)
		}
		b.now = b.now.Add(1)
		b.settle()
		if s := b.status("a"); s.Phase != types.Bound || s.Attempt != i+2 || s.Failures != i+1 || s.Retry != 0 {
			t.Fatalf("then: %+v", s)
		}
	}
	b.ended("a", types.Report{ExitCode: 4})
	if s := b.status("a"); s.Phase != types.Failed || s.Failures != 3 || s.ExitCode != 4 || s.Reason != "" {
		t.Errorf("at last: %+v", s)
	}
	if b.core.Waiting() != 0 || !b.core.Wake().IsZero() {
		t.Errorf("%d wait, and it wakes at %s", b.core.Waiting(), b.core.Wake())
	}
}

// TestWhatIsRetried: which ends are followed by another attempt, and which of them count.
func TestWhatIsRetried(t *testing.T) {
	for _, test := range []struct {
		name     string
		edit     func(*types.Task) // the binding gets a stop or an eviction
		report   types.Report
		want     types.Phase
		failures int
	}{
		{"success", nil, types.Report{}, types.Succeeded, 0},
		{"ran too long", nil, types.Report{ExitCode: 143, Reason: "ran longer than 5s"}, types.Pending, 1},
		{"an unknown end", nil, types.Report{ExitCode: 137, Reason: "not known how it ended"}, types.Pending, 1},
		{"unhealthy, and ended with success", nil, types.Report{Reason: "unhealthy"}, types.Pending, 1},
		{"no such command", nil, types.Report{ExitCode: 127, Reason: "no such command"}, types.Pending, 1},
		{"evicted", func(t *types.Task) { t.Evict = 1 }, types.Report{ExitCode: 143, Stopped: true}, types.Bound, 0},
		{"failed before it could be evicted", func(t *types.Task) { t.Evict = 1 }, types.Report{ExitCode: 1}, types.Pending, 1},
		{"fenced", nil, types.Report{ExitCode: 137, Fenced: true}, types.Bound, 0},
		{"stopped", func(t *types.Task) { t.Stop = &types.Stop{} }, types.Report{ExitCode: 143, Stopped: true}, types.Cancelled, 0},
		{"failed before it could be stopped", func(t *types.Task) { t.Stop = &types.Stop{} }, types.Report{ExitCode: 1}, types.Failed, 1},
		{"no time before its deadline", func(t *types.Task) { t.Deadline = time.Unix(1001, 0).UnixNano() }, types.Report{ExitCode: 1}, types.Failed, 1},
		{"time before its deadline", func(t *types.Task) { t.Deadline = time.Unix(1002, 0).UnixNano() }, types.Report{ExitCode: 1}, types.Pending, 1},
		{"no retries", retries(0), types.Report{ExitCode: 1}, types.Failed, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, Config{})
			b.node("n1", 2000)
			all := []func(*types.Task){retries(1)}
			if test.edit != nil {
				all = append(all, test.edit)
			}
			b.task("a", nil, append(all, func(t *types.Task) { t.Stop, t.Evict = nil, 0 })...)
			b.settle()
			b.task("a", nil, all...)
			b.settle()
			if b.ended("a", test.report); b.status("a").Phase != test.want || b.status("a").Failures != test.failures {
				t.Errorf("%+v", b.status("a"))
			}
		})
	}
}

// TestLostDoesNotCount: the loss of a node is no failure and keeps the count; a StopLost task does
// not run again.
func TestLostDoesNotCount(t *testing.T) {
	for _, loss := range []types.OnDisconnect{types.Fence, types.StopLost} {
		b := newBench(t, Config{})
		b.node("n1", 2000)
		b.task("a", nil, retries(5), func(t *types.Task) { t.OnDisconnect = loss })
		b.settle()
		b.ended("a", types.Report{ExitCode: 1})
		b.now = b.now.Add(time.Second)
		b.settle()
		b.del(controlplane.AliveKey("n1"))
		b.settle()
		want := types.Pending
		if loss == types.StopLost {
			want = types.Failed
		}
		if s := b.status("a"); s.Phase != want || s.Failures != 1 || s.Retry != 0 {
			t.Errorf("%s: %+v", loss, s)
		}
		b.node("n2", 2000)
		b.settle()
		if s := b.status("a"); s.Phase == types.Bound && (s.Node != "n2" || s.Failures != 1) || want == types.Pending && s.Phase != types.Bound {
			t.Errorf("%s: then %+v", loss, s)
		}
	}
}

// TestStoppedWhileItWaits: a task that waits for its next attempt is cancelled at once; a deleted
// one leaves no state.
func TestStoppedWhileItWaits(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 2000)
	b.task("a", nil, retries(1))
	b.settle()
	b.ended("a", types.Report{ExitCode: 1})
	b.task("a", nil, retries(1), func(t *types.Task) { t.Stop = &types.Stop{Reason: "enough"} })
	b.settle()
	if s := b.status("a"); s.Phase != types.Cancelled || s.Reason != "enough" || s.Failures != 1 || b.core.Waiting() != 0 {
		t.Errorf("%+v, and %d wait", s, b.core.Waiting())
	}
	b.del(controlplane.TaskKey("d", "a"), controlplane.StatusKey("d", "a"))
	b.now = b.now.Add(time.Hour)
	b.settle()
	if b.core.Waiting() != 0 || !b.core.Wake().IsZero() {
		t.Errorf("%d wait, and it wakes at %s", b.core.Waiting(), b.core.Wake())
	}
}

// TestRetryIsTakenOver: a new scheduler waits as long as the previous one would have.
func TestRetryIsTakenOver(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 2000)
	b.task("a", nil, retries(1))
	b.settle()
	b.ended("a", types.Report{ExitCode: 1})
	b.core, b.seen = New(Config{Seed: 2}), 0
	b.settle()
	b.expect("a", "pending on n1")
	if plan := Schedule(b.core.view, Config{}, b.now); len(plan.Binds) != 0 {
		t.Errorf("it would be bound at once: %v", plan.Binds)
	}
	b.now = b.now.Add(time.Second)
	b.settle()
	b.expect("a", "bound on n1")
}
