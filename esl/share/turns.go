package share

import (
	"cmp"
	"hash/fnv"
	"maps"
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

// A rounding is the share of a user in whole tasks.
type rounding struct {
	u *user
	// n is for how many more tasks of its unit the share is enough, and kept the part of the share for
	// these and for what the user has.
	n    float64
	kept []float64
}

// rounded rounds the share of a user down to whole tasks: to what it has, and as many more of its unit as
// the share is enough for.
func (u *user) rounded(target []float64) rounding {
	left := make([]float64, len(target))
	for r := range target {
		left[r] = target[r] - u.held[r]
	}
	x := rounding{u: u, n: max(0, units(left, u.unit))}
	x.keep()
	return x
}

func (x *rounding) keep() {
	x.kept = make([]float64, len(x.u.held))
	for r := range x.kept {
		x.kept[r] = min(x.u.given[r], x.u.held[r]+x.n*x.u.unit[r])
	}
}

// more returns what the user lacks for another task.
func (x *rounding) more() []float64 {
	out := make([]float64, len(x.kept))
	for r := range out {
		if x.u.unit[r] > 0 {
			out[r] = max(0, x.u.held[r]+(x.n+1)*x.u.unit[r]-x.kept[r])
		}
	}
	return out
}

// grow gives the user another task, out of left.
func (x *rounding) grow(target, left []float64) {
	for r, more := range x.more() {
		left[r] -= more
	}
	x.n, x.u.pauses = x.n+1, false
	for r := range target {
		if x.u.unit[r] > 0 {
			target[r] = max(target[r], x.u.held[r]+x.n*x.u.unit[r])
		}
	}
}

// pause lets the user begin nothing more, and adds what it would have had for that to left.
func (x *rounding) pause(left []float64) {
	before := x.kept
	x.n, x.u.pauses = 0, true
	x.keep()
	for r := range left {
		left[r] += before[r] - x.kept[r]
	}
}

// whole rounds shares to whole tasks: down, and then up for the users that are furthest behind. So
// capacity too small for a task of each of several users is enough for one of them.
//
// A task or gang may be larger than the share of its user. It has its turn when no user is further behind
// than that one, and the user is behind by at least the length of the mean task. Then all users pause until
// there is capacity for it. So the user has its share over time. Smaller tasks of the user pass it until it
// has waited for the window. Then the user begins nothing else, and so falls behind.
func (c *census) whole(targets map[*user][]float64, spare []float64) {
	left, wanted := slices.Clone(spare), make([]float64, len(c.over))
	var who []*user
	of := make(map[*user]*rounding)
	for _, u := range c.users {
		if u.unit == nil {
			continue
		}
		x := u.rounded(targets[u])
		if math.IsInf(x.n, 1) {
			continue
		}
		for r, more := range x.more() {
			left[r] += u.given[r] - x.kept[r]
			wanted[r] += more
		}
		who, of[u] = append(who, u), &x
	}
	var behind map[*user]float64
	turn := 0.0
	if !c.covers(left, wanted) {
		behind, turn = c.inTurn(who, targets)
	}
	for i, u := range who {
		x := of[u]
		switch {
		case c.covers(left, x.more()):
			x.grow(targets[u], left)
		case x.n > 0:
		case i == 0 && u.exceeds() && behind[u] >= turn && c.claims(u):
			for _, o := range c.users {
				o.pauses = true
			}
			for _, o := range who[1:] {
				of[o].pause(left)
			}
			if c.covers(left, x.more()) {
				x.grow(targets[u], left)
			} else {
				x.pause(left)
			}
			return
		case u.saves:
			x.pause(left)
		}
	}
}

// claims reports whether others pause for the unit of a user. They do not for one that is larger than
// everything. Nor do they for long for one that does not begin though there is capacity for it, because no
// nodes have that, or for which there is never enough.
func (c *census) claims(u *user) bool {
	if !c.covers(c.capacity, u.unit) {
		return false
	}
	free := slices.Clone(c.capacity)
	for _, o := range c.users {
		add(free, o.held, -1)
	}
	is := c.memory.claims[u.unitID]
	if is == nil {
		is = &claim{begun: c.s.Now, waits: true}
		c.memory.claims[u.unitID] = is
	}
	switch enough := c.covers(free, u.unit); {
	case is.vain():
		return false
	case !enough:
		is.since = time.Time{}
	case is.since.IsZero():
		is.since = c.s.Now
	}
	if !is.since.IsZero() && !c.s.Now.Before(is.since.Add(claimHolds)) || !c.s.Now.Before(is.begun.Add(c.window())) {
		is.until = c.s.Now.Add(claimRests * c.window())
		return false
	}
	return true
}

// A claim is of a task or gang for which others pause, or have paused.
type claim struct {
	// begun is when the others paused; since is since when there is capacity, zero if there is none.
	begun, since time.Time
	// until is when others may pause for it again, after a pause without effect; zero without one.
	until time.Time
	// waits reports whether it still waits.
	waits bool
}

// vain reports whether a pause of others had no effect.
func (c *claim) vain() bool { return c != nil && !c.until.IsZero() }

// forget removes the claims of what no longer waits, and those for which others may pause again.
func (c *census) forget() {
	maps.DeleteFunc(c.memory.claims, func(_ string, is *claim) bool {
		over := !is.waits || is.vain() && !c.s.Now.Before(is.until)
		is.waits = false
		return over
	})
}

const (
	// claimHolds is how long others pause once there is capacity.
	claimHolds = 30 * time.Second
	// claimRests is the number of windows from a pause without effect to the next one.
	claimRests = 5
)

// pauses says why a user begins nothing for now: its pools are empty, and another user, or a gang of its
// own, has its turn; "" if that is not so.
func (c *census) pauses(u *user) string {
	empty := u.unit != nil
	for r := range u.unit {
		empty = empty && (u.unit[r] == 0 || u.cap[r] == 0)
	}
	if !empty {
		return ""
	}
	c.tree.shareOut(c.capacity)
	switch c.targets(); {
	case u.pauses && u.saves:
		return "it saves its share for what waits longest, which is larger than that"
	case u.pauses:
		return "it is the turn of a gang or task that is larger than the share of its user"
	}
	return ""
}

// exceeds reports whether the unit of a user is larger than its share.
func (u *user) exceeds() bool {
	for r := range u.unit {
		if u.unit[r] > u.given[r]*(1+tiny) {
			return true
		}
	}
	return false
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
//
// It returns how far each is behind, and how long a turn is, in seconds.
func (c *census) inTurn(who []*user, targets map[*user][]float64) (behind map[*user]float64, turn float64) {
	turn = max(c.mean().Seconds(), turnHolds)
	since := c.s.Now.Add(-c.window()).UnixNano()
	for _, u := range who {
		since = max(since, u.joined)
	}
	behind = make(map[*user]float64, len(who))
	lots := make(map[*user]uint64, len(who))
	for _, u := range who {
		behind[u] = c.behind(u, targets[u], since, turn)
		lots[u] = c.lot(u)
	}
	slices.SortFunc(who, func(a, b *user) int {
		return cmp.Or(cmp.Compare(behind[b], behind[a]), cmp.Compare(lots[a], lots[b]), strings.Compare(a.path, b.path))
	})
	return behind, turn
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

// window is how far back usage counts, and how long a task waits until smaller ones of its user no longer
// pass it.
func (c *census) window() time.Duration { return max(turnsLeast, turnsOver*c.mean()) }

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
	x := u.rounded(target)
	lost := max(0, most-u.held[scarce]/u.unit[scarce]-x.n)
	behind := most*c.since(since).Seconds() - c.had(u, scarce, since)/u.unit[scarce] + lost*turn
	if u.has(x.n + 1) {
		behind += turnHolds
	}
	return behind
}

// had returns how much of a resource a user has had since then, times seconds.
func (c *census) had(u *user, resource int, since int64) float64 {
	sum := 0.0
	for _, job := range u.jobs {
		c.s.View.EachMember(c.s.At(job), func(t *cluster.Task) {
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
