package controlplane

import (
	"context"

	"github.com/escher-sched/escher/types"
)

// maxRaise bounds a raise, so that priorities never overflow an int.
const maxRaise = 1 << 20

// Raise moves a waiting task ahead in the queue, or back if by is negative, as if its priority were
// higher by that much. It has no other effect. 0 takes it back. Raise ignores a task that does not
// wait; id is the full id. Invalid: by is too large.
func (t *Transaction) Raise(id string, by int) *Transaction {
	edit := func(task *types.Task) { types.UpdateLater(task, func(l *types.Later) { l.Raised = by }) }
	return t.add(&waitingEdit{c: t.c, id: id, does: "raise task", edit: edit}, validRaise(by))
}

// RaiseReservation is Raise for a reservation.
func (t *Transaction) RaiseReservation(id string, by int) *Transaction {
	return t.add(&raiseReservation{ns: t.c.ns, id: id, by: by}, validRaise(by))
}

func validRaise(by int) error {
	if by > maxRaise || by < -maxRaise {
		return types.Errorf(types.Invalid, "raise: by %d is too much: use at most %d", by, maxRaise)
	}
	return nil
}

// raiseReservation is an edit that raises a reservation.
type raiseReservation struct {
	ns, id string
	by     int
}

func (e *raiseReservation) verb() string { return "raise reservation " + e.id }

func (e *raiseReservation) draw(ctx context.Context, s Store, change *Change) error {
	key := ReservationKey(e.ns, e.id)
	kv, err := Get(ctx, s, key)
	if err != nil {
		return err
	}
	if kv.ModRevision == 0 {
		return types.Errorf(types.NotFound, "there is no reservation %s in namespace %s", e.id, e.ns)
	}
	var r types.Reservation
	if !Read(kv, &r) {
		return Unreadable(key)
	}
	change.IfUnchanged(key, kv.ModRevision)
	if r.Raised != e.by {
		r.Raised = e.by
		change.Put(key, &r)
	}
	return nil
}

func (e *raiseReservation) refused(context.Context, Store, []KV) error { return nil }
func (e *raiseReservation) once() bool                                 { return false }
func (e *raiseReservation) done(int64)                                 {}
