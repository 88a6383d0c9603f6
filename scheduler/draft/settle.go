package draft

import (
	"fmt"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/backoff"
)

// Action is what a binding needs next.
type Action int

const (
	NoAction   Action = iota
	EndExited         // its end was reported
	EndLost           // its node's session is over
	TellStop          // the task must be stopped or evicted
	CopyReport        // its start, trouble or restart was reported
)

// ActionFor decides what a binding needs next. t is its task.
func ActionFor(t *cluster.Task, b *cluster.Binding) Action {
	if b.Info.V == nil || t.Status.Unread() || t.Info.Unread() {
		return NoAction
	}
	reported := b.Report.V != nil && b.Report.V.Binding == b.Info.Create
	switch {
	case reported && b.Report.V.Phase == types.ReportExited:
		return EndExited
	case b.Lost():
		return EndLost
	case stopOf(t, b) != nil:
		return TellStop
	case reported && tells(b.Report.V, t.Status.V):
		return CopyReport
	}
	return NoAction
}

// tells reports whether the report of an attempt that has not ended has news for its status. A slow
// start is not worth a write, nor is an image, which the next write includes.
func tells(r *cluster.ReportValue, s *cluster.StatusValue) bool {
	switch {
	case s == nil || !s.Phase.Held():
		return false
	case r.Phase == types.ReportRunning && s.Phase == types.Bound:
		return true
	case r.Phase == types.ReportStarting && s.Phase == types.Running:
		return false
	}
	return r.Reason != s.Reason || r.Restarts > s.Restarts || r.Health != s.Health
}

// stopOf returns the stop to write to a binding; nil if it has it or there is none. A stop
// overrides an eviction, with the shorter grace of the two. Of two stops or evictions, the one that
// ends the attempt sooner wins.
func stopOf(t *cluster.Task, b *cluster.Binding) *types.Stop {
	told, want := b.Info.V.Stop, &types.Stop{Reason: "the task was deleted"}
	if t.Info.V != nil {
		want = t.Info.V.Leaving(b.Number)
	}
	switch {
	case want == nil || told == nil:
		return want
	case t.Info.V == nil:
		return nil
	case told.Evicted && !want.Evicted:
		return want.Over(told)
	case told.Evicted == want.Evicted && want.Sooner(told):
		return want
	}
	return nil
}

// Act adds the action for an action to the draft; false when the draft lacks space.
func (d *Draft) Act(v Action, t *cluster.Task, b *cluster.Binding, now time.Time) bool {
	holds, provides := len(b.Info.V.Holds), len(b.Info.V.Provides)
	if !d.Room(6+2*holds+provides, 4+2*holds+provides) && !d.Empty() {
		return false
	}
	ns, id := t.ID.Namespace, t.ID.ID
	switch v {
	case TellStop:
		key := controlplane.BindingKey(b.Node.Name, ns, id, b.Number)
		d.Change.IfUnchanged(key, b.Info.Mod)
		told := b.Info.V.Full()
		told.Stop = stopOf(t, b)
		d.Put(key, told, b.Info.Mod)
	case CopyReport:
		// The binding exists as long as its report: both are deleted together.
		d.Change.IfUnchanged(controlplane.ReportKey(b.Node.Name, ns, id, b.Number), b.Report.Mod)
		d.Change.IfUnchanged(controlplane.StatusKey(ns, id), t.Status.Mod)
		d.Put(controlplane.StatusKey(ns, id), lasting(t.Status.V, b.Report.V), t.Status.Mod)
	case EndLost:
		d.Change.IfUnchanged(controlplane.ReportKey(b.Node.Name, ns, id, b.Number), b.Report.Mod)
		d.Change.IfCreated(controlplane.AliveKey(b.Node.Name), b.Node.Session())
		if b.Info.V.OnDisconnect == types.Keep {
			d.Change.IfUnchanged(controlplane.CordonKey(b.Node.Name), b.Node.Cordon.Mod)
		}
		d.end(t, b, lost(t, b, now))
	case EndExited:
		s := ending(b.Info.V, b.Report.V)
		retry(t, s, now)
		d.end(t, b, s)
		d.leaveBehind(t, b)
	}
	d.claim(t)
	d.items++
	return true
}

// lost is the status after the loss of a node. The attempt counts as ended at the time of the
// decision, because its real end is unknown.
func lost(t *cluster.Task, b *cluster.Binding, now time.Time) *types.Status {
	s := &types.Status{Phase: types.Pending, Ended: now.UnixNano(), Cause: types.CauseLost, Reason: fmt.Sprintf("node %s was lost", b.Node.Name)}
	switch {
	case t.Info.V == nil:
		s.Phase = types.Cancelled // there is no task for another attempt
	case b.Info.V.OnDisconnect == types.StopLost:
		s.Phase, s.Reason = types.Failed, s.Reason+", and it is not to be run again then"
		if r := b.Report.V; r != nil && r.Binding == b.Info.Create {
			s.Started, s.Restarts = r.Started, r.Restarts
		}
	}
	return s
}

// lasting is the status that follows from the report of an attempt that has not ended.
func lasting(was *cluster.StatusValue, r *cluster.ReportValue) *types.Status {
	s := was.Full()
	s.Reason, s.Cause, s.Restarts, s.Image, s.Health = r.Reason, r.Cause, r.Restarts, pinned(was, r), r.Health
	if r.Phase == types.ReportRunning {
		s.Phase, s.Started = types.Running, r.Started
	}
	return s
}

// pinned is the image by digest that every attempt of a task runs, from its status or, before that
// Has it, from a report.
func pinned(s *cluster.StatusValue, r *cluster.ReportValue) string {
	switch {
	case s != nil && s.Image != "":
		return s.Image
	case r != nil:
		return r.Image
	}
	return ""
}

// ending is the status that follows from an exit.
func ending(b *cluster.BindingValue, r *cluster.ReportValue) *types.Status {
	s := &types.Status{Started: r.Started, Ended: r.Ended, ExitCode: r.ExitCode, Reason: r.Reason, Cause: r.Cause, Restarts: r.Restarts, Used: r.Used}
	switch {
	case r.Fenced:
		s.Phase = types.Pending
	case r.Stopped && b.Stop != nil && b.Stop.Evicted:
		s.Phase = types.Pending
		s.Reason, s.Cause = b.Stop.Reason, types.CauseEvicted
	case r.Stopped && b.Stop != nil:
		s.Phase = types.Cancelled
		s.Reason = b.Stop.Reason
	case r.ExitCode == 0 && r.Reason == "":
		s.Phase = types.Succeeded
	default:
		s.Phase, s.Failures = types.Failed, 1
	}
	return s
}

// end removes a binding: its holdings become free, and its task gets status s. The allocated
// amounts of its node, which are compared, change with every binding that comes or goes there.
// While they do not, the binding exists, the attempt is not over, and only a scheduler that saw
// another report changes its status.
func (d *Draft) end(t *cluster.Task, b *cluster.Binding, s *types.Status) {
	ns, id := t.ID.Namespace, t.ID.ID
	d.Remove(controlplane.BindingKey(b.Node.Name, ns, id, b.Number))
	if !b.Report.Absent() {
		d.Remove(controlplane.ReportKey(b.Node.Name, ns, id, b.Number))
	}
	s.Node, s.Attempt, s.Bound = b.Node.Name, b.Number, b.Info.V.Bound
	s.Image = pinned(t.Status.V, b.Report.V)
	s.Failures += failuresOf(t.Status.V)
	d.Put(controlplane.StatusKey(ns, id), s, t.Status.Mod)
	d.GiveBack(b.Node, b.Info.V.Holds)
	d.Keep(b.Node, b.Info.V.Holds)
	d.withdraw(b)
	d.returnFromReleasing(b)
}

// withdraw removes what the binding provides: other decisions of the draft must not rely on a
// binding that the same transaction ends.
func (d *Draft) withdraw(b *cluster.Binding) {
	if len(b.Info.V.Provides) > 0 {
		p := d.at(b.Node)
		p.ended = append(p.ended, b)
	}
}

// returnFromReleasing returns what a binding drew on a grant that is being released: no other task
// can draw on it.
func (d *Draft) returnFromReleasing(b *cluster.Binding) {
	for _, h := range b.Info.V.Holds {
		if !h.Resource.Scoped() {
			continue
		}
		ns, _, name := h.Resource.Split()
		r := d.view.Reservations[cluster.ID{Namespace: ns, ID: name}]
		if !grants.ReturnsDrawn(r, b.Node.Name) {
			continue
		}
		d.Change.IfUnchanged(controlplane.GrantKey(ns, name), r.Grant.Mod)
		base := []types.Holding{grants.Base(r.Grant.V, b.Node.Name, h)}
		d.GiveBack(b.Node, base)
		d.Keep(b.Node, base)
	}
}

// leaveBehind writes what a task provides on success, added to earlier amounts of this session.
func (d *Draft) leaveBehind(t *cluster.Task, b *cluster.Binding) {
	if ending(b.Info.V, b.Report.V).Phase != types.Succeeded || b.Node.Session() != b.Info.V.Session {
		return
	}
	for _, p := range b.Info.V.Provides {
		if p.When != types.WhenSucceeded {
			continue
		}
		left := d.leftAt(t.ID.Namespace, p.Name, b)
		left.Amount, left.Task = left.Amount.Add(p.Amount), t.ID.ID
		if v := t.Info.V; v != nil && v.Job != "" && strings.HasPrefix(p.Name, v.Job+".") {
			left.Job = v.Job
		}
	}
}

// leftover is the provided amount of a resource, with the revision of its previous value.
type leftover struct {
	*types.Provided
	mod int64
}

// leftAt returns the provided amount of a resource on the node of b in its session, for additions.
func (d *Draft) leftAt(ns, name string, b *cluster.Binding) *leftover {
	key := controlplane.ProvidedKey(ns, name, b.Node.Name)
	left := d.left[key]
	if left != nil {
		return left
	}
	left = &leftover{Provided: &types.Provided{NodeSession: b.Info.V.Session}}
	if c := b.Node.Left[types.Resolve(ns, name)]; c != nil {
		left.mod = c.Mod
		if c.V.NodeSession == left.NodeSession {
			left.Amount, left.Job = c.V.Amount, c.V.Job
		}
	}
	d.Change.IfUnchanged(key, left.mod)
	d.left[key] = left
	d.leaving = append(d.leaving, key)
	return left
}

// overdue is the reason of a task that failed because its deadline passed while it waited.
const overdue = "its deadline passed while it waited"

// IsOverdue reports whether the deadline of a task has passed.
func IsOverdue(t *cluster.TaskValue, now time.Time) bool {
	return t.Deadline != 0 && t.Deadline <= now.UnixNano()
}

// Cancel ends an unbound task, because it was stopped or its deadline has passed.
func (d *Draft) Cancel(t *cluster.Task) bool {
	if !d.Room(2, 1) {
		return false
	}
	s := types.Status{Phase: types.Failed, Reason: overdue, Cause: types.CauseDeadline}
	if stop := t.Info.V.Stop; stop != nil {
		s.Phase, s.Reason, s.Cause = types.Cancelled, stop.Reason, ""
	}
	if was := t.Status.V; was != nil {
		s.Attempt, s.Node, s.Bound, s.Image, s.Failures = was.Attempt, was.Node, was.Bound, was.Image, was.Failures
	}
	d.CompareTask(t)
	d.Put(controlplane.StatusKey(t.ID.Namespace, t.ID.ID), &s, t.Status.Mod)
	d.claim(t)
	d.items++
	return true
}

// retry changes the failed status s to wait for another attempt, if retries remain and the deadline
// leaves time.
func retry(t *cluster.Task, s *types.Status, now time.Time) {
	task, failures := t.Info.V, failuresOf(t.Status.V)+1
	if s.Phase != types.Failed || task == nil || task.Stop != nil || failures > task.Retries {
		return
	}
	at := now.Add(backoff.Delay(failures, time.Duration(s.Ended-s.Started))).UnixNano()
	if task.Deadline != 0 && task.Deadline <= at {
		return
	}
	if s.Reason == "" {
		s.Reason = fmt.Sprintf("exit code %d", s.ExitCode)
	}
	s.Reason = types.CutReason(fmt.Sprintf("failure %d: %s", failures, s.Reason))
	s.Phase, s.Retry = types.Pending, at
}

// failuresOf returns the number of failed attempts in a status.
func failuresOf(s *cluster.StatusValue) int {
	if s == nil {
		return 0
	}
	return s.Failures
}
