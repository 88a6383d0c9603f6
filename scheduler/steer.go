package scheduler

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Some tasks can go to one node only: what they ask for is there and nowhere else. A node
// that is bound to costs a transaction the same for one task as for four, so that each time
// one is placed on a node in its turn, a few of those that are steered there go with it.
//
// Where a shape is steered is noted when it is queued, and when more of something wakes it.
// It may be out of date: whatever is tried early is placed as in its turn.

// nowhere is where a shape is steered that may go to several nodes.
const nowhere = -1

// steered is a ready shape that is steered to one node. The one whose head comes first is the
// first.
type steered struct{ *shape }

// Before makes it an element of a heap.
func (s steered) Before(other steered) bool { return s.head().before(other.head()) }

// Placed makes it an element of a heap.
func (s steered) Placed(at int) { s.at = int32(at) }

// steer notes that a shape can go to one node only, by its Serial.
func (q *queue) steer(s *shape, node int) {
	q.unlist(s)
	s.node = int32(node)
	if s.pos >= 0 {
		q.list(s)
	}
}

// list lists a ready shape where it is steered.
func (q *queue) list(s *shape) {
	if s.node == nowhere {
		return
	}
	for len(q.steered) <= int(s.node) {
		q.steered = append(q.steered, nil)
	}
	q.steered[s.node].Push(steered{s})
}

// unlist takes a shape from where it is listed, if it is.
func (q *queue) unlist(s *shape) {
	if s.at >= 0 {
		q.steered[s.node].Remove(int(s.at))
	}
}

// steeredTo returns the first of the ready shapes that are steered to a node, nil if
// there is none.
func (q *queue) steeredTo(node int) *shape {
	if node >= len(q.steered) || len(q.steered[node]) == 0 {
		return nil
	}
	return q.steered[node][0].shape
}

// mostBeside is how many tasks a node gets in one transaction at most, of which all but
// the first are out of their turn.
const mostBeside = 8

// placeBeside tries, on the node that the draft placed a task on last, the first few of
// those that are steered there and of the same priority: until so many are placed there
// that the node costs each of them little.
//
// It is out of turn for as few as that, once for each task placed in its turn, so that
// nothing that waits is overtaken without end.
func (c *Core) placeBeside(d *Draft, priority int) {
	n := d.last
	if n == nil {
		return
	}
	for tried := 1; tried < mostBeside && d.places[n].binds < mostBeside && !d.closed && len(d.entries) < c.batch; {
		s := c.queue.steeredTo(n.Serial)
		switch {
		case s == nil || s.head().priority != priority:
			return
		case !c.mayGoBeside(s):
			c.queue.steer(s, nowhere)
		default:
			tried++
			if c.try(d, s) == full {
				return // its turn comes, and others may be smaller
			}
		}
	}
}

// mayGoBeside reports whether the head of a shape may be placed out of its turn: not what
// is sent alone, nor what collects, nor what draws on a pool, which is for who comes first.
func (c *Core) mayGoBeside(s *shape) bool {
	e := s.head()
	t := c.view.Task(e.id)
	if e.conflicts >= solo || e.bundles || s.unit || t.Info.V.Accumulate {
		return false
	}
	for _, needs := range c.needsOf(s, t) {
		for _, x := range needs {
			if c.view.Pool(x.ID) != nil {
				return false
			}
		}
	}
	return true
}

// steer notes where the tasks of a new shape are steered: to the only node that has one of
// the resources that they ask for, whichever alternative they take.
func (c *Core) steer(s *shape, t *cluster.Task) {
	for _, r := range t.Info.V.Requests {
		c.text = types.AppendResolved(c.text[:0], t.ID.Namespace, r.Name)
		if n := c.onlyAt(types.ResourceID(c.text)); n != nil {
			c.queue.steer(s, n.Serial)
			return
		}
	}
}

// onlyAt returns the one node that may have some of rid; nil if several may, or none.
func (c *Core) onlyAt(rid types.ResourceID) *cluster.Node {
	if at, limited := c.limited(rid); limited && len(at) == 1 {
		return at[0]
	}
	return nil
}
