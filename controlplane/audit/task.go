package audit

import (
	"strconv"

	"github.com/escher-sched/escher/types"
)

// nothingLost validates NothingLost. A task is pending without a binding, bound or running with the
// binding in its status, or ended without a binding and with a reason. A binding, or a status that
// has not ended, belongs to an existing task.
func nothingLost(t *task, found finder) {
	phase, st := types.Pending, t.status.V
	if st != nil {
		phase = st.Phase
	}
	b := t.bound()
	switch {
	case phase == types.Pending || phase.Ended():
		if b != nil {
			found(t.object(), "is %s, but has %s", phase, b)
		}
	case phase.Held():
		if !t.boundAs(st) {
			found(t.object(), "is %s on node %s as attempt %d, but has no such binding", phase, st.Node, st.Attempt)
		}
	default:
		found(t.object(), "its phase is %q", phase)
	}
	if phase == types.Failed && st.ExitCode == 0 && st.Reason == "" {
		found(t.object(), "has failed without a reason")
	}
	if t.info.V == nil && (b != nil || st != nil && !phase.Ended()) {
		found(t.object(), "is %s, but the task is gone", phase)
	}
}

// bound returns the binding of the task, the first by name if there are several, nil if there is
// none.
func (t *task) bound() *binding {
	var first *binding
	for _, b := range t.bindings {
		if b.info.V != nil && (first == nil || b.String() < first.String()) {
			first = b
		}
	}
	return first
}

func (t *task) boundAs(st *types.Status) bool {
	for _, b := range t.bindings {
		if b.info.V != nil && b.node.name == st.Node && b.number == st.Attempt {
			return true
		}
	}
	return false
}

// notDropped validates NothingLost for a change. A task is deleted only once it has ended, or if it
// was never visible. Its status is not deleted before the task. No id is reused.
func (s *state) notDropped(t *task, found finder) {
	was := t.status.before(s.revision)
	ended := was != nil && was.Phase.Ended()
	if t.info.deleted(s.revision) && !ended && (was != nil || s.wasVisible(t)) {
		found(t.object(), "was deleted before it ended")
	}
	if t.status.deleted(s.revision) && t.info.V != nil {
		found(t.object(), "its status was deleted, but the task exists")
	}
	if t.info.created(s.revision) && was != nil {
		found(t.object(), "is new, but a status with its id exists")
	}
}

// wasVisible reports whether schedulers could see a task that is now deleted.
func (s *state) wasVisible(t *task) bool {
	if t.info.old.Job == "" {
		return true
	}
	job := id{t.id.ns, t.info.old.Job}
	for _, gone := range s.touched.jobs {
		if gone == job {
			return true
		}
	}
	return s.jobs[job] != nil
}

// jobFinished validates NothingLost for a deleted job: its tasks that have not ended become
// invisible.
func (s *state) jobFinished(job id, found finder) {
	for _, t := range s.tasks {
		if t.info.V == nil || t.id.ns != job.ns || t.info.V.Job != job.id {
			continue
		}
		if t.status.V == nil || !t.status.V.Phase.Ended() {
			found("job "+job.String(), "was deleted, but %s has not ended", t.object())
		}
	}
}

// monotonic validates StatusMonotonic: see mayFollow.
func (s *state) monotonic(t *task, found finder) {
	was, is := t.status.old, t.status.V
	if t.status.Mod != s.revision || is == nil && was == nil || mayFollow(was, is) {
		return
	}
	if was != nil && is != nil && was.Phase == is.Phase {
		found(t.object(), "went from %s to the same with other values: node %q to %q, bound at %d to %d, %d restarts to %d, %d failures to %d",
			describe(was), was.Node, is.Node, was.Bound, is.Bound, was.Restarts, is.Restarts, was.Failures, is.Failures)
		return
	}
	found(t.object(), "went from %s to %s", describe(was), describe(is))
}

// copied validates StatusMonotonic for a status within a phase: its reason and restarts equal those
// of the report at that revision.
func (s *state) copied(t *task, found finder) {
	was, is := t.status.before(s.revision), t.status.V
	if t.status.Mod != s.revision || was == nil || is == nil || is.Phase != was.Phase || !is.Phase.Held() {
		return
	}
	for _, b := range t.bindings {
		r := b.report.V
		if b.number != is.Attempt || r == nil {
			continue
		}
		if r.Restarts != is.Restarts || r.Reason != is.Reason {
			found(t.object(), "its status says %d restarts, %q, but its report says %d, %q", is.Restarts, is.Reason, r.Restarts, r.Reason)
		}
		return
	}
	found(t.object(), "its status changed without a report")
}

// deadlineKept validates DeadlineKept for a new binding.
func (s *state) deadlineKept(b *binding, found finder) {
	t, x := b.of.info.V, b.info.V
	switch {
	case t == nil:
	case x.Deadline != t.Deadline:
		found(b.of.object(), "%s has deadline %d, but the task has %d", b, x.Deadline, t.Deadline)
	case t.Deadline != 0 && x.Bound >= t.Deadline:
		found(b.of.object(), "%s was bound at %d, after the deadline %d", b, x.Bound, t.Deadline)
	}
}

func describe(st *types.Status) string {
	switch {
	case st == nil:
		return "no status"
	case st.Attempt == 0:
		return string(st.Phase)
	}
	return string(st.Phase) + " as attempt " + strconv.Itoa(st.Attempt)
}

// stopStays validates StoppedStaysStopped for a task: neither its stop nor an eviction is withdrawn
// or delayed.
func (s *state) stopStays(t *task, found finder) {
	was, is := t.info.before(s.revision), t.info.V
	switch {
	case was == nil || is == nil:
	case was.Evict != 0 && was.Evict == is.Evict && putOff(&types.Stop{Grace: was.EvictGrace}, &types.Stop{Grace: is.EvictGrace}):
		found(t.object(), "attempt %d was evicted with grace %s, but now has %s", is.Evict, was.EvictGrace, is.EvictGrace)
	case was.Stop == nil:
	case is.Stop == nil:
		found(t.object(), "was stopped, but no longer is")
	case putOff(was.Stop, is.Stop):
		found(t.object(), "was stopped with grace %s, but now has %s", was.Stop.Grace, is.Stop.Grace)
	}
}

// putOff reports whether a stop replaced one that would have ended the task sooner.
func putOff(was, is *types.Stop) bool { return was.Grace != is.Grace && !is.Sooner(was) }

// stopsStay validates StoppedStaysStopped for a binding: its stop stays, and does not become an
// eviction.
func (s *state) stopsStay(b *binding, found finder) {
	was, is := b.info.before(s.revision), b.info.V
	if was == nil || was.Stop == nil || is == nil {
		return
	}
	if is.Stop == nil {
		found(b.of.object(), "%s was told to stop, but no longer is", b)
	} else if is.Stop.Evicted && !was.Stop.Evicted {
		found(b.of.object(), "%s was told to stop, but is now evicted", b)
	} else if putOff(was.Stop, is.Stop) {
		found(b.of.object(), "%s was told to end with grace %s, but now has %s", b, was.Stop.Grace, is.Stop.Grace)
	}
}

// retriesKept validates RetriesKept for a change of a status: a failed task gets its remaining
// retries, no more, and none early.
func (s *state) retriesKept(t *task, found finder) {
	was, is := t.status.before(s.revision), t.status.V
	if t.status.Mod != s.revision || is == nil || t.info.V == nil {
		return
	}
	if was == nil {
		was = &types.Status{Phase: types.Pending}
	}
	retries := t.info.V.Retries
	switch {
	case is.Failures > 1+retries, is.Phase == types.Pending && is.Failures > retries:
		found(t.object(), "is %s after %d failures, but has %d retries", is.Phase, is.Failures, retries)
	case is.Phase == types.Failed && is.Failures > was.Failures && is.Failures <= retries && t.info.V.Stop == nil && t.info.V.Deadline == 0:
		found(t.object(), "has failed for good at failure %d, but has %d retries", is.Failures, retries)
	case is.Phase == types.Bound && is.Bound < was.Retry:
		found(t.object(), "was bound at %d, but had to wait until %d", is.Bound, was.Retry)
	}
}
