package gang

import (
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Why says how many members fit.
func (p Gang) Why(s *esl.State, task string) why.Reason {
	t, r := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: task}), s.Reservation(s.Own(""))
	p = p.of(s, s.Members())
	if t == nil || t.Info.V == nil || t.Phase() != types.Pending {
		return why.Reason{}
	}
	name := "gang " + taskset.JobName(s)
	switch {
	case !taskset.Locked(r):
		return why.Say(why.Awaits, "%s: %s", name, nextStart(s.Members(), s.Now))
	case taskset.Granted(r):
		return why.Say(why.Awaits, "%s: it has its place, where attempt %d of this member is to start", name, taskset.AttemptOf(t))
	}
	if text := taskset.Lacking(s, taskset.NeedsOf(s.View, s.Namespace, r.Info.V), s.Own("place")); text != "" {
		return why.Say(why.NodesIneligible, "%s: %s", name, text)
	}
	_, fit, all := p.room(s, r, "", false)
	if _, most, _ := p.room(s, r, "", true); most < all {
		return why.Say(why.NodesTooSmall, "%s: were nothing else there, %d of %d members would fit%s: it waits for nodes", name, most, all, p.together())
	}
	if fit == all && unseen(s, r) { // it waits for what the scheduler says
		return why.Reason{}
	}
	other := s.Collector()
	reason := why.Say(why.InUse, "%s: %d of %d members would fit%s; it waits until all do", name, fit, all, p.together())
	if r.Current() {
		reason = reason.And(", and has collected what becomes free for %s", s.Now.Sub(time.Unix(0, r.Grant.V.Since)).Round(time.Second))
	} else if other != "" {
		reason = reason.And("; what becomes free is collected for %s before it", other)
	}
	return reason
}

// unseen reports whether the gang needs something of another namespace that is not in the view.
func unseen(s *esl.State, r *cluster.Reservation) bool {
	for id := range taskset.Sums(taskset.NeedsOf(s.View, s.Namespace, r.Info.V)) {
		if taskset.Unseen(s, id) {
			return true
		}
	}
	return false
}
