package audit

import (
	"strconv"

	"github.com/escher-sched/escher/types"
)

// nothingLost validates NothingLost: a task is pending without a binding, bound or
// running with the one its status names, or has ended without one and with a
// reason; and what has a binding or has not ended is a task that is there.
func nothingLost(t *task, found finder) {
	phase, st := types.Pending, t.status.V
	if st != nil {
		phase = st.Phase
	}
	b := t.bound()
	switch {
	case phase == types.Pending || phase.Ended():
		if b != nil {
			found(t.object(), "is %s, and has %s", phase, b)
		}
	case phase.Held():
		if !t.boundAs(st) {
			found(t.object(), "is %s on node %s as attempt %d, and has no such binding", phase, st.Node, st.Attempt)
		}
	default:
		found(t.object(), "its phase is %q", phase)
	}
	if phase == types.Failed && st.ExitCode == 0 && st.Reason == "" {
		found(t.object(), "has failed without a reason")
	}
	if t.info.V == nil && (b != nil || st != nil && !phase.Ended()) {
		found(t.object(), "is %s, and the task is gone", phase)
	}
}

// bound returns the binding of the task, the first by name if there are several,
// nil if there is none.
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

// notDropped validates NothingLost of a change: a task is deleted only once it has
// ended, or if it was never visible; its status stays as long as the task; an id is
// not used again.
func (s *state) notDropped(t *task, found finder) {
	was := t.status.before(s.revision)
	ended := was != nil && was.Phase.Ended()
	if t.info.deleted(s.revision) && !ended && (was != nil || s.wasVisible(t)) {
		found(t.object(), "was deleted before it ended")
	}
	if t.status.deleted(s.revision) && t.info.V != nil {
		found(t.object(), "its status was deleted, and the task is there")
	}
	if t.info.created(s.revision) && was != nil {
		found(t.object(), "is new, and there is a status of that id")
	}
}

// wasVisible reports whether schedulers could see a task that is deleted now.
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

// jobFinished validates NothingLost of a job that is deleted: without it, those of
// its tasks that have not ended are seen no longer.
func (s *state) jobFinished(job id, found finder) {
	for _, t := range s.tasks {
		if t.info.V == nil || t.id.ns != job.ns || t.info.V.Job != job.id {
			continue
		}
		if t.status.V == nil || !t.status.V.Phase.Ended() {
			found("job "+job.String(), "was deleted, and %s has not ended", t.object())
		}
	}
}

// monotonic validates StatusMonotonic: see types.MayFollow.
func (s *state) monotonic(t *task, found finder) {
	was, is := t.status.old, t.status.V
	if t.status.Mod != s.revision || is == nil && was == nil || types.MayFollow(was, is) {
		return
	}
	found(t.object(), "went from %s to %s", describe(was), describe(is))
}

// copied validates StatusMonotonic of the status of an attempt that lasts: what it
// says of trouble and restarts is what the report of that revision says.
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
			found(t.object(), "its status says %d restarts, %q, and its report says %d, %q", is.Restarts, is.Reason, r.Restarts, r.Reason)
		}
		return
	}
	found(t.object(), "its status changed without a report")
}

// deadlineKept validates DeadlineKept of a binding that is made.
func (s *state) deadlineKept(b *binding, found finder) {
	t, x := b.of.info.V, b.info.V
	switch {
	case t == nil:
	case x.Deadline != t.Deadline:
		found(b.of.object(), "%s has deadline %d, and the task has %d", b, x.Deadline, t.Deadline)
	case t.Deadline != 0 && x.Bound >= t.Deadline:
		found(b.of.object(), "%s was bound at %d, and the deadline was %d", b, x.Bound, t.Deadline)
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

// stopStays validates StoppedStaysStopped of a task: its stop is not taken back, nor put
// off, nor is the eviction of an attempt.
func (s *state) stopStays(t *task, found finder) {
	was, is := t.info.before(s.revision), t.info.V
	switch {
	case was == nil || is == nil:
	case was.Evict != 0 && was.Evict == is.Evict && putOff(&types.Stop{Grace: was.EvictGrace}, &types.Stop{Grace: is.EvictGrace}):
		found(t.object(), "attempt %d was evicted with grace %s, and has %s now", is.Evict, was.EvictGrace, is.EvictGrace)
	case was.Stop == nil:
	case is.Stop == nil:
		found(t.object(), "was stopped, and is not any more")
	case putOff(was.Stop, is.Stop):
		found(t.object(), "was stopped with grace %s, and has %s now", was.Stop.Grace, is.Stop.Grace)
	}
}

// putOff reports whether a stop took the place of one that would have ended the task
// sooner.
func putOff(was, is *types.Stop) bool { return was.Grace != is.Grace && !is.Sooner(was) }

// stopsStay validates StoppedStaysStopped of a binding: what it was told stays, and
// the end of a task does not become the end of an attempt.
func (s *state) stopsStay(b *binding, found finder) {
	was, is := b.info.before(s.revision), b.info.V
	if was == nil || was.Stop == nil || is == nil {
		return
	}
	if is.Stop == nil {
		found(b.of.object(), "%s was told to stop, and is not any more", b)
	} else if is.Stop.Evicted && !was.Stop.Evicted {
		found(b.of.object(), "%s was told to stop, and is evicted now", b)
	} else if putOff(was.Stop, is.Stop) {
		found(b.of.object(), "%s was told to end with grace %s, and has %s now", b, was.Stop.Grace, is.Stop.Grace)
	}
}
