package share

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Shares in whole tasks. Each user gets the tasks for which its share is enough. The rest gives
// some users one task more: those that have had the least of what they are entitled to. So all get
// their share on average. Their tasks, ended ones included, show what they have had, so any process
// that runs the policy knows it.

// whole rounds up the shares of some users, those furthest behind first. So capacity too small for
// a task of each of several users is enough for one of them.
func (c *census) whole(targets map[*user][]float64, spare []float64) {
	left, wanted := slices.Clone(spare), make([]float64, len(c.over))
	var who []*user
	for _, u := range c.users {
		if u.unit == nil {
			continue
		}
		n := units(targets[u], u.unit)
		if math.IsInf(n, 1) {
			continue
		}
		for r := range left {
			left[r] += u.given[r] - min(u.given[r], n*u.unit[r])
			wanted[r] += u.unit[r]
		}
		who = append(who, u)
	}
	if !c.covers(left, wanted) {
		c.inTurn(who, targets)
	}
	for _, u := range who {
		if !c.covers(left, u.unit) {
			continue
		}
		n := units(targets[u], u.unit) + 1
		for r := range left {
			left[r] -= u.unit[r]
			targets[u][r] = max(targets[u][r], n*u.unit[r])
		}
	}
}

// covers reports whether left is enough for asked.
func (c *census) covers(left, asked []float64) bool {
	for r := range left {
		if asked[r] > 0 && c.capacity[r] > 0 && left[r] < asked[r]*(1-tiny) {
			return false
		}
	}
	return true
}

const (
	// turnsOver is how far back usage counts, in average durations of a task; at least turnsLeast.
	turnsOver  = 20
	turnsLeast = time.Minute
	// turnHolds is the advantage, in seconds of a task, of a user that already has one task more
	// than its share: each change of a pool has a cost.
	turnHolds = 2
	// turnLots is how long lots are valid, which order users that are equally far behind.
	turnLots = 10 * time.Second
)

// inTurn orders users by how far they would be behind their entitlement at the end of a turn
// without one task more, in seconds of a task of theirs. A user whose share is a whole number of
// tasks falls no further behind by waiting, and so comes after those that do. Usage counts since
// the last of them joined: what a user had before was lent, and is no debt.
func (c *census) inTurn(who []*user, targets map[*user][]float64) {
	turn := c.mean()
	since := c.s.Now.Add(-max(turnsLeast, turnsOver*turn)).UnixNano()
	for _, u := range who {
		since = max(since, u.joined)
	}
	behind, lots := make(map[*user]float64, len(who)), make(map[*user]uint64, len(who))
	for _, u := range who {
		behind[u] = c.behind(u, targets[u], since, max(turn.Seconds(), turnHolds))
		lots[u] = c.lot(u)
	}
	slices.SortFunc(who, func(a, b *user) int {
		return cmp.Or(cmp.Compare(behind[b], behind[a]), cmp.Compare(lots[a], lots[b]), strings.Compare(a.path, b.path))
	})
}

// mean is the average duration of the known tasks.
func (c *census) mean() time.Duration {
	var took time.Duration
	n := 0
	for _, u := range c.users {
		took, n = took+u.took, n+u.ran
	}
	return took / time.Duration(max(n, 1))
}

// behind returns how far a user is behind, in seconds of a task of size unit: the current
// entitlement times the seconds since then, less what it has had. It adds what the user would lose
// in a turn of that many seconds with whole tasks only.
func (c *census) behind(u *user, target []float64, since int64, turn float64) float64 {
	scarce, most := 0, math.Inf(1)
	for r := range u.unit {
		if u.unit[r] > 0 && target[r]/u.unit[r] < most {
			scarce, most = r, target[r]/u.unit[r]
		}
	}
	n := math.Floor(most + tiny)
	behind := most*c.since(since).Seconds() - c.had(u, scarce, since)/u.unit[scarce] + max(0, most-n)*turn
	if n > 0 && u.has(n+1) {
		behind += turnHolds
	}
	return behind
}

// had returns how much of a resource a user has had since then, times seconds.
func (c *census) had(u *user, resource int, since int64) float64 {
	sum := 0.0
	for _, job := range u.jobs {
		c.s.View.EachMember(cluster.ID{Namespace: c.s.Namespace, ID: job}, func(t *cluster.Task) {
			if began, ended := c.ran(t); ended > since {
				sum += float64(drawnOn(t, u.pools[resource])) * time.Duration(ended-max(began, since)).Seconds()
			}
		})
	}
	return sum
}

// ran returns when the last attempt of a task began, and when it ended, or now; zeros if there was
// none.
func (c *census) ran(t *cluster.Task) (began, ended int64) {
	v := t.Status.V
	switch {
	case v == nil || v.Bound == 0 || t.Info.V == nil:
		return 0, 0
	case t.Phase().Held():
		return v.Bound, c.s.Now.UnixNano()
	}
	return v.Bound, max(v.Ended, v.Bound)
}

// drawnOn returns how much of a pool a task draws, itself or as part of a gang.
func drawnOn(t *cluster.Task, pool string) types.Quantity {
	var sum types.Quantity
	for _, x := range t.Info.V.Requests {
		if name, ok := strings.CutPrefix(x.Name, pool); ok && (name == "" || name[0] == '@') {
			sum += x.Amount
		}
	}
	return sum
}

// lot is the current lot of a user: the lowest comes first. Usage by forgotten jobs is not known,
// so lots keep a user from always being first by its name.
func (c *census) lot(u *user) uint64 {
	h := fnv.New64a()
	at := c.s.Now.UnixNano() / int64(turnLots)
	h.Write(append([]byte(u.path), byte(at), byte(at>>8), byte(at>>16), byte(at>>24)))
	return h.Sum64()
}
