package memstore

import (
	"context"
	"slices"
	"sort"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Events returns the changes of every revision from the given one on: a watch of everything without
// a goroutine. The result shares memory with the store and must not be modified. It is nil if there
// is none yet. It panics if the revision is compacted, which is a bug of a simulation.
func (s *Store) Events(from int64) []controlplane.Batch {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if from < s.compacted {
		panic(types.Errorf(types.Compacted, "read events from revision %d: compacted at %d", from, s.compacted))
	}
	return s.since(from)
}

// since returns the stored history from a revision on.
func (s *Store) since(from int64) []controlplane.Batch {
	i := min(max(from-s.base, 0), int64(len(s.history)))
	return slices.Clip(s.history[i:])
}

// Compact drops the history before a revision. Compacted: it is already gone. Invalid: the revision
// does not exist yet.
func (s *Store) Compact(_ context.Context, revision int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision <= s.compacted {
		return types.Errorf(types.Compacted, "compact at revision %d: compacted at %d", revision, s.compacted)
	}
	if revision > s.revision {
		return types.Errorf(types.Invalid, "compact at revision %d: the newest is %d; give one that exists", revision, s.revision)
	}
	s.compacted = revision
	if revision < s.base {
		return nil
	}
	// The events of the revision itself stay, as in etcd: a watch may still start there.
	kept := revision - s.base
	for _, batch := range s.history[:kept+1] {
		for _, event := range batch.Events {
			s.trim(event.Key, revision)
		}
	}
	s.history = slices.Clone(s.history[kept:])
	s.base = revision
	return nil
}

// trim drops the versions of a key that no revision from the given one on shows.
func (s *Store) trim(key string, revision int64) {
	e := s.entries[key]
	if e == nil {
		return
	}
	i := sort.Search(len(e.versions), func(i int) bool { return e.versions[i].ModRevision > revision })
	if i > 0 && !e.versions[i-1].Delete {
		i--
	}
	if i == 0 {
		return
	}
	for _, version := range e.versions[:i] {
		s.grow(version, -1)
	}
	if i == len(e.versions) {
		delete(s.entries, key)
		s.ordered.Delete(key)
		return
	}
	e.versions = slices.Clone(e.versions[i:])
}
