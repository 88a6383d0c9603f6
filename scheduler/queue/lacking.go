package queue

import (
	"bytes"
	"slices"

	"github.com/tidwall/btree"

	"github.com/escher-sched/escher/types"
)

// Waiting shapes are listed under each resource they lack, by requested amount. When more of a
// resource becomes free, this finds just the shapes that may fit now.

// missing is a resource with too little free.
type missing struct {
	rid types.ResourceID
	// least is the amount that must be free; 0 means unknown.
	least types.Quantity
}

// waiters are the shapes that lack one resource. With very many lacked resources, most have one
// waiter.
type waiters struct {
	only *Shape
	many *btree.BTreeG[waiter]
}

// waiter is a shape, by its requested amount.
type waiter struct {
	least types.Quantity
	shape *Shape
}

func lessWaiter(a, b waiter) bool {
	if a.least != b.least {
		return a.least < b.least
	}
	return bytes.Compare(a.shape.key[:], b.shape.key[:]) < 0
}

// add lists a shape that lacks rid.
func (w *waiters) add(rid types.ResourceID, x waiter) {
	switch {
	case w.many != nil:
		w.many.Set(x)
	case w.only == nil:
		w.only = x.shape
	default:
		was := w.only
		w.only, w.many = nil, btree.NewBTreeGOptions(lessWaiter, btree.Options{NoLocks: true})
		for _, l := range was.lacks {
			if l.rid == rid {
				w.many.Set(waiter{l.least, was})
			}
		}
		w.many.Set(x)
	}
}

// Wait lists a resting shape under what it lacks.
func (q *Queue) Wait(s *Shape, lacks []types.ResourceID) {
	slices.Sort(lacks)
	lacks = slices.Compact(lacks)
	s.lacks = s.onlyLack[:0]
	for _, rid := range lacks {
		q.rouse(q.asleep.lacking(rid))
		l := missing{rid, s.least(rid)}
		w := q.waiting[rid]
		w.add(rid, waiter{l.least, s})
		q.waiting[rid] = w
		s.lacks = append(s.lacks, l)
	}
	if len(lacks) == 1 || !s.listsAll(lacks) {
		// Its needs are resolved again when it is tried: until then no other need keeps it waiting,
		// as more of that would not wake it.
		s.Resolved = nil
	}
}

// listsAll reports whether lacks, which is sorted, covers all needs of every alternative of the
// shape.
func (s *Shape) listsAll(lacks []types.ResourceID) bool {
	for _, needs := range s.Resolved {
		for _, x := range needs {
			if _, ok := slices.BinarySearch(lacks, x.ID); !ok {
				return false
			}
		}
	}
	return true
}

func (q *Queue) unwait(s *Shape) {
	for _, l := range s.lacks {
		w := q.waiting[l.rid]
		if w.many != nil {
			w.many.Delete(waiter{l.least, s})
		}
		if w.many == nil || w.many.Len() == 0 {
			delete(q.waiting, l.rid)
		}
	}
	s.lacks = nil
}

// Lacking calls f for every shape that lacks rid and requests at most that much of it. f must not
// change the list.
func (q *Queue) Lacking(rid types.ResourceID, most types.Quantity, f func(*Shape)) {
	if p := q.asleep.lacking(rid); p != 0 && q.asleep.least(p) <= most {
		q.rouse(p)
	}
	switch w := q.waiting[rid]; {
	case w.only != nil:
		for _, l := range w.only.lacks {
			if l.rid == rid && l.least <= most {
				f(w.only)
			}
		}
	case w.many != nil:
		w.many.Scan(func(x waiter) bool {
			if x.least > most {
				return false
			}
			f(x.shape)
			return true
		})
	}
}

// Wake makes the shapes that lack rid ready.
func (q *Queue) Wake(rid types.ResourceID) { q.WakeIf(rid, types.Inf, nil) }

// WakeIf makes the shapes ready that lack rid, request at most that much of it, and pass may.
func (q *Queue) WakeIf(rid types.ResourceID, most types.Quantity, may func(*Shape) bool) {
	var woken []*Shape
	q.Lacking(rid, most, func(s *Shape) {
		if may == nil || may(s) {
			woken = append(woken, s)
		}
	})
	for _, s := range woken {
		q.MakeReady(s)
	}
}

// Lacking returns what the shape waits for, sorted.
func (s *Shape) Lacking() []types.ResourceID {
	out := make([]types.ResourceID, len(s.lacks))
	for i, l := range s.lacks {
		out[i] = l.rid
	}
	return out
}

// least returns the smallest amount of rid among the alternatives that request it; 0 means unknown.
func (s *Shape) least(rid types.ResourceID) types.Quantity {
	least, known := types.Inf, false
	for _, needs := range s.Resolved {
		for _, x := range needs {
			if x.ID == rid {
				least, known = min(least, x.Amount), true
			}
		}
	}
	if !known {
		return 0
	}
	return least
}
