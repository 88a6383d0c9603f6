package keep

import (
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
)

// managed are the policies of one key.
type managed struct {
	id       cluster.ID
	job      string
	session  string
	mod      int64
	policies []*managedPolicy
}

// managedPolicy is one of them.
type managedPolicy struct {
	of     *managed
	policy esl.Controller
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
	lacks esl.Lacking
	// queued tells that it is among those whose turn it is; busy that a plan of it is
	// being done.
	queued, busy bool
	// moved tells that something has changed since its last plan was made that it may
	// care for.
	moved bool
	// last is the plan that was done last.
	last esl.Plan
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
func (p *managedPolicy) earliest() time.Time {
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

// newManaged returns a policy that is to be kept. Internal: a method of it panics.
func newManaged(of *managed, policy esl.Controller, label string) (*managedPolicy, error) {
	p := &managedPolicy{of: of, policy: policy, label: label}
	err := esl.Contain(func() {
		if w, ok := policy.(esl.Watcher); ok {
			for _, name := range w.Watches() {
				p.watches = append(p.watches, cluster.ID{Namespace: of.id.Namespace, ID: name})
			}
		}
		if paced, ok := policy.(esl.RateLimited); ok {
			p.pace = paced.Pace()
		}
	})
	return p, err
}
