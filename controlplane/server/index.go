package server

import (
	"iter"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// index is the collector's knowledge of the cluster: of each key only what its decisions need. Each
// change updates it. It lists possible work, so that a pass costs as much as there is to do, and
// not as much as there is.
//
// An undecodable value counts as present, and refers to nothing.
type index struct {
	spaces map[string]*namespaceState
	nodes  map[string]*node
	// dependents are resources, provided resources, reservations and policies, by key.
	dependents map[string]*dependent
	// owned holds the dependents of each owner.
	owned map[owner]map[*dependent]struct{}
	// admission is nil while admission is open; admissionMod is its ModRevision.
	admission    *types.Admission
	admissionMod int64
	// waiting is the number of tasks without a node.
	waiting int

	// The fields below list possible work.

	// ended holds the ended tasks, except those being collected and those held by jobs; holding has
	// these jobs.
	ended   endings
	holding map[*job]struct{}
	// touched lists dependents that changed, or whose owner did.
	touched []*dependent
	// empty are jobs without tasks; incomplete are missing jobs with tasks.
	empty, incomplete map[*job]struct{}
	// orphans lists tasks whose job has not come for a long time.
	orphans []*task
	// left lists tasks whose session has ended.
	left []*task
	// over holds ended sessions with tasks.
	over map[*session]struct{}
	// unused holds specs that no task refers to.
	unused unusedSpecs
	// unsized lists specs with tasks whose size is still to be read.
	unsized []*spec
	// changed lists namespaces whose usage, budget or admission changed.
	changed []*namespaceState
	// histories are those of past runs.
	histories histories
}

// namespaceState is the index of one namespace.
type namespaceState struct {
	name     string
	tasks    map[string]*task
	jobs     map[string]*job
	sessions map[string]*session
	// policies holds the ids with policies.
	policies map[string]struct{}
	// specs holds the specs that tasks refer to, with the number of these tasks.
	specs map[string]*spec
	budget
}

// node is a node with the dependents of its session.
type node struct {
	session    int64
	dependents map[*dependent]struct{}
}

// owner is an object whose end removes dependents: a task, job, session, reservation or policies.
type owner struct {
	kind   controlplane.Kind
	ns, id string
}

func newIndex() *index {
	return &index{
		spaces: make(map[string]*namespaceState), nodes: make(map[string]*node),
		dependents: make(map[string]*dependent), owned: make(map[owner]map[*dependent]struct{}),
		empty: make(map[*job]struct{}), incomplete: make(map[*job]struct{}), over: make(map[*session]struct{}),
		holding:   make(map[*job]struct{}),
		histories: newHistories(),
		unused:    unusedSpecs{known: make(map[specName]*unusedSpec)},
	}
}

// space returns a namespace. Names are parts of keys, which they would keep in memory: stored names
// are cloned.
func (x *index) space(name string) *namespaceState {
	s := x.spaces[name]
	if s == nil {
		s = &namespaceState{
			name: strings.Clone(name), tasks: make(map[string]*task), jobs: make(map[string]*job),
			sessions: make(map[string]*session), specs: make(map[string]*spec), policies: make(map[string]struct{}),
		}
		x.spaces[s.name] = s
	}
	return s
}

// apply applies a change. now is for objects without a time of their own.
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
		x.applyDependent(k, e)
	case controlplane.Namespaces:
		x.applyNamespace(x.space(k.Namespace), e)
	case controlplane.Histories:
		x.applyHistory(k, e)
	case controlplane.Admissions:
		x.applyNamespaceAdmission(x.space(k.Namespace), e)
	case controlplane.System:
		if e.Key == controlplane.AdmissionKey() {
			x.applyAdmission(e)
		}
	}
}

// reduce drops the keys of a kind for which has is false.
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

// keys iterates over all known keys of a kind.
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
			for key := range x.dependents {
				if strings.HasPrefix(key, controlplane.Prefix(kind)) && !yield(key) {
					return
				}
			}
		case controlplane.Histories:
			for _, h := range x.histories.known {
				if h.mod != 0 && !yield(h.key()) {
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
	n.session = e.CreateRevision // 0 for a delete
	for th := range n.dependents {
		x.touch(th)
	}
	x.tidyNode(name)
}

func (x *index) node(name string) *node {
	n := x.nodes[name]
	if n == nil {
		n = &node{dependents: make(map[*dependent]struct{})}
		x.nodes[strings.Clone(name)] = n
	}
	return n
}

// tidyNode drops a node without session and dependents.
func (x *index) tidyNode(name string) {
	if n := x.nodes[name]; n != nil && n.session == 0 && len(n.dependents) == 0 {
		delete(x.nodes, name)
	}
}
