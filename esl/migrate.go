package esl

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// Migrate moves the tasks of a job, when they all run, onto fewer nodes as soon as there
// is room. The room is reserved first; then, in one transaction, they may begin nowhere
// else and those elsewhere are evicted: they save what they need when they are told to
// end, within the grace of their spec, and go on from that in their new place. When that
// is lost, or it takes too long, they may begin anywhere again.
//
// All that a move is at is in the store: who takes over goes on.
type Migrate struct {
	// Pause is how long after the beginning of a move none begins; 0 is a minute.
	Pause manifest.Duration `json:"pause,omitempty" desc:"how long after the beginning of a move none begins; 1m if it is left out"`
	// Within is how long a move may take; 0 is five minutes.
	Within manifest.Duration `json:"within,omitempty" desc:"how long a move may take before it is given up; 5m if it is left out"`
}

// What the policy makes besides the reservations of two places, of which one is left while
// the other is gone to.
const (
	migrateAnywhere = "anywhere"
	migrateBegun    = "begun"
)

func migrateSlots() [2]string { return [2]string{"a", "b"} }

// Kind is migrate.
func (Migrate) Kind() string { return "migrate" }

// Validate checks the times.
func (p Migrate) Validate() error {
	if p.Pause < 0 || p.Within < 0 {
		return invalid("pause, within: %s and %s: one is negative: leave it out", time.Duration(p.Pause), time.Duration(p.Within))
	}
	return nil
}

// Apply has each task take what it asks for in one of three ways: of either place that is
// reserved, or anywhere.
func (p Migrate) Apply(g *Group) error {
	g.moves()
	g.Make(g.Own(migrateAnywhere), types.Inf, controlplane.OnEvery())
	g.Lastly(func() error { return p.homes(g) })
	return p.Validate()
}

func (p Migrate) homes(g *Group) error {
	if len(g.Reservations) > 0 {
		return invalid("policies: what another policy has locked does not move: drop migrate, or gang or elastic")
	}
	var errs []error
	for i := range g.Tasks {
		t := &g.Tasks[i].Task
		switch {
		case len(t.Alternatives) > 0 || len(t.Devices) > 0:
			errs = append(errs, invalid("tasks[%d]: it has alternatives, or asks for certain devices, and is to be moved: drop them, or migrate", i))
		case len(t.Requests) == 0:
			errs = append(errs, invalid("tasks[%d].requests: it asks for nothing, and no room can be reserved for it: give what it takes", i))
		case i > 0 && !alike(t, &g.Tasks[0].Task):
			errs = append(errs, invalid("tasks[%d].requests: those that move ask for the same, and this one for something else than tasks[0], or it provides something: make a job of its own of it", i))
		}
	}
	if err := joined(errs); err != nil {
		return err
	}
	asked := g.Tasks[0].Task.Requests
	var ways []types.Alternative
	for _, slot := range migrateSlots() {
		there := types.Task{Requests: asked}
		draw(&there, g.Own(slot), nil)
		ways = append(ways, types.Alternative{Requests: there.Requests})
	}
	ways = append(ways, types.Alternative{Requests: asked.Plus(types.Requests{{Name: g.Own(migrateAnywhere), Amount: One}})})
	for i := range g.Tasks {
		g.Tasks[i].Task.Requests, g.Tasks[i].Task.Alternatives = nil, slices.Clone(ways)
	}
	return nil
}

// move is one that is on its way, as the store has it.
type move struct {
	id string
	r  *cluster.Reservation
	// to are the nodes.
	to map[string]bool
	// closed tells that tasks may begin there alone.
	closed bool
}

// moving returns the move that is on its way, with r nil if there is none.
func (p Migrate) moving(s *State) move {
	anywhere := s.View.Everywhere[types.Resolve(s.Namespace, s.Own(migrateAnywhere))]
	m := move{to: make(map[string]bool), closed: anywhere != nil && anywhere.V.Capacity == 0}
	for _, slot := range migrateSlots() {
		if r := s.Reservation(s.Own(slot)); r != nil && r.Info.V != nil {
			m.id, m.r = s.Own(slot), r
		}
	}
	if m.r != nil {
		for _, b := range m.r.Info.V.Bundles {
			m.to[b.Node] = true
		}
	}
	return m
}

// Next begins a move when that is better, goes on with it, and ends it.
func (p Migrate) Next(s *State) Plan {
	var live []*cluster.Task
	for _, t := range s.Members() {
		if t.Info.V != nil && !t.Phase().Ended() {
			live = append(live, t)
		}
	}
	m := p.moving(s)
	switch {
	case len(live) == 0:
		return Plan{}
	case m.r == nil && m.closed:
		return p.end(s, m, "the place was taken away")
	case m.r == nil:
		return p.begin(s, live)
	case p.lost(s, m):
		return p.end(s, m, "a node of the place is lost, or takes no tasks")
	case !s.Now.Before(p.due(m)):
		return p.end(s, m, "it took too long")
	case !granted(m.r):
		return Plan{Again: p.due(m)}
	}
	return p.go1(s, m, live)
}

// begin reserves a place on fewer nodes, if there is one.
func (p Migrate) begin(s *State, live []*cluster.Task) Plan {
	for _, t := range live {
		if t.Phase() != types.Running || leaves(t) {
			return Plan{}
		}
	}
	name := s.Own(migrateBegun)
	if pool := s.Pool(name); pool != nil {
		if next := time.Unix(int64(pool.Capacity()/One), 0).Add(cmp.Or(time.Duration(p.Pause), time.Minute)); s.Now.Before(next) {
			return Plan{Again: next}
		}
	}
	bundles, to := p.better(s, live)
	for _, slot := range migrateSlots() {
		if r := s.Reservation(s.Own(slot)); len(bundles) == 0 || r != nil && r.Grant.V != nil {
			continue
		}
		return Plan{
			Reserve: []Reservation{{ID: s.Own(slot), Reservation: types.Reservation{
				Bundles: bundles, Priority: live[0].Info.V.Priority, Session: live[0].Info.V.Session, Job: s.Job,
			}}},
			Set: []Set{{
				Name: name, Capacity: types.Quantity(max(s.Now.Unix(), 1)) * One, Where: controlplane.InCluster(), Options: OfJob(s.Job),
			}},
			Reason: fmt.Sprintf("all would be on %v", to),
		}
	}
	return Plan{}
}

// better returns bundles for those that are to go elsewhere so that all are on fewer
// nodes, and which these are then; nothing if there is no room for that.
func (p Migrate) better(s *State, live []*cluster.Task) (bundles []types.Bundle, to []string) {
	asked, needs := p.asked(s, live[0])
	there := make(map[string]int)
	for _, t := range live {
		there[t.Status.V.Node]++
	}
	if len(there) == 1 {
		return nil, nil
	}
	room := make(map[string]int)
	rooms := s.Rooms()
	for _, r := range rooms {
		n := r.Node.Name
		room[n] = there[n] + r.Clone().Put(needs, len(live)-there[n])
	}
	slices.SortStableFunc(rooms, func(a, b *Room) int {
		x, y := a.Node.Name, b.Node.Name
		return cmp.Or(cmp.Compare(room[y], room[x]), cmp.Compare(there[y], there[x]))
	})
	left := len(live)
	for _, r := range rooms {
		n := r.Node.Name
		if left <= 0 || len(to) == len(there)-1 {
			break
		}
		to = append(to, n)
		for range min(left, room[n]) - min(left, there[n]) {
			bundles = append(bundles, types.Bundle{Requests: asked, Node: n})
		}
		left -= room[n]
	}
	if left > 0 {
		return nil, nil
	}
	return bundles, to
}

// asked returns what a task asks for, and what of that is on a node.
func (p Migrate) asked(s *State, t *cluster.Task) (asked types.Requests, needs []cluster.Need) {
	asked = askedAnywhere(t.Info.V.Alternatives, s.Own(migrateAnywhere))
	return asked, s.View.Needs(s.Namespace, asked)
}

// askedAnywhere returns what is asked for in the way that may be had anywhere.
func askedAnywhere(ways []types.Alternative, anywhere string) (asked types.Requests) {
	for _, way := range ways {
		if way.Requests.Get(anywhere) == 0 {
			continue
		}
		for _, x := range way.Requests {
			if x.Name != anywhere {
				asked = append(asked, x)
			}
		}
	}
	return asked
}

func (p Migrate) due(m move) time.Time {
	return time.Unix(0, m.r.Info.V.Submitted).Add(cmp.Or(time.Duration(p.Within), 5*time.Minute))
}

// lost reports whether a node of the place does not do any more.
func (p Migrate) lost(s *State, m move) bool {
	for name := range m.to {
		if n := s.View.Nodes[name]; n == nil || !n.Eligible() {
			return true
		}
	}
	return false
}

// go1 has those that are elsewhere go to the place, and ends the move when all are there.
func (p Migrate) go1(s *State, m move, live []*cluster.Task) Plan {
	plan := Plan{Again: p.due(m), Reason: "they move to where room was reserved"}
	arrived := true
	for _, t := range live {
		at := t.Phase().Held() && m.to[t.Status.V.Node]
		arrived = arrived && at && !leaves(t)
		if t.Phase().Held() && !at && !leaves(t) && len(plan.Evict) < atOnce {
			plan.Evict = append(plan.Evict, Evict{Task: t.ID.ID, Attempt: t.Status.V.Attempt})
		}
	}
	if arrived {
		return p.end(s, m, "all have arrived")
	}
	if !m.closed {
		plan.Set = []Set{p.anywhere(s, 0)}
	}
	return plan
}

// end gives the place up as far as it is not in use, and lets tasks begin anywhere.
func (p Migrate) end(s *State, m move, reason string) Plan {
	plan := Plan{Reason: reason}
	if m.r != nil {
		plan.Unreserve = []string{m.id}
	}
	if m.closed {
		plan.Set = []Set{p.anywhere(s, types.Inf)}
	}
	return plan
}

func (p Migrate) anywhere(s *State, capacity types.Quantity) Set {
	return Set{Name: s.Own(migrateAnywhere), Capacity: capacity, Where: controlplane.OnEvery(), Options: OfJob(s.Job)}
}

// Wide tells that what is free changes with what others do.
func (Migrate) Wide() {}

// Pace is how often it looks at most.
func (Migrate) Pace() time.Duration { return 100 * time.Millisecond }

// Why says where a task is to go that moves.
func (p Migrate) Why(s *State, task string) string {
	m := p.moving(s)
	if _, ok := s.waits(task); !ok || m.r == nil || !m.closed {
		return ""
	}
	return fmt.Sprintf("migrate: it moves to %v, where room is reserved for it", sortedKeys(m.to))
}
