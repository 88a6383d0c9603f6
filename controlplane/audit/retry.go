package audit

import "github.com/escher-sched/escher/types"

// retriesKept validates RetriesKept of a change of a status: what failed is given the
// retries that its task has left, no more, and none of them before its time.
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
		found(t.object(), "is %s after %d failures, and has %d retries", is.Phase, is.Failures, retries)
	case is.Phase == types.Failed && is.Failures > was.Failures && is.Failures <= retries && t.info.V.Stop == nil && t.info.V.Deadline == 0:
		found(t.object(), "has failed for good by failure %d, and has %d retries", is.Failures, retries)
	case is.Phase == types.Bound && is.Bound < was.Retry:
		found(t.object(), "was bound at %d, and was to wait until %d", is.Bound, was.Retry)
	}
}
