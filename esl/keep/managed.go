package keep

import (
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/decisions"
)

// managed holds the running policies of one key.
type managed struct {
	id       cluster.ID
	job      string
	session  string
	mod      int64
	policies []*managedPolicy
}

// managedPolicy is one policy that the loop runs.
type managedPolicy struct {
	of     *managed
	policy esl.Controller
	label  string
	// wide reports whether it depends on the whole cluster; watches are the objects it depends on
	// outside its job, and pace the least time between two calls. They are read once.
	wide    bool
	watches []cluster.ID
	pace    time.Duration

	// gone reports whether its key has changed or is gone: it is not called any more.
	gone bool
	// memo is what the policy remembers: see esl.Remember.
	memo any
	// lacks is what its last call found lacking.
	lacks esl.Lacking
	// seeking says which nodes matter to it; nil means that all changes do, or none outside its job.
	// sought is what its last call noted. group has the policies that seek alike.
	seeking, sought *esl.Seeking
	group           *seekGroup
	// claims are the nodes on which it has opened capacity. seen is the count of changes at its last call.
	claims map[string]*claim
	seen   uint64
	// queued reports whether it is in turns, busy whether a plan of it is being committed.
	queued, busy bool
	// moved reports whether an object that it may depend on has changed since its last plan.
	moved bool
	// last is the plan committed last, and whole reports whether all of it was.
	last  esl.Plan
	whole bool
	// after is the revision of that commit: the view must include it before the next call.
	after int64
	// rest is the least time to the next call, in proportion to the duration of a last call without
	// changes.
	rest time.Duration
	// asked is when it was called last, retry the earliest next call after a failure. wake is when
	// it is called even without a change, and place its index in the heap of turns.
	asked, retry, wake time.Time
	place              int
	failures           int
	// own reports whether something of its own job has changed since, and early how often it was called
	// for that before its pace.
	own   bool
	early int
	// said is the error logged last.
	said string
	// woken is what calls it next. decision is a decision whose outcome is not known yet; nil means none.
	woken    woken
	decision *decisions.Entry
}

// keepEarly is how often changes of its own job do not wait for the pace of a policy, in its time: a
// submission is some of them.
const keepEarly = 4

// earliest is the earliest time of the next call.
func (p *managedPolicy) earliest() time.Time {
	at, pace := p.retry, max(p.pace, p.rest)
	if p.own && p.early < keepEarly {
		pace = p.rest
	}
	if next := p.asked.Add(pace); pace > 0 && !p.asked.IsZero() && next.After(at) {
		at = next
	}
	return at
}

// After a call that takes longer than keepSlow and finds nothing to do, the next begins no earlier
// than keepShare times as long after it began. That leaves time for other policies, however much
// this one reads.
const (
	keepSlow  = 5 * time.Millisecond
	keepShare = 10
)

// restAfter is the least time from the beginning of such a call to the next.
func restAfter(took time.Duration) time.Duration {
	if took < keepSlow {
		return 0
	}
	return keepShare * took
}

// newManaged returns a policy to run. Internal: a method of it panics.
func newManaged(of *managed, policy esl.Controller, label string) (*managedPolicy, error) {
	p := &managedPolicy{of: of, policy: policy, label: label}
	err := esl.Contain(func() {
		triggers := esl.TriggersOf(policy)
		p.wide, p.pace = triggers.Any, triggers.Pace
		for _, name := range triggers.Names {
			p.watches = append(p.watches, cluster.ID{Namespace: of.id.Namespace, ID: name})
		}
	})
	return p, err
}
