package cluster

import (
	"iter"
	"maps"

	"github.com/escher-sched/escher/controlplane/slab"
	"github.com/escher-sched/escher/types"
)

// A million tasks may wait for what is not there yet. As they are otherwise, each of them
// is ten small objects, and every collection of garbage looks at all of them: seconds of
// processor time. So who follows the cluster folds what merely waits: of a folded task the
// view keeps what is stored alone, where nothing points to anything, and makes the
// task anew when it is asked for.

// folded are the folded tasks of a view, as they are stored. They have no status and no bindings.
type folded struct {
	slab.Table
	// jobs are the first member of each job.
	jobs map[ID]slab.Place
	buf  []byte
	full types.Task // to be encoded
}

// The numbers of a folded task. The text of its record is its value.
const (
	foldMod    = 0
	foldCreate = foldMod + 8
	foldNext   = foldCreate + 8 // of the members of its job; 0 is none
	foldPrev   = foldNext + 4
	foldBytes  = foldPrev + 4
)

func newFolded() folded {
	return folded{Table: slab.NewTable(foldBytes), jobs: make(map[ID]slab.Place)}
}

// link returns a place that is one of the numbers of a folded task.
func (x *folded) link(p slab.Place, at int) slab.Place { return slab.Place(x.At(p).Uint32(at)) }

func (x *folded) setLink(p slab.Place, at int, to slab.Place) { x.At(p).SetUint32(at, uint32(to)) }

// add keeps a task, and reports whether it could.
func (x *folded) add(t *Task) bool {
	x.full = *t.Info.V.sharedTask
	x.full.Name, x.full.Job, x.full.Submitted = t.Info.V.Name, t.Info.V.Job, t.Info.V.Submitted
	x.buf = types.AppendEncode(x.buf[:0], 0, &x.full)
	p := x.Add(t.ID.Namespace, t.ID.ID, x.buf)
	if p == 0 {
		return false
	}
	r := x.At(p)
	r.SetInt64(foldMod, t.Info.Mod)
	r.SetInt64(foldCreate, t.Info.Create)
	x.join(p, t)
	return true
}

// join lists a task with its job.
func (x *folded) join(p slab.Place, t *Task) {
	x.setLink(p, foldPrev, 0)
	x.setLink(p, foldNext, 0)
	if t.Info.V.Job == "" {
		return
	}
	job := ID{t.ID.Namespace, t.Info.V.Job}
	first := x.jobs[job]
	if x.jobs[job] = p; first != 0 {
		x.setLink(p, foldNext, first)
		x.setLink(first, foldPrev, p)
	}
}

// remove forgets the task at p, which is t.
func (x *folded) remove(p slab.Place, t *Task) {
	prev, next := x.link(p, foldPrev), x.link(p, foldNext)
	if next != 0 {
		x.setLink(next, foldPrev, prev)
	}
	job := ID{t.ID.Namespace, t.Info.V.Job}
	switch {
	case prev != 0:
		x.setLink(prev, foldNext, next)
	case next != 0:
		x.jobs[job] = next
	default:
		delete(x.jobs, job)
	}
	x.Remove(p)
}

// unfolded makes the task at p anew. The view does not have it.
func (v *View) unfolded(p slab.Place) *Task {
	x := &v.folded
	r := x.At(p)
	t := &Task{ID: ID{x.Namespace(p), string(r.ID())}}
	// What was encoded can be decoded.
	t.Info.V, _ = v.readTask(t.ID, r.Text(), false)
	t.Info.Mod, t.Info.Create = r.Int64(foldMod), r.Int64(foldCreate)
	return t
}

// Task returns a task, nil if there is none. It is the same one each time, until it is
// folded.
func (v *View) Task(id ID) *Task {
	if t := v.tasks[id]; t != nil || v.folded.Len() == 0 {
		return t
	}
	p := v.folded.Find(id.Namespace, id.ID)
	if p == 0 {
		return nil
	}
	t := v.unfolded(p)
	v.folded.remove(p, t)
	v.tasks[t.ID] = t
	v.joinJob(t)
	return t
}

// Fold has the view keep less of a task that is seldom looked at, if it has neither status
// nor bindings. It is there as before, but nobody may use t any more.
func (v *View) Fold(t *Task) {
	if t.Info.V == nil || !t.Status.Absent() || len(t.Bindings) > 0 || v.tasks[t.ID] != t || !v.folded.add(t) {
		return
	}
	v.leaveJob(t)
	delete(v.tasks, t.ID)
}

// Tasks are all tasks, in no order. Folded ones stay so: they are made for the occasion,
// and Task returns another one. Tasks may be folded and unfolded meanwhile; what is
// unfolded may then come twice.
func (v *View) Tasks() iter.Seq[*Task] {
	return func(yield func(*Task) bool) {
		for p := range v.folded.All() {
			if !yield(v.unfolded(p)) {
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

// NumTasks returns how many tasks there are.
func (v *View) NumTasks() int { return len(v.tasks) + v.folded.Len() }

// Copy returns a view of the same, to be read, and to suppose tasks in. Nothing is folded
// after it.
func (v *View) Copy() *View {
	for t := range v.Tasks() {
		v.Task(t.ID)
	}
	c := *v
	c.tasks, c.folded = maps.Clone(v.tasks), newFolded()
	return &c
}

// Suppose has a copy have a task that is stored nowhere. Its job does not list it.
func (v *View) Suppose(t *Task) { v.tasks[t.ID] = t }
