package cluster

import (
	"iter"
	"maps"

	"github.com/escher-sched/escher/controlplane/slab"
	"github.com/escher-sched/escher/types"
)

// A million tasks may wait for a resource that does not exist yet. In full, each task is ten small
// objects, and each garbage collection scans them all: seconds of CPU time. So a follower of the
// cluster compacts tasks that merely wait. The view keeps only the stored form of a compacted task,
// in memory without pointers, and rebuilds the task on request.

// compacted holds the stored form of the compacted tasks of a view. They have no status and no
// bindings.
type compacted struct {
	slab.Table
	// jobs finds the first member of each job.
	jobs map[ID]slab.Ref
	buf  []byte
	full types.Task // buffer for encoding
}

// The numbers of a compacted task. The text of its record is its value.
const (
	recMod    = 0
	recCreate = recMod + 8
	recNext   = recCreate + 8 // next member of its job; 0 means none
	recPrev   = recNext + 4
	recBytes  = recPrev + 4
)

func newCompacted() compacted {
	return compacted{Table: slab.NewTable(recBytes), jobs: make(map[ID]slab.Ref)}
}

// link returns the number at an offset of a compacted task: another compacted task, or 0.
func (x *compacted) link(p slab.Ref, at int) slab.Ref { return slab.Ref(x.At(p).Uint32(at)) }

func (x *compacted) setLink(p slab.Ref, at int, to slab.Ref) { x.At(p).SetUint32(at, uint32(to)) }

// add compacts a task, and reports whether it could.
func (x *compacted) add(t *Task) bool {
	x.full = *t.Info.V.sharedTask
	x.full.Name, x.full.Job, x.full.Submitted, x.full.Index = t.Info.V.Name, t.Info.V.Job, t.Info.V.Submitted, t.Info.V.Index
	x.buf = types.AppendEncode(x.buf[:0], 0, &x.full)
	p := x.Add(t.ID.Namespace, t.ID.ID, x.buf)
	if p == 0 {
		return false
	}
	r := x.At(p)
	r.SetInt64(recMod, t.Info.Mod)
	r.SetInt64(recCreate, t.Info.Create)
	x.join(p, t)
	return true
}

// join adds a task to the list of its job.
func (x *compacted) join(p slab.Ref, t *Task) {
	x.setLink(p, recPrev, 0)
	x.setLink(p, recNext, 0)
	if t.Info.V.Job == "" {
		return
	}
	job := ID{t.ID.Namespace, t.Info.V.Job}
	first := x.jobs[job]
	if x.jobs[job] = p; first != 0 {
		x.setLink(p, recNext, first)
		x.setLink(first, recPrev, p)
	}
}

// remove removes the task t at p.
func (x *compacted) remove(p slab.Ref, t *Task) {
	prev, next := x.link(p, recPrev), x.link(p, recNext)
	if next != 0 {
		x.setLink(next, recPrev, prev)
	}
	job := ID{t.ID.Namespace, t.Info.V.Job}
	switch {
	case prev != 0:
		x.setLink(prev, recNext, next)
	case next != 0:
		x.jobs[job] = next
	default:
		delete(x.jobs, job)
	}
	x.Remove(p)
}

// expanded rebuilds the task at p, without adding it to the view.
func (v *View) expanded(p slab.Ref) *Task {
	x := &v.compacted
	r := x.At(p)
	t := &Task{ID: ID{x.Namespace(p), string(r.ID())}}
	// Encoded values can be decoded.
	t.Info.V, _ = v.readTask(t.ID, r.Text(), false)
	t.Info.Mod, t.Info.Create = r.Int64(recMod), r.Int64(recCreate)
	return t
}

// Task returns a task, nil if there is none. It expands a compacted task, and returns the same task
// until that is compacted again.
func (v *View) Task(id ID) *Task {
	if t := v.tasks[id]; t != nil || v.compacted.Len() == 0 {
		return t
	}
	p := v.compacted.Find(id.Namespace, id.ID)
	if p == 0 {
		return nil
	}
	t := v.expanded(p)
	v.compacted.remove(p, t)
	v.tasks[t.ID] = t
	v.joinJob(t)
	return t
}

// Compact compacts a task that has neither status nor bindings. The view still has the task, but no
// caller may use t any more.
func (v *View) Compact(t *Task) {
	if t.Info.V == nil || !t.Status.Absent() || len(t.Bindings) > 0 || v.tasks[t.ID] != t || !v.compacted.add(t) {
		return
	}
	v.leaveJob(t)
	delete(v.tasks, t.ID)
}

// Tasks iterates over all tasks, in no order. Compacted ones stay compacted: it yields temporary
// copies, which Task does not return. Tasks may be compacted and expanded meanwhile; an expanded
// one may come twice.
func (v *View) Tasks() iter.Seq[*Task] {
	return func(yield func(*Task) bool) {
		for p := range v.compacted.All() {
			if !yield(v.expanded(p)) {
				return
			}
		}
		for _, t := range v.tasks {
			if !yield(t) {
				return
			}
		}
	}
}

// NumTasks returns the number of tasks.
func (v *View) NumTasks() int { return len(v.tasks) + v.compacted.Len() }

// Copy returns a copy of the view, for reading and for hypothetical tasks. It expands all compacted
// tasks.
func (v *View) Copy() *View {
	for t := range v.Tasks() {
		v.Task(t.ID)
	}
	c := *v
	c.tasks, c.compacted = maps.Clone(v.tasks), newCompacted()
	return &c
}

// AddHypothetical adds a hypothetical task to a copy. Its job does not list it.
func (v *View) AddHypothetical(t *Task) { v.tasks[t.ID] = t }
