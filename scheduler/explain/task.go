package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/scheduler/division"
	"github.com/escher-sched/escher/scheduler/loss"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
	"github.com/escher-sched/escher/types/words"
)

// task explains a task.
func (e *explainer) task(id cluster.ID) (why.Explanation, error) {
	e.self = id.ID
	e.read.task(id)
	t := e.v.Task(id)
	if t != nil && (t.Info.Unread() || t.Status.Unread()) {
		key := controlplane.TaskKey(id.Namespace, id.ID)
		if t.Status.Unread() {
			key = controlplane.StatusKey(id.Namespace, id.ID)
		}
		return why.Explanation{}, types.Errorf(types.Precondition, "explain task %s: %s cannot be read: run the newest version of Escher that is in use, which may have written it, or %s",
			id.ID, key, action.RepairKey.Of(key))
	}
	if t == nil || t.Info.V == nil {
		return why.Explanation{}, types.Errorf(types.NotFound, "explain task %s: there is none in namespace %s: %s", id.ID, id.Namespace, action.ListTasks.Of())
	}
	e.kin = t.Info.V.Job
	x := why.Explanation{Kind: why.KindTask, ID: id.ID, Namespace: id.Namespace, Phase: string(t.Phase())}
	switch {
	case t.Phase().Ended():
		x.Reason = ended(t)
	case t.Phase().Held():
		e.held(t, &x)
	case !e.v.Visible(t):
		e.incomplete(t, &x)
	case t.Info.V.Stop != nil:
		x.Reason = because(why.Stopped, sentence("It was stopped while it waited, and is about to be cancelled", t.Info.V.Stop.Reason), noScheduler())
	case t.Info.V.Deadline != 0 && t.Info.V.Deadline <= e.now.UnixNano():
		x.Reason = because(why.DeadlinePassed, "Its deadline passed while it waited, and it is about to fail.", noScheduler())
	case e.v.UnreadNamespace(id.Namespace):
		x.Reason = unreadNamespace(id.Namespace)
	case t.Status.V != nil && t.Status.V.Retry > e.now.UnixNano():
		e.retries(t, &x)
	default:
		e.waiting(t, &x)
	}
	return x, nil
}

func noScheduler() types.Text {
	return types.Textf("If it stays so, no scheduler runs: %s.", action.CheckScheduler.Of())
}

// sentence is a text with its reason, if there is one.
func sentence(text, reason string) string {
	if reason = strings.TrimRight(reason, ". "); reason != "" {
		text += ": " + reason
	}
	return text + "."
}

// inFull makes a sentence of a clause about a task or reservation.
func inFull(r why.Reason) why.Reason {
	r.Summary = sentence("It "+r.Summary, "")
	return r
}

// note adds a note.
func note(x *why.Explanation, format string, args ...any) {
	x.Notes = append(x.Notes, types.Textf(format, args...))
}

// at says where the last attempt of a task was.
func at(s *cluster.StatusValue) string { return fmt.Sprintf("on %s (attempt %d)", s.Node, s.Attempt) }

// ended says how a task ended.
func ended(t *cluster.Task) why.Reason {
	s := t.Status.V
	switch {
	case s.Phase == types.Cancelled && s.Node == "":
		return because(why.Cancelled, sentence("It was cancelled while it waited", s.Reason), types.Text{})
	case s.Phase == types.Cancelled:
		return because(why.Cancelled, sentence("It was cancelled "+at(s), s.Reason), types.Text{})
	case s.Phase == types.Succeeded:
		return because(why.Succeeded, sentence("It succeeded "+at(s)+restarted(s), ""), types.Text{})
	case s.Started == 0 && s.ExitCode == 0:
		return because(why.Failed, sentence("It failed while it waited", s.Reason), types.Text{})
	}
	reason := s.Reason
	if s.ExitCode != 0 && reason == "" {
		reason = fmt.Sprintf("exit code %d", s.ExitCode)
	} else if s.ExitCode != 0 {
		reason = fmt.Sprintf("%s (exit code %d)", strings.TrimRight(reason, ". "), s.ExitCode)
	}
	summary := sentence("It failed "+at(s)+restarted(s), reason)
	switch {
	case s.Cause == types.CauseMemory:
		if q := t.Info.V.Requests.Get(string(types.Memory)); q > 0 {
			return because(why.OutOfMemory, summary,
				types.Textf("It had %s memory; run it with more: %s", q.Format(types.Memory), action.TaskRequest.Of("memory", (2*q).Format(types.Memory))))
		}
		return because(why.OutOfMemory, summary, types.Textf("Ask for the memory that it needs: %s", action.TaskRequest.Of("memory", "1Gi")))
	case s.ExitCode == 126 || s.ExitCode == 127:
		return because(why.Failed, summary, types.Textf("Look at its image, command and mounts: %s", action.Describe.Of(t.ID.ID)))
	}
	return because(why.Failed, summary, output(t))
}

func output(t *cluster.Task) types.Text {
	return types.Textf("See its output: %s", action.ShowOutput.Of(t.ID.ID))
}

func events(t *cluster.Task) types.Text {
	return types.Textf("See what its node does: %s", action.ShowEvents.Of(t.ID.ID))
}

// restarted says how often a task was restarted in this attempt, and how many attempts failed.
func restarted(s *cluster.StatusValue) string {
	text := ""
	if s.Restarts > 0 {
		text = ", after " + words.Count(s.Restarts, "restart")
	}
	switch {
	case s.Phase == types.Failed && s.Failures > 1:
		text += fmt.Sprintf(", the last of %d attempts that failed", s.Failures)
	case s.Phase == types.Succeeded && s.Failures > 0:
		text += ", after " + words.Count(s.Failures, "attempt") + " that failed"
	}
	return text
}

// retries says when the next attempt of a task may begin after a failed one.
func (e *explainer) retries(t *cluster.Task, x *why.Explanation) {
	s := t.Status.V
	wait := why.InWords(time.Unix(0, s.Retry).Sub(e.now))
	x.Reason = because(why.Retrying, sentence(fmt.Sprintf("It failed %s, and waits %s before its next attempt", at(s), wait), s.Reason),
		types.Textf("See the output of what failed: %s", action.ShowOutput.Of(t.ID.ID)))
	note(x, "Of its %d retries this is number %d.", t.Info.V.Retries, s.Failures)
}

// held says how far a task with a node is.
func (e *explainer) held(t *cluster.Task, x *why.Explanation) {
	s := t.Status.V
	reason, restarts, health := s.Reason, s.Restarts, s.Health
	var b *cluster.Binding
	for _, y := range t.Bindings {
		if y.Number == s.Attempt && y.Info.V != nil {
			b = y
		}
	}
	if b != nil && b.Report.V != nil && b.Report.V.Binding == b.Info.Create {
		// The status follows the report.
		reason, restarts, health = b.Report.V.Reason, b.Report.V.Restarts, b.Report.V.Health
	}
	node := e.v.Nodes[s.Node]
	switch {
	case node == nil || node.Alive.V == nil:
		e.lost(t, node, x)
	case t.Info.V.Stop != nil:
		x.Reason = because(why.Stopping, sentence("It is being stopped "+at(s), t.Info.V.Stop.Reason), events(t))
	case t.Info.V.Evict == s.Attempt:
		x.Reason = because(why.Evicting, sentence("It is being evicted "+at(s)+", and will wait for its next attempt", t.Info.V.EvictReason()), events(t))
	case s.Phase == types.Bound && reason != "":
		x.Reason = because(why.NotStarting, sentence("It is bound "+at(s)+", and does not start", reason),
			types.Textf("The node tries again. See what it does: %s", action.ShowEvents.Of(t.ID.ID)))
	case s.Phase == types.Bound:
		x.Reason = because(why.Starting, fmt.Sprintf("It is bound %s for %s, and its container is being started.", at(s), why.InWords(e.since(s.Bound))), events(t))
	case health == types.Unhealthy:
		x.Reason = because(why.Unhealthy, sentence(fmt.Sprintf("It runs %s, and is unhealthy", at(s)), reason), output(t))
	case health == types.HealthStarting && restarts == 0:
		x.Reason = because(why.Running, fmt.Sprintf("It runs %s for %s, and has not been found healthy yet.", at(s), why.InWords(e.since(s.Started))), events(t))
	case restarts > 0:
		x.Reason = because(why.Restarting, sentence(fmt.Sprintf("It runs %s, restarted %s", at(s), times(restarts)), reason), output(t))
	default:
		x.Reason = because(why.Running, fmt.Sprintf("It runs %s for %s.", at(s), why.InWords(e.since(s.Started))), types.Text{})
	}
	if b != nil {
		if end := endOf(b.Info.V); end != nil && s.Phase == types.Running {
			note(x, "It is ended in %s at the latest.", why.InWords(end.Sub(e.now)))
		}
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func (e *explainer) since(nanos int64) time.Duration { return e.now.Sub(time.Unix(0, nanos)) }

// lost says what happens to a task whose node is gone.
func (e *explainer) lost(t *cluster.Task, n *cluster.Node, x *why.Explanation) {
	s := t.Status.V
	x.Cause, x.Nodes = why.NodeLost, []string{s.Node}
	x.Summary = fmt.Sprintf("It was %s %s, which is not alive any more.", s.Phase, at(s))
	if t.Info.V.OnDisconnect == types.Keep {
		x.Summary = fmt.Sprintf("It was %s %s, which is not alive any more, and is kept for it.", s.Phase, at(s))
		x.Suggestion = types.Textf("Start the agent of %s again; if the machine is dead for good: %s", s.Node, action.DeclareDead.Of(s.Node))
		if n == nil || !n.Dead() {
			return
		}
		x.Summary = fmt.Sprintf("It was %s %s, which is dead for good.", s.Phase, at(s))
	}
	x.Suggestion = types.Textf("It is given up there, and waits for its next attempt, within seconds.")
	if t.Info.V.OnDisconnect == types.StopLost {
		x.Suggestion = types.Textf("It fails for good within seconds: it is not to be run again when its node is lost.")
	}
	dead := 0
	for _, y := range e.nodes {
		if y.Alive.V == nil {
			dead++
		}
	}
	if dead >= loss.StormNodes && 2*dead > len(e.nodes) {
		x.Suggestion = types.Textf("%d of %d nodes are not alive: if more than half have vanished within %s, tasks are left where they are so long, for it may be the network.",
			dead, len(e.nodes), why.InWords(scheduler.Config{}.WithDefaults().StormHold))
	}
}

// incomplete says that the job of a task is not submitted in full.
func (e *explainer) incomplete(t *cluster.Task, x *why.Explanation) {
	job := cluster.ID{Namespace: t.ID.Namespace, ID: t.Info.V.Job}
	e.read.tasks(t.ID.Namespace)
	there := len(e.v.Members(job))
	x.Reason = because(why.Incomplete, fmt.Sprintf("It waits for its job %s to be submitted in full: %s of it %s there.", job.ID, words.Count(there, "task"), is(there)), submitAgain())
	e.admission(x)
}

func submitAgain() types.Text {
	return types.Textf("If the submission was interrupted, submit the job again. This part of it is removed after a while.")
}

// admission notes that admission is closed.
func (e *explainer) admission(x *why.Explanation) {
	if a := e.v.Admission.V; a != nil {
		note(x, "%s", sentence("Nothing new is admitted at present", a.Reason))
	}
}

// waiting says why a task waits.
func (e *explainer) waiting(t *cluster.Task, x *why.Explanation) {
	r := grants.CollectedBy(e.v, t)
	if r != nil {
		// The task is placed where it fits with that returned.
		e.d.ReleaseGrant(r.Grant.V)
		defer e.d.ReacquireGrant(r.Grant.V)
	}
	findings := e.findings(t)
	best := findings[0]
	for _, f := range findings[1:] {
		if e.better(f, best) {
			best = f
		}
	}
	requests := requestsOf(t.Info.V)
	for i, f := range findings {
		y := e.explanation(f, requests[i])
		y.Reason = inFull(e.clause(f))
		x.Vectors = append(x.Vectors, y)
	}
	x.Reason = inFull(e.clause(best))
	x.Infeasible = !slices.ContainsFunc(findings, func(f *finding) bool { return !f.infeasible() && !f.stuck })
	switch {
	case len(findings) > 1 && x.Infeasible:
		note(x, "None of its %d alternatives can ever be met; this is about the first.", len(findings))
	case len(findings) > 1:
		note(x, "This is about alternative %d of %d.", slices.Index(findings, best)+1, len(findings))
	}
	if named := t.Info.V.Scheduler; named != "" && !x.Infeasible {
		e.named(named, best, x)
	}
	e.notes(t, x)
	e.moving(t, x)
	switch {
	case r != nil && !best.placeable():
		e.collects(r, t, x)
	case t.Info.V.Accumulate && !x.Infeasible && !best.placeable():
		e.collectsLater(x)
	}
	if e.inner {
		return
	}
	if r == nil {
		e.addHolders(best, x)
	}
	if !x.Infeasible && !e.leaderless(t.Info.V.Scheduler) {
		x.Queue = e.queue(e.owner(t.ID.Namespace, t.Info.V.Scheduler), &queue.Entry{ID: t.ID, Priority: t.Info.V.Order(), Submitted: t.Info.V.Submitted}, queue.TaskText(t.ID.Namespace, t.Info.V))
	}
}

// collects says what a waiting task has collected, and which holders have the rest.
func (e *explainer) collects(r *cluster.Reservation, t *cluster.Task, x *why.Explanation) {
	parts := e.collected(grants.ClaimOf(e.v, t), x)
	if len(parts) == 0 {
		return
	}
	x.Cause = why.Collecting
	x.Summary = fmt.Sprintf("It has waited long, and collects what becomes free: so far %s.", list(parts))
	note(x, "Only tasks that end in time, %s, may use what it has collected. Where it fits sooner, it is placed there.", action.TaskMaxRun.Of())
}

func requestsOf(t *cluster.TaskValue) []types.Requests {
	if len(t.Alternatives) == 0 {
		return []types.Requests{t.Requests}
	}
	var out []types.Requests
	for _, a := range t.Alternatives {
		out = append(out, t.Requests.Plus(a.Requests))
	}
	return out
}

// findings searches a node for each alternative of a task.
func (e *explainer) findings(t *cluster.Task) []*finding {
	var out []*finding
	for i, needs := range grants.Vectors(e.v, t) {
		f := e.find(t.ID.Namespace, needs)
		if when := grants.AllowedAt(t.Info.V, i); when > e.now.UnixNano() {
			f.allowed = time.Unix(0, when).UTC()
		}
		out = append(out, f)
	}
	return out
}

// better reports whether f rather than g predicts the placement: one that fits, the soonest first;
// then a feasible one; then the order of the alternatives.
func (e *explainer) better(f, g *finding) bool {
	if f.placeable() != g.placeable() {
		return f.placeable()
	}
	if f.placeable() {
		return f.allowed.Before(g.allowed)
	}
	return !f.infeasible() && g.infeasible()
}

// leaderless reports whether the named scheduler is known not to run.
func (e *explainer) leaderless(named string) bool {
	return named != "" && len(e.v.Schedulers) > 0 && e.v.Schedulers[named] == nil
}

// named says whether the scheduler that the task names runs.
func (e *explainer) named(name string, f *finding, x *why.Explanation) {
	switch {
	case e.v.Schedulers[name] != nil:
	case e.leaderless(name):
		x.Reason = because(why.SchedulerMissing, fmt.Sprintf("It is left to scheduler %s, which is not there.", name),
			types.Textf("Start that scheduler, or submit the task without naming one."))
	case f.placeable():
		x.Summary = fmt.Sprintf("It fits on %s, and is left to scheduler %s.", f.fits[0].Name, name)
		x.Suggestion = types.Textf("If it stays so, that scheduler does not run: start it, or submit the task without naming one.")
	}
}

// notes adds further facts about a waiting task.
func (e *explainer) notes(t *cluster.Task, x *why.Explanation) {
	if s := t.Status.V; s != nil && s.Attempt > 0 {
		note(x, "%s", sentence(fmt.Sprintf("It was bound before: attempt %d, on %s, has ended", s.Attempt, s.Node), s.Reason))
	}
	if d := t.Info.V.Deadline; d != 0 {
		note(x, "It fails in %s, at its deadline, if it has not ended by then.", why.InWords(time.Unix(0, d).Sub(e.now)))
	}
	e.admission(x)
}

// addHolders adds the holders and providers of the resources that a vector waits for.
func (e *explainer) addHolders(f *finding, x *why.Explanation) {
	seen := make(map[types.ResourceID]bool)
	provided := func(rid types.ResourceID) {
		if !seen[rid] && !rid.Physical() && !rid.Scoped() {
			seen[rid] = true
			x.Providers = append(x.Providers, e.providers(rid)...)
		}
	}
	for _, l := range f.pools {
		x.Holders = append(x.Holders, e.holdersOfPool(l.ID)...)
	}
	if f.infeasible() {
		return
	}
	for _, c := range f.short[:min(3, len(f.short))] {
		for _, l := range c.lacks {
			if l.known && !l.ID.IsPlacement() {
				x.Holders = append(x.Holders, e.holdersOn(c.node, l.ID)...)
			}
			provided(l.ID)
		}
	}
	e.lenders(x)
}

// owner is the scheduler that serves a namespace, or the one that a task names; empty if schedulers
// do not divide the namespaces.
func (e *explainer) owner(ns, named string) string {
	if named != "" {
		return named
	}
	return division.OwnerOf(ns, e.v.Schedulers)
}

// queue finds the position of an entry among those that wait for the same scheduler; nil if there
// are too many to count.
func (e *explainer) queue(owner string, mine *queue.Entry, shape string) *why.Queue {
	if !e.read.waiting() {
		return nil
	}
	q := &why.Queue{}
	var first []*queue.Entry
	ahead := func(ns, named string, x *queue.Entry, key func() string) {
		if !x.Before(mine) || e.owner(ns, named) != owner {
			return
		}
		q.Ahead++
		if key() == shape {
			q.Same++
			first = append(first, x)
		}
	}
	for t := range e.v.Tasks() {
		e.looks++
		// The members of a job wait for its reservation, and not before it.
		member := mine.Reservation && t.ID.Namespace == mine.ID.Namespace && t.Info.V != nil && t.Info.V.Job != "" && t.Info.V.Job == e.kin
		if !member && t.Phase() == types.Pending && e.v.Visible(t) && t.Info.V.Stop == nil {
			x := &queue.Entry{ID: t.ID, Priority: t.Info.V.Order(), Submitted: t.Info.V.Submitted}
			ahead(t.ID.Namespace, t.Info.V.Scheduler, x, func() string { return queue.TaskText(t.ID.Namespace, t.Info.V) })
		}
	}
	for id, r := range e.v.Reservations {
		e.looks++
		if r.Info.V != nil && r.Grant.V == nil {
			x := &queue.Entry{ID: id, Reservation: true, Priority: r.Info.V.Order(), Submitted: r.Info.V.Submitted}
			ahead(id.Namespace, "", x, func() string { return queue.ReservationText(id.Namespace, r.Info.V) })
		}
	}
	slices.SortFunc(first, func(a, b *queue.Entry) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
	for _, x := range first[:min(few, len(first))] {
		q.First = append(q.First, x.ID.ID)
	}
	return q
}
