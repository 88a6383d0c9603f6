package queue

// Fifo is a queue that holds each element once.
type Fifo[T comparable] struct {
	list []T
	in   map[T]struct{}
}

// Push adds x at the end, unless it is present.
func (f *Fifo[T]) Push(x T) {
	if _, ok := f.in[x]; ok {
		return
	}
	if f.in == nil {
		f.in = make(map[T]struct{})
	}
	f.in[x] = struct{}{}
	f.list = append(f.list, x)
}

// Len returns the number of elements.
func (f *Fifo[T]) Len() int { return len(f.list) }

// Drain calls take for each element, in order, until it returns false. That element and those
// behind it stay. Drain also covers elements that take pushes.
func (f *Fifo[T]) Drain(take func(T) bool) {
	i := 0
	for ; i < len(f.list); i++ {
		x := f.list[i]
		delete(f.in, x)
		if !take(x) {
			f.in[x] = struct{}{}
			break
		}
	}
	rest := copy(f.list, f.list[i:])
	clear(f.list[rest:])
	f.list = f.list[:rest]
}
