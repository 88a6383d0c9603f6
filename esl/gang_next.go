package esl

import (
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Next keeps the gang whole, has its place chosen, and gives that back in the end.
func (p Gang) Next(s *State) Plan {
	id, members, r := s.Own(""), s.Members(), s.Reservation(s.Own(""))
	locked := r != nil && r.Info.V != nil
	switch {
	case len(members) == 0 || s.Ended() && !locked:
		return Plan{}
	case s.Ended():
		return Plan{Unreserve: []string{id}, Reason: "all members have ended"}
	}
	if plan := keepWhole(members, p.Loss == Alone); !plan.Nothing() {
		return plan
	}
	if !locked {
		return p.again(s, members)
	}
	return p.choose(s, r)
}

// again has locked anew what somebody, such as a gang of higher priority, has taken away:
// the gang waits for its place as at first.
func (p Gang) again(s *State, members []*cluster.Task) Plan {
	var live []*types.Task
	for _, t := range members {
		if !t.Phase().Ended() {
			live = append(live, t.Info.V.Full())
		}
	}
	r, err := relock(live, s.Own(""), p.unit(len(live)), p.besides(s.Own("place")))
	if err != nil { // another policy has them on one node
		r, _ = relock(live, s.Own(""), len(live), p.besides(s.Own("place")))
	}
	r.Job = s.Job
	return Plan{Reserve: []Reservation{{ID: s.Own(""), Reservation: r}}, Reason: "its place was taken away"}
}

// choose has a rack or zone for the gang chosen, where there is room for all of it, or
// would be were nothing else there; and another one when there is room, while it waits.
func (p Gang) choose(s *State, r *cluster.Reservation) Plan {
	if !p.chooses() {
		return Plan{}
	}
	now, want := "", ""
	place := types.Resolve(s.Namespace, s.Own("place"))
	if c := s.View.Everywhere[place]; c != nil && c.V.Selector != nil && len(c.V.Selector.Labels) == 1 {
		now = c.V.Selector.Labels[0].Value
	}
	again := s.Now.Add(time.Second)
	if granted(r) {
		again, want = time.Time{}, p.In.of(s.View.Nodes[r.Grant.V.Nodes[0].Node])
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

func granted(r *cluster.Reservation) bool {
	return r.Current() && r.Grant.V.Phase == types.Granted
}

// room returns where all members that have not ended have room, one place in particular if
// that does, "" if nowhere; and how many have where most do, and how many there are.
func (p Gang) room(s *State, r *cluster.Reservation, rather string, empty bool) (in string, most, all int) {
	for _, t := range s.Members() {
		if !t.Phase().Ended() {
			all++
		}
	}
	in, most = s.roomIn(p.over(), needsOf(s.View, s.Namespace, r.Info.V), s.Own("place"), rather, empty)
	return in, min(most*p.unit(all), all), all
}

// Why says for how many members there is room.
func (p Gang) Why(s *State, task string) string {
	t, r := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: task}), s.Reservation(s.Own(""))
	if t == nil || t.Info.V == nil || t.Phase() != types.Pending {
		return ""
	}
	name := "gang " + s.Job
	if j := s.View.Jobs[cluster.ID{Namespace: s.Namespace, ID: s.Job}]; j != nil && j.V.Name != "" {
		name = "gang " + j.V.Name
	}
	switch {
	case r == nil || r.Info.V == nil:
		return name + ": its place was taken away, and it is about to wait for another"
	case granted(r):
		return fmt.Sprintf("%s: it has its place, where attempt %d of this member is to start", name, attemptOf(t))
	}
	_, fit, all := p.room(s, r, "", false)
	if _, most, _ := p.room(s, r, "", true); most < all {
		return fmt.Sprintf("%s: were nothing else there, %d of %d members would fit%s: it waits for nodes", name, most, all, p.together())
	}
	text := fmt.Sprintf("%s: %d of %d members would fit%s; it waits until all do", name, fit, all, p.together())
	if r.Current() {
		text += fmt.Sprintf(", and has collected what becomes free for %s", s.Now.Sub(time.Unix(0, r.Grant.V.Since)).Round(time.Second))
	}
	return text
}
