package server

// endings is a heap of ended tasks, the earliest end on top. Each task knows its index, so that any
// of them can be removed.
type endings []*task

// first returns the task with the earliest end, nil if there is none.
func (h endings) first() *task {
	if len(h) == 0 {
		return nil
	}
	return h[0]
}

func (h *endings) add(t *task) {
	t.at = int32(len(*h))
	*h = append(*h, t)
	h.up(int(t.at))
}

// remove removes a task of the heap.
func (h *endings) remove(t *task) {
	i, last := int(t.at), len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	t.at = -1
	if i < last && !h.up(i) {
		h.down(i)
	}
}

func (h endings) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = int32(i), int32(j)
}

// up moves a task towards the top, and reports whether it moved.
func (h endings) up(i int) bool {
	moved := false
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].end <= h[i].end {
			break
		}
		h.swap(parent, i)
		i, moved = parent, true
	}
	return moved
}

// down moves a task away from the top.
func (h endings) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].end < h[child].end {
			child++
		}
		if h[i].end <= h[child].end {
			return
		}
		h.swap(i, child)
		i = child
	}
}
