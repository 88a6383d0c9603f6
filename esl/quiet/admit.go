package quiet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Where tasks of a kind may begin. The resource of a kind is open on a node where it has more than is in use.
// A kind is opened on a node only if it goes with all kinds that are there, or that are open there by the
// view. So a node is closed for one kind in one plan, and opened for another in a later one, whose view
// shows each task that has come until then.

// since is the beginning of the name of a pool with the time from which no node with room was quiet for a kind.
const since = "loud-"

// gather is how long the waiting tasks of a kind are put on few nodes, if it has enemies. Then it gets all
// quiet nodes, as another policy may want it on more.
const gather = 5 * time.Second

// leastOpen is on how many nodes at least a kind without enemies is opened, if there are as many: more than
// it needs, so that the scheduler has a choice.
const leastOpen = 8

// verdict says whether a kind may come to a node.
type verdict struct {
	// admitted reports that it goes with the kinds there. trial reports that this is a guess, which one
	// task tries; trying is set while another one tries it.
	admitted, trial, trying bool
	// cost is what the kind and the guarded kinds there lose to one another, worst the largest part of it,
	// and by the kind next to which that is.
	cost, worst float64
	by          string
}

// judge returns whether a kind may come to a node.
func (w *world) judge(x *site, k string, present []string) verdict {
	v, sum := verdict{admitted: true}, 0.0
	for _, other := range present {
		loses := 0.0
		for _, pair := range [][2]string{{k, other}, {other, k}} {
			if !w.guarded[pair[0]] || pair[0] == pair[1] && loses > 0 {
				continue
			}
			e := w.entry(pair[0], pair[1])
			if e.n < enough && k != other {
				w.try(&v, x, k, other)
				continue
			}
			loses = max(loses, e.lost)
			v.cost += e.lost
			if pair[0] == k {
				sum += e.lost
			}
		}
		if loses > v.worst {
			v.worst, v.by = loses, other
		}
	}
	v.admitted = v.worst <= w.limit && sum <= w.limit && !v.trying
	return v
}

// try adds to a verdict that a pair is not known.
func (w *world) try(v *verdict, x *site, k, other string) {
	switch t := w.together(k, other); {
	case !t.found:
		v.trial = true
	case w.s.Now.Before(t.since.Add(trialTime)):
		// It goes on where it began: that node stays open until the task has come.
		v.trial = v.trial || x.open[k] && x.here[k] == nil
		v.trying = v.trying || !(x.open[k] && x.here[k] == nil)
		w.later(t.since.Add(trialTime))
	}
}

// option is a node that a kind may get.
type option struct {
	site *site
	room *esl.Room
	verdict
	fits bool
	// spoils is for how many kinds that are known to suffer the node would no longer be quiet.
	spoils int
	load   float64
}

// options returns all nodes that take tasks, the best for a kind first.
func (w *world) options(q *queue, rooms []*esl.Room, want map[*site]map[string]types.Quantity, set taskset.Set) []*option {
	var out []*option
	bySite := make(map[string]*site, len(w.sites))
	for _, x := range w.sites {
		bySite[x.node.Name] = x
	}
	for _, r := range rooms {
		x := bySite[r.Node.Name]
		if x == nil {
			continue
		}
		present := x.present(q.kind)
		for other := range want[x] {
			if !slices.Contains(present, other) && other != q.kind {
				present = append(present, other)
			}
		}
		o := &option{site: x, room: r, verdict: w.judge(x, q.kind, present), spoils: w.spoils(q.kind, present), load: load(r)}
		o.fits = slices.ContainsFunc(set.Shapes, func(s *taskset.Shape) bool { return s.Fits(r) })
		out = append(out, o)
	}
	enemies := w.hasEnemies(q.kind)
	slices.SortStableFunc(out, func(a, b *option) int {
		no := func(yes bool) int { return 1 - taskset.BoolInt(yes) }
		mine := func(o *option) int { return no(o.site.open[q.kind] || enemies && o.site.here[q.kind] != nil) }
		return cmp.Or(cmp.Compare(no(a.fits), no(b.fits)), -cmp.Compare(no(a.trial), no(b.trial)), cmp.Compare(a.cost, b.cost),
			cmp.Compare(a.spoils, b.spoils), cmp.Compare(mine(a), mine(b)), cmp.Compare(a.load, b.load))
	})
	return out
}

// outlook is what a kind waits for that may not begin on any node with room: opens is a node that is about
// to be opened for it, trying one on which it is tried how it goes with others, and loud are those on which
// tasks would lose too much.
type outlook struct {
	opens, trying string
	loud          []string
}

// outlook returns an empty one if a node with room is open for a kind, or none has room.
func (w *world) outlook(k string) (x outlook) {
	q := cmp.Or(w.queues[k], &queue{kind: k})
	for _, o := range w.options(q, w.s.Rooms(), nil, taskset.OfTasks(w.s, q.tasks, w.s.Own(""))) {
		switch name := o.site.node.Name; {
		case !o.fits:
		case o.site.open[k]:
			return outlook{}
		case o.admitted:
			return outlook{opens: name}
		case o.trying:
			x.trying = name
		default:
			x.loud = append(x.loud, fmt.Sprintf("%s (%s: %.0f %%)", name, o.by, 100*o.worst))
		}
	}
	return x
}

// takesAny says when a task of a kind takes a node that is not quiet.
func (w *world) takesAny(k string) string {
	from, marked := w.timeOf(since + k)
	if due := from.Add(w.wait); marked && w.s.Now.Before(due) {
		return "it takes the least bad one in " + why.InWords(due.Sub(w.s.Now).Round(time.Second))
	}
	return "it takes the least bad one by now"
}

// spoils returns for how many kinds, there or not, a node with others is quiet, and with another kind is not.
// So loud kinds share nodes, and leave others quiet for those that come later.
func (w *world) spoils(k string, present []string) (n int) {
	for _, enemies := range w.enemies() {
		if slices.Contains(enemies, k) && !slices.ContainsFunc(present, func(other string) bool { return slices.Contains(enemies, other) }) {
			n++
		}
	}
	return n
}

// enemies returns which kinds are known to slow a kind too much, by that kind.
func (w *world) enemies() map[string][]string {
	if w.slowed != nil {
		return w.slowed
	}
	w.slowed = make(map[string][]string)
	for _, key := range w.parts() {
		of, other, _ := strings.Cut(key, ".")
		if e := w.entries[key]; other != alone && other != of && e.n >= enough && e.lost > w.limit {
			w.slowed[of] = append(w.slowed[of], other)
		}
	}
	return w.slowed
}

// load is the part of the processors of a node that is in use.
func load(r *esl.Room) float64 {
	c := r.Capacity(types.CPU)
	free, _ := r.Free(types.CPU)
	if c <= 0 || c == types.Inf {
		return 0
	}
	return float64(c-free) / float64(c)
}

// admit returns the plan that opens nodes for the kinds that wait, and closes the others.
func (w *world) admit() esl.Plan {
	plan := esl.Plan{Reason: "kinds of jobs are kept apart", Idle: "each kind that waits may begin where it may, and nothing new is known"}
	want := make(map[*site]map[string]types.Quantity)
	queues := slices.SortedFunc(maps.Values(w.queues), func(a, b *queue) int {
		return cmp.Or(a.since.Compare(b.since), strings.Compare(a.kind, b.kind))
	})
	queues = slices.DeleteFunc(queues, func(q *queue) bool { return len(q.tasks) == 0 })
	rooms := w.s.Rooms()
	for _, q := range queues[:min(len(queues), mostKinds)] {
		w.place(&plan, q, rooms, want)
	}
	w.change(&plan, want)
	w.marks(&plan)
	most := w.s.MaxChanges() - 1
	plan.Set = plan.Set[:min(len(plan.Set), most)]
	w.s.TakeTurn(&plan)
	plan.RequeueAfter = w.again
	return plan
}

// place says where tasks of a kind may begin.
func (w *world) place(plan *esl.Plan, q *queue, rooms []*esl.Room, want map[*site]map[string]types.Quantity) {
	set := taskset.OfTasks(w.s, q.tasks, w.s.Own(""))
	if !set.Next.IsZero() {
		w.later(set.Next)
	}
	options := w.options(q, rooms, want, set)
	open := func(o *option, amount types.Quantity) {
		if want[o.site] == nil {
			want[o.site] = make(map[string]types.Quantity)
		}
		want[o.site][q.kind] = amount
	}
	if overdue, all := w.overdue(plan, q, options); overdue > 0 {
		for i, o := range options {
			if i == 0 || all {
				open(o, o.site.node.Used(w.id(q.kind))+types.Quantity(overdue*set.Unit)*esl.One)
			}
		}
		return
	}
	quiet := slices.DeleteFunc(slices.Clone(options), func(o *option) bool { return !o.admitted })
	few := w.fewest(q, set, quiet)
	one := types.Quantity(set.Unit) * esl.One
	tried := make(map[string]bool)
	for i, o := range quiet {
		here, beside := o.site.here[q.kind] != nil, strings.Join(o.site.present(q.kind), " ")
		switch {
		case few == nil && i >= max(leastOpen, 2*len(q.tasks)), few != nil && !few[o.site]:
		case o.trial && !tried[beside]:
			tried[beside] = true
			open(o, o.site.node.Used(w.id(q.kind))+one)
		case o.trial:
		case w.guarded[q.kind] && w.entry(q.kind, q.kind).lost > w.limit:
			if !here {
				open(o, one)
			}
		default:
			open(o, types.Inf)
		}
	}
}

// fewest returns the nodes that a kind with enemies gets: as few as its waiting tasks fit on, and after
// gather all where one fits. nil means that it has no enemies.
func (w *world) fewest(q *queue, set taskset.Set, quiet []*option) map[*site]bool {
	if !w.hasEnemies(q.kind) {
		return nil
	}
	out, at := make(map[*site]bool), make(map[*esl.Room]*site)
	rooms := make([]*esl.Room, len(quiet))
	for i, o := range quiet {
		rooms[i], at[o.room] = o.room, o.site
	}
	set.Put(rooms, mostTasks, func(r *esl.Room, _, _ int) { out[at[r]] = true })
	if until := q.since.Add(gather); w.s.Now.Before(until) {
		w.later(until)
		return out
	}
	for _, o := range quiet {
		out[o.site] = out[o.site] || o.fits
	}
	return out
}

// hasEnemies reports whether a kind slows another one too much, there or not, or does not go with one that is
// on a node or waits, or whether that is not known.
func (w *world) hasEnemies(k string) bool {
	all := make(map[string]bool)
	for _, x := range w.sites {
		for other := range x.here {
			all[other] = true
		}
	}
	for other, q := range w.queues {
		all[other] = all[other] || len(q.tasks) > 0
	}
	delete(all, k)
	for _, enemies := range w.enemies() {
		if slices.Contains(enemies, k) {
			return true
		}
	}
	for other := range all {
		for _, pair := range [][2]string{{k, other}, {other, k}} {
			if e := w.entry(pair[0], pair[1]); w.guarded[pair[0]] && (e.n < enough || e.lost > w.limit) {
				return true
			}
		}
	}
	return false
}

// overdue returns how many tasks of a kind have waited long enough to go to the first of the options, and
// whether they may go to all. It notes in the plan since when no node with room has been quiet for the kind.
func (w *world) overdue(plan *esl.Plan, q *queue, options []*option) (n int, all bool) {
	from, marked := w.timeOf(since + q.kind)
	fits := func(admitted bool) bool {
		return slices.ContainsFunc(options, func(o *option) bool { return o.fits && (o.admitted || !admitted) })
	}
	switch {
	case fits(true):
		if marked {
			plan.Set = append(plan.Set, w.set(since+q.kind, 0))
		}
		return 0, false
	case !marked && !fits(false):
		return 0, false // it waits for room
	case !marked:
		plan.Set = append(plan.Set, w.set(since+q.kind, esl.Stamp(w.s.Now)))
		if from = w.s.Now; w.wait > 0 {
			w.later(w.s.Now.Add(w.wait))
			return 0, false
		}
	}
	for _, t := range q.tasks {
		due := waitingSince(t)
		if from.After(due) {
			due = from
		}
		// Another policy may not want it on the first one.
		for i, at := range []time.Time{due.Add(w.wait), due.Add(2*w.wait + gather)} {
			if w.s.Now.Before(at) {
				w.later(at)
			} else {
				n, all = n+1-i, all || i == 1
			}
		}
	}
	return n, all
}

// marks removes what was noted of kinds that no longer wait.
func (w *world) marks(plan *esl.Plan) {
	prefix := string(types.Resolve(w.s.Namespace, w.s.Own(since)))
	var gone []string
	for id, p := range w.s.View.Pools {
		k, ok := strings.CutPrefix(string(id), prefix)
		if q := w.queues[k]; ok && p.Info.V != nil && p.Info.V.Capacity > 0 && (q == nil || len(q.tasks) == 0) {
			gone = append(gone, k)
		}
	}
	slices.Sort(gone)
	for _, k := range gone {
		plan.Set = append(plan.Set, w.set(since+k, 0))
	}
}

func (w *world) id(k string) types.ResourceID { return types.Resolve(w.s.Namespace, w.s.Own(k)) }

// change adds to a plan how much of the resources of kinds changes on nodes.
func (w *world) change(plan *esl.Plan, want map[*site]map[string]types.Quantity) {
	type same struct {
		kind     string
		capacity types.Quantity
	}
	nodes := make(map[same][]string)
	for _, x := range w.sites {
		for k := range x.open {
			if want[x][k] == 0 {
				nodes[same{k, 0}] = append(nodes[same{k, 0}], x.node.Name)
			}
		}
		for k, q := range want[x] {
			if taskset.Capacity(w.s, x.node, w.id(k)) != q {
				nodes[same{k, q}] = append(nodes[same{k, q}], x.node.Name)
			}
		}
	}
	order := slices.SortedFunc(maps.Keys(nodes), func(a, b same) int {
		return cmp.Or(cmp.Compare(a.capacity, b.capacity), strings.Compare(a.kind, b.kind))
	})
	for _, x := range order {
		plan.Set = append(plan.Set, controlplane.Resource{
			Name: w.s.Own(x.kind), Capacity: x.capacity, Where: controlplane.OnNode(nodes[x]...), Options: controlplane.SetOptions{Declare: x.capacity > 0},
		})
	}
}
