package memstore

import (
	"context"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Commit applies a transaction: see controlplane.Store.
func (s *Store) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	if err := ctx.Err(); err != nil {
		return controlplane.Result{}, types.Errorf(types.Unavailable, "commit: %w", err)
	}
	if err := s.checkSize(txn); err != nil {
		return controlplane.Result{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkOps(txn.Ops); err != nil {
		return controlplane.Result{}, err
	}
	if txn.Sent != nil {
		txn.Sent()
	}
	if !s.holds(txn.Compares) {
		return controlplane.Result{Revision: s.revision, Read: s.readBack(txn.Compares)}, nil
	}
	for _, op := range txn.Ops {
		if op.Lease != 0 && !op.Delete && s.leases[op.Lease] == nil {
			return controlplane.Result{}, types.Errorf(types.NotFound, "put %s: lease %x has ended", op.Key, int64(op.Lease))
		}
	}
	if err := s.admit("commit", putBytes(txn.Ops)); err != nil {
		return controlplane.Result{}, asEtcdSays(txn, err)
	}
	s.apply(txn.Ops)
	return controlplane.Result{Committed: true, Revision: s.revision}, nil
}

// perEntry estimates the size of a compare or an operation in etcd's encoding besides its key and
// value.
const perEntry = 16

// checkSize checks a transaction against the limits.
func (s *Store) checkSize(txn controlplane.Txn) error {
	if txn.Invalid != nil {
		return txn.Invalid
	}
	if n := max(len(txn.Compares), len(txn.Ops)); n > s.limits.Ops {
		return types.Errorf(types.Invalid, "commit %d compares and %d operations: at most %d of each are allowed; split the transaction, or raise the store's limit",
			len(txn.Compares), len(txn.Ops), s.limits.Ops)
	}
	size := 0
	for _, c := range txn.Compares {
		if c.Key == "" {
			return types.Errorf(types.Invalid, "commit: a compare has no key; name one")
		}
		// The key counts twice, because failed compares read it back. A range has two ends.
		entry := len(c.Key) + perEntry
		if c.Target == controlplane.Newest {
			entry *= 2
		}
		size += 2*entry + len(c.Content)
	}
	for _, op := range txn.Ops {
		if op.Key == "" {
			return types.Errorf(types.Invalid, "commit: an operation has no key; name one")
		}
		size += len(op.Key) + len(op.Value) + perEntry
	}
	if size > s.limits.Bytes {
		return types.Errorf(types.Invalid, "commit %d bytes: at most %d are allowed; split the transaction, or make its values smaller",
			size, s.limits.Bytes)
	}
	return nil
}

// checkOps refuses a transaction that writes a key twice.
func (s *Store) checkOps(ops []controlplane.Op) error {
	s.txn++
	var absent map[string]bool
	for _, op := range ops {
		e := s.entries[op.Key]
		switch {
		case e == nil && absent[op.Key], e != nil && e.writtenBy == s.txn:
			return types.Errorf(types.Invalid, "commit: %s is written twice; write each key once", op.Key)
		case e != nil:
			e.writtenBy = s.txn
		case len(ops) > 1:
			if absent == nil {
				absent = make(map[string]bool, len(ops))
			}
			absent[op.Key] = true
		}
	}
	return nil
}

// now returns the present state of a key; an absent one has revisions of 0.
func (s *Store) now(key string) controlplane.KV {
	if e := s.entries[key]; e != nil {
		return e.newest()
	}
	return controlplane.KV{Key: key}
}

// holds reports whether all compares hold.
func (s *Store) holds(compares []controlplane.Compare) bool {
	for _, c := range compares {
		if !c.Holds(s.found(c)) {
			return false
		}
	}
	return true
}

// found returns the key of a compare, or the last changed key of its range.
func (s *Store) found(c controlplane.Compare) controlplane.KV {
	if c.Target != controlplane.Newest {
		return s.now(c.Key)
	}
	last := controlplane.KV{Key: c.Key}
	s.walk(controlplane.ListOptions{Prefix: c.Key}, func(e *entry) bool {
		if kv := e.newest(); kv.ModRevision > max(c.Revision, last.ModRevision) {
			last = kv
		}
		return true
	})
	return last
}

// readBack returns the compared keys without leases, and with values only for Value compares; nil
// if a Value compare fails.
func (s *Store) readBack(compares []controlplane.Compare) []controlplane.KV {
	read := make([]controlplane.KV, len(compares))
	for i, c := range compares {
		if read[i] = s.found(c); c.Target == controlplane.Value && !c.Holds(read[i]) {
			return nil
		}
		if read[i].Lease = 0; c.Target != controlplane.Value {
			read[i].Value = nil
		}
	}
	return read
}

// apply makes the changes, as one revision if there are any.
func (s *Store) apply(ops []controlplane.Op) {
	events := make([]controlplane.Event, 0, len(ops))
	next := s.revision + 1
	for _, op := range ops {
		if op.Delete {
			if e := s.entries[op.Key]; e != nil && e.newest().ModRevision != 0 {
				events = append(events, s.remove(e, next))
			}
			continue
		}
		events = append(events, s.put(op, next))
	}
	s.publish(events)
}

// put writes a key at a revision.
func (s *Store) put(op controlplane.Op, revision int64) controlplane.Event {
	e := s.entries[op.Key]
	if e == nil {
		e = &entry{key: op.Key}
		s.entries[op.Key] = e
		s.ordered.Set(op.Key, e)
	}
	event := controlplane.Event{KV: controlplane.KV{
		Key: e.key, Value: op.Value, CreateRevision: revision, ModRevision: revision, Lease: op.Lease,
	}}
	if n := len(e.versions); n > 0 && !e.versions[n-1].Delete {
		event.CreateRevision = e.versions[n-1].CreateRevision
	}
	e.versions = append(e.versions, event)
	s.grow(event, 1)
	e.attach(s.leases[op.Lease])
	return event
}

// remove deletes a key at a revision.
func (s *Store) remove(e *entry, revision int64) controlplane.Event {
	event := controlplane.Event{KV: controlplane.KV{Key: e.key, ModRevision: revision}, Delete: true}
	e.versions = append(e.versions, event)
	s.grow(event, 1)
	e.attach(nil)
	return event
}

// publish makes events the next revision; without events there is none.
func (s *Store) publish(events []controlplane.Event) {
	if len(events) == 0 {
		return
	}
	s.revision++
	batch := controlplane.Batch{Revision: s.revision, Events: events}
	s.history = append(s.history, batch)
	s.watchers.publish(batch)
	s.armProgress()
}
