package share

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// A census lists the users of a cluster: what each has, and what each waits for.
type census struct {
	s    *esl.State
	over []string
	// after is how long a user waits for its share before it is taken back from others; 0 means without limit.
	after time.Duration
	// capacity is how much of each resource is shared, in units of the pools.
	capacity []float64
	users    []*user
	byPath   map[string]*user
	// asked caches the requests by vector: most tasks share theirs with others.
	asked map[vector][]float64
	tree  *sharer
	// nodes are those that take tasks; taken are nodes where capacity is being collected.
	nodes []*esl.Room
	taken map[string]bool
	// rooms are the reservations of the policy, ids the free ids for more.
	rooms []*cluster.Reservation
	ids   []string
	// seeking are tasks within their share that fit on no node.
	seeking []waitingTask
	// gangs are the reservations that wait for a grant, by job.
	gangs  map[string][]*cluster.Reservation
	memory *memory
}

// A vector is the requests of tasks of a namespace.
type vector struct {
	ns    string
	first *types.Request
}

// A user has tasks that have not ended. Amounts are by resource.
type user struct {
	sharer
	path string
	// ns is the namespace of its tasks, and of its pools.
	ns    string
	pools []string
	rids  []types.ResourceID
	// part is the user's fraction of everything if all users want all.
	part float64
	// cap is the current capacity of the user's pools, -1 where there is none.
	cap []types.Quantity
	// held is what the tasks have; waits is what tasks request that wait only for it.
	held, waits []float64
	// unit is the smallest waiting task or gang, and unitID its id; nil if nothing waits. first is the
	// first one in the queue. It is the unit instead when it has waited long.
	unit   []float64
	unitID string
	first  waiter
	// saves means that unit is first. pauses means that the user begins nothing for now: it saves for
	// its unit, or that of another user has its turn.
	saves, pauses bool
	// oldest is when the longest waiting task was submitted, served when a task was bound last,
	// joined when the first task that has not ended was submitted, in Unix nanoseconds; 0 means
	// none.
	oldest, served, joined int64
	// jobs are those with tasks that have not ended; ran is how many of their tasks have begun, and
	// took the sum of their durations until now.
	jobs []string
	ran  int
	took time.Duration
	// bound are the tasks with a node, in no order; none if nothing is taken back.
	bound []*cluster.Task
}

// censusOf counts what the users of a tree hold and wait for. over lists the shared resources. reclaim is
// the time after which a waiting user takes back its share from others; 0 means never.
func censusOf(s *esl.State, over []string, all Team, reclaim time.Duration) *census {
	c := &census{s: s, over: over, after: reclaim, byPath: make(map[string]*user), asked: make(map[vector][]float64), memory: esl.Remember(s, newMemory)}
	c.rooms, c.ids = taskset.Numbered(s, roomsAtOnce)
	c.gangs = c.waitingGangs()
	referring := s.Referring()
	for _, job := range slices.Sorted(maps.Keys(referring)) {
		// A program may have put a use that no submission has checked.
		use, ok := referring[job].(esl.Use)
		if !ok || s.At(job).Namespace != s.Namespace && (ofTeam(use, s.At(job).Namespace) != nil || all.user(use.As) != nil) {
			continue
		}
		c.count(use.As, job)
	}
	slices.SortFunc(c.users, func(a, b *user) int { return strings.Compare(a.path, b.path) })
	c.capacity = c.total()
	window := c.window()
	for _, u := range c.users {
		if u.first.asks != nil && c.since(u.first.submitted) >= window && c.covers(c.capacity, u.first.asks) {
			u.unit, u.unitID, u.saves = u.first.asks, u.first.id, true
		}
	}
	c.forget()
	c.tree = c.grow(all)
	return c
}

func (c *census) waitingGangs() map[string][]*cluster.Reservation {
	out := make(map[string][]*cluster.Reservation)
	for id, r := range c.s.View.Reservations {
		if r.Info.V != nil && r.Info.V.Job != "" && !r.Info.V.Directed() && r.Grant.V == nil {
			job := c.s.Ref(cluster.ID{Namespace: id.Namespace, ID: r.Info.V.Job})
			out[job] = append(out[job], r)
		}
	}
	return out
}

// user returns the user with a path, and creates it if needed, with pools in a namespace; nil if its pools
// are in another one.
func (c *census) user(path, ns string) *user {
	if u := c.byPath[path]; u != nil && u.ns == ns {
		return u
	} else if u != nil {
		return nil
	}
	n := len(c.over)
	u := &user{path: path, ns: ns, cap: make([]types.Quantity, n), held: make([]float64, n), waits: make([]float64, n)}
	for r, resource := range c.over {
		name := sharePool(c.named(ns), path, resource)
		rid := types.Resolve(ns, name)
		u.pools, u.rids = append(u.pools, name), append(u.rids, rid)
		u.cap[r] = -1
		pool := c.s.View.Pools[rid]
		if pool == nil {
			continue
		}
		if pool.Info.V != nil {
			u.cap[r] = pool.Info.V.Capacity
		}
		if pool.Allocated.V != nil {
			u.held[r] = float64(pool.Allocated.V.Of(rid))
		}
	}
	c.users, c.byPath[path] = append(c.users, u), u
	return u
}

// named is the name of the policy in a namespace.
func (c *census) named(ns string) string {
	if ns == c.s.Namespace {
		return c.s.ID
	}
	return c.s.Namespace + ":" + c.s.ID
}

// count counts the tasks of a job, if any has not ended.
func (c *census) count(path, job string) {
	var u *user
	of := c.s.At(job)
	if is := c.byPath[path]; is != nil && is.ns != of.Namespace {
		return // its tasks wait for pools that are not there
	}
	var served int64
	var took time.Duration
	ran := 0
	c.s.View.EachMember(of, func(t *cluster.Task) {
		if t.Status.V != nil {
			served = max(served, t.Status.V.Bound)
			if began, ended := c.ran(t); began > 0 {
				took, ran = took+time.Duration(ended-began), ran+1
			}
		}
		if t.Info.V == nil || t.Phase().Ended() {
			return
		}
		if u == nil {
			u = c.user(path, of.Namespace)
		}
		if u.joined == 0 || t.Info.V.Submitted < u.joined {
			u.joined = t.Info.V.Submitted
		}
		switch {
		case t.Phase() != types.Pending:
			if c.after > 0 {
				u.bound = append(u.bound, t)
			}
		case t.Info.V.Stop == nil:
			c.wait(u, waiter{c.s.Ref(t.ID), t.Info.V.Order(), t.Info.V.Submitted, c.asks(u, t.Info.V)})
		}
	})
	if u == nil {
		return
	}
	u.served, u.took, u.ran, u.jobs = max(u.served, served), u.took+took, u.ran+ran, append(u.jobs, job)
	for _, g := range c.gangs[job] {
		c.wait(u, waiter{c.s.Ref(g.ID), g.Info.V.Order(), g.Info.V.Submitted, c.ofGang(u, job, g)})
	}
}

// ofGang returns what a gang draws on the pools of a user; nil if it waits for other resources, too.
func (c *census) ofGang(u *user, job string, g *cluster.Reservation) []float64 {
	all := make([]float64, len(u.pools))
	var last types.Requests
	for i, b := range g.Info.V.Bundles {
		if i == 0 || !slices.Equal(b.Requests, last) {
			if last = b.Requests; c.resolve(u, g.Info.V.Job, b.Requests) == nil {
				return nil
			}
		}
		for r, pool := range u.pools {
			all[r] += float64(b.Requests.Get(pool))
		}
	}
	return all
}

// A waiter is a waiting task or gang, and what it draws on the pools.
type waiter struct {
	id        string
	order     int
	submitted int64
	asks      []float64
}

// before reports whether x comes before y in the queue.
func (x waiter) before(y waiter) bool {
	return cmp.Or(cmp.Compare(y.order, x.order), cmp.Compare(x.submitted, y.submitted), strings.Compare(x.id, y.id)) < 0
}

// wait adds a waiting task or gang.
func (c *census) wait(u *user, x waiter) {
	most := 0.0
	for _, a := range x.asks {
		most = max(most, a)
	}
	if most == 0 {
		return
	}
	for r, a := range x.asks {
		u.waits[r] += a
	}
	if u.unit == nil || smaller(x.asks, u.unit) {
		u.unit, u.unitID = x.asks, x.id
	}
	if u.oldest == 0 || x.submitted < u.oldest {
		u.oldest = x.submitted
	}
	is, claimed := c.memory.claims[x.id]
	if claimed {
		is.waits = true
	}
	if !is.vain() && (u.first.asks == nil || x.before(u.first)) {
		u.first = x
	}
}

// smaller reports whether a is the smaller of two vectors: by the first resource in which they
// differ.
func smaller(a, b []float64) bool {
	for r := range a {
		if a[r] != b[r] {
			return a[r] < b[r]
		}
	}
	return false
}

// asks returns what a task draws on the pools of a user; nil if a reservation holds it, or if the
// task waits for other resources, too. No capacity is kept free for such a task.
func (c *census) asks(u *user, t *cluster.TaskValue) []float64 {
	for _, a := range t.Alternatives {
		if out := c.resolve(u, t.Job, t.Requests.Plus(a.Requests)); out != nil {
			return out
		}
	}
	if len(t.Alternatives) > 0 {
		return nil
	}
	if len(t.Requests) == 0 {
		return nil
	}
	key := vector{u.ns, &t.Requests[0]}
	out, ok := c.asked[key]
	if !ok {
		out = c.resolve(u, t.Job, t.Requests)
		c.asked[key] = out
	}
	return out
}

func (c *census) resolve(u *user, job string, requests types.Requests) []float64 {
	out := make([]float64, len(c.over))
	for _, x := range requests {
		if r := slices.Index(u.pools, x.Name); r >= 0 {
			out[r] = float64(x.Amount)
		} else if rid := types.Resolve(u.ns, x.Name); !rid.Physical() && !taskset.IsSharePool(x.Name) && !c.there(rid, x.Amount) {
			c.s.NoteLacking(job, rid)
			return nil // except a pool of another tree, which in turn waits for this one
		}
	}
	for _, n := range c.s.View.Nodes {
		if n.Eligible() && taskset.IsLarge(c.s.View, n, requests) {
			return out
		}
	}
	return nil
}

// there reports whether an ephemeral resource is free, so that a request does not wait for it.
func (c *census) there(rid types.ResourceID, amount types.Quantity) bool {
	v := c.s.View
	if pool := v.Pool(rid); pool != nil {
		return pool.Free() >= amount
	}
	return v.Everywhere[rid] != nil || len(v.At(rid)) > 0
}

// total returns the shared capacity: that of nodes that take tasks, and what is still in use on
// others, less what tasks outside the policy have.
func (c *census) total() []float64 {
	out := make([]float64, len(c.over))
	for r, resource := range c.over {
		rid := types.ResourceID(resource)
		used := 0.0
		for _, room := range c.rooms {
			used -= c.collected(room, resource) // it is for users of the policy
		}
		for _, n := range c.s.View.Nodes {
			held := float64(drawn(resource, n.Used(rid)))
			used += held
			if capacity, ok := c.s.View.Capacity(n, rid); ok && n.Eligible() {
				out[r] += float64(drawn(resource, capacity))
			} else {
				out[r] += held
			}
		}
		for _, u := range c.users {
			used -= u.held[r]
		}
		out[r] = max(0, out[r]-max(0, used))
	}
	return out
}

// grow makes the tree of the present users.
func (c *census) grow(all Team) *sharer {
	root := &sharer{weight: 1}
	type team struct {
		at *sharer
		of Team
	}
	teams := map[string]team{"": {root, all}}
	for _, u := range c.users {
		at, path := teams[""], ""
		names := strings.Split(u.path, "/")
		for _, name := range names[:len(names)-1] {
			path += "/" + name
			next, ok := teams[path]
			if !ok {
				next = team{&sharer{weight: at.of.weight(name)}, at.of.Of[name]}
				at.at.of = append(at.at.of, next.at)
				teams[path] = next
			}
			at = next
		}
		u.weight = at.of.weight(names[len(names)-1])
		u.demand = make([]float64, len(c.over))
		for r := range c.over {
			u.demand[r] = u.held[r] + u.waits[r]
		}
		at.at.of = append(at.at.of, &u.sharer)
	}
	root.parts(1)
	for _, u := range c.users {
		u.part = u.rate
	}
	return root
}

// parts divides everything by weight alone, as if all users wanted all.
func (t *sharer) parts(rate float64) {
	t.rate = rate
	sum := 0.0
	for _, c := range t.of {
		sum += c.weight
	}
	for _, c := range t.of {
		c.parts(rate * c.weight / sum)
	}
}
