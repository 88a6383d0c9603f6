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

	label string
	kinds Kinds
	// book has the policies of the view; it is made of kinds when there is none.
	book *book
	// ops is how many operations the store takes at once; 0: any number.
	ops int
	// memo is what remembered keeps; nil for nowhere.
	memo *any
	// largest remembers what a node is large enough for.
	largest map[string]bool
	// lacks is what lack notes; nil for nowhere.
	lacks lacks
}

// remembered returns what f makes, once for a policy that is kept: for what is made of its
// parameters and names alone.
func remembered[T any](s *State, f func() T) T {
	if s.memo == nil {
		return f()
	}
	if known, ok := (*s.memo).(T); ok {
		return known
	}
	made := f()
	*s.memo = made
	return made
}

// Own returns what Group.Own returned.
func (s *State) Own(suffix string) string { return own(s.ID, s.label, suffix) }

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
	sortNodes(out)
	return out
}

// Referring returns the policies of jobs that refer to the shared policy, by job.
func (s *State) Referring() map[string]Policy {
	if s.book == nil {
		s.book = bookOf(s.View, s.kinds)
	}
	return s.book.from(cluster.ID{Namespace: s.Namespace, ID: s.ID})
}

// JobTasks returns the tasks of a job, by id, also those that have ended.
func (s *State) JobTasks(job string) []*cluster.Task {
	return s.View.Members(cluster.ID{Namespace: s.Namespace, ID: job})
}

// collector returns for whom what becomes free in the cluster is collected at present, "" if for
// nobody: for one at a time, not counting what is collected on nodes that were chosen for that.
func (s *State) collector() string {
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
