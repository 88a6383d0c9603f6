package taskset

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Ended reports whether all of some tasks have ended.
func Ended(tasks []*cluster.Task) bool {
	return !slices.ContainsFunc(tasks, func(t *cluster.Task) bool { return !t.Phase().Ended() })
}

// AllEnded is why a policy does nothing more for its job.
const AllEnded = "its tasks have ended"

// Broken says why tasks that need one another must end; "" if they need not.
func Broken(tasks []*cluster.Task) string {
	for _, t := range tasks {
		switch ph := t.Phase(); {
		case ph == types.Failed:
			return fmt.Sprintf("member %s failed: %s", t.ID.ID, t.Status.V.Reason)
		case ph == types.Cancelled || !ph.Ended() && t.Info.V.Stop != nil:
			return fmt.Sprintf("member %s was stopped", t.ID.ID)
		}
	}
	return ""
}

// StopAll stops those tasks that have not ended, at most AtOnce.
func StopAll(tasks []*cluster.Task, reason string) esl.Plan {
	plan := esl.Plan{Reason: reason}
	for _, t := range tasks {
		if len(plan.Stop) < AtOnce && !t.Phase().Ended() && t.Info.V.Stop == nil {
			plan.Stop = append(plan.Stop, esl.Stop{Task: t.ID.ID, StopOptions: controlplane.StopOptions{Reason: reason}})
		}
	}
	return plan
}

// LockAgain returns the plan that reserves again what those of some tasks request that have not ended,
// after their reservation was removed. unit is how many of so many tasks share a bundle.
func LockAgain(s *esl.State, tasks []*cluster.Task, unit func(n int) int, lost types.LostBundles, reason string) esl.Plan {
	var live []*types.Task
	for _, t := range tasks {
		if !t.Phase().Ended() {
			live = append(live, t.Info.V.Full())
		}
	}
	r, err := esl.Relock(live, s.Own(""), unit(len(live)))
	if err != nil {
		return esl.Plan{} // Lock accepted it at submission
	}
	r.Job, r.Lost = s.Job, lost
	return esl.Plan{Reserve: []controlplane.Reservation{{ID: s.Own(""), Reservation: r}}, Reason: reason}
}

// JobName returns the name of the policy's job, or its id if it has none.
func JobName(s *esl.State) string {
	if j := s.View.Jobs[cluster.ID{Namespace: s.Namespace, ID: s.Job}]; j != nil && j.V.Name != "" {
		return j.V.Name
	}
	return s.Job
}

// Leaving reports whether a task on a node is being stopped or evicted.
func Leaving(t *cluster.Task) bool {
	return t.Info.V.Stop != nil || t.Info.V.Evict == t.Status.V.Attempt
}

// IsWaiting reports whether a task has no node, and is not being stopped.
func IsWaiting(t *cluster.Task) bool {
	return t.Phase() == types.Pending && t.Info.V != nil && t.Info.V.Stop == nil
}

func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// Signature returns the same text for equal needs.
func Signature(needs []cluster.Need) string {
	var b strings.Builder
	for _, x := range needs {
		b.WriteString(string(x.ID))
		b.WriteByte('=')
		b.WriteString(strconv.FormatInt(int64(x.Amount), 10))
		if x.Devices != nil {
			b.WriteString(x.Devices.String())
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// Blocked reports whether a task waits for a resource that is absent or fully used, other than
// those with the prefix own. It passes that one to NoteLacking.
func Blocked(s *esl.State, t *cluster.Task, own string) bool {
	prefix := string(types.Resolve(s.Namespace, own)) + "."
	for _, x := range s.View.Needs(s.Namespace, t.Info.V.Requests, t.Info.V.Devices...) {
		id := x.ID.Unscoped()
		if id.Physical() || strings.HasPrefix(string(id), prefix) {
			continue
		}
		if p := s.View.Pool(id); p != nil {
			if p.Free() < x.Amount {
				s.NoteLacking(t.Info.V.Job, id)
				return true
			}
		} else if !Exists(s, id) {
			s.NoteLacking(t.Info.V.Job, id)
			return true
		}
	}
	return false
}

func BoolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// BundlesText returns the same text for bundles with the same requests on any node.
func BundlesText(s *esl.State, bundles []types.Bundle) string {
	var b strings.Builder
	for _, x := range bundles {
		b.WriteString(Signature(s.View.BundleNeeds(s.Namespace, x.Requests, x.Devices...)) + ";")
	}
	return b.String()
}

// BundlesOf returns the bundles that a task accepts now, without those that draw on reservations.
func BundlesOf(s *esl.State, t *cluster.Task) (ways [][]types.Bundle) {
	all := t.Info.V.Alternatives
	if len(all) == 0 {
		all = []types.Alternative{{}}
	}
	for _, way := range all {
		asked := t.Info.V.Requests.Plus(way.Requests)
		drawn := slices.ContainsFunc(asked, func(x types.Request) bool { return strings.Contains(x.Name, "@") })
		if !drawn && len(asked) > 0 && !s.Now.Before(time.Unix(0, t.Info.V.Submitted).Add(way.After)) {
			ways = append(ways, []types.Bundle{{Requests: asked, Devices: t.Info.V.Devices}})
		}
	}
	return ways
}

// AtOnce is the most tasks ended in one transaction; the next one has the rest.
const AtOnce = 40

// Granted reports whether a reservation is granted.
func Granted(r *cluster.Reservation) bool {
	return r != nil && r.Current() && r.Grant.V.Phase == types.Granted
}

// Staying reports whether a task has a node, and is not being evicted from it.
func Staying(t *cluster.Task) bool { return t.Phase().Held() && AttemptOf(t) == t.Status.V.Attempt }

// Remains reports whether a task has a node, and is neither being stopped nor evicted.
func Remains(t *cluster.Task) bool { return t.Phase().Held() && !Leaving(t) }

// Locked reports whether a reservation exists, granted or not.
func Locked(r *cluster.Reservation) bool { return r != nil && r.Info.V != nil }

// AttemptOf returns the current attempt of a task, or the next one if it waits or leaves.
func AttemptOf(t *cluster.Task) int {
	switch st := t.Status.V; {
	case st == nil:
		return 1
	case t.Phase().Ended() || t.Phase().Held() && t.Info.V.Evict != st.Attempt:
		return st.Attempt
	default:
		return st.Attempt + 1
	}
}

// AnyLost reports whether one of some nodes is gone, or accepts no tasks.
func AnyLost(s *esl.State, nodes iter.Seq[string]) bool {
	for name := range nodes {
		if n := s.View.Nodes[name]; n == nil || !n.Eligible() {
			return true
		}
	}
	return false
}
