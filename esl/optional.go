package esl

import "time"

// A policy may have further methods. These interfaces name them.

// clusterScoped is a Controller that depends on the whole cluster: Next is called after every
// change. For other controllers, Next is called after changes of nodes, and of the tasks, statuses
// and objects named after their job. A shared policy counts the jobs that use it as its own.
type clusterScoped interface{ ClusterScoped() }

// watcher is a Controller that depends on tasks, jobs or resources outside its own job: Next is
// also called when they change. Watches returns their ids or names.
type watcher interface{ Watches() []string }

// rateLimited is a Controller whose Next reads much of the cluster, and is called less often. Pace
// is the least time between two calls.
type rateLimited interface{ Pace() time.Duration }

// follower is a Policy whose tasks come after other jobs. Those must exist at submission, or be
// submitted in the same transaction. Follows returns their ids or names, and those of tasks without
// a job.
type follower interface{ Follows() []string }

// nodesNeeder is a Policy whose Apply may depend on the registered nodes: see Group.Nodes. It
// refuses a group because of them with Precondition.
type nodesNeeder interface{ NeedsNodes() bool }

// historyNeeder is a Policy whose Apply depends on past runs: see Group.History.
type historyNeeder interface{ NeedsHistory() bool }

// measurer is a Controller that decides by what nodes measure. Measures returns the nodes to ask, and
// how often: the time between two answers of a node, a second or more. It is called after each Next,
// with the same state, and is pure too. The program that runs the policy asks the nodes as long as it
// names them, and State.Usage has the answers.
type measurer interface {
	Measures(s *State) map[string]time.Duration
}

// Triggers are the changes outside its job after which Next of a policy is called.
type Triggers struct {
	// Any reports whether all changes of the cluster count.
	Any bool
	// Names are the ids or names of tasks, jobs and resources whose changes count.
	Names []string
	// Pace is the least time between two calls.
	Pace time.Duration
}

// TriggersOf returns the triggers of a policy, by its methods ClusterScoped(), Watches() []string
// and Pace() time.Duration, if it has them. It calls each once.
func TriggersOf(p Policy) Triggers {
	var t Triggers
	_, t.Any = p.(clusterScoped)
	if w, ok := p.(watcher); ok {
		t.Names = w.Watches()
	}
	if r, ok := p.(rateLimited); ok {
		t.Pace = r.Pace()
	}
	return t
}
