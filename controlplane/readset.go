package controlplane

import (
	"maps"
	"slices"

	"github.com/escher-sched/escher/types"
)

// A ReadSet holds the keys a decision was computed from, each with the revision of its last change;
// 0 means absent. It can be sent as JSON.
type ReadSet map[string]int64

// Add merges other into r. Conflict: a key has two revisions.
func (r ReadSet) Add(other ReadSet) error {
	for _, key := range slices.Sorted(maps.Keys(other)) {
		if was, ok := r[key]; ok && was != other[key] {
			return types.Errorf(types.Conflict, "read %s: it moved from revision %d to %d while the decision was made: read again, decide again",
				key, was, other[key])
		}
		r[key] = other[key]
	}
	return nil
}

// compare makes the change depend on every key of r.
func (r ReadSet) compare(c *Change) {
	for _, key := range slices.Sorted(maps.Keys(r)) {
		c.IfUnchanged(key, r[key])
	}
}

// changed returns a Conflict that names the first found key with another revision than in r; nil if
// there is none.
func (r ReadSet) changed(found []KV) error {
	for _, kv := range found {
		was, ok := r[kv.Key]
		switch {
		case !ok || was == kv.ModRevision:
			continue
		case was == 0:
			return types.Errorf(types.Conflict, "%s was absent and was created at revision %d: read again, decide again", kv.Key, kv.ModRevision)
		case kv.ModRevision == 0:
			return types.Errorf(types.Conflict, "%s of revision %d was deleted: read again, decide again", kv.Key, was)
		}
		return types.Errorf(types.Conflict, "%s moved from revision %d to %d: read again, decide again", kv.Key, was, kv.ModRevision)
	}
	return nil
}
