// Package slab keeps many short texts where the garbage collector need not look.
package slab

// Slab keeps texts of bytes: no pointer is among them, and they lie in large pieces. What is
// freed is used again for others of about the same length, and given back when none of
// those is left. It must not be used by several goroutines at once.
type Slab struct{ classes [classes]class }

// Place is where a text is: its class in the low bits, and its number in that. 0 is
// nowhere.
type Place uint32

// Most is how long a text may be, in bytes.
const Most = step * classes

const (
	step    = 16 // by how much the texts of a class are longer than those of the one before it
	bits    = 5
	classes = 1 << bits
	piece   = 1 << 16 // bytes
)

// class are the texts of one length, rounded up.
type class struct {
	pieces [][]byte
	// used is how many were ever kept at a time, in use how many are.
	used, inUse uint32
	free        []uint32
}

// Keep returns where there is room for n bytes, from 1 to Most. Anything may be in it.
func (s *Slab) Keep(n int) Place {
	of := (n - 1) / step
	c := &s.classes[of]
	i := c.used
	if k := len(c.free); k > 0 {
		i, c.free = c.free[k-1], c.free[:k-1]
	} else {
		c.used++
	}
	c.inUse++
	if each := piece / size(of); int(i)/each >= len(c.pieces) {
		c.pieces = append(c.pieces, make([]byte, each*size(of)))
	}
	return Place((i+1)<<bits) | Place(of)
}

// At returns the room at p, which may be longer than was asked for.
func (s *Slab) At(p Place) []byte {
	of, i := p.split()
	each := piece / size(of)
	from := i % each * size(of)
	to := from + size(of)
	return s.classes[of].pieces[i/each][from:to:to]
}

// Free gives up the room at p.
func (s *Slab) Free(p Place) {
	of, i := p.split()
	c := &s.classes[of]
	if c.inUse--; c.inUse == 0 {
		*c = class{}
		return
	}
	c.free = append(c.free, uint32(i))
}

func (p Place) split() (of, i int) { return int(p % classes), int(p>>bits) - 1 }

// size is how long the texts of a class may be.
func size(of int) int { return step * (of + 1) }
