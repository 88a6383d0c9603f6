// Package slab stores many short texts in memory that the garbage collector need not scan.
package slab

// A Slab stores byte texts without pointers, in large pieces. It reuses freed space for texts of
// about the same length, and releases it when no text of that length is left. It is not safe for
// concurrent use.
type Slab struct{ classes [classes]class }

// Ref is the location of a text: its class in the low bits, and its number within the class. 0
// means no location.
type Ref uint32

// MaxSize is the longest text, in bytes.
const MaxSize = step * classes

const (
	step    = 16 // the difference in length between two classes
	bits    = 5
	classes = 1 << bits
	piece   = 1 << 16 // bytes
)

// class holds the texts of one length, rounded up.
type class struct {
	pieces [][]byte
	// used is the largest number of texts ever stored at a time, inUse the present number.
	used, inUse uint32
	free        []uint32
}

// Alloc allocates n bytes, from 1 to MaxSize. Their content is undefined.
func (s *Slab) Alloc(n int) Ref {
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
	return Ref((i+1)<<bits) | Ref(of)
}

// At returns the space at p, which may be longer than requested.
func (s *Slab) At(p Ref) []byte {
	of, i := p.split()
	each := piece / size(of)
	from := i % each * size(of)
	to := from + size(of)
	return s.classes[of].pieces[i/each][from:to:to]
}

// Free frees the space at p.
func (s *Slab) Free(p Ref) {
	of, i := p.split()
	c := &s.classes[of]
	if c.inUse--; c.inUse == 0 {
		*c = class{}
		return
	}
	c.free = append(c.free, uint32(i))
}

func (p Ref) split() (of, i int) { return int(p % classes), int(p>>bits) - 1 }

// size returns the length of the texts of a class.
func size(of int) int { return step * (of + 1) }
