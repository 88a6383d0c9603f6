package lend

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// surplus returns the guests of a node to evict, so that at least short is given back of each resource:
// those of the lowest priority first, then the youngest, and none without need.
func surplus(n *cluster.Node, both [2]lent, short [2]types.Quantity, id string) []esl.Evict {
	if short[0] <= 0 && short[1] <= 0 {
		return nil
	}
	var guests []*cluster.Binding
	for _, b := range n.Bindings {
		if b.Info.V != nil && isGuest(b, both) && !leaves(b) {
			guests = append(guests, b)
		}
	}
	slices.SortFunc(guests, func(a, b *cluster.Binding) int {
		return cmp.Or(cmp.Compare(a.Task.Info.V.Priority, b.Task.Info.V.Priority), cmp.Compare(b.Info.V.Bound, a.Info.V.Bound), cmp.Compare(a.Task.ID.ID, b.Task.ID.ID))
	})
	for _, b := range guests {
		for i, l := range both {
			short[i] -= b.Info.V.Amount(l.id)
		}
	}
	var out []esl.Evict
	for _, b := range slices.Backward(guests) { // the most important one stays if it can
		spare := true
		for i, l := range both {
			spare = spare && short[i]+b.Info.V.Amount(l.id) <= 0
		}
		for i, l := range both {
			if spare {
				short[i] += b.Info.V.Amount(l.id)
			}
		}
		if !spare {
			out = append(out, esl.Evict{Task: b.Task.ID.ID, Attempt: b.Number, Reason: fmt.Sprintf("policy %s lent it what others on node %s want to use again", id, n.Name)})
		}
	}
	return out
}

// wait says what a task waits for that requests what is lent.
func wait(s *esl.State, u esl.Use, task string) why.Reason {
	t := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: task})
	if t == nil || !taskset.IsWaiting(t) {
		return why.Reason{}
	}
	both := lents(s)
	nodes, best := 0, (*cluster.Node)(nil)
	var sum, most [2]types.Quantity
	for _, n := range byName(s) {
		var free [2]types.Quantity
		for i, l := range both {
			has, _ := s.View.Capacity(n, l.id)
			sum[i] += has
			free[i], _ = s.View.Free(n, l.id)
		}
		if has, _ := s.View.Capacity(n, both[0].id); has > 0 {
			nodes++
		}
		if best == nil || min(free[0], free[1]) > min(most[0], most[1]) {
			best, most = n, free
		}
	}
	if nodes == 0 {
		return why.Say(why.Room, "best-effort: %s lends nothing: the owners use what they request, or have come just now, or no node has told yet what is used", u.Name)
	}
	wants := [2]types.Quantity{t.Info.V.Requests.Get(both[0].name), t.Info.V.Requests.Get(both[1].name)}
	if most[0] >= wants[0] && most[1] >= wants[1] {
		return why.Reason{}
	}
	return why.Say(why.Room, "best-effort: it waits for %s of %s to be idle on one node; of what is lent on %d nodes, %s, most is free on %s: %s",
		amounts(wants), u.Name, nodes, amounts(sum), best.Name, amounts([2]types.Quantity{max(0, most[0]), max(0, most[1])}))
}

// amounts writes amounts of what is lent.
func amounts(of [2]types.Quantity) string {
	return fmt.Sprintf("%s cpu and %s of memory", of[0].Format(types.CPU), (of[1] / esl.One * mib).Format(types.Memory))
}
