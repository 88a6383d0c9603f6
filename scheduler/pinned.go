package scheduler

// A ready shape may be pinned to one node, and is then listed there.

// nowhere is the node of a shape that may fit several nodes.
const nowhere = -1

// steered is a ready shape pinned to one node, for a heap by the order of heads.
type steered struct{ *shape }

// Before makes steered an element of a heap.
func (s steered) Before(other steered) bool { return s.head().before(other.head()) }

// Placed makes steered an element of a heap.
func (s steered) Placed(at int) { s.at = int32(at) }

// steer pins a shape to one node, given by its Serial.
func (q *queue) steer(s *shape, node int) {
	q.unlist(s)
	s.node = int32(node)
	if s.pos >= 0 {
		q.list(s)
	}
}

// list lists a ready shape under the node it is pinned to.
func (q *queue) list(s *shape) {
	if s.node == nowhere {
		return
	}
	for len(q.steered) <= int(s.node) {
		q.steered = append(q.steered, nil)
	}
	q.steered[s.node].Push(steered{s})
}

// unlist removes a shape from that list, if present.
func (q *queue) unlist(s *shape) {
	if s.at >= 0 {
		q.steered[s.node].Remove(int(s.at))
	}
}

// isPinned reports whether a shape is ready and listed under a node.
func (s *shape) isPinned() bool { return s.at >= 0 }

// steeredTo returns the first ready shape pinned to a node; nil if there is none.
func (q *queue) steeredTo(node int) *shape {
	if node >= len(q.steered) || len(q.steered[node]) == 0 {
		return nil
	}
	return q.steered[node][0].shape
}
