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
	reason := why.Say(why.InUse, "%s: %d of %d members would fit%s; it waits until all do", name, fit, all, p.together())
	if other := s.Collector(); r.Current() {
		reason = reason.And(", and has collected what becomes free for %s", s.Now.Sub(time.Unix(0, r.Grant.V.Since)).Round(time.Second))
	} else if other != "" {
		reason = reason.And("; what becomes free is collected for %s before it", other)
	}
	return reason
}
