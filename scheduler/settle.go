package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// verdict is what is to be done about a binding.
type verdict int

const (
	nothing verdict = iota
	release         // its end was reported
	lose            // its node's session is over
	stop            // the task is to be stopped or evicted
	copied          // its start, trouble or restart was reported
)

// judge decides what a binding needs next. t is its task.
func judge(t *cluster.Task, b *cluster.Binding) verdict {
	if b.Info.V == nil || t.Status.Unread() || t.Info.Unread() {
		return nothing
	}
	reported := b.Report.V != nil && b.Report.V.Binding == b.Info.Create
	switch {
	case reported && b.Report.V.Phase == types.ReportExited:
		return release
	case b.Lost():
		return lose
	case stopOf(t, b) != nil:
		return stop
	case reported && tells(b.Report.V, t.Status.V):
		return copied
	}
	return nothing
}

// tells reports whether the report of an attempt that lasts says something that its
// status does not. That a start is slow is not worth a write, nor is an image: that
// goes with the next one.
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

// stopOf returns what the binding is to be told, nil if it was told or there is
// nothing to tell. A stop overrides an eviction, with the grace of that which ends it
// sooner; of two stops or evictions the one that does is told.
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

// act adds what verdict asks for to the draft; false when there is no room.
func (d *Draft) act(v verdict, t *cluster.Task, b *cluster.Binding) bool {
	holds, provides := len(b.Info.V.Holds), len(b.Info.V.Provides)
	if !d.room(6+2*holds+provides, 4+2*holds+provides) && !d.empty() {
		return false
	}
	ns, id := t.ID.Namespace, t.ID.ID
	switch v {
	case stop:
		key := controlplane.BindingKey(b.Node.Name, ns, id, b.Number)
		d.Change.IfUnchanged(key, b.Info.Mod)
		told := b.Info.V.Full()
		told.Stop = stopOf(t, b)
		d.put(key, told, b.Info.Mod)
	case copied:
		// The binding is there as long as its report is: they go together.
		d.Change.IfUnchanged(controlplane.ReportKey(b.Node.Name, ns, id, b.Number), b.Report.Mod)
		d.Change.IfUnchanged(controlplane.StatusKey(ns, id), t.Status.Mod)
		d.put(controlplane.StatusKey(ns, id), lasting(t.Status.V, b.Report.V), t.Status.Mod)
	case lose:
		d.Change.IfUnchanged(controlplane.ReportKey(b.Node.Name, ns, id, b.Number), b.Report.Mod)
		d.Change.IfCreated(controlplane.AliveKey(b.Node.Name), b.Node.Session())
		if b.Info.V.OnDisconnect == types.Keep {
			d.Change.IfUnchanged(controlplane.CordonKey(b.Node.Name), b.Node.Cordon.Mod)
		}
		d.end(t, b, lost(t, b, d.core.now))
	case release:
		s := ending(b.Info.V, b.Report.V)
		d.core.retry(t, s)
		d.end(t, b, s)
		d.leaveBehind(t, b)
	}
	d.claim(t)
	d.items++
	return true
}

// lost is the status that the loss of its node makes: its attempt counts as having ended
// when that is decided, as nobody knows when it did.
func lost(t *cluster.Task, b *cluster.Binding, now time.Time) *types.Status {
	s := &types.Status{Phase: types.Pending, Ended: now.UnixNano(), Cause: types.CauseLost, Reason: fmt.Sprintf("node %s was lost", b.Node.Name)}
	switch {
	case t.Info.V == nil:
		s.Phase = types.Cancelled // there is nothing to make another attempt of
	case b.Info.V.OnDisconnect == types.StopLost:
		s.Phase, s.Reason = types.Failed, s.Reason+", and it is not to be run again then"
		if r := b.Report.V; r != nil && r.Binding == b.Info.Create {
			s.Started, s.Restarts = r.Started, r.Restarts
		}
	}
	return s
}

// lasting is the status that a report of an attempt makes which has not ended.
func lasting(was *cluster.StatusValue, r *cluster.ReportValue) *types.Status {
	s := was.Full()
	s.Reason, s.Cause, s.Restarts, s.Image, s.Health = r.Reason, r.Cause, r.Restarts, pinned(was, r), r.Health
	if r.Phase == types.ReportRunning {
		s.Phase, s.Started = types.Running, r.Started
	}
	return s
}

// pinned is the image by digest that every attempt of a task runs, as its status or,
// before that knows it, a report says.
func pinned(s *cluster.StatusValue, r *cluster.ReportValue) string {
	switch {
	case s != nil && s.Image != "":
		return s.Image
	case r != nil:
		return r.Image
	}
	return ""
}

// ending is the status that an exit makes.
func ending(b *cluster.BindingValue, r *cluster.ReportValue) *types.Status {
	s := &types.Status{Started: r.Started, Ended: r.Ended, ExitCode: r.ExitCode, Reason: r.Reason, Cause: r.Cause, Restarts: r.Restarts}
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

// end takes a binding away: what it held is free, and its task has status s. What is
// allocated on its node, which is compared, changes with every binding that comes or
// goes there: as long as it does not, the binding is there, the attempt is not over,
// and its status is changed by nobody who did not see another report.
func (d *Draft) end(t *cluster.Task, b *cluster.Binding, s *types.Status) {
	ns, id := t.ID.Namespace, t.ID.ID
	d.remove(controlplane.BindingKey(b.Node.Name, ns, id, b.Number))
	if !b.Report.Absent() {
		d.remove(controlplane.ReportKey(b.Node.Name, ns, id, b.Number))
	}
	s.Node, s.Attempt, s.Bound = b.Node.Name, b.Number, b.Info.V.Bound
	s.Image = pinned(t.Status.V, b.Report.V)
	s.Failures += failuresOf(t.Status.V)
	d.put(controlplane.StatusKey(ns, id), s, t.Status.Mod)
	d.giveBack(b.Node, b.Info.V.Holds)
	d.keep(b.Node, b.Info.V.Holds)
	d.withdraw(b)
	d.returnFromReleasing(b)
}

// withdraw takes away what the binding provides: whatever else is decided in the
// draft must not rely on what the same transaction ends.
func (d *Draft) withdraw(b *cluster.Binding) {
	if len(b.Info.V.Provides) > 0 {
		p := d.at(b.Node)
		p.ended = append(p.ended, b)
	}
}

// returnFromReleasing gives back what a binding drew from a grant that is being
// released: nobody else can draw it any more.
func (d *Draft) returnFromReleasing(b *cluster.Binding) {
	for _, h := range b.Info.V.Holds {
		if !h.Resource.Scoped() {
			continue
		}
		ns, _, name := h.Resource.Split()
		r := d.view.Reservations[cluster.ID{Namespace: ns, ID: name}]
		if !returnsDrawn(r, b.Node.Name) {
			continue
		}
		d.Change.IfUnchanged(controlplane.GrantKey(ns, name), r.Grant.Mod)
		base := []types.Holding{baseHolding(r.Grant.V, b.Node.Name, h)}
		d.giveBack(b.Node, base)
		d.keep(b.Node, base)
	}
}

// returnsDrawn reports whether what tasks drew on a reservation on a node is given back as they
// end: it is being released, and what no task drew there was given back.
func returnsDrawn(r *cluster.Reservation, node string) bool {
	if r == nil || r.Grant.V == nil || r.Grant.V.Phase != types.Releasing {
		return false
	}
	return !slices.ContainsFunc(r.Grant.V.Nodes, func(at types.GrantNode) bool { return at.Whole && at.Node == node })
}

// baseHolding returns what a grant holds for a scoped holding on a node.
func baseHolding(g *types.Grant, node string, h types.Holding) types.Holding {
	base := types.Holding{Resource: h.Resource.Unscoped(), Amount: h.Amount, Devices: h.Devices}
	for _, x := range g.On(node) {
		if x.Resource == base.Resource {
			base.Cluster = x.Cluster
		}
	}
	return base
}

// leaveBehind writes what a task provides on success. What is there already, of
// this session, adds up.
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

// leftover is what is left behind of a resource, and of which revision it was before.
type leftover struct {
	*types.Provided
	mod int64
}

// leftAt returns what is left behind of a resource at the node of b in its
// session, to be added to.
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

// overdue is the reason of a task that failed because its deadline passed while it
// waited.
const overdue = "its deadline passed while it waited"

// isOverdue reports whether the deadline of a task has passed.
func isOverdue(t *cluster.TaskValue, now time.Time) bool {
	return t.Deadline != 0 && t.Deadline <= now.UnixNano()
}

// cancel ends a task that is not bound, because it was stopped or its deadline has
// passed.
func (d *Draft) cancel(t *cluster.Task) bool {
	if !d.room(2, 1) {
		return false
	}
	s := types.Status{Phase: types.Failed, Reason: overdue, Cause: types.CauseDeadline}
	if stop := t.Info.V.Stop; stop != nil {
		s.Phase, s.Reason, s.Cause = types.Cancelled, stop.Reason, ""
	}
	if was := t.Status.V; was != nil {
		s.Attempt, s.Node, s.Bound, s.Image, s.Failures = was.Attempt, was.Node, was.Bound, was.Image, was.Failures
	}
	d.compareTask(t)
	d.put(controlplane.StatusKey(t.ID.Namespace, t.ID.ID), &s, t.Status.Mod)
	d.claim(t)
	d.items++
	return true
}
