package esl

import (
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
)

// kept are the policies of one key.
type kept struct {
	id       cluster.ID
	job      string
	session  string
	mod      int64
	policies []*keptPolicy
}

// keptPolicy is one of them.
type keptPolicy struct {
	of     *kept
	policy Keeper
	label  string
	// watches is what it cares for besides its own, pace the least time between two
	// looks: what it said when it was read.
	watches []cluster.ID
	pace    time.Duration

	// gone tells that its key has changed, or is gone: it is not asked any more.
	gone bool
	// memo is what the policy remembers: see remembered.
	memo any
	// lacks is what it found lacking when it was asked last.
	lacks lacks
	// queued tells that it is among those whose turn it is; busy that a plan of it is
	// being done.
	queued, busy bool
	// moved tells that something has changed since its last plan was made that it may
	// care for.
	moved bool
	// last is the plan that was done last.
	last Plan
	// after is the revision of what was done last: the view must have it before it
	// decides again.
	after int64
	// rest is the least time to the next look on account of how long the last one, which
	// found nothing to do, took.
	rest time.Duration
	// asked is when it was asked last, retry when it is asked at the earliest after a
	// failure. wake is when it is asked even if nothing changes, and place where turns
	// has that.
	asked, retry, wake time.Time
	place              int
	failures           int
	// said is the last error that was logged.
	said string
}

// earliest is when it may be asked.
func (p *keptPolicy) earliest() time.Time {
	at, pace := p.retry, max(p.pace, p.rest)
	if next := p.asked.Add(pace); pace > 0 && !p.asked.IsZero() && next.After(at) {
		at = next
	}
	return at
}

// A look that takes longer than keepSlow and finds nothing to do is followed by the next one
// after keepShare times as long, so that one policy leaves time for the others, however much
// it looks at.
const (
	keepSlow  = 5 * time.Millisecond
	keepShare = 10
)

// restAfter is the least time from the beginning of a look that took so long to the next.
func restAfter(took time.Duration) time.Duration {
	if took < keepSlow {
		return 0
	}
	return keepShare * took
}

// newKept returns a policy that is to be kept. Internal: a method of it panics.
func newKept(of *kept, policy Keeper, label string) (*keptPolicy, error) {
	p := &keptPolicy{of: of, policy: policy, label: label}
	err := contained(func() {
		if w, ok := policy.(Watcher); ok {
			for _, name := range w.Watches() {
				p.watches = append(p.watches, cluster.ID{Namespace: of.id.Namespace, ID: name})
			}
		}
		if paced, ok := policy.(Paced); ok {
			p.pace = paced.Pace()
		}
	})
	return p, err
}

// Wide is a Keeper that decides by what is anywhere in the cluster, by whomever: it is
// asked whenever anything changes. Others are asked when something changes of their
// job or, if they are shared, of the jobs that refer to them: tasks, statuses, and
// whatever is named after it; and when nodes come, go, or are cordoned.
type Wide interface {
	Keeper
	Wide()
}

// Watcher is a Keeper that goes by tasks, jobs or resources of its namespace that are not
// of its own job: it is asked when they change, too.
type Watcher interface {
	Keeper
	// Watches returns their ids or names. It is called once, when the policy is read.
	Watches() []string
}

// Paced is a Keeper that is asked at most so often: for who looks at very much.
type Paced interface {
	Keeper
	// Pace is the least time between two looks. It is called once, when the policy is
	// read.
	Pace() time.Duration
}
