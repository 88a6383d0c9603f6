package lend

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
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
