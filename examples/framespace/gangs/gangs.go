package gangs

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
)

// never is the time of a gang that waits for a change.
const never = math.MaxInt64

// gang is a set of waiting tasks that are bound in one transaction, or not at all.
type gang struct {
	id    gangID
	tasks map[cluster.ID]*cluster.Task
	// order has the tasks by priority and age; next sets it.
	order []*cluster.Task
	// at is when to try it, in Unix nanoseconds.
	at int64
	// aside reports whether it is not tried until one of its tasks changes.
	aside bool
}

// gangID names a gang: by its job, or by its only task.
type gangID struct {
	cluster.ID
	job bool
}

// compare orders tasks by priority and age.
func compare(a, b *cluster.Task) int {
	x, y := a.Info.V, b.Info.V
	return cmp.Or(cmp.Compare(y.Order(), x.Order()), cmp.Compare(x.Submitted, y.Submitted),
		a.ID.Compare(b.ID))
}

// board has the waiting tasks of a view that name this scheduler, by gang.
type board struct {
	view  *cluster.View
	gangs map[gangID]*gang
	of    map[cluster.ID]gangID
	// freed reports whether capacity may have become free since the last next.
	freed bool
}

// apply applies an update, and returns the errors of the values that it cannot read. Their keys
// count as absent.
func (b *board) apply(u controlplane.Update) (unread []error) {
	var keys []controlplane.Key
	for _, e := range u.Events {
		k, changed, err := b.view.Apply(e)
		if err != nil {
			unread = append(unread, err)
		}
		if changed {
			keys = append(keys, k)
		}
	}
	b.view.Reached(u.Revision)
	for _, k := range keys { // once all are applied: in between, the view shows no real state
		b.touch(k)
	}
	return unread
}

// touch regroups the tasks that a changed key concerns.
func (b *board) touch(k controlplane.Key) {
	id := cluster.ID{Namespace: k.Namespace, ID: k.ID}
	switch k.Kind {
	case controlplane.Tasks, controlplane.Statuses:
		b.regroup(id)
		return
	case controlplane.Jobs:
		b.view.EachMember(id, func(t *cluster.Task) { b.regroup(t.ID) })
		return
	case controlplane.Bindings, controlplane.Reports:
		b.regroup(id)
	}
	b.freed = true
}

// regroup puts a task into its present gang, if it waits.
func (b *board) regroup(id cluster.ID) {
	if g := b.gangs[b.of[id]]; g != nil {
		g.at, g.aside = 0, false
		delete(g.tasks, id)
		delete(b.of, id)
		if len(g.tasks) == 0 {
			delete(b.gangs, g.id)
		}
	}
	t := b.view.Task(id)
	now, waits := b.gangOf(t)
	if !waits {
		return
	}
	g := b.gangs[now]
	if g == nil {
		g = &gang{id: now, tasks: make(map[cluster.ID]*cluster.Task)}
		b.gangs[now] = g
	}
	g.at, g.aside = 0, false
	g.tasks[id], b.of[id] = t, now
}

// gangOf returns the gang of a task; waits is false if the task is not for this scheduler to bind.
func (b *board) gangOf(t *cluster.Task) (id gangID, waits bool) {
	if t == nil || !b.view.Visible(t) || t.Phase() != types.Pending || len(t.Bindings) > 0 {
		return gangID{}, false
	}
	x := t.Info.V
	if x.Scheduler != Name || x.Stop != nil {
		return gangID{}, false
	}
	if x.Job == "" || t.Status.V != nil {
		return gangID{ID: t.ID}, true
	}
	id = gangID{ID: cluster.ID{Namespace: t.ID.Namespace, ID: x.Job}, job: true}
	if !strings.HasPrefix(b.view.Jobs[id.ID].V.Name, "gang") {
		return gangID{ID: t.ID}, true
	}
	return id, true
}

// whole reports whether the view has every task of the job of a gang, waiting or not.
func (b *board) whole(g *gang) bool {
	if !g.id.job {
		return true
	}
	visible := 0
	b.view.EachMember(g.id.ID, func(t *cluster.Task) {
		if b.view.Visible(t) {
			visible++
		}
	})
	return visible >= b.view.Jobs[g.id.ID].V.Tasks
}

// next returns the gangs to try now, by priority and age of their first tasks.
func (b *board) next(now time.Time) []*gang {
	var due []*gang
	for _, g := range b.gangs {
		if !g.aside && (b.freed || g.at <= now.UnixNano()) {
			g.at = 0
			g.order = slices.SortedFunc(maps.Values(g.tasks), compare)
			due = append(due, g)
		}
	}
	b.freed = false
	slices.SortFunc(due, func(x, y *gang) int { return compare(x.order[0], y.order[0]) })
	return due
}

// wake returns when the first gang is to be tried without a change, in Unix nanoseconds.
func (b *board) wake() int64 {
	at := int64(never)
	for _, g := range b.gangs {
		if !g.aside {
			at = min(at, g.at)
		}
	}
	return at
}

// nodes returns the nodes to which tasks may be bound, in order of arrival.
func (b *board) nodes() []*cluster.Node {
	all := slices.SortedFunc(maps.Values(b.view.Nodes), func(x, y *cluster.Node) int { return x.Serial - y.Serial })
	return slices.DeleteFunc(all, func(n *cluster.Node) bool { return !n.Eligible() })
}

// place fills a draft with all tasks of a gang, and reports whether they fit. Invalid: they exceed
// one transaction.
func (b *board) place(d *draft.Draft, g *gang, nodes []*cluster.Node, now time.Time) (fits bool, err error) {
	g.at = never
	if b.view.UnreadNamespace(g.id.Namespace) || !b.whole(g) {
		return false, nil
	}
	var s search
	for _, t := range g.order {
		if s := t.Status.V; s != nil && s.Retry > now.UnixNano() {
			g.at = s.Retry
			return false, nil
		}
		if t.Info.V.Deadline != 0 && t.Info.V.Deadline <= now.UnixNano() {
			return false, nil // it is about to fail
		}
		if shape := queue.TaskText(t.ID.Namespace, t.Info.V); shape != s.shape || len(t.Info.V.Provides) > 0 {
			needs := grants.Vectors(b.view, t)
			s = search{shape: shape, needs: needs, from: make([]int, len(needs))}
		}
		n, alternative := s.find(d, g, t, nodes, now)
		if n == nil {
			return false, nil
		}
		if !d.Bind(t, n, alternative, s.needs[alternative], now) {
			return false, types.Errorf(types.Invalid, "gang %s: %d tasks exceed one transaction of the store: submit fewer", g.id, len(g.tasks))
		}
	}
	return true, nil
}

// search looks for nodes for the tasks of one shape.
type search struct {
	shape string
	// needs are the vectors of the alternatives. from is, for each, the first node that may have room:
	// the draft only takes capacity, so no earlier node has any again.
	needs [][]cluster.Need
	from  []int
}

// find returns a node for the first allowed alternative of a task that fits anywhere; nil if there
// is none.
func (s *search) find(d *draft.Draft, g *gang, t *cluster.Task, nodes []*cluster.Node, now time.Time) (n *cluster.Node, alternative int) {
	for i, needs := range s.needs {
		if at := grants.AllowedAt(t.Info.V, i); at > now.UnixNano() {
			g.at = min(g.at, at)
			continue
		}
		if _, short := d.PoolShort(needs); short {
			continue
		}
		for ; s.from[i] < len(nodes); s.from[i]++ {
			if _, ok := d.Fits(nodes[s.from[i]], needs); ok {
				return nodes[s.from[i]], i
			}
		}
	}
	return nil, 0
}
