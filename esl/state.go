package esl

import (
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// State is what a policy decides on: the cluster at one revision, and whose turn it is.
type State struct {
	// View is the whole cluster; it must not be changed, and nothing of it be kept.
	View *cluster.View
	// Now is the time.
	Now time.Time
	// Namespace is that of the policy, ID what it is kept under: its job, or an id of
	// its own if it is shared.
	Namespace, ID string
	// Job is the id of its job; empty if it is shared.
	Job string

	Label string
	Kinds Kinds
	// book has the policies of the view; it is made of kinds when there is none.
	Registry *Registry
	// ops is how many operations the store takes at once; 0: any number.
	Ops int
	// memo is what remembered keeps; nil for nowhere.
	Memo *any
	// once is what Once remembers.
	once map[string]bool
	// lacks is what lack notes; nil for nowhere.
	Lacking Lacking
}

// Remember returns what f makes, once for a policy that is kept: for what is made of its
// parameters and names alone.
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

// Once returns what f returns, and calls it once for a key while the policy decides.
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

// Members returns the tasks of the job, by id, also those that have ended.
func (s *State) Members() []*cluster.Task {
	return s.View.Members(cluster.ID{Namespace: s.Namespace, ID: s.Job})
}

// Ended reports whether all tasks of the job have.
func (s *State) Ended() bool {
	for _, t := range s.Members() {
		if !t.Phase().Ended() {
			return false
		}
	}
	return true
}

// Pool returns the cluster-wide resource of a name, nil if there is none.
func (s *State) Pool(name string) *cluster.Pool {
	return s.View.Pool(types.Resolve(s.Namespace, name))
}

// Reservation returns the reservation of an id with its grant, nil if there is neither.
func (s *State) Reservation(id string) *cluster.Reservation {
	return s.View.Reservations[cluster.ID{Namespace: s.Namespace, ID: id}]
}

// Nodes returns the nodes that tasks may be bound to: alive, and not cordoned.
func (s *State) Nodes() []*cluster.Node {
	var out []*cluster.Node
	for _, n := range s.View.Nodes {
		if n.Eligible() {
			out = append(out, n)
		}
	}
	SortNodes(out)
	return out
}

// Referring returns the policies of jobs that refer to the shared policy, by job.
func (s *State) Referring() map[string]Policy {
	if s.Registry == nil {
		s.Registry = registryOf(s.View, s.Kinds)
	}
	return s.Registry.from(cluster.ID{Namespace: s.Namespace, ID: s.ID})
}

// JobTasks returns the tasks of a job, by id, also those that have ended.
func (s *State) JobTasks(job string) []*cluster.Task {
	return s.View.Members(cluster.ID{Namespace: s.Namespace, ID: job})
}

// Collector returns for whom what becomes free in the cluster is collected at present, "" if for
// nobody: for one at a time, not counting what is collected on nodes that were chosen for that.
func (s *State) Collector() string {
	for id, r := range s.View.Reservations {
		if !r.Current() || r.Grant.V.Phase != types.Accumulating || r.Info.V.AtOnce {
			continue
		}
		if id.Namespace != s.Namespace {
			return "somebody of another namespace"
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

// SharedPolicy returns the shared policy of an id, and its state; nil if there is none that is
// known.
func (s *State) SharedPolicy(id string) (Policy, *State) {
	c := s.View.Policies[cluster.ID{Namespace: s.Namespace, ID: id}]
	if c == nil || c.V == nil || len(c.V.Policies) == 0 {
		return nil, nil
	}
	made, err := s.Kinds.Read(c.V.Policies[0])
	if err != nil {
		return nil, nil
	}
	return made, &State{View: s.View, Now: s.Now, Namespace: s.Namespace, ID: id, Label: made.Kind(), Kinds: s.Kinds, Registry: s.Registry}
}
