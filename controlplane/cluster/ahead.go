package cluster

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Who commits a transaction knows what it changed before the watch tells. The view
// applies it at once, from the values as they were before they were encoded, and
// knows the copy that the watch brings by its revision.

// Write is what a transaction did to one key.
type Write struct {
	Key string
	// Value was put; nil: the key was deleted. It must not be changed any more.
	Value types.Message
	// Encoded is Value as it is stored, if it is known.
	Encoded []byte
	// Made tells that the key was not there before.
	Made bool
}

// committed is a transaction that was applied ahead.
type committed struct {
	revision int64
	writes   []Write
	// delivered is how many writes came with the watch, in their order. When others
	// come, as with a listing, pending are the keys of those that did not yet; nil
	// before that.
	delivered int
	pending   map[string]struct{}
}

// Committed applies what a transaction changed, in the order of its operations,
// before the watch or listing that brings it, and returns the keys of which the view
// changed: to be used before it is called again. What is not newer than Revision is
// ignored: it was applied, and perhaps undone since. Every key that it did not make must
// have been compared by it, or be one that does not change without another that was.
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
		// Nothing can go wrong: there is nothing to be decoded.
		k, changed, err := v.applyChange(e)
		switch {
		case changed && err == nil:
			keys = append(keys, k)
		case w.Value != nil:
			// A part of a listing brought it before the answer came, or what was put after it.
			c.mark(w.Key)
		}
	}
	v.touched = keys
	return keys
}

// deliver notes that the watch or a listing brought an event, and reports whether it
// is of a transaction that was applied ahead. A watch brings all of one, in order, and
// before what is newer; a listing the keys that are left of it, and not as it put them
// if they were put again.
func (v *View) deliver(e controlplane.Event) bool {
	for _, c := range v.committed {
		switch {
		case c.revision > e.ModRevision:
			return false
		case c.revision == e.ModRevision:
			// A listing says of all that is gone that it went at its own revision.
			return c.mark(e.Key)
		}
		c.mark(e.Key)
	}
	return false
}

// mark notes that an event of a key was brought, and reports whether it is one of those
// written, of which none was brought yet.
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

// vanished are the keys that it put of which no event was brought.
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

// bury remembers a delete until its revision is reached: what is older, and applied
// after it, is ignored.
func (v *View) bury(key string, revision int64) {
	v.gone[key] = revision
	v.buried = append(v.buried, burial{key, revision})
}

// Reached says that every change up to revision has been applied. It returns the
// deletes that nobody can have delivered, to be applied: of keys that were put ahead,
// and gone again before a listing that is all that was delivered of that time.
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
