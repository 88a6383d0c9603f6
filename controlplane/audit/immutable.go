package audit

import (
	"bytes"

	"github.com/escher-sched/escher/types"
)

// taskFixed validates Immutable for a task: apart from stops, evictions and labels, and the requests of
// one that waits, it never changes.
func (s *state) taskFixed(t *task, found finder) {
	was, is := t.info.before(s.revision), t.info.V
	if t.info.Mod != s.revision || was == nil || is == nil {
		return
	}
	same := *was
	same.Stop, same.Evict, same.EvictGrace, same.Later, same.Labels = is.Stop, is.Evict, is.EvictGrace, is.Later, is.Labels
	if t.bound() == nil && (t.status.V == nil || t.status.V.Phase == types.Pending) {
		same.Requests = is.Requests
	}
	if !equal(&same, is) {
		found(t.object(), "was changed after it was submitted")
	}
}

// bindingFixed validates Immutable for a binding: apart from stops, it never changes.
func (s *state) bindingFixed(b *binding, found finder) {
	was, is := b.info.before(s.revision), b.info.V
	if b.info.Mod != s.revision || was == nil || is == nil {
		return
	}
	same := *was
	same.Stop = is.Stop
	if !equal(&same, is) {
		found(b.String(), "was changed after it was bound")
	}
}

// reservationFixed validates Immutable for a reservation.
func (s *state) reservationFixed(r *reservation, found finder) {
	was, is := r.info.before(s.revision), r.info.V
	if r.info.Mod != s.revision || was == nil || is == nil {
		return
	}
	same := *was
	same.Raised, same.Collect = is.Raised, is.Collect
	if !equal(&same, is) {
		found("reservation "+r.id.String(), "was changed after it was created")
	}
}

func equal(a, b types.Message) bool {
	return bytes.Equal(types.Encode(0, a), types.Encode(0, b))
}
