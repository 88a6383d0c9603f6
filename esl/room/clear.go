package room

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// The engine that chooses which tasks are evicted, for preempt and for elastic jobs that give way.
// It is pure. A bundle goes to the node with the victims of the lowest priority; of equal ones, the
// fewest tasks, then the least work lost. Victims that are not necessary are spared, the most
// expensive first, as kube-scheduler reprieves victims.
//
// Two policies choose in another way. A fair share evicts what is over a share of pools, wherever it
// is, and tasks smaller than the waiting one where its share is free in pieces: priority does not
// count. A move evicts tasks of its own job for a place that is reserved already.

// clearing is the cluster as it would be without some victims, and with the placed bundles.
type clearing struct {
	s *esl.State
	// yields reports whether a victim may be evicted for a job.
	yields func(u *victim, who asker) bool
	// rank is the same for jobs for which the same victims yield, and order that of the jobs of victims:
	// the last are evicted first. Both may be nil.
	rank, order func(job string) int
	// collects are the jobs that have collected something, which yields to themselves alone.
	collects map[string]bool
	rooms    []*esl.Room
	// as is the version of each room; found caches options by version.
	as    []int
	clock int
	found map[lookedFor]option
	at    map[string]int // index of the room of each node
	below int
	spare time.Duration
	// spared is when the first task that spare protects may be evicted; zero means that none is protected.
	spared time.Time
	// only, unless nil, are the jobs whose tasks may be evicted.
	only map[string]bool
	// patient reports whether to wait for leaving tasks, however long that takes.
	patient bool
	// left are tasks that are not evicted yet, though they draw on a reservation that was removed
	// when tasks of their job were evicted. The key is the reason of that eviction.
	left map[string][]*victim
	// on are the possible victims, by node on which they hold something; "" is the whole cluster.
	on      map[string][]*victim
	sorted  map[string]bool
	pools   map[types.ResourceID]types.Quantity // free amounts requested so far
	gone    map[*victim]bool
	evicted []*victim
	// laws are the limits of jobs, under the amounts placed under them, and wanted the resources
	// of placed bundles.
	laws   map[cluster.ID][]esl.Limit
	under  map[lawful]int
	wanted map[types.ResourceID]bool
}

// clearingOf begins with the cluster as it is, and without possible victims.
func clearingOf(s *esl.State, yields func(u *victim, who asker) bool) *clearing {
	c := &clearing{
		s: s, yields: yields, rooms: s.Rooms(), found: make(map[lookedFor]option), at: make(map[string]int), left: make(map[string][]*victim),
		on: make(map[string][]*victim), sorted: make(map[string]bool), pools: make(map[types.ResourceID]types.Quantity), gone: make(map[*victim]bool),
		laws: make(map[cluster.ID][]esl.Limit), under: make(map[lawful]int), wanted: make(map[types.ResourceID]bool), collects: make(map[string]bool),
	}
	c.as = make([]int, len(c.rooms))
	for i, r := range c.rooms {
		c.at[r.Node.Name] = i
	}
	return c
}

// newClearing begins without the leaving tasks that are waited for, and with the capacity that the
// job has accumulated returned. Tasks of a priority lower than below may be evicted, except tasks
// that were evicted before and have run for less than spare since.
func newClearing(s *esl.State, below int, spare time.Duration, patient bool) *clearing {
	c := clearingOf(s, func(u *victim, who asker) bool { return u.priority < who.priority && u.ns == who.ns })
	c.below, c.spare, c.patient = below, spare, patient
	c.fill()
	return c
}

// fill adds the possible victims.
func (c *clearing) fill() {
	s := c.s
	for _, r := range s.View.Reservations {
		if r.Info.V != nil && r.Info.V.HandsOver() {
			c.below = max(c.below, r.Info.V.Priority) // begun makes capacity for it, too
		}
	}
	for _, r := range s.View.Reservations {
		if c.accumulatedBy(r) {
			c.freeGrant(r.Grant.V)
		} else if u := c.accumulated(r); u != nil {
			c.collects[u.job] = true
			c.add(u)
		}
	}
	together := make(map[*cluster.Reservation]*victim)
	for _, n := range s.View.Nodes {
		for _, b := range n.Bindings {
			c.look(b, together)
		}
	}
	for _, u := range together {
		if u != nil && len(u.tasks) > 0 {
			slices.SortFunc(u.tasks, func(a, b *cluster.Task) int { return strings.Compare(a.ID.String(), b.ID.String()) })
			c.add(u)
		}
	}
}

// candidates returns the possible victims that hold something of a node, in the order of eviction;
// "" is the whole cluster.
func (c *clearing) candidates(node string) []*victim {
	if !c.sorted[node] {
		slices.SortFunc(c.on[node], (*victim).less)
		c.sorted[node] = true
	}
	return c.on[node]
}

// copy returns the state for back. It shares rooms: they are replaced, never changed.
func (c *clearing) copy() *clearing {
	return &clearing{
		rooms: slices.Clone(c.rooms), as: slices.Clone(c.as), pools: maps.Clone(c.pools), under: maps.Clone(c.under),
		gone: maps.Clone(c.gone), evicted: slices.Clone(c.evicted),
	}
}

// back restores the state that copy returned.
func (c *clearing) back(was *clearing) {
	c.rooms, c.as, c.pools, c.under, c.gone, c.evicted = was.rooms, was.as, was.pools, was.under, was.gone, was.evicted
}

// change replaces a room by a changed copy.
func (c *clearing) change(i int, f func(r *esl.Room)) {
	c.rooms[i] = c.rooms[i].Clone()
	f(c.rooms[i])
	c.clock++
	c.as[i] = c.clock
}

// free counts holdings as free.
func (c *clearing) free(frees []freed) { c.count(frees, (*esl.Room).Return, 1) }

// retake counts freed holdings as held again.
func (c *clearing) retake(frees []freed) { c.count(frees, (*esl.Room).Hold, -1) }

func (c *clearing) count(frees []freed, onNode func(*esl.Room, []types.Holding), sign types.Quantity) {
	for _, f := range frees {
		if i, ok := c.at[f.node]; ok {
			c.change(i, func(r *esl.Room) { onNode(r, f.holds) })
		}
		for _, h := range f.holds {
			if h.Cluster {
				c.pools[h.Resource] = c.pool(h.Resource) + sign*h.Amount
			}
		}
	}
}

// freeGrant counts the holdings of a grant as free.
func (c *clearing) freeGrant(g *types.Grant) {
	var u victim
	for _, at := range g.Nodes {
		for _, h := range at.Holds {
			u.hold(at.Node, h)
		}
	}
	c.free(u.frees)
}

// accumulatedBy reports whether a reservation or task of the job has accumulated the grant of r. It
// returns the grant when capacity is made for the job.
func (c *clearing) accumulatedBy(r *cluster.Reservation) bool {
	switch {
	case r.ID.Namespace != c.s.Namespace || c.s.Job == "" || !grants.Accumulates(r):
		return false
	case r.Info.V != nil:
		return r.Current() && r.Info.V.Job == c.s.Job
	}
	t := c.s.View.Task(r.ID)
	return t != nil && t.Info.V != nil && t.Info.Create == r.Grant.V.Task && t.Info.V.Job == c.s.Job
}

// pool returns the free amount of a cluster-wide resource.
func (c *clearing) pool(id types.ResourceID) types.Quantity {
	if q, ok := c.pools[id]; ok {
		return q
	}
	if p := c.s.View.Pool(id); p != nil {
		return p.Free()
	}
	return 0
}

// option says whether needs fit after evictions, and of which victims.
type option struct {
	fits    bool
	victims []*victim
}

// begun makes capacity for the existing reservations, the oldest first. It returns the victims of
// each, and whether it fits then.
func (c *clearing) begun() map[*cluster.Reservation]option {
	var all []*cluster.Reservation
	for _, r := range c.s.View.Reservations {
		if taskset.IsReserving(r) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *cluster.Reservation) int {
		return cmp.Or(cmp.Compare(a.Info.V.Submitted, b.Info.V.Submitted), strings.Compare(a.ID.String(), b.ID.String()))
	})
	out := make(map[*cluster.Reservation]option, len(all))
	for _, r := range all {
		before := c.copy()
		if r.Grant.V != nil {
			c.freeGrant(r.Grant.V)
		}
		_, ok := c.clear(asker{r.ID.Namespace, r.Info.V.Job, r.Info.V.Priority}, r.Info.V.Bundles)
		if !ok {
			c.back(before)
		}
		out[r] = option{ok, c.evicted[len(before.evicted):]}
	}
	return out
}

// clear places bundles, each where its victims cost least, and returns them with their nodes; ok is
// false if not all of them fit.
func (c *clearing) clear(who asker, bundles []types.Bundle) (placed []types.Bundle, ok bool) {
	all := make([]asked, len(bundles))
	for i, b := range bundles {
		all[i] = c.asked(who, b)
	}
	nodes, ok := c.settle(who, all)
	for i, node := range nodes {
		placed = append(placed, bundles[i])
		placed[i].Node = node
	}
	return placed, ok
}

// settle places requests, each where its victims cost least, and returns the nodes; ok is false if
// not all of them fit.
func (c *clearing) settle(who asker, all []asked) (nodes []string, ok bool) {
	before := len(c.evicted)
	for _, x := range all {
		node := c.place(who, x)
		if node == "" {
			return nil, false
		}
		nodes = append(nodes, node)
	}
	if !c.cover(who) {
		return nil, false
	}
	c.reprieve(before)
	return nodes, true
}

// lookedFor is a version of a room, and the request for which options were searched.
type lookedFor struct {
	room, as, priority, rank int
	ns, job, needs           string
}

// place makes capacity for a request, and returns the node; "" if that is impossible.
func (c *clearing) place(who asker, asks asked) string {
	best, by := -1, option{}
	like, rank := taskset.Signature(asks.needs), 0
	if c.rank != nil {
		rank = c.rank(who.job)
	}
	for i, r := range c.rooms {
		if asks.on != "" && r.Node.Name != asks.on || !c.allowed(who.ns, asks.under, r.Node) {
			continue
		}
		key := lookedFor{i, c.as[i], who.priority, rank, who.ns, c.own(who), like}
		o, known := c.found[key]
		if !known {
			o = c.option(r, asks.needs, who)
			c.found[key] = o
		}
		if o.fits && (best < 0 || cheaper(o.victims, by.victims)) {
			best, by = i, o
		}
		if best >= 0 && len(by.victims) == 0 {
			break // nothing is cheaper
		}
	}
	if best < 0 {
		return ""
	}
	for _, u := range by.victims {
		c.evict(u)
	}
	c.change(best, func(r *esl.Room) { r.Take(asks.needs) })
	c.put(who.ns, asks.under, c.rooms[best].Node)
	for _, x := range asks.needs {
		c.wanted[x.ID] = true
		if c.s.View.Pool(x.ID) != nil {
			c.pools[x.ID] = c.pool(x.ID) - x.Amount
		}
	}
	return c.rooms[best].Node.Name
}

func (c *clearing) evict(u *victim) {
	c.gone[u] = true
	c.evicted = append(c.evicted, u)
	c.free(u.frees)
}

// option returns the victims for needs to fit in a room: the first candidates until they fit, less
// the unnecessary ones.
func (c *clearing) option(r *esl.Room, needs []cluster.Need, who asker) option {
	if r.Fits(needs) {
		return option{fits: true}
	}
	if !r.EverFits(needs) {
		return option{}
	}
	trial := r.Clone()
	var victims []*victim
	for _, u := range c.candidates(r.Node.Name) {
		if c.gone[u] || !c.yields(u, who) {
			continue
		}
		trial.Return(u.on(r.Node.Name))
		if victims = append(victims, u); !trial.Fits(needs) {
			continue
		}
		for i := len(victims) - 1; i >= 0; i-- {
			trial.Hold(victims[i].on(r.Node.Name))
			if trial.Fits(needs) {
				victims = slices.Delete(victims, i, i+1)
				continue
			}
			trial.Return(victims[i].on(r.Node.Name))
		}
		return option{fits: true, victims: victims}
	}
	return option{}
}

// cheaper reports whether evicting victims a is better than evicting victims b.
func cheaper(a, b []*victim) bool {
	worst := func(units []*victim) (priority, rank int, lost time.Duration) {
		priority, rank = math.MinInt, math.MaxInt // no task is lost
		for _, u := range units {
			if lost += u.lost; len(u.tasks) > 0 {
				priority, rank = max(priority, u.priority), min(rank, u.rank)
			}
		}
		return priority, rank, lost
	}
	if len(a) == 0 || len(b) == 0 {
		return len(a) < len(b)
	}
	p, rankA, lostA := worst(a)
	q, rankB, lostB := worst(b)
	return cmp.Or(cmp.Compare(p, q), cmp.Compare(tasksOf(a), tasksOf(b)), cmp.Compare(rankB, rankA), cmp.Compare(lostA, lostB)) < 0
}

// cover evicts holders of cluster-wide resources that are short, such as a quota, and reports
// whether there is enough then.
func (c *clearing) cover(who asker) bool {
	for _, id := range slices.Sorted(maps.Keys(c.pools)) {
		if !c.wanted[id] {
			continue
		}
		for _, u := range c.candidates("") {
			if c.pools[id] >= 0 {
				break
			}
			if !c.gone[u] && c.yields(u, who) && slices.ContainsFunc(u.on(""), func(h types.Holding) bool { return h.Resource == id }) {
				c.evict(u)
			}
		}
		if c.pools[id] < 0 {
			return false
		}
	}
	return true
}

// reprieve spares victims from index first on, the most expensive ones first, as long as all placed
// bundles still fit.
func (c *clearing) reprieve(first int) {
	units := slices.Clone(c.evicted[first:])
	slices.SortFunc(units, func(a, b *victim) int { return b.less(a) })
	for _, u := range units {
		c.retake(u.frees)
		if !c.sound(u) {
			c.free(u.frees)
			continue
		}
		delete(c.gone, u)
		c.evicted = slices.DeleteFunc(c.evicted, func(x *victim) bool { return x == u })
	}
}

// sound reports whether no wanted resource of a victim is allocated twice. Other resources may be
// overdrawn already.
func (c *clearing) sound(u *victim) bool {
	for _, f := range u.frees {
		for _, h := range f.holds {
			if !c.wanted[h.Resource] {
				continue
			}
			if i, ok := c.at[f.node]; ok && c.rooms[i].Overdrawn(h) || h.Cluster && c.pools[h.Resource] < 0 {
				return false
			}
		}
	}
	return true
}
