package taskset

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Tasks returns the tasks of a policy: those of its job, or of all jobs that refer to it, ended
// ones included.
func Tasks(s *esl.State) []*cluster.Task {
	if s.Job != "" {
		return s.Members()
	}
	var all []*cluster.Task
	for job := range s.Referring() {
		all = append(all, s.JobTasks(job)...)
	}
	return all
}

// Set is the tasks of a policy that have not ended, at the time of a decision.
type Set struct {
	// Waiting are in queue order.
	Waiting []*cluster.Task
	// Held have a node.
	Held []*cluster.Task
	// Shapes are their distinct requests.
	Shapes []*Shape
	// Gang reports whether waiting tasks draw on a reservation; Unit is how many of the policy's
	// resource one bundle takes, at least 1.
	Gang bool
	Unit int
	// Next is when another alternative of a task becomes allowed; zero means never.
	Next time.Time
}

// Shape is a set of requests that tasks share. Unit is how many tasks one bundle holds for a gang.
type Shape struct {
	Alternatives
	Waiting, Unit int
}

// Of returns the tasks of a policy. Their requests are without the policy's own resources, and
// without resources that do not exist yet.
func Of(s *esl.State, own string) Set { return OfTasks(s, Tasks(s), own) }

func OfTasks(s *esl.State, tasks []*cluster.Task, own string) Set {
	type vectors struct {
		requests     *types.Request
		alternatives *types.Alternative
		open         int
	}
	c := Set{Unit: 1}
	known, scoped := make(map[vectors]*Shape), own+"@"
	var locks []string
	for _, t := range tasks {
		if t.Info.V == nil || t.Phase().Ended() {
			continue
		}
		held := t.Phase().Held()
		switch {
		case held:
			c.Held = append(c.Held, t)
		case t.Info.V.Stop != nil, HasGrant(s, t):
			continue
		default:
			c.Waiting = append(c.Waiting, t)
			if id := DrawnFrom(t, scoped); id != "" {
				c.Gang = true
				if r := s.Reservation(id); Locked(r) {
					if !slices.Contains(locks, id) {
						locks = append(locks, id)
						c.lock(s, t.Info.V.Job, r, own)
					}
					continue
				}
			}
		}
		// Equal requests share memory: package cluster.
		var at vectors
		if len(t.Info.V.Requests) > 0 {
			at.requests = &t.Info.V.Requests[0]
		}
		if len(t.Info.V.Alternatives) > 0 {
			at.alternatives, at.open = &t.Info.V.Alternatives[0], openAlternatives(s, t)
		}
		like := known[at]
		if like == nil {
			like = &Shape{Alternatives: AlternativesOf(s, t, own), Unit: 1}
			known[at] = like
			c.Shapes = append(c.Shapes, like)
		}
		if at := NextAlternative(s, t); !held && !at.IsZero() {
			c.Next = Earliest(c.Next, at)
		}
		if !held {
			like.Waiting++
		}
	}
	slices.SortStableFunc(c.Waiting, func(a, b *cluster.Task) int {
		x, y := a.Info.V, b.Info.V
		return cmp.Or(cmp.Compare(y.Order(), x.Order()), cmp.Compare(x.Submitted, y.Submitted), cmp.Compare(a.ID.ID, b.ID.ID))
	})
	return c
}

// HasGrant reports whether a task draws on a granted reservation: its nodes are chosen.
func HasGrant(s *esl.State, t *cluster.Task) bool {
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

// DrawnFrom returns the reservation from which a task draws a policy's resource, "" if none.
func DrawnFrom(t *cluster.Task, scoped string) string {
	for _, x := range t.Info.V.Requests {
		if id, ok := strings.CutPrefix(x.Name, scoped); ok {
			return id
		}
	}
	return ""
}

// lock adds the bundles of a reservation to a Set, in place of the tasks that draw on it.
func (c *Set) lock(s *esl.State, job string, r *cluster.Reservation, own string) {
	var like *Shape
	var before types.Bundle
	for _, b := range r.Info.V.Bundles {
		if like == nil || len(b.Devices)+len(before.Devices) > 0 || !slices.Equal(b.Requests, before.Requests) {
			one := [][]cluster.Need{needs(s, job, b.Requests, b.Devices, own)}
			like = &Shape{Alternatives: Alternatives{Open: one, All: one}, Unit: max(1, int(b.Requests.Get(own)/esl.One))}
			c.Shapes, c.Unit = append(c.Shapes, like), max(c.Unit, like.Unit)
		}
		like.Waiting++
		before = b
	}
}

// needs returns what a task of a job requests from a node, without the policy's own resources,
// those of policies that settle after it, and those that no node has yet: other policies may be
// waiting to see where this task goes.
func needs(s *esl.State, jobID string, requests types.Requests, devices []types.DeviceRequest, own string) []cluster.Need {
	prefix := types.Resolve(s.Namespace, own)
	job := types.Resolve(s.Namespace, jobID)
	turn := steering(s, job, prefix)
	if turn < 0 {
		turn = math.MaxInt // not a policy that others know
	}
	var out []cluster.Need
	for _, x := range s.View.Needs(s.Namespace, requests, devices...) {
		x.ID = x.ID.Unscoped()
		mine := x.ID == prefix || strings.HasPrefix(string(x.ID), string(prefix)+".")
		before := steering(s, job, x.ID)
		// Of two policies of a kind, the later by name depends on the other.
		if !mine && (x.ID.Physical() || (before < turn || before == turn && x.ID < prefix) && Exists(s, x.ID)) {
			out = append(out, x)
		}
	}
	return out
}

// steering returns the turn in which the policy of a resource settles where the tasks may go now,
// the first at 0. -1 means a resource that says for good where they may be. A later policy depends
// on earlier ones, and never the reverse, or each would wait for the other to open nodes. The last
// ones choose the most freely: a function does so for each task.
func steering(s *esl.State, job, id types.ResourceID) int {
	_, name, _ := strings.Cut(string(id), string(job)+".")
	label, rest, _ := strings.Cut(name, ".")
	for i := range 10 {
		label = strings.TrimSuffix(label, "-"+strconv.Itoa(i)) // the second of a kind
	}
	switch {
	case strings.HasSuffix(string(id), "."+KindElasticBalance):
		label = KindElasticBalance // shared
	case strings.HasSuffix(string(id), "."+kindPack):
		label = kindPack
	case strings.HasSuffix(string(id), "."+kindQuiet) || strings.Contains(string(id), "."+kindQuiet+"."):
		label = kindQuiet
	case label == esl.FormerLabel(kindObjective):
		label = kindObjective
	case label == kindColocate && rest == ColocateWith:
		return -1 // fixed by other tasks, whatever this policy wants
	}
	if c := s.View.Everywhere[id]; label == kindApart && c != nil && c.V.Capacity > 0 {
		return -1 // a fixed number on each node
	}
	return slices.Index(steerers(), label)
}

// steerers are the kinds of policies that put a resource where tasks may go now, in the order in
// which they settle.
func steerers() []string {
	return []string{kindQuiet, kindColocate, kindBalance, kindSpread, kindApart, KindElasticBalance, kindPack, kindObjective, kindInterleave}
}

// Exists reports whether a node has some of an ephemeral resource.
func Exists(s *esl.State, id types.ResourceID) bool {
	if c := s.View.Everywhere[id]; c != nil && c.V.Capacity > 0 {
		return true
	}
	return slices.ContainsFunc(s.View.At(id), func(n *cluster.Node) bool { return Capacity(s, n, id) > 0 })
}

// Capacity returns how much of an ephemeral resource a node has.
func Capacity(s *esl.State, n *cluster.Node, id types.ResourceID) types.Quantity {
	q, _ := s.View.Capacity(n, id)
	return q
}

// Waits reports whether a task waits for a node.
func Waits(s *esl.State, id string) (*cluster.Task, bool) {
	t := s.View.Task(s.At(id))
	return t, t != nil && t.Info.V != nil && t.Phase() == types.Pending && t.Info.V.Stop == nil
}

func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
