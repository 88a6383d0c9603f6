package esl

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// What the policies of placement have in common: whose tasks they are about, what these
// need, and where there is some of a resource of theirs.

// widePace is how often a policy looks at most that looks at whatever changes, and sees to
// all that waits at once.
const widePace = 100 * time.Millisecond

// concerned returns the tasks that a policy is about: those of its job, or of all jobs
// that refer to it; also those that have ended.
func (s *State) concerned() []*cluster.Task {
	if s.Job != "" {
		return s.Members()
	}
	var all []*cluster.Task
	for job := range s.Referring() {
		all = append(all, s.JobTasks(job)...)
	}
	return all
}

// lifetime is how long what the policy makes lasts: as long as its job, or, if it is
// shared, until it is withdrawn.
func (s *State) lifetime() controlplane.SetOptions {
	if s.Job != "" {
		return OfJob(s.Job)
	}
	return controlplane.SetOptions{Declare: true}
}

// crowd is the tasks of a policy that have not ended, as one decides where they go.
type crowd struct {
	// waiting are in the order in which they come first.
	waiting []*cluster.Task
	// held are on a node.
	held []*cluster.Task
	// shapes are what they ask for, each once.
	shapes []*shape
	// gang tells that what waits is locked as a whole, unit how many of what the policy
	// makes are locked together on a node, at least 1.
	gang bool
	unit int
	// next is when tasks may go where they may not go yet; zero: never.
	next time.Time
}

// shape is what some tasks ask for alike, or so many of them that are locked together on a
// node: unit.
type shape struct {
	ways
	waiting, unit int
}

// crowd returns the tasks that a policy is about. What they ask for is without what the
// policy itself makes, and without what is not there yet.
func (s *State) crowd(own string) crowd { return s.crowdOf(s.concerned(), own) }

func (s *State) crowdOf(tasks []*cluster.Task, own string) crowd {
	type vectors struct {
		requests     *types.Request
		alternatives *types.Alternative
		open         int
	}
	c := crowd{unit: 1}
	known, scoped := make(map[vectors]*shape), own+"@"
	var locks []string
	for _, t := range tasks {
		if t.Info.V == nil || t.Phase().Ended() {
			continue
		}
		held := t.Phase().Held()
		switch {
		case held:
			c.held = append(c.held, t)
		case t.Info.V.Stop != nil, s.granted(t):
			continue
		default:
			c.waiting = append(c.waiting, t)
			if id := drawnFrom(t, scoped); id != "" {
				c.gang = true
				if r := s.Reservation(id); locked(r) {
					if !slices.Contains(locks, id) {
						locks = append(locks, id)
						c.lock(s, t.Info.V.Job, r, own)
					}
					continue
				}
			}
		}
		// What is alike is in memory once: package cluster.
		var at vectors
		if len(t.Info.V.Requests) > 0 {
			at.requests = &t.Info.V.Requests[0]
		}
		if len(t.Info.V.Alternatives) > 0 {
			at.alternatives, at.open = &t.Info.V.Alternatives[0], s.openWays(t)
		}
		like := known[at]
		if like == nil {
			like = &shape{ways: s.ways(t, own), unit: 1}
			known[at] = like
			c.shapes = append(c.shapes, like)
		}
		if at := s.nextWay(t); !held && !at.IsZero() {
			c.next = earliest(c.next, at)
		}
		if !held {
			like.waiting++
		}
	}
	slices.SortStableFunc(c.waiting, func(a, b *cluster.Task) int {
		x, y := a.Info.V, b.Info.V
		return cmp.Or(cmp.Compare(y.Order(), x.Order()), cmp.Compare(x.Submitted, y.Submitted), cmp.Compare(a.ID.ID, b.ID.ID))
	})
	return c
}

// granted reports whether a task draws on what is locked for it already: its nodes are
// chosen.
func (s *State) granted(t *cluster.Task) bool {
	for _, r := range t.Info.V.Requests {
		_, id, scoped := strings.Cut(r.Name, "@")
		if !scoped {
			continue
		}
		if held := s.Reservation(id); held != nil && held.Current() && held.Grant.V.Phase == types.Granted {
			return true
		}
	}
	return false
}

// drawnFrom returns the reservation of which a task draws what a policy makes, "" if none.
func drawnFrom(t *cluster.Task, scoped string) string {
	for _, x := range t.Info.V.Requests {
		if id, ok := strings.CutPrefix(x.Name, scoped); ok {
			return id
		}
	}
	return ""
}

// lock adds to a crowd what is to be locked for tasks of a job, instead of each of these.
func (c *crowd) lock(s *State, job string, r *cluster.Reservation, own string) {
	var like *shape
	var before types.Bundle
	for _, b := range r.Info.V.Bundles {
		if like == nil || len(b.Devices)+len(before.Devices) > 0 || !slices.Equal(b.Requests, before.Requests) {
			one := [][]cluster.Need{s.needs(job, b.Requests, b.Devices, own)}
			like = &shape{ways: ways{open: one, all: one}, unit: max(1, int(b.Requests.Get(own)/One))}
			c.shapes, c.unit = append(c.shapes, like), max(c.unit, like.unit)
		}
		like.waiting++
		before = b
	}
}

// needs returns what is asked for on a node by a task of a job, without what a policy makes
// itself, what those make that settle after it, and what is on no node yet: others may be
// waiting to see where this one goes.
func (s *State) needs(jobID string, requests types.Requests, devices []types.DeviceRequest, own string) []cluster.Need {
	prefix := types.Resolve(s.Namespace, own)
	job := types.Resolve(s.Namespace, jobID)
	turn := s.steering(job, prefix)
	if turn < 0 {
		turn = math.MaxInt // of no policy that others know
	}
	var out []cluster.Need
	for _, x := range s.View.Needs(s.Namespace, requests, devices...) {
		x.ID = x.ID.Unscoped()
		mine := x.ID == prefix || strings.HasPrefix(string(x.ID), string(prefix)+".")
		before := s.steering(job, x.ID)
		// Of two of a kind one goes by the other, by name.
		if !mine && (x.ID.Physical() || (before < turn || before == turn && x.ID < prefix) && s.somewhere(x.ID)) {
			out = append(out, x)
		}
	}
	return out
}

// steering says when the policy of the job settles that makes a resource where it wants
// the tasks at the moment, by turns, the first at 0; -1 is what says for good where they
// may be. Who settles later goes by what is before him, and never the other way, or each
// would wait for the other to open the nodes that it has chosen. The last choose the most
// freely: a function does so for each task.
func (s *State) steering(job, id types.ResourceID) int {
	_, name, _ := strings.Cut(string(id), string(job)+".")
	label, rest, _ := strings.Cut(name, ".")
	for i := range 10 {
		label = strings.TrimSuffix(label, "-"+strconv.Itoa(i)) // the second of a kind
	}
	switch {
	case strings.HasSuffix(string(id), "."+ElasticBalance{}.Kind()):
		label = ElasticBalance{}.Kind() // shared
	case strings.HasSuffix(string(id), "."+Pack{}.Kind()):
		label = Pack{}.Kind()
	case label == (Placed{}).Kind():
		label = Objective{}.Kind()
	case label == (Colocate{}).Kind() && rest == colocateWith:
		return -1 // others are there, whatever this one wants
	}
	if c := s.View.Everywhere[id]; label == (Apart{}).Kind() && c != nil && c.V.Capacity > 0 {
		return -1 // so many on each node
	}
	return slices.Index(steerers(), label)
}

// steerers are the kinds of policies that make a resource where they want the tasks at the
// moment, by who settles first.
func steerers() []string {
	return []string{Colocate{}.Kind(), Balance{}.Kind(), Spread{}.Kind(), Apart{}.Kind(), ElasticBalance{}.Kind(), Pack{}.Kind(), Objective{}.Kind()}
}

// somewhere reports whether a node has some of an ephemeral resource.
func (s *State) somewhere(id types.ResourceID) bool {
	if c := s.View.Everywhere[id]; c != nil && c.V.Capacity > 0 {
		return true
	}
	return slices.ContainsFunc(s.View.At(id), func(n *cluster.Node) bool { return s.capacity(n, id) > 0 })
}

// capacity returns how much of an ephemeral resource a node has.
func (s *State) capacity(n *cluster.Node, id types.ResourceID) types.Quantity {
	q, _ := s.View.Capacity(n, id)
	return q
}

// open returns the nodes that have some of a resource by a key of their own, by name.
func (s *State) open(id types.ResourceID) []*cluster.Node {
	var out []*cluster.Node
	for _, n := range s.View.At(id) {
		if n.Alive.V != nil && s.capacity(n, id) > 0 {
			out = append(out, n)
		}
	}
	sortNodes(out)
	return out
}

// place adds that a resource is on these nodes, and no longer on those. Where it was, it
// is as it is on every node.
func (s *State) place(plan *Plan, name string, capacity types.Quantity, on, off []string) {
	if len(on) > 0 {
		plan.Set = append(plan.Set, Set{Name: name, Capacity: capacity, Where: controlplane.OnNode(on...), Options: s.lifetime()})
	}
	if len(off) > 0 {
		plan.Set = append(plan.Set, Set{Name: name, Where: controlplane.OnNode(off...)})
	}
}

// turn makes a plan the next one of its policy: it is refused if another one came after
// what it was decided on. The resource counts them.
func (s *State) turn(plan *Plan) {
	if plan.Nothing() {
		return
	}
	name := s.Own("turn")
	key := controlplane.ResourceKey(s.Namespace, name, types.ClusterWide)
	count, mod := One, s.View.UnreadMod(key)
	if p := s.Pool(name); p != nil {
		count, mod = p.Capacity()+One, p.Info.Mod
	}
	plan.Set = append(plan.Set, Set{Name: name, Capacity: count, Where: controlplane.InCluster(), Options: s.lifetime()})
	plan.If = s.unchanged(plan.If, key, mod)
}

func (s *State) unchanged(reads controlplane.ReadSet, key string, mod int64) controlplane.ReadSet {
	if reads == nil {
		reads = make(controlplane.ReadSet)
	}
	reads[key] = mod
	return reads
}

// excludes refuses a policy that wants the opposite of one that the job has.
func (g *Group) excludes(kinds ...string) error {
	for _, kind := range kinds {
		name := own(g.ID, kind, "")
		for i := range g.Tasks {
			if g.Tasks[i].Task.Requests.Get(name) > 0 {
				return invalid("%s and %s exclude each other: the one wants the tasks on few nodes, the other on many: drop one of them", g.kind, kind)
			}
		}
	}
	return nil
}

// names returns the names of nodes.
func names(nodes []*cluster.Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.Name
	}
	return out
}

// waits reports whether a task waits for a node.
func (s *State) waits(id string) (*cluster.Task, bool) {
	t := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: id})
	return t, t != nil && t.Info.V != nil && t.Phase() == types.Pending && t.Info.V.Stop == nil
}

// shares checks that a policy that a job refers to is of a kind.
func shares[P Policy](g *Group, id string) error {
	var want P
	if _, ok := g.Shared[id].(P); !ok {
		kind := "none"
		if p := g.Shared[id]; p != nil {
			kind = p.Kind()
		}
		return invalid("in: %q is %s, not %s: name one that was declared", id, kind, want.Kind())
	}
	return nil
}

// shared returns the state of a shared policy.
func (s *State) shared(id, kind string) *State {
	of := *s
	of.ID, of.Job, of.label = id, "", kind
	return &of
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
