package gang

import (
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Next keeps the gang whole, chooses its domain, and removes its reservation as soon as no member
// will start there again: then each member that ends frees its part.
func (p Gang) Next(s *esl.State) esl.Plan {
	id, members, alone := s.Own(""), s.Members(), p.Loss == esl.Alone
	p, r := p.of(s, members), s.Reservation(id)
	plan := keepWhole(s, members, alone, id)
	if !plan.Nothing() {
		return plan
	}
	switch none := noneStarts(members, alone); {
	case taskset.Locked(r) && none:
		return esl.Plan{Unreserve: []string{id}, Reason: "no member will start again"}
	case taskset.Locked(r):
		return p.choose(s, r, plan.RequeueAfter)
	case none:
		return esl.Plan{}
	}
	if all, until := gathered(members, s.Now); !all && !alone {
		return esl.Plan{RequeueAfter: until}
	}
	return p.again(s, members)
}

// of returns the policy as it was applied: another policy may put all members on one node.
func (p Gang) of(s *esl.State, members []*cluster.Task) Gang {
	if len(members) > 0 && taskset.AsksFor(members[0].Info.V.Requests, s.Own("node")) {
		p.In = esl.Node
	}
	return p
}

// again reserves the requests of the gang again after its reservation was removed, for example for
// a gang of higher priority. The gang waits as it did at first.
func (p Gang) again(s *esl.State, members []*cluster.Task) esl.Plan {
	var live []*types.Task
	for _, t := range members {
		if !t.Phase().Ended() {
			live = append(live, t.Info.V.Full())
		}
	}
	r, err := esl.Relock(live, s.Own(""), p.unit(len(live)))
	if err != nil {
		return esl.Plan{} // Lock accepted it at submission
	}
	r.Job, r.Lost = s.Job, p.Loss.LostBundles()
	return esl.Plan{Reserve: []controlplane.Reservation{{ID: s.Own(""), Reservation: r}}, Reason: "all members wait for their place again"}
}

// choose chooses a rack or zone where the whole gang fits, or would fit on empty nodes. While the
// gang waits, choose moves to another one where it fits. It checks less often the longer the gang
// waits. For a granted gang, the next check is at due.
func (p Gang) choose(s *esl.State, r *cluster.Reservation, due time.Time) esl.Plan {
	if !p.chooses() {
		return esl.Plan{RequeueAfter: due}
	}
	now, want := "", ""
	place := types.Resolve(s.Namespace, s.Own("place"))
	if c := s.View.Everywhere[place]; c != nil && c.V.Selector != nil && len(c.V.Selector.Labels) == 1 {
		now = c.V.Selector.Labels[0].Value
	}
	waited := s.Now.Sub(time.Unix(0, r.Info.V.Submitted))
	again := s.Now.Add(min(max(waited/8, time.Second), 15*time.Second))
	if taskset.Granted(r) {
		again, want = due, p.In.Of(s.View.Nodes[r.Grant.V.Nodes[0].Node])
	} else if want, _, _ = p.room(s, r, now, false); want == "" {
		want, _, _ = p.room(s, r, now, true)
	}
	if want == "" || want == now {
		return esl.Plan{RequeueAfter: again}
	}
	return esl.Plan{
		Set: []controlplane.Resource{{
			Name: s.Own("place"), Capacity: types.Inf, Options: esl.OfJob(s.Job),
			Where: controlplane.OnEvery(types.Label{Name: string(p.In), Value: want}),
		}},
		RequeueAfter: again, Reason: fmt.Sprintf("there is room in %s %s", p.In, want),
	}
}

// room returns a domain where all members that have not ended fit, the domain rather if possible;
// "" if none. most is how many fit where most do, all how many members have not ended.
func (p Gang) room(s *esl.State, r *cluster.Reservation, rather string, empty bool) (in string, most, all int) {
	for _, t := range s.Members() {
		if !t.Phase().Ended() {
			all++
		}
	}
	needs, out, space := taskset.NeedsOf(s.View, s.Namespace, r.Info.V), map[types.ResourceID]bool(nil), match.Present(s.View)
	if empty {
		space = match.Empty(s.View)
	}
	if p.chooses() || empty {
		out = taskset.ChosenWith(s, s.Own("place"), needs)
	}
	if r.Current() && !empty {
		space = space.With(r.Grant.V)
	}
	in, most = taskset.DomainWithRoom(s, p.over(), needs, out, rather, space)
	return in, min(most*p.unit(all), all), all
}

// Why says how many members fit.
func (p Gang) Why(s *esl.State, task string) why.Reason {
	t, r := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: task}), s.Reservation(s.Own(""))
	p = p.of(s, s.Members())
	if t == nil || t.Info.V == nil || t.Phase() != types.Pending {
		return why.Reason{}
	}
	name := "gang " + s.Job
	if j := s.View.Jobs[cluster.ID{Namespace: s.Namespace, ID: s.Job}]; j != nil && j.V.Name != "" {
		name = "gang " + j.V.Name
	}
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
