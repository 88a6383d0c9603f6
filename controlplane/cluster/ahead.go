package cluster

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// A committer knows what its transaction changed before the watch delivers it. The view applies the
// change at once, from the values before encoding, and recognizes the copy from the watch by its
// revision.

// A Write is the effect of a transaction on one key.
type Write struct {
	Key string
	// Value was put; nil means that the key was deleted. The caller must not change it any more.
	Value types.Message
	// Encoded is the stored form of Value, if known.
	Encoded []byte
	// Made reports whether the transaction created the key.
	Made bool
}

// committed is a transaction that was applied ahead.
type committed struct {
	revision int64
	writes   []Write
	// delivered is the number of writes that the watch has delivered in order. pending holds the
	// keys not yet delivered, once the order is broken, as by a listing; nil before that.
	delivered int
	pending   map[string]struct{}
}

// Committed applies the changes of a transaction, in the order of its operations, ahead of the
// watch or listing that delivers them. It returns the keys that changed in the view; the list is
// valid until the next call. It ignores revisions up to Revision, whose changes were applied and
// perhaps undone since. The transaction must have compared every key that it did not create, or a
// key that always changes with it.
func (v *View) Committed(revision int64, writes []Write) []controlplane.Key {
	if revision <= v.Revision {
		return nil
	}
	c := &committed{revision: revision, writes: writes}
	at, _ := slices.BinarySearchFunc(v.committed, revision, func(x *committed, r int64) int { return int(min(1, max(-1, x.revision-r))) })
	v.committed = slices.Insert(v.committed, at, c)
	keys := v.touched[:0]
	for _, w := range writes {
		e := change{decoded: w.Value}
		e.Key, e.Value, e.ModRevision, e.Delete = w.Key, w.Encoded, revision, w.Value == nil
		if w.Made {
			e.CreateRevision = revision
		}
		// Nothing has to be decoded, so no error is possible.
		k, changed, err := v.applyChange(e)
		switch {
		case changed && err == nil:
			keys = append(keys, k)
		case w.Value != nil:
			// A part of a listing brought it, or a later put, before the answer came.
			c.mark(w.Key)
		}
	}
	v.touched = keys
	return keys
}

// deliver records an event of the watch or a listing, and reports whether it belongs to a
// transaction that was applied ahead. A watch delivers all events of one transaction, in order,
// before newer ones. A listing delivers only the keys that still exist, and with later values if
// they changed again.
func (v *View) deliver(e controlplane.Event) bool {
	for _, c := range v.committed {
		switch {
		case c.revision > e.ModRevision:
			return false
		case c.revision == e.ModRevision:
			// A listing gives every deleted key its own revision.
			return c.mark(e.Key)
		}
		c.mark(e.Key)
	}
	return false
}

// mark records an event of a key, and reports whether it is one of the transaction's writes and the
// first event of it.
func (c *committed) mark(key string) bool {
	if c.pending == nil {
		if c.delivered < len(c.writes) && c.writes[c.delivered].Key == key {
			c.delivered++
			return true
		}
		c.pending = make(map[string]struct{}, len(c.writes))
		for _, w := range c.writes[c.delivered:] {
			c.pending[w.Key] = struct{}{}
		}
	}
	_, ok := c.pending[key]
	delete(c.pending, key)
	return ok
}

// vanished returns the put keys without an event.
func (c *committed) vanished() []string {
	var keys []string
	for _, w := range c.writes[c.delivered:] {
		if _, ok := c.pending[w.Key]; w.Value != nil && (ok || c.pending == nil) {
			keys = append(keys, w.Key)
		}
	}
	return keys
}

// burial is a delete that was applied before its revision was reached.
type burial struct {
	key      string
	revision int64
}

// bury remembers a delete until its revision is reached, so that older changes applied after it are
// ignored.
func (v *View) bury(key string, revision int64) {
	v.gone[key] = revision
	v.buried = append(v.buried, burial{key, revision})
}

// Reached reports that every change up to revision has been applied. It returns deletes that no
// watch can deliver, for the caller to apply. Their keys were put ahead, and deleted before the
// listing that covers that time.
func (v *View) Reached(revision int64) []controlplane.Event {
	v.Revision = max(v.Revision, revision)
	v.buried = slices.DeleteFunc(v.buried, func(x burial) bool {
		if x.revision > v.Revision {
			return false
		}
		if v.gone[x.key] == x.revision {
			delete(v.gone, x.key)
		}
		return true
	})
	var vanished []controlplane.Event
	n := 0
	for ; n < len(v.committed) && v.committed[n].revision <= v.Revision; n++ {
		for _, key := range v.committed[n].vanished() {
			vanished = append(vanished, controlplane.Event{Delete: true, KV: controlplane.KV{Key: key, ModRevision: v.Revision}})
		}
	}
	v.committed = slices.Delete(v.committed, 0, n)
	slices.SortFunc(vanished, func(a, b controlplane.Event) int { return strings.Compare(a.Key, b.Key) })
	return vanished
}
