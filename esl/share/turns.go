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

// Shares in whole tasks. What is left when everybody has as many tasks as his share is
// enough for is given to some of them, for one task more each: to those who have had the
// least of what they are entitled to. So all have theirs in the mean. What they have had is
// known by their tasks, those that have ended included: whoever keeps the policy knows it.

// whole rounds up the shares of some, so that what is too little for a task of each of
// several is enough for one of them, those first that are behind.
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

// covers reports whether there is as much of everything as somebody asks for.
func (c *census) covers(left, asked []float64) bool {
	for r := range left {
		if asked[r] > 0 && c.capacity[r] > 0 && left[r] < asked[r]*(1-tiny) {
			return false
		}
	}
	return true
}

const (
	// turnsOver is how far back it counts what somebody has had: in times that their tasks
	// take in the mean, and at least turnsLeast.
	turnsOver  = 20
	turnsLeast = time.Minute
	// turnHolds is how much less he may be behind, in seconds of a task, who has one more
	// than his share is enough for, and keeps that: each change of a pool costs something.
	turnHolds = 2
	// turnLots is how long lots hold, which are drawn among those who are equally far.
	turnLots = 10 * time.Second
)

// inTurn orders users by how far they would be behind what they are entitled to at the end
// of a turn without one task more, in seconds of a task of theirs. A user whose share is a
// whole number of tasks falls no further behind by waiting, and so comes after those who do.
// It counts since the last of them came: what a user had before was lent, and is no debt.
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

// mean is how long a task takes in the mean, by those that are known.
func (c *census) mean() time.Duration {
	var took time.Duration
	n := 0
	for _, u := range c.users {
		took, n = took+u.took, n+u.ran
	}
	return took / time.Duration(max(n, 1))
}

// behind is how many seconds of a task, of the size of what waits, a user has had less than
// what he is entitled to now times the seconds since then; and what he falls behind in a turn
// of that many seconds with whole tasks only.
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

// had returns how much of a resource a user has had since then, for how many seconds.
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

// ran returns when the last attempt of a task began, and when it ended, or now; zeros if
// there was none.
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

// lot is what a user has drawn for now: the least comes first. What somebody had by jobs
// that are over is not known: so nobody is first for ever by his name.
func (c *census) lot(u *user) uint64 {
	h := fnv.New64a()
	at := c.s.Now.UnixNano() / int64(turnLots)
	h.Write(append([]byte(u.path), byte(at), byte(at>>8), byte(at>>16), byte(at>>24)))
	return h.Sum64()
}
