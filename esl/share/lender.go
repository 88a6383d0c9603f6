package share

import (
	"cmp"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// A lender is what may be evicted of a user over its share: a task, or all that draw on one
// reservation.
type lender struct {
	u     *user
	tasks []*cluster.Task
	// reservation is that of the tasks; empty for a single task.
	reservation string
	takes       []float64
	// frees is what their end frees, by node.
	frees map[string][]types.Holding
	// bound is when the last of them was bound.
	bound int64
	gone  bool
}

// before orders lenders: the youngest first.
func (l *lender) before(other *lender) int {
	return cmp.Or(cmp.Compare(other.bound, l.bound), strings.Compare(l.tasks[0].ID.ID, other.tasks[0].ID.ID))
}

// lend adds what may be evicted of a user.
func (r *reclaiming) lend(u *user) {
	together := make(map[*cluster.Reservation]*lender)
	for _, t := range u.bound {
		b, drawn := r.c.drawsOn(t)
		switch {
		case b == nil:
		case drawn != nil:
			r.join(together, u, t, b, drawn)
		default:
			if l := r.lender(u, t, b); l.takes != nil && !taskset.Leaving(t) && r.spares(l) {
				r.lenders = append(r.lenders, l)
			}
		}
	}
	for _, l := range together {
		if l != nil && r.spares(l) {
			slices.SortFunc(l.tasks, func(a, b *cluster.Task) int { return strings.Compare(a.ID.ID, b.ID.ID) })
			r.lenders = append(r.lenders, l)
		}
	}
}

// lender returns a task as a lender.
func (r *reclaiming) lender(u *user, t *cluster.Task, b *cluster.Binding) *lender {
	return &lender{
		u: u, tasks: []*cluster.Task{t}, takes: r.c.asksHeld(u, t), bound: t.Status.V.Bound,
		frees: map[string][]types.Holding{b.Node.Name: r.c.physical(b)},
	}
}

// join adds a task to the lender of its reservation. There is none if one of its tasks is leaving: the
// policy of the job evicts the rest. Nor is there one if the reservation is not of the job: no policy
// would reserve it again.
func (r *reclaiming) join(together map[*cluster.Reservation]*lender, u *user, t *cluster.Task, b *cluster.Binding, drawn *cluster.Reservation) {
	l, known := together[drawn]
	if taskset.Leaving(t) || drawn.Info.V.Job == "" || drawn.Info.V.Job != t.Info.V.Job || drawn.ID.Namespace != t.ID.Namespace || known && l == nil {
		together[drawn] = nil
		return
	}
	if !known {
		l = &lender{u: u, reservation: r.c.s.Ref(drawn.ID), takes: make([]float64, len(r.c.over)), frees: make(map[string][]types.Holding)}
		for _, at := range drawn.Grant.V.Nodes {
			for _, h := range at.Holds {
				if i := slices.Index(u.rids, h.Resource); i >= 0 {
					l.takes[i] += float64(h.Amount)
				} else if !h.Cluster {
					l.frees[at.Node] = append(l.frees[at.Node], h)
				}
			}
		}
		together[drawn] = l
	}
	l.tasks, l.bound = append(l.tasks, t), max(l.bound, t.Status.V.Bound)
	l.frees[b.Node.Name] = append(l.frees[b.Node.Name], r.c.physical(b)...)
	if own := r.c.asksHeld(u, t); own != nil {
		add(l.takes, own, 1)
	}
}

// largerStays is how long what is larger than the share of its user may run, in times that others wait.
const largerStays = 10

// spares reports whether a user keeps the part that its weight gives without a task or gang: what it has
// beyond that is lent, and goes as a whole even if others want less of it. What is larger than that part
// goes, too, after a while: others would never have theirs.
func (r *reclaiming) spares(l *lender) bool {
	for i, a := range l.takes {
		part := min(r.targets[l.u][i], l.u.part*r.c.capacity[i]) * (1 - tiny)
		if a > 0 && l.u.held[i]-a < part && (a <= part || r.c.since(l.bound) < largerStays*r.after) {
			return false
		}
	}
	return true
}

// asksHeld returns what a running task has of the pools, nil if a reservation holds it.
func (c *census) asksHeld(u *user, t *cluster.Task) []float64 {
	out := make([]float64, len(c.over))
	any := false
	_, drawn := c.drawsOn(t)
	for r, pool := range u.pools {
		if out[r] = float64(t.Info.V.Requests.Get(pool)); drawn == nil {
			out[r] = float64(drawnOn(t, pool))
		}
		any = any || out[r] > 0
	}
	if !any {
		return nil
	}
	return out
}

// leaves reports whether an attempt has been told to end.
func leaves(b *cluster.Binding) bool {
	return b.Info.V != nil && b.Task.Info.V != nil && b.Task.Status.V != nil && b.Task.Phase().Held() && taskset.Leaving(b.Task)
}

// physical returns what the end of an attempt frees on its node: not what a reservation keeps.
func (c *census) physical(b *cluster.Binding) (out []types.Holding) {
	for _, h := range b.Info.V.Holds {
		if h.Resource.Scoped() {
			if c.reservation(h) != nil {
				continue
			}
			h.Resource = h.Resource.Unscoped() // the reservation is gone, and the task has this now
			h.Cluster = c.s.View.Pool(h.Resource) != nil
		}
		if !h.Cluster {
			out = append(out, h)
		}
	}
	return out
}

// reservation returns the granted reservation that keeps a holding; nil if none does.
func (c *census) reservation(h types.Holding) *cluster.Reservation {
	if !h.Resource.Scoped() {
		return nil
	}
	ns, _, id := h.Resource.Split()
	if r := c.s.View.Reservations[cluster.ID{Namespace: ns, ID: id}]; r != nil && r.Current() {
		return r
	}
	return nil
}

// drawsOn returns the current binding of a task, and the reservation that keeps what it holds; nil if
// none does.
func (c *census) drawsOn(t *cluster.Task) (b *cluster.Binding, r *cluster.Reservation) {
	for _, b = range t.Bindings {
		if b.Info.V == nil || b.Number != taskset.AttemptOf(t) {
			continue
		}
		for _, h := range b.Info.V.Holds {
			if r = c.reservation(h); r != nil {
				return b, r
			}
		}
		return b, nil
	}
	return nil, nil
}
