// Package heap is container/heap for slices of one type.
package heap

// item is what the elements of a Heap must be able to do.
type item[T any] interface {
	// Before reports whether the element comes before another one.
	Before(other T) bool
	// Placed receives the index of the element whenever that changes, and -1 when the element
	// leaves the heap. Only the caller of Fix and Remove needs it.
	Placed(at int)
}

// Heap is a binary heap. The first element is the one that comes before all others; the order of
// the rest is not specified. The zero value is an empty heap.
//
// T has two methods. Before(other T) bool reports whether the element comes before another one.
// Placed(at int) receives its index whenever that changes, and -1 when it leaves the heap.
type Heap[T item[T]] []T

// Push adds an element.
func (h *Heap[T]) Push(x T) {
	*h = append(*h, x)
	h.up(len(*h) - 1)
}

// Pop removes the first element and returns it. The heap must not be empty.
func (h *Heap[T]) Pop() T { return h.Remove(0) }

// Remove removes the element at an index and returns it. It does not compare that element, whose
// order may be undefined already.
func (h *Heap[T]) Remove(i int) T {
	s, last := *h, len(*h)-1
	x := s[i]
	s[i] = s[last]
	clear(s[last:])
	*h = s[:last]
	if i < last {
		h.Fix(i)
	}
	x.Placed(-1)
	return x
}

// Fix restores the order after the element at an index has changed.
func (h Heap[T]) Fix(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

// up moves an element towards the first one, and notes where it is.
func (h Heap[T]) up(i int) {
	x := h[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !x.Before(h[parent]) {
			break
		}
		h[i] = h[parent]
		h[i].Placed(i)
		i = parent
	}
	h[i] = x
	x.Placed(i)
}

// down moves an element away from the first one, and reports whether it did.
func (h Heap[T]) down(i int) bool {
	x, from := h[i], i
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if right := child + 1; right < len(h) && h[right].Before(h[child]) {
			child = right
		}
		if !h[child].Before(x) {
			break
		}
		h[i] = h[child]
		h[i].Placed(i)
		i = child
	}
	if i == from {
		return false
	}
	h[i] = x
	x.Placed(i)
	return true
}
