package share

import (
	"fmt"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// WhyUsed says how much of its share the user of a task has, if the task waits for that.
func (p FairShare) WhyUsed(s *esl.State, use esl.Use, task string) why.Reason {
	t := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: task})
	if t == nil || t.Info.V == nil || t.Phase() != types.Pending {
		return why.Reason{}
	}
	c := p.census(s)
	u := c.byPath[use.As]
	if u == nil {
		return why.Reason{}
	}
	asks := make([]float64, len(u.pools))
	for r, pool := range u.pools {
		asks[r] = float64(t.Info.V.Requests.Get(pool))
		if len(t.Info.V.Alternatives) > 0 {
			asks[r] += float64(t.Info.V.Alternatives[0].Requests.Get(pool))
		}
	}
	var all, short []string
	for r, resource := range c.over {
		if asks[r] == 0 {
			continue
		}
		has := max(0, float64(u.cap[r]))
		text := fmt.Sprintf("%s of its share of %s %s", amountText(u.held[r]), amountText(has), unitText(resource))
		if all = append(all, text); u.held[r]+asks[r] > has {
			short = append(short, text)
		}
	}
	after := ""
	if len(short) == 0 {
		if room := c.room(u, t); room != "" {
			return why.Say(why.InUse, "%s has its share, and no node has room for it: %s", use.As, room)
		}
		if !c.anyOver() {
			return why.Reason{}
		}
		short, after = all, "; others have more than their share until tasks of them end"
	}
	has := strings.Join(short, ", and ")
	switch n := before(s, use.As, t); n {
	case 0:
		return why.Say(why.Budget, "%s uses %s%s", use.As, has, after)
	case 1:
		return why.Say(why.Budget, "%s uses %s; 1 task is before it%s", use.As, has, after)
	default:
		return why.Say(why.Budget, "%s uses %s; %d tasks are before it%s", use.As, has, n, after)
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

// before returns how many tasks of the same user come first.
func before(s *esl.State, user string, t *cluster.Task) int {
	n := 0
	for job, other := range s.Referring() {
		if use, ok := other.(esl.Use); !ok || use.As != user {
			continue
		}
		s.View.EachMember(cluster.ID{Namespace: s.Namespace, ID: job}, func(o *cluster.Task) {
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
		if r.Info.V.Job != t.Info.V.Job {
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
