package queue

// A ready shape may be pinned to one node, and is then listed there.

// Nowhere is the node of a shape that may fit several nodes.
const Nowhere = -1

// pinned is a ready shape pinned to one node, for a heap by the order of heads.
type pinned struct{ *Shape }

// Before makes pinned an element of a heap.
func (s pinned) Before(other pinned) bool { return s.Head().Before(other.Head()) }

// Placed makes pinned an element of a heap.
func (s pinned) Placed(at int) { s.at = int32(at) }

// Pin pins a shape to one node, given by its Serial.
func (q *Queue) Pin(s *Shape, node int) {
	q.unlist(s)
	s.node = int32(node)
	if s.pos >= 0 {
		q.list(s)
	}
}

// list lists a ready shape under the node it is pinned to.
func (q *Queue) list(s *Shape) {
	if s.node == Nowhere {
		return
	}
	for len(q.pinned) <= int(s.node) {
		q.pinned = append(q.pinned, nil)
	}
	q.pinned[s.node].Push(pinned{s})
}

// unlist removes a shape from that list, if present.
func (q *Queue) unlist(s *Shape) {
	if s.at >= 0 {
		q.pinned[s.node].Remove(int(s.at))
	}
}

// IsPinned reports whether a shape is ready and listed under a node.
func (s *Shape) IsPinned() bool { return s.at >= 0 }

// PinnedTo returns the first ready shape pinned to a node; nil if there is none.
func (q *Queue) PinnedTo(node int) *Shape {
	if node >= len(q.pinned) || len(q.pinned[node]) == 0 {
		return nil
	}
	return q.pinned[node][0].Shape
}
