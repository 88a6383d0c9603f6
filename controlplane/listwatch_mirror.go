package controlplane

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// mirror is the set of keys that a list-watch has delivered and not deleted, with the ModRevision
// of each. A consumer may have millions of keys: the mirror stores their 64-bit hashes, with a seed
// of this process, in maps that the garbage collector need not scan.
//
// A hash collision does no lasting harm. An event of one of the two keys looks wrong, and the loop
// lists the state again; each listing delivers the key whose revision is unknown again. A reload
// can miss a deleted key if one of millions has its hash: see Update.Has.
type mirror struct {
	seed      maphash.Seed
	revisions map[uint64]int64
	// listed holds the revisions of the listing under way. It is nil during the first listing
	// without names, which fills revisions directly.
	listed map[uint64]int64
	// names holds the keys themselves, including some that were listed and not delivered. It is nil
	// if the consumer tracks its own keys.
	names map[uint64]string
	// hashes are those of the events checked last; sorted is a buffer to sort them.
	hashes, sorted []uint64
}

// newMirror returns an empty mirror. An unnamed one counts a listed key as delivered at once.
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

// list records a key of a listing, and reports whether to deliver it.
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

// finish ends a listing at a revision. It returns deletes, in order, of the named keys that are
// missing from it.
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

// apply records the events that hashed saw last.
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

// follow checks that the events that hashed saw last may come next. A store that skipped nothing
// has one event a key, deletes only what is there, and creates only what is not.
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

// check validates a batch as the next one of the watch. events are those of the batch that Skip
// keeps.
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

// unskipped returns the events that Skip keeps, uncopied if those are all.
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
