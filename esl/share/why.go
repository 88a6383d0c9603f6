package share

import (
	"fmt"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// asked returns what a waiting task asks for of the pools of its user.
func (u *user) asked(t *cluster.Task) []float64 {
	asks := make([]float64, len(u.pools))
	for r, pool := range u.pools {
		asks[r] = float64(t.Info.V.Requests.Get(pool))
		if len(t.Info.V.Alternatives) > 0 {
			asks[r] += float64(t.Info.V.Alternatives[0].Requests.Get(pool))
		}
	}
	return asks
}

// isReserved reports whether the pools of a user are requested by the reservation of a task, as of a gang.
func (u *user) isReserved(t *cluster.Task) bool {
	return !slices.ContainsFunc(u.asked(t), func(q float64) bool { return q > 0 })
}

// has says how much of its share a user has: of each resource of which it has too little for a task or, if
// it has enough, of all that the task asks for.
func (c *census) has(u *user, t *cluster.Task) (text string, short bool) {
	asks, reserved := u.asked(t), u.isReserved(t)
	var all, lacks []string
	for r, resource := range c.over {
		if asks[r] == 0 && (!reserved || u.waits[r] == 0) {
			continue
		}
		has := max(0, float64(u.cap[r]))
		text := fmt.Sprintf("%s of its share of %s %s", amountText(u.held[r]), amountText(has), unitText(resource))
		if all = append(all, text); u.held[r]+asks[r] > has {
			lacks = append(lacks, text)
		}
	}
	if len(lacks) > 0 {
		return strings.Join(lacks, ", and "), true
	}
	return strings.Join(all, ", and "), false
}

// beforeText says how many tasks of the same user come first; empty if none does.
func beforeText(s *esl.State, user string, t *cluster.Task, together bool) string {
	switch n := before(s, user, t, together); n {
	case 0:
		return ""
	case 1:
		return "; 1 task is before it"
	default:
		return fmt.Sprintf("; %d tasks are before it", n)
	}
}

// anyOver reports whether a user has more than its pools.
func (c *census) anyOver() bool {
	for _, u := range c.users {
		for r, has := range u.held {
			if u.cap[r] >= 0 && has > float64(u.cap[r]) {
				return true
			}
		}
	}
	return false
}

// before returns how many tasks of the same user come first; together means that those of its own job do not.
func before(s *esl.State, user string, t *cluster.Task, together bool) int {
	n := 0
	for job, other := range s.Referring() {
		if use, ok := other.(esl.Use); !ok || use.As != user || together && s.At(job) == (cluster.ID{Namespace: t.ID.Namespace, ID: t.Info.V.Job}) {
			continue
		}
		s.View.EachMember(s.At(job), func(o *cluster.Task) {
			if o.ID != t.ID && o.Info.V != nil && o.Phase() == types.Pending && earlier(o, t) {
				n++
			}
		})
	}
	return n
}

// earlier reports whether a task is before another one: by priority, by age, then by id.
func earlier(a, b *cluster.Task) bool {
	switch x, y := a.Info.V, b.Info.V; {
	case x.Order() != y.Order():
		return x.Order() > y.Order()
	case x.Submitted != y.Submitted:
		return x.Submitted < y.Submitted
	}
	return a.ID.ID < b.ID.ID
}

// amountText formats an amount of a pool, such as 16.5.
func amountText(a float64) string { return types.Quantity(a).Format("") }

// unitText returns the unit of a pool of a resource.
func unitText(resource string) string {
	if types.UnitOf(types.ResourceID(resource)) == types.Bytes {
		return "MiB of " + resource
	}
	return resource
}

// room describes the reservation for a task within its share that fits on no node; "" if there is
// none for tasks like it.
func (c *census) room(u *user, t *cluster.Task) string {
	for _, r := range c.rooms {
		if r.Info.V.Job != t.Info.V.Job || r.ID.Namespace != t.ID.Namespace {
			continue
		}
		x, ok := c.waitingTask(u, t)
		if !ok || taskset.BundlesText(c.s, r.Info.V.Bundles) != taskset.BundlesText(c.s, []types.Bundle{x.way}) {
			continue
		}
		var has []string
		for i, resource := range c.over {
			if x.asks[i] > 0 {
				has = append(has, fmt.Sprintf("%s of %s %s", amountText(c.collected(r, resource)), amountText(x.asks[i]), unitText(resource)))
			}
		}
		return fmt.Sprintf("what becomes free on %s is kept for it, %s by now", r.Info.V.Bundles[0].Node, strings.Join(has, ", and "))
	}
	return ""
}
