package place

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Assign chooses the node of each task by a function, for policies that decide where each task goes
// rather than what it needs there. Each task requests one of a resource of its own (AssignEach).
// Next creates it on the chosen node, for the first waiting tasks: at most Ahead of them have a
// node and are not bound.
//
// Later decisions count assigned tasks as bound. A task is assigned again when its node is lost,
// takes no more tasks, or has become too full. The same happens when it was not bound in time,
// because the function may use less information than the scheduler.
type Assign struct {
	// Score rates a node for needs: the lowest wins, of equal ones the first by name. It is called
	// only with rooms where needs fit, and must not change them. Its results are reused until the
	// room changes.
	Score func(needs []cluster.Need, r *esl.Room) float64
	// Ahead is how many tasks may have a node and not be bound yet; 0 means 24.
	Ahead int
	// Patience is when an unbound task is assigned to another node; 0 means 10 s.
	Patience time.Duration

	// pick, unless nil, chooses instead of Score: it returns the index of a room where needs fit, and
	// -1 for none.
	pick func(x *assignment, needs []cluster.Need, rooms []*esl.Room) int
}

const (
	defaultAhead    = 24
	defaultPatience = 10 * time.Second
)

// AssignEach makes each task of a group request one of a resource of its own. Assign.Next creates
// it.
func AssignEach(g *esl.Group) {
	g.ChoosesNodes()
	for i := range g.Tasks {
		g.Ask(i, g.Own(strconv.Itoa(i)), esl.One)
	}
}

// assignment is a waiting task on its way to a node.
type assignment struct {
	task   *cluster.Task
	own    string // prefix of the names of all resources of its job
	name   string // of its resource
	number int
	ways   taskset.Alternatives
	on     []*cluster.Node // nodes that have some of it
	since  time.Time
	// past reports whether it was assigned before its last attempt; it may be assigned again.
	past bool
	// tried is the node that did not bind it in time.
	tried string
	// held reports whether it waits for another resource that is absent. It gets a node, too,
	// because the creator of that may wait for one. It blocks no task: it comes after all others,
	// and does not count as ahead.
	held bool
	// whole reports whether it draws on a reservation with others: all need a node to begin.
	whole bool
}

// Next assigns waiting tasks to nodes, in order of priority, age and number.
func (a Assign) Next(s *esl.State) esl.Plan {
	waiting := assignments(s)
	if len(waiting) == 0 {
		s.Seek(esl.Seeking{})
		return esl.Plan{Idle: nothingWaits}
	}
	plan := a.assign(s, waiting, s.LeftRooms(waiting[0].task.Info.V.Order()))
	seek(s, waiting)
	return plan
}

// seek notes the nodes that matter: those where a task fits that has no node yet, or one that did not do,
// and the nodes of the others.
func seek(s *esl.State, waiting []*assignment) {
	first := waiting[0].task.Info.V
	x := esl.Seeking{Order: first.Order(), Since: first.Submitted}
	want, has := make(map[string][]cluster.Need), make(map[string][][]cluster.Need)
	for _, w := range waiting {
		taskset.NoteRequested(s, w.task)
		ways := taskset.AlternativesOf(s, w.task, w.own).Open
		switch {
		case w.held || len(ways) == 0:
		case w.settled():
			x.On = append(x.On, w.on[0].Name)
			has[w.on[0].Name] = append(has[w.on[0].Name], ways[0])
		default:
			for _, way := range ways {
				want[taskset.Signature(way)] = way
			}
		}
	}
	keys := taskset.SortedKeys(want)
	x.Like = strings.Join(keys, ";")
	if len(keys) > 0 {
		x.Take = func(r *match.Room) bool {
			return slices.ContainsFunc(keys, func(key string) bool { return r.Put(want[key], 1) > 0 })
		}
	}
	x.Holds = func(r *match.Room) {
		for _, needs := range has[r.Node.Name] {
			r.Put(needs, 1)
		}
	}
	s.Seek(x)
}

// assign assigns waiting tasks to rooms.
func (a Assign) assign(s *esl.State, waiting []*assignment, rooms []*esl.Room) esl.Plan {
	plan := esl.Plan{Reason: "nodes are chosen", Idle: "each waiting task has its node, fits on none, or comes after others"}
	ahead := a.settle(s, &plan, waiting, rooms)
	placing := a.Among(rooms)
	early := 0
	slices.SortStableFunc(waiting, func(a, b *assignment) int { return cmp.Compare(taskset.BoolInt(a.held), taskset.BoolInt(b.held)) })
	made := madeForEach(s, waiting)
	for _, x := range waiting {
		count := &ahead
		if x.held {
			count = &early
			a.keep(s, x, placing)
		}
		node := made[x.name] // other tasks must not count this capacity as free
		if x.settled() && (node == "" || !x.held) {
			continue
		}
		if (node == "" || !x.held) && (x.whole || *count < cmp.Or(a.Ahead, defaultAhead)) {
			if best := a.choose(s, x, placing); best != "" {
				node = best
				*count += taskset.BoolInt(!x.whole)
			}
		}
		if at := taskset.NextAlternative(s, x.task); !at.IsZero() {
			plan.RequeueAfter = taskset.Earliest(plan.RequeueAfter, at)
		}
		if node != "" && (len(x.on) != 1 || x.past || x.on[0].Name != node) {
			a.move(s, &plan, x, node)
		}
	}
	return plan
}

// choose allocates the best node for a task, and returns its name; "" if it fits nowhere.
func (a Assign) choose(s *esl.State, x *assignment, placing *Placing) string {
	x.ways = taskset.AlternativesOf(s, x.task, x.own)
	for _, needs := range x.ways.Open {
		var best int
		if a.pick != nil {
			best = a.pick(x, needs, placing.rooms)
		} else {
			best = placing.best(needs, x.tried)
		}
		if best >= 0 {
			placing.take(best, needs)
			return placing.rooms[best].Node.Name
		}
	}
	return ""
}

// madeForEach returns where capacity is being reserved for waiting tasks, by the name of their
// resource.
func madeForEach(s *esl.State, waiting []*assignment) map[string]string {
	names := make(map[string]bool, len(waiting))
	for _, x := range waiting {
		names[x.name] = true
	}
	out := make(map[string]string)
	for name, nodes := range taskset.AllReserved(s, func(name string) bool { return names[name] }) {
		out[name] = slices.Min(taskset.SortedKeys(nodes))
	}
	return out
}

// settled reports whether a task stays assigned as it is.
func (x *assignment) settled() bool { return len(x.on) == 1 && !x.past && x.tried == "" }

// settle allocates the tasks that are assigned already, and returns how many there are. It marks
// those that must be assigned again.
func (a Assign) settle(s *esl.State, plan *esl.Plan, waiting []*assignment, rooms []*esl.Room) int {
	ahead := 0
	for _, x := range waiting {
		if len(x.on) != 1 || x.past {
			continue
		}
		at := slices.IndexFunc(rooms, func(r *esl.Room) bool { return r.Node == x.on[0] })
		x.ways = taskset.AlternativesOf(s, x.task, x.own)
		due := x.since.Add(cmp.Or(a.Patience, defaultPatience))
		switch {
		case at >= 0 && x.held: // stays until it can begin
		case at < 0 || !x.ways.Fits(rooms[at]):
			x.tried = x.on[0].Name // it may fit elsewhere
		case !s.Now.Before(due):
			x.tried = x.on[0].Name
			plan.RequeueAfter = taskset.Earliest(plan.RequeueAfter, s.Now.Add(cmp.Or(a.Patience, defaultPatience)))
		default:
			needs, _ := x.ways.Fit(rooms[at])
			rooms[at].Take(needs)
			ahead += taskset.BoolInt(!x.whole)
			plan.RequeueAfter = taskset.Earliest(plan.RequeueAfter, due)
		}
	}
	return ahead
}

// keep allocates an assigned task that cannot begin, after all others.
func (a Assign) keep(s *esl.State, x *assignment, placing *Placing) {
	if len(x.on) != 1 || x.past || x.tried != "" {
		return
	}
	if at := slices.IndexFunc(placing.rooms, func(r *esl.Room) bool { return r.Node == x.on[0] }); at >= 0 {
		placing.take(at, taskset.AlternativesOf(s, x.task, x.own).All[0])
	}
}

// move puts the resource of a task on one node only. Its capacity stores when that was, because
// only its own task requests it.
func (a Assign) move(s *esl.State, plan *esl.Plan, x *assignment, node string) {
	var off []string
	for _, n := range x.on {
		if n.Name != node {
			off = append(off, n.Name)
		}
	}
	if len(off) > 0 {
		plan.Set = append(plan.Set, controlplane.Resource{Name: x.name, Where: controlplane.OnNode(off...)})
	}
	at := esl.Stamp(s.Now)
	plan.Set = append(plan.Set, controlplane.Resource{Name: x.name, Capacity: at, Where: controlplane.OnNode(node), Options: esl.OfJob(x.task.Info.V.Job)})
	plan.RequeueAfter = taskset.Earliest(plan.RequeueAfter, s.Now.Add(cmp.Or(a.Patience, defaultPatience)))
}

// assignments returns the waiting tasks in order.
func assignments(s *esl.State) []*assignment {
	labels := []string{s.Label}
	if s.Job == "" {
		if former := esl.FormerLabel(s.Label); former != "" {
			labels = append(labels, former)
		}
	}
	var out []*assignment
	for _, t := range taskset.Tasks(s) {
		if t.Info.V == nil || t.Phase() != types.Pending || t.Info.V.Stop != nil || taskset.HasGrant(s, t) {
			continue
		}
		x := &assignment{task: t}
		if !x.find(labels) {
			continue
		}
		name := x.name
		id := types.Resolve(s.Namespace, name)
		for _, n := range openNodes(s, id) {
			// An assignment from before an attempt that is over does not count.
			x.on = append(x.on, n)
			if c := n.Own[id]; c != nil && c.Mod > t.Status.Mod {
				x.since = esl.Stamped(c.V.Capacity)
			} else {
				x.past = true
			}
		}
		x.held = taskset.Blocked(s, t, x.own)
		out = append(out, x)
	}
	slices.SortStableFunc(out, func(a, b *assignment) int {
		x, y := a.task.Info.V, b.task.Info.V
		return cmp.Or(cmp.Compare(y.Order(), x.Order()), cmp.Compare(x.Submitted, y.Submitted), strings.Compare(x.Job, y.Job), cmp.Compare(a.number, b.number))
	})
	return out
}

// find finds the requested resource whose name has one of the labels and a number. ok is false if
// there is none.
func (x *assignment) find(labels []string) (ok bool) {
	for _, label := range labels {
		own := esl.OwnName(x.task.Info.V.Job, label, "")
		for _, r := range x.task.Info.V.Requests {
			base, _, scoped := strings.Cut(r.Name, "@")
			rest, found := strings.CutPrefix(base, own+".")
			if n, err := strconv.Atoi(rest); found && err == nil {
				x.own, x.name, x.number, x.whole = own, base, n, scoped
				return true
			}
		}
	}
	return false
}

// Why names the node of a task of the policy.
func (a Assign) Why(s *esl.State, task string) why.Reason {
	if _, ok := taskset.Waits(s, task); !ok {
		return why.Reason{}
	}
	kind := s.Label
	for i, x := range assignments(s) {
		switch {
		case x.task.ID.ID != task:
		case len(x.on) > 0:
			return why.Say(why.Place, "%s: %s was chosen for it", kind, x.on[0].Name)
		case !slices.ContainsFunc(s.Rooms(), func(r *esl.Room) bool { return taskset.AlternativesOf(s, x.task, x.own).Fits(r) }):
			return why.Say(why.InUse, "%s: no node has room for it at present; one is chosen when one has", kind)
		default:
			return why.Say(why.Order, "%s: its node is chosen when its turn comes: %d are before it", kind, i)
		}
	}
	return why.Reason{}
}
