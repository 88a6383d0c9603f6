package queue

import "hash/maphash"

// entries are the entries of a queue, by key. A map with full keys would take four times the
// memory.
type entries struct {
	seed   maphash.Seed
	byHash map[uint64]*Entry
	// others are the entries whose hash collides with one in byHash.
	others map[Key]*Entry
}

func newEntries() entries {
	return entries{seed: maphash.MakeSeed(), byHash: make(map[uint64]*Entry), others: make(map[Key]*Entry)}
}

func (x *entries) hash(k Key) uint64 {
	h := maphash.String(x.seed, k.ID.ID) ^ 31*maphash.String(x.seed, k.ID.Namespace)
	if k.Reservation {
		h = ^h
	}
	return h
}

func (x *entries) len() int { return len(x.byHash) + len(x.others) }

func (x *entries) get(k Key) *Entry {
	if e := x.byHash[x.hash(k)]; e != nil && e.Key() == k {
		return e
	}
	return x.others[k]
}

// put adds an entry that is absent.
func (x *entries) put(e *Entry) {
	h := x.hash(e.Key())
	if x.byHash[h] == nil {
		x.byHash[h] = e
		return
	}
	x.others[e.Key()] = e
}

// remove removes an entry that is present.
func (x *entries) remove(e *Entry) {
	if h := x.hash(e.Key()); x.byHash[h] == e {
		delete(x.byHash, h)
		return
	}
	delete(x.others, e.Key())
}

// each calls f for all entries, in no order.
func (x *entries) each(f func(*Entry)) {
	for _, e := range x.byHash {
		f(e)
	}
	for _, e := range x.others {
		f(e)
	}
}
