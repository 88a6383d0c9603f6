package taskset

import (
	"math"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Rank returns the order of the first waiting task, and when it was submitted.
func (c Set) Rank() (order int, since int64) {
	if len(c.Waiting) == 0 {
		return math.MaxInt, 0
	}
	first := c.Waiting[0].Info.V
	return first.Order(), first.Submitted
}

// SeekNone notes that free capacity does not matter.
func (c Set) SeekNone(s *esl.State) {
	c.noteForeign(s)
	s.Seek(esl.Seeking{})
}

// Seek notes the nodes that matter to a policy which opens the resource own where its waiting tasks fit:
// those where some fit now, and those where it has opened more than is in use. may reports whether the
// policy would open a node; nil means any, and more is the same text for equal results of it.
func (c Set) Seek(s *esl.State, own, more string, may func(n *cluster.Node) bool) {
	id, opened := types.Resolve(s.Namespace, own), make(map[string]int)
	for _, n := range s.View.At(id) {
		if free := Capacity(s, n, id) - n.Used(id); free > 0 {
			opened[n.Name] = int(min(free/esl.One, math.MaxInt32))
		}
	}
	c.SeekOn(s, opened, more, may)
}

// SeekOn is Seek with the nodes where a number of waiting tasks may begin.
func (c Set) SeekOn(s *esl.State, opened map[string]int, more string, may func(n *cluster.Node) bool) {
	x := esl.Seeking{On: SortedKeys(opened)}
	x.Order, x.Since = c.Rank()
	c.noteForeign(s)
	type want struct {
		way  []cluster.Need
		most int
	}
	var wants []want
	var like strings.Builder
	like.WriteString(more)
	at := make(map[string]int) // the index in wants of each signature
	for _, shape := range c.Shapes {
		if shape.Waiting == 0 {
			continue
		}
		for _, way := range shape.Open {
			signature := Signature(way)
			i, known := at[signature]
			if !known {
				i, at[signature] = len(wants), len(wants)
				wants = append(wants, want{way: way})
				like.WriteString(";" + signature)
			}
			wants[i].most += shape.Waiting
		}
	}
	x.Like = like.String()
	put := func(r *match.Room, most int) (n int) {
		for _, w := range wants {
			n += r.Put(w.way, min(w.most, most-n))
		}
		return n
	}
	if len(wants) > 0 {
		x.Take = func(r *match.Room) bool { return (may == nil || may(r.Node)) && put(r, math.MaxInt) > 0 }
	}
	// Where nothing fits there is nothing to promise: the next jobs would count all these promises.
	if slices.ContainsFunc(x.On, func(node string) bool {
		r := esl.NewRoom(s.View, s.View.Nodes[node])
		return put(&r.Room, 1) > 0
	}) {
		x.Holds = func(r *match.Room) { put(r, opened[r.Node.Name]) }
	}
	s.Seek(x)
}

// noteForeign notes the ephemeral resources of other jobs and programs that waiting tasks request: whether
// and where a task fits changes with them.
func (c Set) noteForeign(s *esl.State) {
	var last *types.Request
	for _, t := range c.Waiting {
		if len(t.Info.V.Requests) > 0 && len(t.Info.V.Alternatives) == 0 {
			if last == &t.Info.V.Requests[0] {
				continue // equal requests share memory
			}
			last = &t.Info.V.Requests[0]
		}
		NoteRequested(s, t)
	}
}

// NoteNeeds notes the resources in needs that no machine has: the cluster-wide ones that are short, and the
// ephemeral ones of nodes.
func NoteNeeds(s *esl.State, job string, needs []cluster.Need) {
	for _, x := range needs {
		if pool := s.View.Pool(x.ID); pool == nil && !x.ID.Physical() || pool != nil && pool.Free() < x.Amount {
			s.NoteLacking(job, x.ID)
		}
	}
}

// PhysicalNeeds returns the needs of what machines have.
func PhysicalNeeds(needs []cluster.Need) []cluster.Need {
	return slices.DeleteFunc(slices.Clone(needs), func(x cluster.Need) bool { return !x.ID.Physical() })
}

// NoteRequested notes the ephemeral resources of others that a task requests from a node.
func NoteRequested(s *esl.State, t *cluster.Task) {
	note := func(requests types.Requests) {
		for _, x := range requests {
			if rid := types.Resolve(s.Namespace, x.Name); !rid.Physical() && !rid.IsPlacement() && s.View.Pool(rid) == nil {
				s.NoteLacking(t.Info.V.Job, rid)
			}
		}
	}
	note(t.Info.V.Requests)
	for _, way := range t.Info.V.Alternatives {
		note(way.Requests)
	}
}
