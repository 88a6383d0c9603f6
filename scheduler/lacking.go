package scheduler

import (
	"bytes"
	"slices"

	"github.com/tidwall/btree"

	"github.com/escher-sched/escher/types"
)

// What waits is listed under each resource that it lacks, by how much of it it asks for:
// when there is more of one, those are found that may fit now, and no others.

// missing is a resource of which there is too little.
type missing struct {
	rid types.ResourceID
	// least is how much of it there must be; 0 if that is not known.
	least types.Quantity
}

// waiters are the shapes that lack one resource. Most resources that anything lacks,
// when a great many are, are lacked by one.
type waiters struct {
	only *shape
	many *btree.BTreeG[waiter]
}

// waiter is a shape, by how much it asks for.
type waiter struct {
	least types.Quantity
	shape *shape
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

// wait lists a shape, at rest, under what it lacks.
func (q *queue) wait(s *shape, lacks []types.ResourceID) {
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
		// What it needs is found out when it is looked at again: until then nothing else
		// that it needs keeps it asleep, as it would not wake for more of that.
		s.resolved = nil
	}
}

// listsAll reports whether all that the shape needs, by any of its alternatives, is in
// lacks, which are sorted.
func (s *shape) listsAll(lacks []types.ResourceID) bool {
	for _, needs := range s.resolved {
		for _, x := range needs {
			if _, ok := slices.BinarySearch(lacks, x.ID); !ok {
				return false
			}
		}
	}
	return true
}

func (q *queue) unwait(s *shape) {
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

// lacking calls f for every shape that lacks rid and asks for at most so much of it,
// with how much that is; f must not change what lacks it.
func (q *queue) lacking(rid types.ResourceID, most types.Quantity, f func(*shape)) {
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

// wake makes ready what lacks rid.
func (q *queue) wake(rid types.ResourceID) { q.wakeIf(rid, types.Inf, nil) }

// wakeIf makes ready what lacks rid, asks for at most so much of it, and may.
func (q *queue) wakeIf(rid types.ResourceID, most types.Quantity, may func(*shape) bool) {
	var woken []*shape
	q.lacking(rid, most, func(s *shape) {
		if may == nil || may(s) {
			woken = append(woken, s)
		}
	})
	for _, s := range woken {
		q.makeReady(s)
	}
}

// least returns how much of rid the shape asks for at least, by any of its alternatives
// that ask for it; 0 if that is not known.
func (s *shape) least(rid types.ResourceID) types.Quantity {
	least, known := types.Inf, false
	for _, needs := range s.resolved {
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
