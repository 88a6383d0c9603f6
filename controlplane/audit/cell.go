package audit

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// cell is a decoded key, with its value before the last change. V is nil while the key is absent.
type cell[T any] struct {
	V *T
	// Create is the revision of its creation; 0 while it is absent.
	Create int64
	// Mod is the revision of its last change, deletes included.
	Mod int64

	old       *T
	oldCreate int64
}

// before returns the value before the given revision, which is the last one applied.
func (c *cell[T]) before(revision int64) *T {
	if c.Mod == revision {
		return c.old
	}
	return c.V
}

// created reports whether the key was created at the given revision, which is the last one applied.
func (c *cell[T]) created(revision int64) bool {
	return c.Mod == revision && c.V != nil && c.old == nil
}

// deleted reports whether the key was deleted at the given revision, which is the last one applied.
func (c *cell[T]) deleted(revision int64) bool {
	return c.Mod == revision && c.V == nil && c.old != nil
}

// message is a pointer to T that can be decoded.
type message[T any] interface {
	*T
	types.Message
}

// update applies a change. An undecodable value counts as absent. An invalid one is reported, and
// still audited.
func update[T any, P message[T]](c *cell[T], e controlplane.Event) error {
	c.old, c.oldCreate = c.V, c.Create
	c.V, c.Create, c.Mod = nil, 0, e.ModRevision
	if e.Delete {
		return nil
	}
	m := new(T)
	if err := types.Parse(e.Value, P(m)); err != nil {
		return err
	}
	c.V, c.Create = m, e.CreateRevision
	return types.Decode(e.Value, P(new(T)))
}

// cells are the decoded keys of a kind.
type cells[K comparable, T any] map[K]*cell[T]

// get returns the value of a key, nil if the key is absent.
func (m cells[K, T]) get(k K) *T {
	if c := m[k]; c != nil {
		return c.V
	}
	return nil
}

// updateIn applies a change to one of the cells, which are those of present keys.
func updateIn[K comparable, T any, P message[T]](m cells[K, T], k K, e controlplane.Event) error {
	c := m[k]
	if c == nil {
		c = new(cell[T])
		m[k] = c
	}
	err := update[T, P](c, e)
	if c.V == nil {
		delete(m, k)
	}
	return err
}
