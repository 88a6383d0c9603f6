package cluster

import (
	"encoding/binary"
	"hash/maphash"
	"iter"
	"maps"

	"github.com/escher-sched/escher/controlplane/slab"
	"github.com/escher-sched/escher/types"
)

// A million tasks may wait for a resource that does not exist yet. In full, each task is ten small
// objects, and each garbage collection scans them all: seconds of CPU time. So a follower of the
// cluster compacts tasks that merely wait. The view keeps only the stored form of a compacted task,
// in memory without pointers, and rebuilds the task on request.

// compacted holds the compacted tasks of a view. They have no status and no bindings.
type compacted struct {
	seed maphash.Seed
	mask uint64 // of hashes; only a test masks any bits
	slab slab.Slab
	// byID finds tasks by the hash of their id; jobs finds the first member of each job.
	byID map[uint64]slab.Place
	jobs map[ID]slab.Place
	// spaces lists the namespaces; numbers has the index of each one.
	spaces  []string
	numbers map[string]uint32
	buf     []byte
	full    types.Task // buffer for encoding
}

// The layout of a record. The id and the value of the task follow it.
const (
	recMod    = 0
	recCreate = recMod + 8
	recSpace  = recCreate + 8
	recNext   = recSpace + 4 // next member of its job; 0 means none
	recPrev   = recNext + 4
	recID     = recPrev + 4 // length of its id
	recValue  = recID + 1   // length of its value
	recTexts  = recValue + 2
)

// record is a compacted task.
type record []byte

func (b record) get(at int) slab.Place    { return slab.Place(binary.LittleEndian.Uint32(b[at:])) }
func (b record) put(at int, p slab.Place) { binary.LittleEndian.PutUint32(b[at:], uint32(p)) }
func (b record) long(at int) int64        { return int64(binary.LittleEndian.Uint64(b[at:])) }
func (b record) putLong(at int, n int64)  { binary.LittleEndian.PutUint64(b[at:], uint64(n)) }

func (b record) id() []byte { return b[recTexts : recTexts+int(b[recID])] }

func (b record) value() []byte {
	from := recTexts + int(b[recID])
	return b[from : from+int(binary.LittleEndian.Uint16(b[recValue:]))]
}

func newCompacted() compacted {
	return compacted{seed: maphash.MakeSeed(), mask: ^uint64(0), byID: make(map[uint64]slab.Place), jobs: make(map[ID]slab.Place), numbers: make(map[string]uint32)}
}

func (x *compacted) at(p slab.Place) record { return record(x.slab.At(p)) }

func (x *compacted) hash(space uint32, id string) uint64 {
	return (maphash.String(x.seed, id) + uint64(space)*0x9e3779b97f4a7c15) & x.mask
}

// find returns the place of a compacted task, 0 if there is none.
func (x *compacted) find(id ID) slab.Place {
	space, ok := x.numbers[id.Namespace]
	if !ok {
		return 0
	}
	p := x.byID[x.hash(space, id.ID)]
	if p == 0 {
		return 0
	}
	if b := x.at(p); string(b.id()) != id.ID || uint32(b.get(recSpace)) != space {
		return 0
	}
	return p
}

// add compacts a task, and reports whether it could.
func (x *compacted) add(t *Task) bool {
	x.full = *t.Info.V.sharedTask
	x.full.Name, x.full.Job, x.full.Submitted = t.Info.V.Name, t.Info.V.Job, t.Info.V.Submitted
	x.buf = types.AppendEncode(x.buf[:0], 0, &x.full)
	size := recTexts + len(t.ID.ID) + len(x.buf)
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
		return false // a hash collision
	}
	p := x.slab.Keep(size)
	x.byID[h] = p
	b := x.at(p)
	b.putLong(recMod, t.Info.Mod)
	b.putLong(recCreate, t.Info.Create)
	b.put(recSpace, slab.Place(space))
	b[recID] = byte(len(t.ID.ID))
	binary.LittleEndian.PutUint16(b[recValue:], uint16(len(x.buf)))
	copy(b.id(), t.ID.ID)
	copy(b.value(), x.buf)
	x.join(p, b, t)
	return true
}

// join adds a task to the list of its job.
func (x *compacted) join(p slab.Place, b record, t *Task) {
	b.put(recPrev, 0)
	b.put(recNext, 0)
	if t.Info.V.Job == "" {
		return
	}
	job := ID{t.ID.Namespace, t.Info.V.Job}
	first := x.jobs[job]
	if x.jobs[job] = p; first != 0 {
		b.put(recNext, first)
		x.at(first).put(recPrev, p)
	}
}

// remove removes the task t at p.
func (x *compacted) remove(p slab.Place, t *Task) {
	b := x.at(p)
	prev, next := b.get(recPrev), b.get(recNext)
	if next != 0 {
		x.at(next).put(recPrev, prev)
	}
	job := ID{t.ID.Namespace, t.Info.V.Job}
	switch {
	case prev != 0:
		x.at(prev).put(recNext, next)
	case next != 0:
		x.jobs[job] = next
	default:
		delete(x.jobs, job)
	}
	delete(x.byID, x.hash(uint32(b.get(recSpace)), t.ID.ID))
	x.slab.Free(p)
}

// expanded rebuilds the task at p, without adding it to the view.
func (v *View) expanded(p slab.Place) *Task {
	x := &v.compacted
	b := x.at(p)
	t := &Task{ID: ID{x.spaces[b.get(recSpace)], string(b.id())}}
	// Encoded values can be decoded.
	t.Info.V, _ = v.readTask(t.ID, b.value(), false)
	t.Info.Mod, t.Info.Create = b.long(recMod), b.long(recCreate)
	return t
}

// Task returns a task, nil if there is none. It expands a compacted task, and returns the same task
// until that is compacted again.
func (v *View) Task(id ID) *Task {
	if t := v.tasks[id]; t != nil || len(v.compacted.byID) == 0 {
		return t
	}
	p := v.compacted.find(id)
	if p == 0 {
		return nil
	}
	t := v.expanded(p)
	v.compacted.remove(p, t)
	v.tasks[t.ID] = t
	v.joinJob(t)
	return t
}

// Fold compacts a task that has neither status nor bindings. The view still has the task, but no
// caller may use t any more.
func (v *View) Fold(t *Task) {
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
		for _, p := range v.compacted.byID {
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
func (v *View) NumTasks() int { return len(v.tasks) + len(v.compacted.byID) }

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

// Suppose adds a hypothetical task to a copy. Its job does not list it.
func (v *View) Suppose(t *Task) { v.tasks[t.ID] = t }
