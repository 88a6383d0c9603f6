package audit

import "github.com/escher-sched/escher/types"

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
