package slab

import (
	"encoding/binary"
	"hash/maphash"
	"iter"
)

// Table keeps records of tasks in a Slab, and finds them by namespace and id. Like a Slab, it must
// not be used by several goroutines at once.
type Table struct {
	// Mask has the bits of hashes that count: all, but in tests of collisions.
	Mask uint64

	slab    Slab
	numbers int // bytes of each record
	seed    maphash.Seed
	byID    map[uint64]Place
	spaces  []string
	spaceOf map[string]uint32
}

// What each record begins with: the number of its namespace, and the lengths of its id and text.
// Behind that are its numbers, the id and the text.
const (
	spaceAt   = 0
	idLenAt   = spaceAt + 4
	textLenAt = idLenAt + 1
	numbersAt = textLenAt + 2
	maxID     = 1<<8 - 1
)

// NewTable returns an empty Table whose records have room for so many bytes of numbers.
func NewTable(numbers int) Table {
	return Table{Mask: ^uint64(0), numbers: numbers, seed: maphash.MakeSeed(), byID: make(map[uint64]Place), spaceOf: make(map[string]uint32)}
}

// Len returns the number of records.
func (t *Table) Len() int { return len(t.byID) }

// Hash returns a hash of a text, which is the same as long as the Table is there.
func (t *Table) Hash(text string) uint64 { return maphash.String(t.seed, text) & t.Mask }

// hash returns the hash of an id in a namespace.
func (t *Table) hash(space uint32, id string) uint64 {
	return (maphash.String(t.seed, id) + uint64(space)*0x9e3779b97f4a7c15) & t.Mask
}

// Add keeps a record and returns where, with numbers that may be anything. It returns 0 if it
// cannot: the record is too long, or the hash of its id is that of another one.
func (t *Table) Add(namespace, id string, text []byte) Place {
	size := numbersAt + t.numbers + len(id) + len(text)
	if size > Most || len(id) > maxID {
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
	p := t.slab.Keep(size)
	t.byID[h] = p
	r := t.At(p)
	binary.LittleEndian.PutUint32(r.room[spaceAt:], space)
	r.room[idLenAt] = byte(len(id))
	binary.LittleEndian.PutUint16(r.room[textLenAt:], uint16(len(text)))
	copy(r.ID(), id)
	copy(r.Text(), text)
	return p
}

// Find returns where the record of a task is, 0 if there is none.
func (t *Table) Find(namespace, id string) Place {
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

// Remove forgets the record at p.
func (t *Table) Remove(p Place) {
	r := t.At(p)
	delete(t.byID, t.hash(r.space(), string(r.ID())))
	t.slab.Free(p)
}

// Namespace returns the namespace of the record at p.
func (t *Table) Namespace(p Place) string { return t.spaces[t.At(p).space()] }

// All are the places of all records, in no order. Records may be removed meanwhile.
func (t *Table) All() iter.Seq[Place] {
	return func(yield func(Place) bool) {
		for _, p := range t.byID {
			if !yield(p) {
				return
			}
		}
	}
}

// In are the places of the records of a namespace, in no order. Records may be removed meanwhile.
func (t *Table) In(namespace string) iter.Seq[Place] {
	return func(yield func(Place) bool) {
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

// At returns the record at p. It is valid until it is removed.
func (t *Table) At(p Place) Record {
	return Record{room: t.slab.At(p), texts: numbersAt + t.numbers}
}

// Record is what a Table keeps of one task. The numbers are at offsets that its user chooses.
type Record struct {
	room  []byte
	texts int
}

func (r Record) space() uint32 { return binary.LittleEndian.Uint32(r.room[spaceAt:]) }

// ID returns the id of the task, in place.
func (r Record) ID() []byte { return r.room[r.texts : r.texts+int(r.room[idLenAt])] }

// Text returns the text, in place.
func (r Record) Text() []byte {
	from := r.texts + int(r.room[idLenAt])
	return r.room[from : from+int(binary.LittleEndian.Uint16(r.room[textLenAt:]))]
}

// Numbers returns the bytes of the numbers from an offset on, in place.
func (r Record) Numbers(at int) []byte { return r.room[numbersAt+at : r.texts] }

// Uint32 returns a number of 4 bytes.
func (r Record) Uint32(at int) uint32 { return binary.LittleEndian.Uint32(r.Numbers(at)) }

// SetUint32 changes a number of 4 bytes.
func (r Record) SetUint32(at int, n uint32) { binary.LittleEndian.PutUint32(r.Numbers(at), n) }

// Int64 returns a number of 8 bytes.
func (r Record) Int64(at int) int64 { return int64(binary.LittleEndian.Uint64(r.Numbers(at))) }

// SetInt64 changes a number of 8 bytes.
func (r Record) SetInt64(at int, n int64) { binary.LittleEndian.PutUint64(r.Numbers(at), uint64(n)) }
