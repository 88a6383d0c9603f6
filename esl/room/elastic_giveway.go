package room

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

// victimPlan says how an elastic job gives way to waiting tasks.
type victimPlan struct {
	// waited reports whether another task waits for capacity that the job holds or would take.
	waited bool
	// evicted are the tasks to evict.
	evicted []*cluster.Task
	// again is when the next one will have waited long enough; zero means never.
	again time.Time
}

// waiter is a task or reservation that waits for capacity for all of its needs.
type waiter struct {
	name     string
	priority int
	since    int64
	needs    [][]cluster.Need
	// of is its elastic job, if it is outside the core and of the same priority; otherwise empty.
	of cluster.ID
}

// mostWaiters is how many waiters one call considers. Later calls consider the others.
const mostWaiters = 256

// waiters collects the first waiters, and some more.
type waiters struct {
	all []waiter
	// full reports whether the first mostWaiters are sorted. If so, later waiters are dropped.
	full bool
}

func (w *waiters) add(one waiter) {
	if w.full && inOrder(w.all[mostWaiters-1], one) < 0 {
		return
	}
	if w.all = append(w.all, one); len(w.all) == 2*mostWaiters {
		w.all, w.full = w.first(), true
	}
}

// first returns the first mostWaiters, in order.
func (w *waiters) first() []waiter {
	slices.SortFunc(w.all, inOrder)
	return w.all[:min(len(w.all), mostWaiters)]
}

// inOrder orders waiters by priority, then by age.
func inOrder(a, b waiter) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.since, b.since), strings.Compare(a.name, b.name))
}

// giveWay chooses tasks of stay to evict for waiters of at least a priority: the youngest of a node
// first, where the fewest are needed. A waiter outside the core of another elastic job of that
// priority counts only while its job has fewer such tasks than this one. No task is evicted for it
// if its job would then have more.
func (p Elastic) giveWay(s *esl.State, stay []*cluster.Task, priority int) victimPlan {
	var g victimPlan
	waiting := othersWaiting(s, priority)
	if len(waiting) == 0 {
		return g
	}
	e := newEvicting(s, stay)
	hopeless := make(map[string]bool)
	for _, w := range waiting {
		equal := w.of != cluster.ID{}
		if equal && e.has(s, w.of) >= len(stay)-len(e.evicted) {
			continue
		}
		like := ""
		for _, needs := range w.needs {
			like += taskset.Signature(needs) + ";"
		}
		if hopeless[like] {
			continue
		}
		before := e.copy()
		if !e.place(w.needs) {
			hopeless[like], e = true, before
			continue
		}
		g.waited = true
		if equal {
			e.more[w.of]++
			if len(e.evicted) > len(before.evicted) && e.more[w.of] > len(stay)-len(e.evicted) {
				e = before
				continue
			}
		}
		if due := time.Unix(0, w.since).Add(p.patience()); s.Now.Before(due) && len(e.evicted) > len(before.evicted) {
			g.again, e = taskset.Earliest(g.again, due), before
		}
	}
	g.evicted = e.evicted[:min(len(e.evicted), taskset.AtOnce)]
	return g
}

// othersWaiting returns the first waiters of other jobs with at least a priority.
func othersWaiting(s *esl.State, priority int) []waiter {
	var out waiters
	known := make(map[alikeIn][][]cluster.Need) // nil if they do not wait for capacity
	for t := range s.View.Tasks() {
		if t.Phase() != types.Pending || !taskset.IsWaiting(t) || t.Info.V.Priority < priority || t.Info.V.Job == s.Job && t.ID.Namespace == s.Namespace || !s.View.Visible(t) {
			continue
		}
		needs := roomForAlike(s, t, known)
		if needs == nil {
			continue
		}
		w := waiter{name: t.ID.ID, priority: t.Info.V.Priority, since: t.Info.V.Submitted, needs: needs}
		if t.Status.V != nil {
			w.since = max(w.since, t.Status.V.Ended, t.Status.V.Retry)
		}
		if w.priority == priority && isMore(t) {
			w.of = cluster.ID{Namespace: t.ID.Namespace, ID: t.Info.V.Job}
		}
		out.add(w)
	}
	for id, r := range s.View.Reservations {
		if r.Info.V == nil || r.Info.V.AtOnce || taskset.Granted(r) || r.Info.V.Priority < priority || id.Namespace == s.Namespace && r.Info.V.Job == s.Job {
			continue
		}
		w := waiter{name: id.ID, priority: r.Info.V.Priority, since: r.Info.V.Submitted}
		for _, b := range r.Info.V.Bundles {
			w.needs = append(w.needs, s.View.BundleNeeds(id.Namespace, b.Requests, b.Devices...))
		}
		if allThere(s, slices.Concat(w.needs...)) {
			out.add(w)
		}
	}
	return out.first()
}

// alikeIn identifies the tasks of a namespace with equal requests, which share memory (package
// cluster).
type alikeIn struct {
	ns    string
	first *types.Request
}

// roomForAlike is roomFor with a cache for equal requests; nil means that the task does not wait
// for capacity.
func roomForAlike(s *esl.State, t *cluster.Task, known map[alikeIn][][]cluster.Need) (needs [][]cluster.Need) {
	var like alikeIn
	alike := len(t.Info.V.Requests) > 0 && len(t.Info.V.Alternatives)+len(t.Info.V.Devices) == 0
	if alike {
		like = alikeIn{t.ID.Namespace, &t.Info.V.Requests[0]}
		if needs, ok := known[like]; ok {
			return needs
		}
	}
	if room, ok := roomFor(s, t); ok {
		needs = [][]cluster.Need{room}
	}
	if alike {
		known[like] = needs
	}
	return needs
}

// roomFor returns the needs of the first alternative of a task that waits for capacity; ok is false
// if each waits for something else.
func roomFor(s *esl.State, t *cluster.Task) (needs []cluster.Need, ok bool) {
	ways := t.Info.V.Alternatives
	if len(ways) == 0 {
		ways = []types.Alternative{{}}
	}
	for _, way := range ways {
		needs = s.View.Needs(t.ID.Namespace, t.Info.V.Requests.Plus(way.Requests), t.Info.V.Devices...)
		if allThere(s, needs) {
			return needs, true
		}
	}
	return nil, false
}

// allThere reports whether needs lack only physical capacity of nodes: their ephemeral resources
// exist, their cluster-wide resources are free, and none is drawn from a reservation.
func allThere(s *esl.State, needs []cluster.Need) bool {
	asked := make(map[types.ResourceID]types.Quantity)
	for _, x := range needs {
		switch pool := s.View.Pool(x.ID); {
		case x.ID.Scoped():
			return false
		case pool != nil:
			if asked[x.ID] += x.Amount; pool.Free() < asked[x.ID] {
				return false
			}
		case !x.ID.Physical() && !taskset.Exists(s, x.ID):
			return false
		}
	}
	return true
}

// evicting is the nodes as they would be without some tasks.
type evicting struct {
	rooms []*esl.Room
	// on are the possible victims by node, the youngest last.
	on      map[string][]*cluster.Task
	evicted []*cluster.Task
	// more caches has, and includes tasks placed since.
	more map[cluster.ID]int
}

// has returns how many tasks outside its core a job has on nodes, without leaving ones.
func (e *evicting) has(s *esl.State, job cluster.ID) int {
	n, ok := e.more[job]
	if !ok {
		s.View.EachMember(job, func(t *cluster.Task) {
			n += taskset.BoolInt(t.Info.V != nil && t.Phase().Held() && !taskset.Leaving(t) && isMore(t))
		})
		e.more[job] = n
	}
	return n
}

// newEvicting begins without the leaving tasks.
func newEvicting(s *esl.State, stay []*cluster.Task) *evicting {
	e := &evicting{rooms: s.Rooms(), on: make(map[string][]*cluster.Task), more: make(map[cluster.ID]int)}
	for _, r := range e.rooms {
		for _, b := range r.Node.Bindings {
			if b.Task.Info.V != nil && b.Task.Status.V != nil && taskset.Leaving(b.Task) {
				giveUp(r, b)
			}
		}
	}
	for _, t := range stay {
		e.on[t.Status.V.Node] = append(e.on[t.Status.V.Node], t)
	}
	for _, tasks := range e.on {
		slices.SortFunc(tasks, func(a, b *cluster.Task) int {
			return cmp.Or(cmp.Compare(a.Status.V.Bound, b.Status.V.Bound), strings.Compare(a.ID.ID, b.ID.ID))
		})
	}
	return e
}

// copy returns a copy to go back to. It shares rooms: they are replaced, never changed.
func (e *evicting) copy() *evicting {
	c := &evicting{rooms: slices.Clone(e.rooms), on: make(map[string][]*cluster.Task, len(e.on)), evicted: slices.Clone(e.evicted), more: maps.Clone(e.more)}
	for node, tasks := range e.on {
		c.on[node] = tasks
	}
	return c
}

// place allocates all needs, with evictions, and reports whether they fit.
func (e *evicting) place(all [][]cluster.Need) bool {
	return !slices.ContainsFunc(all, func(needs []cluster.Need) bool { return !e.place1(needs) })
}

func (e *evicting) place1(needs []cluster.Need) bool {
	best, fewest := -1, 0
	var room *esl.Room
	for i, r := range e.rooms {
		without, n := e.without(r, needs)
		if without != nil && (best < 0 || n < fewest) {
			best, fewest, room = i, n, without
		}
		if best >= 0 && fewest == 0 {
			break
		}
	}
	if best < 0 {
		return false
	}
	if fewest == 0 {
		room = room.Clone()
	}
	room.Take(needs)
	e.rooms[best] = room
	tasks := e.on[room.Node.Name]
	left := len(tasks) - fewest
	e.on[room.Node.Name], e.evicted = tasks[:left], append(e.evicted, tasks[left:]...)
	return true
}

// without returns a room in which needs fit after its n youngest tasks are evicted; nil if they do
// not fit even then.
func (e *evicting) without(r *esl.Room, needs []cluster.Need) (room *esl.Room, n int) {
	if r.Fits(needs) {
		return r, 0
	}
	tasks := e.on[r.Node.Name]
	if len(tasks) == 0 || !r.EverFits(needs) {
		return nil, 0
	}
	c := r.Clone()
	for n = 1; n <= len(tasks); n++ {
		for _, b := range tasks[len(tasks)-n].Bindings {
			if b.Node == r.Node {
				giveUp(c, b)
			}
		}
		if c.Fits(needs) {
			return c, n
		}
	}
	return nil, 0
}

// giveUp counts the holdings of an attempt as free.
func giveUp(r *esl.Room, b *cluster.Binding) {
	if b.Info.V != nil {
		r.Return(b.Info.V.Holds)
	}
}
