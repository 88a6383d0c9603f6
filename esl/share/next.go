package share

import (
	"math"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

// targets returns the desired pools of each user. Unwanted capacity is in all of them: first come,
// first served. Scarce capacity is given in whole tasks.
func (c *census) targets() map[*user][]float64 {
	spare := make([]float64, len(c.over))
	copy(spare, c.capacity)
	for _, u := range c.users {
		for r := range spare {
			spare[r] -= u.given[r]
		}
	}
	out := make(map[*user][]float64, len(c.users))
	for _, u := range c.users {
		target := make([]float64, len(c.over))
		for r := range target {
			target[r] = u.given[r] + max(0, spare[r])
			if u.unit == nil {
				target[r] = max(target[r], u.part*c.capacity[r])
			}
		}
		out[u] = target
	}
	c.whole(out, spare)
	return out
}

// units returns for how many units an amount is enough.
func units(amount, unit []float64) float64 {
	n := math.Inf(1)
	for r := range unit {
		if unit[r] > 0 {
			n = min(n, math.Floor(amount[r]/unit[r]+tiny))
		}
	}
	return n
}

// has reports whether the pools of a user are enough for n more units.
func (u *user) has(n float64) bool {
	for r := range u.unit {
		if u.unit[r] > 0 && float64(u.cap[r]) < u.held[r]+n*u.unit[r] {
			return false
		}
	}
	return true
}

// sets returns the changes of the pools: lowered ones come first.
func (c *census) sets(targets map[*user][]float64) []controlplane.Resource {
	var lower, raise []controlplane.Resource
	for _, u := range c.users {
		target := targets[u]
		if u.pauses {
			// A smaller pool is not enough: another task would take what becomes free before it is written.
			target = make([]float64, len(c.over))
		}
		if c.fits(u, target) {
			continue
		}
		for r, name := range u.pools {
			if u.cap[r] < 0 && (u.demand[r] == 0 || !c.mayCreate(u, r)) {
				continue
			}
			to := types.Quantity(target[r] + tiny*target[r] + tiny)
			set := controlplane.Resource{Name: c.s.Ref(cluster.ID{Namespace: u.ns, ID: name}), Capacity: to, Where: controlplane.InCluster(), Options: controlplane.SetOptions{Declare: true}}
			switch {
			case to < u.cap[r]:
				lower = append(lower, set)
			case to > u.cap[r]:
				raise = append(raise, set)
			}
		}
	}
	return append(lower, raise...)
}

// mayCreate reports whether a pool of a user can be created: the namespace is within its budget, and the name
// is none of a resource on nodes. The pools of others are set in the same transaction.
func (c *census) mayCreate(u *user, r int) bool {
	return c.s.View.Closed[u.ns] == nil && c.s.View.Everywhere[u.rids[r]] == nil && len(c.s.View.At(u.rids[r])) == 0
}

// near is the tolerated deviation of a pool: each change of a pool makes pending binds conflict.
const near = 0.01

// fits reports whether the pools of a user are close enough to their target.
func (c *census) fits(u *user, target []float64) bool {
	for r := range target {
		now := float64(u.cap[r])
		spare := target[r] - u.given[r]
		fits := false
		switch {
		case now < 0:
			fits = u.demand[r] == 0 // never requested
		case u.pauses:
			fits = now == target[r]
		case u.unit == nil && u.held[r] > target[r]*(1+near): // evicted tasks must not come back at once
			fits = now <= target[r]*(1+near)
		case u.unit == nil: // nothing waits, so a surplus does no harm
			fits = now >= max(u.given[r], u.part*c.capacity[r])*(1-near)
		case spare > near*c.capacity[r] && spare > u.unit[r]: // there is enough for all
			fits = now >= max(u.given[r]+spare/4, u.held[r]+u.unit[r])
		case u.unit[r] > 0 && math.Floor((now-u.held[r])/u.unit[r]+tiny) == math.Floor((target[r]-u.held[r])/u.unit[r]+tiny):
			fits = true
		default:
			fits = math.Abs(target[r]-now) <= near*target[r]
		}
		if !fits {
			return false
		}
	}
	return true
}

// setPools returns the plan that sets the pools of users, and removes those of users without jobs.
func (c *census) setPools(targets map[*user][]float64) esl.Plan {
	plan, most := esl.Plan{Set: c.sets(targets), Reason: "set the shares of " + words.Count(len(c.users), "user")}, c.s.MaxChanges()
	if len(plan.Set) < most {
		plan.Set = append(plan.Set, c.unused()...)
	}
	plan.Set = plan.Set[:min(len(plan.Set), most)]
	return plan
}

// unused returns the removal of pools of users without jobs.
func (c *census) unused() []controlplane.Resource {
	inUse := make(map[types.ResourceID]bool)
	for _, u := range c.users {
		for _, rid := range u.rids {
			inUse[rid] = true
		}
	}
	var out []controlplane.Resource
	for rid, pool := range c.s.View.Pools {
		ns, name, _ := rid.Split()
		if pool.Info.V == nil || inUse[rid] || !strings.HasPrefix(name, poolsOf(c.named(ns))) {
			continue
		}
		out = append(out, controlplane.Resource{Name: c.s.Ref(cluster.ID{Namespace: ns, ID: name}), Where: controlplane.InCluster()})
	}
	slices.SortFunc(out, func(a, b controlplane.Resource) int { return strings.Compare(a.Name, b.Name) })
	return out
}
