package room

import (
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// The pauses after failures, and the leaving tasks that are waited for.

// triedInVain remembers reservations that failed: they were incomplete, or no task of the job fit
// into them. The policy uses less information than the scheduler, such as the topology of devices.
type triedInVain struct {
	last  int64         // CreateRevision of the last failed reservation
	wait  time.Duration // pause after it
	until time.Time
	// since is when all evicted tasks had first ended, by the CreateRevision of the reservation.
	since map[int64]time.Time
}

// The pause after a failed reservation, doubled each time from vainFirst to vainMost; and the time
// after the evicted tasks have ended until a reservation counts as failed.
const (
	vainFirst = time.Second
	vainMost  = 5 * time.Minute
	vainIdle  = 10 * time.Second
)

// note records the outcome of a reservation.
func (x *triedInVain) note(s *esl.State, r *cluster.Reservation) {
	switch {
	case r.Current() && r.Grant.V.Phase == types.HandedOver:
		*x = triedInVain{}
	case taskset.Granted(r):
		x.failed(s, r)
	}
}

// failed records a failed reservation that is being removed.
func (x *triedInVain) failed(s *esl.State, r *cluster.Reservation) {
	if r.Info.Create != x.last {
		x.last, x.wait = r.Info.Create, min(max(2*x.wait, vainFirst), vainMost)
		x.until, x.since = s.Now.Add(x.wait), nil
	}
}

// awaitsLeaving reports whether a leaving task will free capacity for a reservation: on its nodes
// or, if it takes cluster-wide resources, anywhere.
func awaitsLeaving(s *esl.State, r *cluster.Reservation) bool {
	for _, b := range r.Info.V.Bundles {
		pools := slices.ContainsFunc(s.View.BundleNeeds(r.ID.Namespace, b.Requests), func(x cluster.Need) bool { return s.View.Pool(x.ID) != nil })
		for name, n := range s.View.Nodes {
			if (pools || name == b.Node) && len(leaving(n)) > 0 {
				return true
			}
		}
	}
	return false
}

// leaving returns the tasks that are leaving a node; n may be nil.
func leaving(n *cluster.Node) (who []*cluster.Task) {
	if n == nil {
		return nil
	}
	for _, b := range n.Bindings {
		if b.Task.Info.V != nil && b.Task.Phase().Held() && taskset.Leaving(b.Task) {
			who = append(who, b.Task)
		}
	}
	return who
}

// idle reports whether the evicted tasks ended so long ago that the scheduler would have handed the
// reservation over if it were enough.
func (x *triedInVain) idle(s *esl.State, r *cluster.Reservation) bool {
	if x.since == nil {
		x.since = make(map[int64]time.Time)
	}
	if x.since[r.Info.Create].IsZero() {
		x.since[r.Info.Create] = s.Now
	}
	return !s.Now.Before(x.since[r.Info.Create].Add(vainIdle))
}
