package share

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
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

// has reports whether the pools of a user are enough for n units.
func (u *user) has(n float64) bool {
	for r := range u.unit {
		if u.unit[r] > 0 && float64(u.cap[r]) < n*u.unit[r] {
			return false
		}
	}
	return true
}

// sets returns the changes of the pools: lowered ones come first.
func (c *census) sets(targets map[*user][]float64) []controlplane.Resource {
	var lower, raise []controlplane.Resource
	for _, u := range c.users {
		if c.fits(u, targets[u]) {
			continue
		}
		for r, name := range u.pools {
			if u.cap[r] < 0 && u.demand[r] == 0 {
				continue
			}
			to := types.Quantity(targets[u][r] + tiny*targets[u][r] + tiny)
			set := controlplane.Resource{Name: name, Capacity: to, Where: controlplane.InCluster(), Options: controlplane.SetOptions{Declare: true}}
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
		case u.unit == nil && u.held[r] > target[r]*(1+near): // evicted tasks must not come back at once
			fits = now <= target[r]*(1+near)
		case u.unit == nil: // nothing waits, so a surplus does no harm
			fits = now >= max(u.given[r], u.part*c.capacity[r])*(1-near)
		case spare > near*c.capacity[r] && spare > u.unit[r]: // there is enough for all
			fits = now >= u.given[r]+spare/4
		case u.unit[r] > 0 && math.Floor(now/u.unit[r]+tiny) == math.Floor(target[r]/u.unit[r]+tiny):
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

// unused returns the removal of pools of users without jobs.
func (p FairShare) unused(c *census) []controlplane.Resource {
	prefix := esl.OwnName(c.s.ID, p.Kind(), "") + "."
	inUse := make(map[types.ResourceID]bool)
	for _, u := range c.users {
		for _, rid := range u.rids {
			inUse[rid] = true
		}
	}
	var out []controlplane.Resource
	for rid, pool := range c.s.View.Pools {
		ns, name, _ := rid.Split()
		if pool.Info.V == nil || inUse[rid] || ns != c.s.Namespace || !strings.HasPrefix(name, prefix) {
			continue
		}
		out = append(out, controlplane.Resource{Name: name, Where: controlplane.InCluster()})
	}
	slices.SortFunc(out, func(a, b controlplane.Resource) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// reclaim returns the evictions: the youngest tasks of users over their share for as long as
// another user has waited for its own, but no more than the waiting users lack.
func (p FairShare) reclaim(c *census, targets map[*user][]float64) ([]esl.Evict, string) {
	if p.Reclaim <= 0 {
		return nil, ""
	}
	if evict := c.clearRooms(time.Duration(p.Reclaim)); len(evict) > 0 {
		return evict, "a share is free in pieces for longer than " + time.Duration(p.Reclaim).String()
	}
	lack := c.lack(targets, time.Duration(p.Reclaim))
	var out []esl.Evict
	var whose []string
	for _, u := range c.users {
		if c.since(u.served) < time.Duration(p.Reclaim) {
			continue // was not over it all the time
		}
		slices.SortFunc(u.bound, func(a, b *cluster.Task) int {
			return cmp.Or(cmp.Compare(b.Status.V.Bound, a.Status.V.Bound), strings.Compare(a.ID.ID, b.ID.ID))
		})
		before := len(out)
		for _, t := range u.bound {
			takes := c.asksHeld(u, t.Info.V)
			if len(out) == c.s.MaxChanges() || takes == nil || t.Info.V.Evict >= t.Status.V.Attempt || !keepsShare(u, takes, targets[u]) || !helpsAny(takes, lack) {
				continue
			}
			for r := range takes {
				u.held[r] -= takes[r]
				lack[r] -= takes[r]
			}
			out = append(out, esl.Evict{Task: t.ID.ID, Attempt: t.Status.V.Attempt})
		}
		if len(out) > before {
			whose = append(whose, u.path)
		}
	}
	return out, "over their share for " + time.Duration(p.Reclaim).String() + ": " + strings.Join(whose, ", ")
}

// since returns the time since then.
func (c *census) since(unixNano int64) time.Duration {
	return time.Duration(c.s.Now.UnixNano() - unixNano)
}

// lack returns what users lack that have waited so long for their share, in whole tasks, less what
// is leaving already.
func (c *census) lack(targets map[*user][]float64, after time.Duration) []float64 {
	lack := make([]float64, len(c.over))
	for _, u := range c.users {
		if u.unit == nil || c.since(u.oldest) < after {
			continue
		}
		room := make([]float64, len(c.over))
		for r := range room {
			room[r] = max(0, min(u.waits[r], targets[u][r]-u.held[r]))
		}
		n := units(room, u.unit)
		for r := range lack {
			lack[r] += n * u.unit[r]
		}
	}
	for _, u := range c.users {
		for _, t := range u.bound {
			if t.Info.V.Evict < t.Status.V.Attempt && t.Info.V.Stop == nil {
				continue
			}
			for r, a := range c.asksHeld(u, t.Info.V) {
				lack[r] -= a
			}
		}
	}
	return lack
}

// asksHeld returns what a running task has of the pools, nil if a reservation holds it.
func (c *census) asksHeld(u *user, t *cluster.TaskValue) []float64 {
	out := make([]float64, len(c.over))
	any := false
	for r, pool := range u.pools {
		out[r] = float64(t.Requests.Get(pool))
		any = any || out[r] > 0
	}
	if !any {
		return nil
	}
	return out
}

// keepsShare reports whether a user keeps its share without an amount.
func keepsShare(u *user, without, target []float64) bool {
	for r := range without {
		if without[r] > 0 && u.held[r]-without[r] < target[r]*(1-tiny) {
			return false
		}
	}
	return true
}

// helpsAny reports whether some of an amount is lacking.
func helpsAny(takes, lack []float64) bool {
	for r := range takes {
		if takes[r] > 0 && lack[r] > 0 {
			return true
		}
	}
	return false
}
