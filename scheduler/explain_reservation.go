package scheduler

import (
	"fmt"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// ExplainReservation says why the reservation id is granted or not. NotFound: there
// is none.
func ExplainReservation(v *cluster.View, id cluster.ID, now time.Time) (Explanation, error) {
	r := v.Reservations[id]
	if r == nil {
		return Explanation{}, types.Errorf(types.NotFound, "explain reservation %s: there is none in namespace %s", id.ID, id.Namespace)
	}
	e := Explanation{ID: id.ID, Namespace: id.Namespace, Phase: types.Pending}
	switch g := r.Grant.V; {
	case g != nil && !r.Current():
		e.Summary = fmt.Sprintf("The former reservation %s is being released: tasks still draw on it.", id.ID)
		e.Suggestion = "It goes on when they end; escher ps shows them."
	case g != nil && g.Phase == types.Granted:
		e.Phase = types.Bound
		e.Summary = fmt.Sprintf("It is granted, on %d nodes.", len(g.Nodes))
	case g != nil:
		e.Summary = fmt.Sprintf("It has waited long and accumulates what becomes free, on %d nodes.", len(g.Nodes))
	default:
		explainBundles(v, r, now, &e)
	}
	return e, nil
}

// explainBundles places bundles until one fits nowhere, as granting does, and
// explains that one.
func explainBundles(v *cluster.View, r *cluster.Reservation, now time.Time, e *Explanation) {
	d := newDraft(v, controlplane.Limits{}, 1)
	spots := bundleOrder(v, r)
	for i, x := range spots {
		n := firstFit(v, d, x.needs)
		if n != nil {
			d.take(n, d.hold(n, x.needs))
			continue
		}
		explained := explainVectorIn(v, d, r.ID.Namespace, x.needs)
		explained.Requests = r.Info.V.Bundles[x.index].Requests
		e.Vectors = []VectorExplanation{explained}
		if room := roomWhenEmpty(v, r); room < len(spots) {
			e.Infeasible = true
			e.Summary = fmt.Sprintf("It can never be granted: with nothing else there, %d of its %d bundles fit.", room, len(spots))
			e.Suggestion = "Ask for fewer or smaller bundles, or add nodes."
			return
		}
		summary, suggestion := sentence(v, r.ID.Namespace, &e.Vectors[0], now, e)
		e.Summary = fmt.Sprintf("%d of %d bundles have room. The next one: %s Nothing is held until all fit.", i, len(spots), summary)
		e.Suggestion = suggestion
		return
	}
	e.Summary = "All its bundles fit, and it is about to be granted."
}

// roomWhenEmpty returns how many bundles find room by their physical requests when
// nothing is in use, on all registered nodes, dead and cordoned ones included.
func roomWhenEmpty(v *cluster.View, r *cluster.Reservation) int {
	d := newDraft(v, controlplane.Limits{}, 1)
	for _, n := range sortedNodes(v) {
		d.trial(n).alloc = &types.Allocated{}
	}
	placed := 0
	for _, x := range bundleOrder(v, r) {
		physical := slices.DeleteFunc(slices.Clone(x.needs), func(y cluster.Need) bool { return !y.ID.Physical() })
		for _, n := range sortedNodes(v) {
			if _, ok := d.fits(n, physical); ok {
				d.take(n, d.hold(n, physical))
				placed++
				break
			}
		}
	}
	return placed
}

func firstFit(v *cluster.View, d *Draft, needs []cluster.Need) *cluster.Node {
	if _, short := d.poolShort(needs); short {
		return nil
	}
	for _, n := range sortedNodes(v) {
		if !n.Eligible() {
			continue
		}
		if _, ok := d.fits(n, needs); ok {
			return n
		}
	}
	return nil
}
