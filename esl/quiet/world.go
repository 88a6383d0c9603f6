package quiet

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

const (
	// maxSlug is the longest name of a kind in the name of a resource.
	maxSlug = 16
	// elsewhere is the kind of all tasks of other namespaces.
	elsewhere = "other-namespaces"
	// mostTasks is how many waiting tasks of a kind a decision places, and mostKinds of how many kinds:
	// those that have waited longest come first.
	mostTasks, mostKinds = 200, 32
	// trialTime is how long two kinds are tried together before an unknown pair counts as harmless.
	trialTime = 40 * time.Second
)

// slug returns the name of a kind in names of resources: a long name becomes a shorter one with a hash.
func slug(name string) string {
	if len(name) <= maxSlug && types.IsName(name) && !strings.Contains(name, ".") && name != alone && name != turn && name != faded && name != learned && !strings.HasPrefix(name, since) {
		return name
	}
	sum := fnv.New32a()
	sum.Write([]byte(name))
	short := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(name))
	return fmt.Sprintf("k%s-%06x", short[:min(len(short), maxSlug-8)], sum.Sum32()>>8)
}

// pairName is the suffix of the pool with what a kind loses next to another one.
func pairName(of, other string) string { return of + "." + other }

// group is the tasks of one kind on a node.
type group struct {
	bindings []*cluster.Binding
	// since is when the first of them was bound.
	since time.Time
}

// site is a node with the kinds on it.
type site struct {
	node *cluster.Node
	here map[string]*group
	// open are the kinds whose tasks may begin there, by the view.
	open map[string]bool
}

// present returns the kinds that are on a site, or may come.
func (x *site) present(but string) []string {
	all := make(map[string]bool, len(x.here)+len(x.open))
	for k := range x.here {
		all[k] = true
	}
	for k := range x.open {
		all[k] = true
	}
	if x.here[but] == nil {
		delete(all, but)
	}
	return slices.Sorted(maps.Keys(all))
}

// queue is the waiting tasks of a kind.
type queue struct {
	kind  string
	tasks []*cluster.Task
	// since is when the first of them began to wait.
	since time.Time
}

// world is the cluster as the policy sees it, for one decision.
type world struct {
	s *esl.State
	// limit is the most that a task may lose, from 0 to 1, and wait how long it waits for a quiet node.
	limit float64
	wait  time.Duration
	// live reports whether a job that uses the policy has tasks. guarded are the kinds that may not be
	// slowed, and tolerates the jobs that may be.
	live      bool
	guarded   map[string]bool
	sites     []*site
	queues    map[string]*queue
	entries   map[string]entry
	togethers map[string]together
	again     time.Time
	// slowed is the result of enemies.
	slowed map[string][]string
}

// surveyOf reads the view.
func surveyOf(s *esl.State, limit float64, wait time.Duration) *world {
	w := &world{s: s, limit: limit, wait: wait, guarded: make(map[string]bool), queues: make(map[string]*queue), entries: make(map[string]entry), togethers: make(map[string]together)}
	users := make(map[string]bool)
	for job, use := range s.Referring() {
		u, ok := use.(esl.Use)
		users[job] = true
		s.View.EachMember(cluster.ID{Namespace: s.Namespace, ID: job}, func(t *cluster.Task) {
			if t.Info.V == nil || t.Phase().Ended() {
				return
			}
			k := w.kindOf(t)
			w.live = true
			w.guarded[k] = w.guarded[k] || !ok || u.As != tolerant
			w.enqueue(k, t)
		})
	}
	for _, n := range s.View.Nodes {
		if n.Alive.V != nil {
			w.sites = append(w.sites, w.siteOf(n))
		}
	}
	slices.SortFunc(w.sites, func(a, b *site) int { return strings.Compare(a.node.Name, b.node.Name) })
	return w
}

// enqueue adds a task to the queue of its kind if it may begin as soon as it has a node.
func (w *world) enqueue(k string, t *cluster.Task) {
	if !taskset.IsWaiting(t) {
		return
	}
	q := w.queues[k]
	if q == nil {
		q = &queue{kind: k}
		w.queues[k] = q
	}
	mine := w.s.Own("") + "."
	if len(q.tasks) == mostTasks || !taskset.Ready(w.s, t.Info.V, func(name string) bool { return strings.HasPrefix(name, mine) }) {
		return
	}
	if since := waitingSince(t); len(q.tasks) == 0 || since.Before(q.since) {
		q.since = since
	}
	q.tasks = append(q.tasks, t)
}

// waitingSince returns when a task began to wait.
func waitingSince(t *cluster.Task) time.Time {
	since := t.Info.V.Submitted
	if t.Status.V != nil {
		since = max(since, t.Status.V.Ended, t.Status.V.Retry)
	}
	return time.Unix(0, since)
}

// kindOf returns the kind of a task: that of the resource which it requests, else that of its history.
func (w *world) kindOf(t *cluster.Task) string {
	if t.ID.Namespace != w.s.Namespace {
		return elsewhere
	}
	for _, r := range t.Info.V.Requests {
		if k, ok := strings.CutPrefix(r.Name, w.s.Own("")+"."); ok {
			k, _, _ = strings.Cut(k, "@")
			return k
		}
	}
	return slug(w.s.HistoryName(t))
}

func (w *world) siteOf(n *cluster.Node) *site {
	x := &site{node: n, here: make(map[string]*group), open: make(map[string]bool)}
	for _, b := range n.Bindings {
		if b.Info.V == nil || b.Gone() || b.Task.Info.V == nil {
			continue
		}
		k, bound := w.kindOf(b.Task), time.Unix(0, b.Info.V.Bound)
		if x.here[k] == nil {
			x.here[k] = &group{since: bound}
		}
		g := x.here[k]
		g.bindings = append(g.bindings, b)
		if bound.Before(g.since) {
			g.since = bound
		}
	}
	prefix := string(types.Resolve(w.s.Namespace, w.s.Own(""))) + "."
	for id := range n.Own {
		k, ok := strings.CutPrefix(string(id), prefix)
		if !ok {
			continue
		}
		has, used := taskset.Capacity(w.s, n, id), n.Used(id)
		if has > used {
			x.open[k] = true
		}
		if used > 0 && x.here[k] == nil {
			x.here[k] = &group{since: w.s.Now} // a reservation holds it
		}
	}
	return x
}

// together is where two kinds are on one node.
type together struct {
	found bool
	// since is when that began, where it has lasted longest.
	since time.Time
}

// together returns whether two kinds are on one node, or may come to be.
func (w *world) together(a, b string) together {
	key := pairName(min(a, b), max(a, b))
	t, known := w.togethers[key]
	if known {
		return t
	}
	for _, x := range w.sites {
		first, second := x.here[a], x.here[b]
		switch {
		case first != nil && second != nil:
			since := first.since
			if second.since.After(since) {
				since = second.since
			}
			if !t.found || since.Before(t.since) {
				t.since = since
			}
			t.found = true
		case (first != nil || x.open[a]) && (second != nil || x.open[b]) && !t.found:
			t = together{true, w.s.Now}
		}
	}
	w.togethers[key] = t
	return t
}

// set returns the change of a pool of the policy.
func (w *world) set(suffix string, capacity types.Quantity) controlplane.Resource {
	return controlplane.Resource{Name: w.s.Own(suffix), Capacity: capacity, Where: controlplane.InCluster(), Options: controlplane.SetOptions{Declare: capacity > 0}}
}

// pool returns the amount of a pool of the policy; 0 if there is none.
func (w *world) pool(suffix string) types.Quantity {
	if p := w.s.Pool(w.s.Own(suffix)); p != nil && p.Info.V != nil {
		return p.Capacity()
	}
	return 0
}

// timeOf returns the time that a pool of the policy has; ok is false if there is none.
func (w *world) timeOf(suffix string) (at time.Time, ok bool) {
	q := w.pool(suffix)
	if at = esl.Stamped(q); at.After(w.s.Now) {
		at = w.s.Now // the clock of another server was ahead
	}
	return at, q > 0
}

// The pools of the policy besides those of pairs: that of State.TakeTurn; and when something was learned, and forgotten, last.
const (
	turn    = "turn"
	learned = "learned"
	faded   = "faded"
)
