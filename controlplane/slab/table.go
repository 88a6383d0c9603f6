package slab

import (
	"encoding/binary"
	"hash/maphash"
	"iter"
)

// Table keeps records of tasks in a Slab, and finds them by namespace and id. Like a Slab, it must
// not be used by several goroutines at once.
type Table struct {
	// Mask selects the bits of hashes; only a test of collisions clears any.
	Mask uint64

	slab    Slab
	numbers int // bytes of each record
	seed    maphash.Seed
	byID    map[uint64]Ref
	spaces  []string
	spaceOf map[string]uint32
}

// The start of each record: the number of its namespace, and the lengths of its id and text. Its
// numbers, id and text follow.
const (
	spaceAt   = 0
	idLenAt   = spaceAt + 4
	textLenAt = idLenAt + 1
	numbersAt = textLenAt + 2
	maxID     = 1<<8 - 1
)

// NewTable returns an empty Table. Its records have the given number of bytes for numbers.
func NewTable(numbers int) Table {
	return Table{Mask: ^uint64(0), numbers: numbers, seed: maphash.MakeSeed(), byID: make(map[uint64]Ref), spaceOf: make(map[string]uint32)}
}

// Len returns the number of records.
func (t *Table) Len() int { return len(t.byID) }

// Hash returns a hash of a text. It does not change during the life of the Table.
func (t *Table) Hash(text string) uint64 { return maphash.String(t.seed, text) & t.Mask }

// hash returns the hash of an id in a namespace.
func (t *Table) hash(space uint32, id string) uint64 {
	return (maphash.String(t.seed, id) + uint64(space)*0x9e3779b97f4a7c15) & t.Mask
}

// Add stores a record and returns its place. Its numbers are undefined. Add returns 0 if the record
// is too long, or if another id has the same hash.
func (t *Table) Add(namespace, id string, text []byte) Ref {
	size := numbersAt + t.numbers + len(id) + len(text)
	if size > MaxSize || len(id) > maxID {
		return 0
	}
	space, ok := t.spaceOf[namespace]
	if !ok {
		space = uint32(len(t.spaces))
		t.spaces = append(t.spaces, namespace)
		t.spaceOf[namespace] = space
	}
	h := t.hash(space, id)
	if t.byID[h] != 0 {
		return 0
	}
	p := t.slab.Alloc(size)
	t.byID[h] = p
	r := t.At(p)
	binary.LittleEndian.PutUint32(r.bytes[spaceAt:], space)
	r.bytes[idLenAt] = byte(len(id))
	binary.LittleEndian.PutUint16(r.bytes[textLenAt:], uint16(len(text)))
	copy(r.ID(), id)
	copy(r.Text(), text)
	return p
}

// Find returns the place of the record of a task, 0 if there is none.
func (t *Table) Find(namespace, id string) Ref {
	space, ok := t.spaceOf[namespace]
	if !ok {
		return 0
	}
	p := t.byID[t.hash(space, id)]
	if p == 0 {
		return 0
	}
	if r := t.At(p); string(r.ID()) != id || r.space() != space {
		return 0
	}
	return p
}

// Remove removes the record at p.
func (t *Table) Remove(p Ref) {
	r := t.At(p)
	delete(t.byID, t.hash(r.space(), string(r.ID())))
	t.slab.Free(p)
}

// Namespace returns the namespace of the record at p.
func (t *Table) Namespace(p Ref) string { return t.spaces[t.At(p).space()] }

// All iterates over the places of all records, in no order. Records may be removed meanwhile.
func (t *Table) All() iter.Seq[Ref] {
	return func(yield func(Ref) bool) {
		for _, p := range t.byID {
			if !yield(p) {
				return
			}
		}
	}
}

// In iterates over the places of the records of a namespace, in no order. Records may be removed
// meanwhile.
func (t *Table) In(namespace string) iter.Seq[Ref] {
	return func(yield func(Ref) bool) {
		space, ok := t.spaceOf[namespace]
		if !ok {
			return
		}
		for p := range t.All() {
			if t.At(p).space() == space && !yield(p) {
				return
			}
		}
	}
}

// At returns the record at p. It is valid until its removal.
func (t *Table) At(p Ref) Record {
	return Record{bytes: t.slab.At(p), texts: numbersAt + t.numbers}
}

// Record is the record of one task in a Table. Its user chooses the offsets of the numbers.
type Record struct {
	bytes []byte
	texts int
}

func (r Record) space() uint32 { return binary.LittleEndian.Uint32(r.bytes[spaceAt:]) }

// ID returns the id of the task, in place.
func (r Record) ID() []byte { return r.bytes[r.texts : r.texts+int(r.bytes[idLenAt])] }

// Text returns the text, in place.
func (r Record) Text() []byte {
	from := r.texts + int(r.bytes[idLenAt])
	return r.bytes[from : from+int(binary.LittleEndian.Uint16(r.bytes[textLenAt:]))]
}

// Numbers returns the bytes of the numbers from an offset on, in place.
func (r Record) Numbers(at int) []byte { return r.bytes[numbersAt+at : r.texts] }

// Uint32 returns a number of 4 bytes.
func (r Record) Uint32(at int) uint32 { return binary.LittleEndian.Uint32(r.Numbers(at)) }

// SetUint32 changes a number of 4 bytes.
func (r Record) SetUint32(at int, n uint32) { binary.LittleEndian.PutUint32(r.Numbers(at), n) }

// Int64 returns a number of 8 bytes.
func (r Record) Int64(at int) int64 { return int64(binary.LittleEndian.Uint64(r.Numbers(at))) }

// SetInt64 changes a number of 8 bytes.
func (r Record) SetInt64(at int, n int64) { binary.LittleEndian.PutUint64(r.Numbers(at), uint64(n)) }
