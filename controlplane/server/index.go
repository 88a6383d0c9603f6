package server

import (
	"iter"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// index is what the collector knows of the cluster: of each key no more than it takes
// to decide what is to be collected. It is kept up change by change, and lists what
// there may be to do, so that a look costs what there is to do, and not what there is.
//
// A value that cannot be decoded counts as there, and as naming nothing.
type index struct {
	spaces map[string]*space
	nodes  map[string]*node
	// things are resources, what ended tasks left behind, reservations and policies, by key.
	things map[string]*thing
	// owned are the things that end with something else.
	owned map[owner]map[*thing]struct{}
	// admission is nil while everything is admitted, admissionMod its ModRevision.
	admission    *types.Admission
	admissionMod int64
	// waiting is how many tasks there are that no node has.
	waiting int

	// What follows lists what there may be to do.

	// ended are the tasks that have ended, but for those that are being collected, and
	// those that jobs hold; holding are these jobs.
	ended   endings
	holding map[*job]struct{}
	// touched are things that changed, or whose owner did.
	touched []*thing
	// empty are jobs without tasks, incomplete those whose tasks came and they did not.
	empty, incomplete map[*job]struct{}
	// orphans are tasks whose job has not come for long.
	orphans []*task
	// left are tasks whose session has ended.
	left []*task
	// over are sessions that have ended and left tasks.
	over map[*session]struct{}
	// unused are specs that no task refers to.
	unused unusedSpecs
	// unsized are specs that tasks refer to, to be read for their size.
	unsized []*spec
	// changed are namespaces of which the use, the budget or the admission changed.
	changed []*space
}

// space is a namespace.
type space struct {
	name     string
	tasks    map[string]*task
	jobs     map[string]*job
	sessions map[string]*session
	// policies are the ids that have some.
	policies map[string]struct{}
	// specs are those that tasks refer to, with how many do.
	specs map[string]*spec
	budget
}

// node is a node, as far as something on it ends with its session.
type node struct {
	session int64
	things  map[*thing]struct{}
}

// owner is what something ends with: a task, job, session or reservation.
type owner struct {
	kind   controlplane.Kind
	ns, id string
}

func newIndex() *index {
	return &index{
		spaces: make(map[string]*space), nodes: make(map[string]*node),
		things: make(map[string]*thing), owned: make(map[owner]map[*thing]struct{}),
		empty: make(map[*job]struct{}), incomplete: make(map[*job]struct{}), over: make(map[*session]struct{}),
		holding: make(map[*job]struct{}),
		unused:  unusedSpecs{known: make(map[specName]*unusedSpec)},
	}
}

// space returns a namespace. Names of keys are parts of them, and would keep more
// than themselves in memory: what is kept is cloned.
func (x *index) space(name string) *space {
	s := x.spaces[name]
	if s == nil {
		s = &space{
			name: strings.Clone(name), tasks: make(map[string]*task), jobs: make(map[string]*job),
			sessions: make(map[string]*session), specs: make(map[string]*spec), policies: make(map[string]struct{}),
		}
		x.spaces[s.name] = s
	}
	return s
}

// apply takes in a change. Now is for what has no time of its own.
func (x *index) apply(e controlplane.Event, now time.Time) {
	k, ok := controlplane.Parse(e.Key)
	if !ok {
		return
	}
	switch k.Kind {
	case controlplane.Tasks:
		x.applyTask(x.space(k.Namespace), k.ID, e, now)
	case controlplane.Statuses:
		x.applyStatus(x.space(k.Namespace), k.ID, e, now)
	case controlplane.Jobs:
		x.applyJob(x.space(k.Namespace), k.ID, e, now)
	case controlplane.Sessions:
		x.applySession(x.space(k.Namespace), k.ID, e)
	case controlplane.Alive:
		x.applyAlive(k.Node, e)
	case controlplane.Resources, controlplane.Provided, controlplane.Reservations, controlplane.Policies:
		x.applyThing(k, e)
	case controlplane.Namespaces:
		x.applyNamespace(x.space(k.Namespace), e)
	case controlplane.Admissions:
		x.applyNamespaceAdmission(x.space(k.Namespace), e)
	case controlplane.System:
		if e.Key == controlplane.AdmissionKey() {
			x.applyAdmission(e)
		}
	}
}

// reduce takes in that of a kind of keys only some are there.
func (x *index) reduce(kind controlplane.Kind, has func(key string) bool, revision int64, now time.Time) {
	var gone []string
	for key := range x.keys(kind) {
		if !has(key) {
			gone = append(gone, key)
		}
	}
	for _, key := range gone {
		x.apply(controlplane.Event{KV: controlplane.KV{Key: key, ModRevision: revision}, Delete: true}, now)
	}
}

// keys are all keys of a kind that are known.
func (x *index) keys(kind controlplane.Kind) iter.Seq[string] {
	return func(yield func(string) bool) {
		switch kind {
		case controlplane.Alive:
			for name, n := range x.nodes {
				if n.session != 0 && !yield(controlplane.AliveKey(name)) {
					return
				}
			}
		case controlplane.System:
			if x.admissionMod != 0 {
				yield(controlplane.AdmissionKey())
			}
		case controlplane.Resources, controlplane.Provided, controlplane.Reservations, controlplane.Policies:
			for key := range x.things {
				if strings.HasPrefix(key, controlplane.Prefix(kind)) && !yield(key) {
					return
				}
			}
		default:
			for _, s := range x.spaces {
				if !s.keys(kind, yield) {
					return
				}
			}
		}
	}
}

func (x *index) applyAdmission(e controlplane.Event) {
	x.admission, x.admissionMod = nil, 0
	if !e.Delete {
		x.admission, x.admissionMod = new(types.Admission), e.ModRevision
		if types.Decode(e.Value, x.admission) != nil {
			x.admission = new(types.Admission)
		}
	}
}

func (x *index) applyAlive(name string, e controlplane.Event) {
	n := x.node(name)
	n.session = e.CreateRevision // 0 of a delete
	for th := range n.things {
		x.touch(th)
	}
	x.tidyNode(name)
}

func (x *index) node(name string) *node {
	n := x.nodes[name]
	if n == nil {
		n = &node{things: make(map[*thing]struct{})}
		x.nodes[strings.Clone(name)] = n
	}
	return n
}

// tidyNode forgets a node of which nothing is left.
func (x *index) tidyNode(name string) {
	if n := x.nodes[name]; n != nil && n.session == 0 && len(n.things) == 0 {
		delete(x.nodes, name)
	}
}
