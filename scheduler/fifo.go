package scheduler

// fifo is a queue that holds each element once.
type fifo[T comparable] struct {
	list []T
	in   map[T]struct{}
}

// push adds x at the end, unless it is present.
func (f *fifo[T]) push(x T) {
	if _, ok := f.in[x]; ok {
		return
	}
	if f.in == nil {
		f.in = make(map[T]struct{})
	}
	f.in[x] = struct{}{}
	f.list = append(f.list, x)
}

func (f *fifo[T]) len() int { return len(f.list) }

// drain calls take for each element, in order, until it returns false. That element and those
// behind it stay. drain also covers elements that take pushes.
func (f *fifo[T]) drain(take func(T) bool) {
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
