package controlplane

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// mirror is what a list-watch has delivered and not deleted: the ModRevision of each
// key. A consumer may have millions of keys: the mirror has their hashes, of 64 bits and
// with a seed of this process's, in maps that the garbage collector need not look
// into.
//
// Two keys of one hash do no harm that lasts: an event of one of them looks wrong, and
// the state is listed again; a listing delivers the one of which the revision is not
// known, again and again. A key that is gone would be missed in a reload, but that needs one of
// millions to have its hash: see Update.Has.
type mirror struct {
	seed      maphash.Seed
	revisions map[uint64]int64
	// listed are the revisions as a listing under way has them; nil while that is all
	// that was ever delivered, in revisions.
	listed map[uint64]int64
	// names are the keys themselves, some that were listed and not delivered
	// included; nil if the consumer knows what it has.
	names map[uint64]string
	// hashes are of the events looked at last; sorted is room to sort them.
	hashes, sorted []uint64
}

// newMirror returns the mirror of nothing. One without names takes what is listed for
// delivered at once.
func newMirror(named bool) *mirror {
	m := &mirror{seed: maphash.MakeSeed(), revisions: make(map[uint64]int64)}
	if named {
		m.names = make(map[uint64]string)
	}
	return m
}

// begin begins a listing, and reports whether anything was delivered before it.
func (m *mirror) begin() bool {
	reload := len(m.revisions) > 0
	if m.listed = nil; reload || m.names != nil {
		m.listed = make(map[uint64]int64, len(m.revisions))
	}
	return reload
}

// list records a key of a listing, and reports whether it is to be delivered.
func (m *mirror) list(kv KV) bool {
	h := maphash.String(m.seed, kv.Key)
	news := m.revisions[h] != kv.ModRevision
	if m.listed != nil {
		m.listed[h] = kv.ModRevision
	}
	switch {
	case m.names != nil:
		m.names[h] = kv.Key
	case news:
		m.revisions[h] = kv.ModRevision
	}
	return news
}

// finish ends a listing, of the given revision, and returns the deletes of what is
// not in it, as far as names are known, in order.
func (m *mirror) finish(revision int64) []Event {
	var gone []Event
	for h, key := range m.names {
		if _, ok := m.listed[h]; ok {
			continue
		}
		if _, ok := m.revisions[h]; ok {
			gone = append(gone, Event{KV: KV{Key: key, ModRevision: revision}, Delete: true})
		}
		delete(m.names, h)
	}
	slices.SortFunc(gone, func(a, b Event) int { return strings.Compare(a.Key, b.Key) })
	if m.listed != nil {
		m.revisions, m.listed = m.listed, nil
	}
	return gone
}

// has reports whether a key is there.
func (m *mirror) has(key string) bool {
	_, ok := m.revisions[maphash.String(m.seed, key)]
	return ok
}

// hashed sets hashes to those of the keys of events.
func (m *mirror) hashed(events []Event) {
	m.hashes = m.hashes[:0]
	for i := range events {
		m.hashes = append(m.hashes, maphash.String(m.seed, events[i].Key))
	}
}

// apply records the events that were hashed last.
func (m *mirror) apply(events []Event) {
	for i := range events {
		e, h := &events[i], m.hashes[i]
		if e.Delete {
			delete(m.revisions, h)
			delete(m.names, h)
			continue
		}
		m.revisions[h] = e.ModRevision
		if m.names != nil {
			m.names[h] = e.Key
		}
	}
}

// follow tells what is wrong with the events that were hashed last as the next ones: a
// store that skipped none has one event of a key, deletes only what is there, and
// creates only what is not.
func (m *mirror) follow(events []Event) error {
	for i := range events {
		e := &events[i]
		_, there := m.revisions[m.hashes[i]]
		switch created := e.CreateRevision == e.ModRevision; {
		case e.Delete && !there:
			return fmt.Errorf("%s is deleted at revision %d, but was never there", e.Key, e.ModRevision)
		case !e.Delete && created && there:
			return fmt.Errorf("%s is created at revision %d, but is there", e.Key, e.ModRevision)
		case !e.Delete && !created && !there:
			return fmt.Errorf("%s is changed at revision %d, but was never there", e.Key, e.ModRevision)
		}
	}
	m.sorted = append(m.sorted[:0], m.hashes...)
	slices.Sort(m.sorted)
	for i := 1; i < len(m.sorted); i++ {
		if m.sorted[i] == m.sorted[i-1] {
			return fmt.Errorf("revision %d has two events of one key", events[0].ModRevision)
		}
	}
	return nil
}

// check validates a batch as the next one of the watch. Events are those of it that are
// not skipped.
func (l *listWatch) check(batch Batch, events []Event) error {
	if batch.Revision <= l.seen {
		return fmt.Errorf("events of revision %d came after revision %d", batch.Revision, l.seen)
	}
	for i := range batch.Events {
		e := &batch.Events[i]
		if e.ModRevision != batch.Revision {
			return fmt.Errorf("%s of revision %d came with revision %d", e.Key, e.ModRevision, batch.Revision)
		}
		if !strings.HasPrefix(e.Key, l.opts.Prefix) {
			return fmt.Errorf("%s is not below the prefix", e.Key)
		}
	}
	l.delivered.hashed(events)
	return l.delivered.follow(events)
}

func (l *listWatch) skips(key string) bool { return l.opts.Skip != nil && l.opts.Skip(key) }

// unskipped returns the events that are not left out, uncopied if those are all.
func (l *listWatch) unskipped(events []Event) []Event {
	n := 0
	for n < len(events) && !l.skips(events[n].Key) {
		n++
	}
	if n == len(events) {
		return events
	}
	kept := slices.Clone(events[:n])
	for _, e := range events[n:] {
		if !l.skips(e.Key) {
			kept = append(kept, e)
		}
	}
	return kept
}
