package esl

import (
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/types"
)

// State is the input of a decision: the cluster at one revision, and the policy that decides.
type State struct {
	// View is the whole cluster. A policy must neither change it nor keep any of it.
	View *cluster.View
	// Now is the time.
	Now time.Time
	// Namespace is the policy's. ID is the key of the policy: its job, or its own id if it is
	// shared.
	Namespace, ID string
	// Job is the id of its job; empty if the policy is shared.
	Job string

	Label string
	Kinds Kinds
	// Registry has the policies of the view; nil means that Kinds reads them on demand.
	Registry *Registry
	// Measured has the last answer of each node that policies want to be measured: see State.Usage.
	Measured map[string]*NodeUsage
	// Ops is how many operations the store takes at once; 0 means any number.
	Ops int
	// Memo stores the result of Remember, and Common those of Share; nil stores nothing.
	Memo   *any
	Common map[string]any
	// once stores the results of Once.
	once map[string]bool
	// Lacking collects what NoteLacking notes; nil collects nothing.
	Lacking Lacking
	// Looked counts what the policy reads; nil counts nothing.
	Looked *Looked
	// Sought receives what Seek is given; nil ignores it.
	Sought **Seeking
	// Promised is the free capacity that is opened for tasks of others, by node: see Left.
	Promised map[string][]Promise
}

// Remember returns the result of f, and calls it once while a policy runs. f may use only the
// parameters and names of the policy.
func Remember[T any](s *State, f func() T) T {
	if s.Memo == nil {
		return f()
	}
	if known, ok := (*s.Memo).(T); ok {
		return known
	}
	made := f()
	*s.Memo = made
	return made
}

// Share returns the result of f, and calls it once for each key and view, whichever policy asks. f may use
// only the view.
func Share[T any](s *State, key string, f func() T) T {
	known, ok := s.Common[key].(T)
	if !ok {
		if known = f(); s.Common != nil {
			s.Common[key] = known
		}
	}
	return known
}

// Once returns the result of f, and calls it once for each key in a decision.
func (s *State) Once(key string, f func() bool) bool {
	if known, ok := s.once[key]; ok {
		return known
	}
	if s.once == nil {
		s.once = make(map[string]bool)
	}
	s.once[key] = f()
	return s.once[key]
}

// Own returns what Group.Own returned.
func (s *State) Own(suffix string) string { return OwnName(s.ID, s.Label, suffix) }

// Members returns the tasks of the job, by id, ended ones included.
func (s *State) Members() []*cluster.Task {
	tasks := s.View.Members(cluster.ID{Namespace: s.Namespace, ID: s.Job})
	s.noteLooked(func(l *Looked) { l.Tasks = max(l.Tasks, len(tasks)) })
	return tasks
}

// Ended reports whether all tasks of the job have ended.
func (s *State) Ended() bool {
	for _, t := range s.Members() {
		if !t.Phase().Ended() {
			return false
		}
	}
	return true
}

// Pool returns the cluster-wide resource with a name; nil if there is none.
func (s *State) Pool(name string) *cluster.Pool {
	s.noteLooked(func(l *Looked) { l.Pools++ })
	return s.View.Pool(types.Resolve(s.Namespace, name))
}

// Reservation returns the reservation with an id and its grant; nil if there is neither.
func (s *State) Reservation(id string) *cluster.Reservation {
	s.noteLooked(func(l *Looked) { l.Reservations++ })
	return s.View.Reservations[cluster.ID{Namespace: s.Namespace, ID: id}]
}

// Nodes returns the nodes that accept tasks: alive, and not cordoned.
func (s *State) Nodes() []*cluster.Node {
	var out []*cluster.Node
	for _, n := range s.View.Nodes {
		if n.Eligible() {
			out = append(out, n)
		}
	}
	SortNodes(out)
	s.noteLooked(func(l *Looked) { l.Nodes = max(l.Nodes, len(out)) })
	return out
}

// Referring returns the policies that refer to the shared policy, by job: see Ref.
func (s *State) Referring() map[string]Policy {
	if s.Registry == nil {
		s.Registry = registryOf(s.View, s.Kinds)
	}
	shared := cluster.ID{Namespace: s.Namespace, ID: s.ID}
	of, _ := s.SharedPolicy(s.ID)
	from := s.Registry.from(shared, func(ns string) bool { return IsAcross(of) && allowed(s.View, ns, shared) })
	jobs := make(map[string]Policy, len(from))
	for id, p := range from {
		jobs[s.Ref(id)] = p
	}
	s.noteLooked(func(l *Looked) { l.Jobs = max(l.Jobs, len(jobs)) })
	return jobs
}

// Ref returns the name of an object for the policy: with the namespace, unless that is its own.
func (s *State) Ref(id cluster.ID) string {
	if id.Namespace == s.Namespace {
		return id.ID
	}
	return id.Namespace + ":" + id.ID
}

// At returns the id of an object that Ref names.
func (s *State) At(ref string) cluster.ID { return Named(s.Namespace, ref) }

// JobTasks returns the tasks of a job, by id, ended ones included.
func (s *State) JobTasks(job string) []*cluster.Task {
	return s.View.Members(s.At(job))
}

// Collector names the reservation that accumulates free capacity, "" if there is none. Only one
// does at a time, apart from reservations that their makers direct.
func (s *State) Collector() string {
	for id, r := range s.View.Reservations {
		if !r.Current() || !grants.Accumulates(r) {
			continue
		}
		if id.Namespace != s.Namespace {
			return "a task or reservation of another namespace"
		}
		return "reservation " + id.ID
	}
	return ""
}

// OfShared returns the state of a shared policy.
func (s *State) OfShared(id, kind string) *State {
	of := *s
	of.ID, of.Job, of.Label = id, "", kind
	return &of
}

// SharedPolicy returns the shared policy with an id, and its state; nil if it does not exist or its
// kind is unknown.
func (s *State) SharedPolicy(id string) (Policy, *State) {
	at := s.At(id)
	page := s.entry(at)
	if page == nil || len(page.Policies) == 0 || page.Policies[0] == nil {
		return nil, nil
	}
	made := page.Policies[0]
	return made, &State{View: s.View, Now: s.Now, Namespace: at.Namespace, ID: at.ID, Label: made.Kind(), Kinds: s.Kinds, Registry: s.Registry, Measured: s.Measured, Looked: s.Looked}
}

// noteLooked lets f count what is read now; without a counter it does nothing.
func (s *State) noteLooked(f func(l *Looked)) {
	if s.Looked != nil {
		f(s.Looked)
	}
}
