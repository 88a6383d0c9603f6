package cluster

import (
	"encoding/binary"
	"hash/maphash"
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

// folded are the folded tasks of a view. They have no status and no bindings.
type folded struct {
	seed maphash.Seed
	mask uint64 // of hashes; all but a test use all of them
	slab slab.Slab
	// byID are the tasks by the hash of their id, jobs the first member of each job.
	byID map[uint64]slab.Place
	jobs map[ID]slab.Place
	// spaces are the namespaces, numbers where each is in it.
	spaces  []string
	numbers map[string]uint32
	buf     []byte
	full    types.Task // to be encoded
}

// What a folded task consists of, and behind that its id and its value.
const (
	foldMod    = 0
	foldCreate = foldMod + 8
	foldSpace  = foldCreate + 8
	foldNext   = foldSpace + 4 // of the members of its job; 0 is none
	foldPrev   = foldNext + 4
	foldID     = foldPrev + 4 // how long its id is
	foldValue  = foldID + 1   // how long its value is
	foldTexts  = foldValue + 2
)

// fold is a folded task.
type fold []byte

func (b fold) get(at int) slab.Place    { return slab.Place(binary.LittleEndian.Uint32(b[at:])) }
func (b fold) put(at int, p slab.Place) { binary.LittleEndian.PutUint32(b[at:], uint32(p)) }
func (b fold) long(at int) int64        { return int64(binary.LittleEndian.Uint64(b[at:])) }
func (b fold) putLong(at int, n int64)  { binary.LittleEndian.PutUint64(b[at:], uint64(n)) }

func (b fold) id() []byte { return b[foldTexts : foldTexts+int(b[foldID])] }

func (b fold) value() []byte {
	from := foldTexts + int(b[foldID])
	return b[from : from+int(binary.LittleEndian.Uint16(b[foldValue:]))]
}

func newFolded() folded {
	return folded{seed: maphash.MakeSeed(), mask: ^uint64(0), byID: make(map[uint64]slab.Place), jobs: make(map[ID]slab.Place), numbers: make(map[string]uint32)}
}

func (x *folded) at(p slab.Place) fold { return fold(x.slab.At(p)) }

func (x *folded) hash(space uint32, id string) uint64 {
	return (maphash.String(x.seed, id) + uint64(space)*0x9e3779b97f4a7c15) & x.mask
}

// find returns where a task is folded, 0 if it is not.
func (x *folded) find(id ID) slab.Place {
	space, ok := x.numbers[id.Namespace]
	if !ok {
		return 0
	}
	p := x.byID[x.hash(space, id.ID)]
	if p == 0 {
		return 0
	}
	if b := x.at(p); string(b.id()) != id.ID || uint32(b.get(foldSpace)) != space {
		return 0
	}
	return p
}

// add keeps a task, and reports whether it could.
func (x *folded) add(t *Task) bool {
	x.full = *t.Info.V.sharedTask
	x.full.Name, x.full.Job, x.full.Submitted = t.Info.V.Name, t.Info.V.Job, t.Info.V.Submitted
	x.buf = types.AppendEncode(x.buf[:0], 0, &x.full)
	size := foldTexts + len(t.ID.ID) + len(x.buf)
	if size > slab.Most || len(t.ID.ID) > 255 {
		return false
	}
	space, ok := x.numbers[t.ID.Namespace]
	if !ok {
		space = uint32(len(x.spaces))
		x.spaces = append(x.spaces, t.ID.Namespace)
		x.numbers[t.ID.Namespace] = space
	}
	h := x.hash(space, t.ID.ID)
	if x.byID[h] != 0 {
		return false // another one of the same hash
	}
	p := x.slab.Keep(size)
	x.byID[h] = p
	b := x.at(p)
	b.putLong(foldMod, t.Info.Mod)
	b.putLong(foldCreate, t.Info.Create)
	b.put(foldSpace, slab.Place(space))
	b[foldID] = byte(len(t.ID.ID))
	binary.LittleEndian.PutUint16(b[foldValue:], uint16(len(x.buf)))
	copy(b.id(), t.ID.ID)
	copy(b.value(), x.buf)
	x.join(p, b, t)
	return true
}

// join lists a task with its job.
func (x *folded) join(p slab.Place, b fold, t *Task) {
	b.put(foldPrev, 0)
	b.put(foldNext, 0)
	if t.Info.V.Job == "" {
		return
	}
	job := ID{t.ID.Namespace, t.Info.V.Job}
	first := x.jobs[job]
	if x.jobs[job] = p; first != 0 {
		b.put(foldNext, first)
		x.at(first).put(foldPrev, p)
	}
}

// remove forgets the task at p, which is t.
func (x *folded) remove(p slab.Place, t *Task) {
	b := x.at(p)
	prev, next := b.get(foldPrev), b.get(foldNext)
	if next != 0 {
		x.at(next).put(foldPrev, prev)
	}
	job := ID{t.ID.Namespace, t.Info.V.Job}
	switch {
	case prev != 0:
		x.at(prev).put(foldNext, next)
	case next != 0:
		x.jobs[job] = next
	default:
		delete(x.jobs, job)
	}
	delete(x.byID, x.hash(uint32(b.get(foldSpace)), t.ID.ID))
	x.slab.Free(p)
}

// unfolded makes the task at p anew. The view does not have it.
func (v *View) unfolded(p slab.Place) *Task {
	x := &v.folded
	b := x.at(p)
	t := &Task{ID: ID{x.spaces[b.get(foldSpace)], string(b.id())}}
	// What was encoded can be decoded.
	t.Info.V, _ = v.readTask(t.ID, b.value(), false)
	t.Info.Mod, t.Info.Create = b.long(foldMod), b.long(foldCreate)
	return t
}

// Task returns a task, nil if there is none. It is the same one each time, until it is
// folded.
func (v *View) Task(id ID) *Task {
	if t := v.tasks[id]; t != nil || len(v.folded.byID) == 0 {
		return t
	}
	p := v.folded.find(id)
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
		for _, p := range v.folded.byID {
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
func (v *View) NumTasks() int { return len(v.tasks) + len(v.folded.byID) }

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
