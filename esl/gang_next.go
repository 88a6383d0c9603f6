package esl

import (
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Next keeps the gang whole, has its place chosen, and gives that back as soon as none will
// start there again: each that ends leaves its part to others then.
func (p Gang) Next(s *State) Plan {
	id, members, alone := s.Own(""), s.Members(), p.Loss == Alone
	p, r := p.of(s, members), s.Reservation(id)
	plan := keepWhole(s, members, alone, id)
	if !plan.Nothing() {
		return plan
	}
	switch none := noneStarts(members, alone); {
	case locked(r) && none:
		return Plan{Unreserve: []string{id}, Reason: "no member will start again"}
	case locked(r):
		return p.choose(s, r, plan.Again)
	case none:
		return Plan{}
	}
	if all, until := gathered(members, s.Now); !all && !alone {
		return Plan{Again: until}
	}
	return p.again(s, members)
}

// of is the policy as it was applied: another one may have all members on one node.
func (p Gang) of(s *State, members []*cluster.Task) Gang {
	if len(members) > 0 && asksFor(members[0].Info.V.Requests, s.Own("node")) {
		p.In = Node
	}
	return p
}

// again has locked anew what was given back, or somebody has taken away, such as a gang of
// higher priority: the gang waits for its place as at first.
func (p Gang) again(s *State, members []*cluster.Task) Plan {
	var live []*types.Task
	for _, t := range members {
		if !t.Phase().Ended() {
			live = append(live, t.Info.V.Full())
		}
	}
	r, err := relock(live, s.Own(""), p.unit(len(live)))
	if err != nil {
		return Plan{} // it was locked so at submission
	}
	r.Job, r.Lost = s.Job, p.Loss.ofPlace()
	return Plan{Reserve: []Reservation{{ID: s.Own(""), Reservation: r}}, Reason: "all members wait for their place again"}
}

// choose has a rack or zone for the gang chosen, where there is room for all of it, or
// would be were nothing else there; and another one when there is room, while it waits: less
// often the longer it does. A gang that has its place is looked at again at due.
func (p Gang) choose(s *State, r *cluster.Reservation, due time.Time) Plan {
	if !p.chooses() {
		return Plan{Again: due}
	}
	now, want := "", ""
	place := types.Resolve(s.Namespace, s.Own("place"))
	if c := s.View.Everywhere[place]; c != nil && c.V.Selector != nil && len(c.V.Selector.Labels) == 1 {
		now = c.V.Selector.Labels[0].Value
	}
	waited := s.Now.Sub(time.Unix(0, r.Info.V.Submitted))
	again := s.Now.Add(min(max(waited/8, time.Second), 15*time.Second))
	if granted(r) {
		again, want = due, p.In.of(s.View.Nodes[r.Grant.V.Nodes[0].Node])
	} else if want, _, _ = p.room(s, r, now, false); want == "" {
		want, _, _ = p.room(s, r, now, true)
	}
	if want == "" || want == now {
		return Plan{Again: again}
	}
	return Plan{
		Set: []Set{{
			Name: s.Own("place"), Capacity: types.Inf, Options: OfJob(s.Job),
			Where: controlplane.OnEvery(types.Label{Name: string(p.In), Value: want}),
		}},
		Again: again, Reason: fmt.Sprintf("there is room in %s %s", p.In, want),
	}
}

// room returns where all members that have not ended have room, one place in particular if
// that does, "" if nowhere; and how many have where most do, and how many there are.
func (p Gang) room(s *State, r *cluster.Reservation, rather string, empty bool) (in string, most, all int) {
	for _, t := range s.Members() {
		if !t.Phase().Ended() {
			all++
		}
	}
	needs, out, free := needsOf(s.View, s.Namespace, r.Info.V), map[types.ResourceID]bool(nil), spaceOf(s.View, empty)
	if p.chooses() || empty {
		out = s.goesBy(s.Own("place"), needs)
	}
	if r.Current() && !empty {
		free = free.with(r.Grant.V)
	}
	in, most = s.roomIn(p.over(), needs, out, rather, free)
	return in, min(most*p.unit(all), all), all
}

// Why says for how many members there is room.
func (p Gang) Why(s *State, task string) string {
	t, r := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: task}), s.Reservation(s.Own(""))
	p = p.of(s, s.Members())
	if t == nil || t.Info.V == nil || t.Phase() != types.Pending {
		return ""
	}
	name := "gang " + s.Job
	if j := s.View.Jobs[cluster.ID{Namespace: s.Namespace, ID: s.Job}]; j != nil && j.V.Name != "" {
		name = "gang " + j.V.Name
	}
	switch {
	case !locked(r):
		return name + ": " + anew(s.Members(), s.Now)
	case granted(r):
		return fmt.Sprintf("%s: it has its place, where attempt %d of this member is to start", name, attemptOf(t))
	}
	if text := s.lacking(needsOf(s.View, s.Namespace, r.Info.V), s.Own("place")); text != "" {
		return name + ": " + text
	}
	_, fit, all := p.room(s, r, "", false)
	if _, most, _ := p.room(s, r, "", true); most < all {
		return fmt.Sprintf("%s: were nothing else there, %d of %d members would fit%s: it waits for nodes", name, most, all, p.together())
	}
	text := fmt.Sprintf("%s: %d of %d members would fit%s; it waits until all do", name, fit, all, p.together())
	if other := s.collector(); r.Current() {
		text += fmt.Sprintf(", and has collected what becomes free for %s", s.Now.Sub(time.Unix(0, r.Grant.V.Since)).Round(time.Second))
	} else if other != "" {
		text += "; what becomes free is collected for " + other + " before it"
	}
	return text
}
