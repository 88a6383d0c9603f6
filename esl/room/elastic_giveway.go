package room

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// waiter is a task or reservation that waits for capacity for all of its needs.
type waiter struct {
	name     string
	job      cluster.ID
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

// late reports whether one comes too late to be among the first.
func (w *waiters) late(one *waiter) bool { return w.full && inOrder(&w.all[mostWaiters-1], one) < 0 }

func (w *waiters) add(one waiter) {
	if w.all = append(w.all, one); len(w.all) == 2*mostWaiters {
		w.all, w.full = w.first(), true
	}
}

// first returns the first mostWaiters, in order.
func (w *waiters) first() []waiter {
	slices.SortFunc(w.all, func(a, b waiter) int { return inOrder(&a, &b) })
	return w.all[:min(len(w.all), mostWaiters)]
}

// inOrder orders waiters by priority, then by age.
func inOrder(a, b *waiter) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.since, b.since), strings.Compare(a.name, b.name))
}

// yielded is how an elastic job gives way.
type yielded struct {
	evicted []*victim
	// waited reports whether a waiter needs capacity that the job holds, or that is free, and behind
	// whether one fits nowhere yet: it gets what becomes free.
	waited, behind bool
	// again is when the next one will have waited long enough; zero means never.
	again time.Time
	// rooms are what is left for the job.
	rooms []*esl.Room
}

// fitting returns how many more tasks outside the core fit on rooms.
func fitting(s *esl.State, rooms []*esl.Room) (n int) {
	taskset.Of(s, s.Own(elasticMore)).Put(rooms, math.MaxInt, func(_ *esl.Room, more, _ int) { n += more })
	return n
}

// giveWay chooses tasks of stay to evict for waiters of at least a priority: the youngest of a node
// first, where the fewest are needed. A waiter that fits only then has waited for patience.
//
// A waiter outside the core of another elastic job of that priority counts only while its job has
// fewer such tasks than this one. No task is evicted for it if its job would then have more.
func giveWay(s *esl.State, stay []*cluster.Task, priority int, patience time.Duration) (y yielded) {
	waiting := othersWaiting(s, priority)
	if len(waiting) == 0 {
		return y
	}
	c := yielding(s, stay)
	hopeless, more := make(map[string]bool), make(map[cluster.ID]int)
	for _, w := range waiting {
		equal := w.of != cluster.ID{}
		if equal && has(s, w.of, more) >= len(stay)-len(c.evicted) {
			continue
		}
		like := ""
		all := make([]asked, len(w.needs))
		for i, needs := range w.needs {
			like += taskset.Signature(needs) + ";"
			all[i].needs = needs
		}
		if hopeless[like] {
			continue
		}
		before := c.copy()
		if _, fits := c.settle(asker{}, all); !fits {
			hopeless[like] = true
			y.behind = y.behind || !equal
			c.back(before)
			continue
		}
		y.waited = true
		evicts := len(c.evicted) > len(before.evicted)
		due := time.Unix(0, w.since).Add(patience)
		switch {
		case evicts && equal && more[w.of]+1 > len(stay)-len(c.evicted):
			c.back(before)
		case evicts && s.Now.Before(due):
			y.again = taskset.Earliest(y.again, due)
			c.back(before)
		case equal:
			more[w.of]++
		}
	}
	y.evicted, y.rooms = c.evicted, c.rooms
	return y
}

// othersWaiting returns the first waiters of other jobs with at least a priority. All elastic jobs share
// them, but one that is itself among the first, which finds those behind it.
func othersWaiting(s *esl.State, priority int) []waiter {
	own := cluster.ID{Namespace: s.Namespace, ID: s.Job}
	is := func(w waiter) bool { return w.job == own }
	all := esl.Share(s, fmt.Sprintf("elastic waiters %d", priority), func() []waiter { return waitingWithout(s, priority, cluster.ID{}) })
	if !slices.ContainsFunc(all, is) {
		return all
	}
	if len(all) < mostWaiters {
		return slices.DeleteFunc(slices.Clone(all), is)
	}
	return waitingWithout(s, priority, own)
}

// waitingWithout returns the first waiters with at least a priority, but those of a job.
func waitingWithout(s *esl.State, priority int, own cluster.ID) []waiter {
	var out waiters
	known := make(map[alikeIn][][]cluster.Need) // nil if they do not wait for capacity
	for t := range s.View.Tasks() {
		if t.Phase() != types.Pending || !taskset.IsWaiting(t) || t.Info.V.Priority < priority || !s.View.Visible(t) {
			continue
		}
		w := waiter{name: t.ID.ID, job: cluster.ID{Namespace: t.ID.Namespace, ID: t.Info.V.Job}, priority: t.Info.V.Priority, since: t.Info.V.Submitted}
		if t.Status.V != nil {
			w.since = max(w.since, t.Status.V.Ended, t.Status.V.Retry)
		}
		if w.job == own || out.late(&w) || drawsAll(t) {
			continue
		}
		if w.needs = roomForAlike(s, t, known); w.needs == nil {
			continue
		}
		if w.priority == priority && isMore(t) {
			w.of = w.job
		}
		out.add(w)
	}
	for id, r := range s.View.Reservations {
		if r.Info.V == nil || r.Info.V.Directed() || taskset.Granted(r) || r.Info.V.Priority < priority {
			continue
		}
		w := waiter{name: id.ID, job: cluster.ID{Namespace: id.Namespace, ID: r.Info.V.Job}, priority: r.Info.V.Priority, since: r.Info.V.Submitted}
		if w.job == own || out.late(&w) {
			continue
		}
		for _, b := range r.Info.V.Bundles {
			w.needs = append(w.needs, s.View.BundleNeeds(id.Namespace, b.Requests, b.Devices...))
		}
		if allThere(s, slices.Concat(w.needs...)) {
			out.add(w)
		}
	}
	return out.first()
}

// drawsAll reports whether a task draws on a reservation in any case: the reservation waits for it.
func drawsAll(t *cluster.Task) bool {
	return slices.ContainsFunc(t.Info.V.Requests, func(x types.Request) bool { return strings.Contains(x.Name, "@") })
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

// has returns how many tasks outside its core a job has on nodes, without leaving ones. known caches
// it.
func has(s *esl.State, job cluster.ID, known map[cluster.ID]int) int {
	n, ok := known[job]
	if !ok {
		s.View.EachMember(job, func(t *cluster.Task) {
			n += taskset.BoolInt(t.Info.V != nil && taskset.Remains(t) && isMore(t))
		})
		known[job] = n
	}
	return n
}

// yielding begins without the leaving tasks. Those of stay may be evicted, for any waiter.
func yielding(s *esl.State, stay []*cluster.Task) *clearing {
	c := clearingOf(s, func(*victim, asker) bool { return true })
	for _, n := range s.View.Nodes {
		for _, b := range n.Bindings {
			t := b.Task
			if b.Info.V == nil || t.Info.V == nil || t.Status.V == nil || !taskset.Leaving(t) {
				continue
			}
			var u victim
			c.hold(&u, b)
			c.free(u.frees)
		}
	}
	for _, t := range stay {
		for _, b := range t.Bindings {
			if b.Info.V != nil && b.Node.Name == t.Status.V.Node {
				u := &victim{ns: t.ID.Namespace, priority: t.Info.V.Priority}
				c.hold(u, b)
				c.alone(u, t)
			}
		}
	}
	return c
}
