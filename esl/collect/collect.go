package collect

import (
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/types"
)

// Config configures a State.
type Config struct {
	// After is how long a task or reservation waits before it collects; 0 means 24 times the mean run
	// of the ended tasks, at least 30 seconds, and at most a week.
	After time.Duration
}

// By default a task or reservation waits as long as this many tasks run, one after the other. What is
// collected lies idle until all of it is there, so that everybody waits longer:
// docs/policies/collecting.md has what that costs.
const (
	afterRuns  = 24
	leastAfter = 30 * time.Second
	mostAfter  = 7 * 24 * time.Hour
)

// A collection without progress leaves a node after ten times a given After; by default after two mean
// runs, within bounds. That counts from the known end of the tasks there, if it is later. A scheduler
// that does not answer has the least of that.
const (
	patienceAfters = 10
	patienceRuns   = 2
	leastPatience  = 5 * time.Minute
	mostPatience   = 24 * time.Hour
)

const (
	// searchEvery is the least time between two searches of all nodes.
	searchEvery = time.Second
	// triesPerSearch bounds the shapes for which one pass searches all nodes.
	triesPerSearch = 16
)

// Validate returns an Invalid error for a wait that is out of range.
func (c Config) Validate() error {
	if c.After < 0 || c.After > types.MaxDuration {
		return types.Errorf(types.Invalid, "collect-after: %s is out of range: give more than 0 and up to %s, or leave it out for the default", c.After, types.MaxDuration)
	}
	return nil
}

// waits are the times that a State uses.
type waits struct {
	// after is that of Config. patience is the time without progress, silence that without an answer
	// of a scheduler.
	after, patience, silence time.Duration
}

// waitsFor returns the times for tasks that run for so long.
func (c Config) waitsFor(mean time.Duration) waits {
	w := waits{
		after:    max(leastAfter, min(afterRuns*mean, mostAfter)),
		patience: max(leastPatience, min(patienceRuns*mean, mostPatience)),
	}
	if c.After > 0 {
		w.after, w.patience = c.After, patienceAfters*min(c.After, types.MaxDuration/patienceAfters)
	}
	w.silence = min(w.patience, leastPatience)
	return w
}

// State is the memory of the library: which objects may collect, and for how long a collection has
// made no progress. A new State learns the first by Touch, and begins the second again.
type State struct {
	cfg Config
	// waits are those of the last look, mean is the last known mean run.
	waits
	mean time.Duration
	// known are the objects that may collect or hold a part; some may be outdated. directed are
	// the reservations that their makers direct, likewise.
	known    map[Subject]struct{}
	directed map[cluster.ID]struct{}
	// changes counts the changes that may give a place, ended the attempts that ended.
	changes, ended int
	// places paces the search for a place to begin, rivals the search for another one that precedes.
	places, rivals paced
	// nextAge is when the next candidate has waited long enough; zero means none is left.
	nextAge time.Time
	// next is the index at which the next search of candidates begins.
	next int
	progress
	// passed are objects that the scheduler did not let collect, with the time until which they are
	// passed over.
	passed map[Subject]time.Time
}

// paced limits a search to once per searchEvery, and only after a change.
type paced struct {
	at      time.Time
	changes int
}

// New returns a State that knows nothing yet.
func New(cfg Config) *State {
	return &State{
		cfg: cfg, known: make(map[Subject]struct{}), directed: make(map[cluster.ID]struct{}),
		passed: make(map[Subject]time.Time), places: paced{changes: -1}, rivals: paced{changes: -1},
	}
}

// Subject is a task or reservation that may collect.
type Subject struct {
	ID          cluster.ID
	Reservation bool
}

// Change directs one object; a nil To ends its collection.
type Change struct {
	Subject
	To *types.Collect
}

// Plan holds the changes to make now, all or none.
type Plan struct {
	Changes []Change
	// Again is when to call Next again without a change; zero means never.
	Again time.Time
	// Reason explains the changes in the log.
	Reason string
}

// Write adds the changes to a transaction, with the compares that the objects are as in v.
func (p *Plan) Write(v *cluster.View, c *controlplane.Change) {
	for _, x := range p.Changes {
		ns, id := x.ID.Namespace, x.ID.ID
		if x.Reservation {
			r := v.Reservations[x.ID]
			now := *r.Info.V
			now.Collect = x.To
			c.IfUnchanged(controlplane.ReservationKey(ns, id), r.Info.Mod)
			c.Put(controlplane.ReservationKey(ns, id), &now)
			continue
		}
		t := v.Task(x.ID)
		now := t.Info.V.Full()
		types.UpdateLater(now, func(l *types.Later) { l.Collect = x.To })
		c.IfUnchanged(controlplane.TaskKey(ns, id), t.Info.Mod)
		c.Put(controlplane.TaskKey(ns, id), now)
	}
}

// May reports whether the value of a key is that of a task or reservation that may collect.
func May(k controlplane.Key, value []byte) bool {
	switch k.Kind {
	case controlplane.Tasks:
		var t types.Task
		return types.Decode(value, &t) == nil && t.Accumulate
	case controlplane.Reservations:
		var r types.Reservation
		return types.Decode(value, &r) == nil && r.Accumulate
	}
	return false
}

// Touch notes a change of a key of v, and reports whether it may call for a decision. For a deleted
// key it is called afterwards.
func (s *State) Touch(v *cluster.View, k controlplane.Key) bool {
	id := cluster.ID{Namespace: k.Namespace, ID: k.ID}
	switch k.Kind {
	case controlplane.Tasks:
		if t := v.Task(id); t != nil && t.Info.V != nil && t.Info.V.Accumulate {
			s.known[Subject{ID: id}] = struct{}{}
			s.changes++
		}
	case controlplane.Reservations:
		if r := v.Reservations[id]; r != nil && r.Info.V != nil && r.Info.V.Directed() {
			s.directed[id] = struct{}{}
		} else if r != nil && r.Info.V != nil && r.Info.V.Accumulate {
			s.known[Subject{id, true}] = struct{}{}
		}
		s.changes++
	case controlplane.Bindings:
		if b := v.Binding(k); b == nil || b.Info.V == nil {
			s.ended++
		}
	case controlplane.Nodes, controlplane.Alive, controlplane.Cordons, controlplane.Devices, controlplane.Allocated,
		controlplane.Resources, controlplane.Provided, controlplane.Namespaces, controlplane.Grants, controlplane.Statuses, controlplane.Jobs,
		controlplane.Schedulers:
		s.changes++
	default:
		return false
	}
	return len(s.known) > 0
}

// Idle reports whether nothing can collect, now or later, without a new object.
func (s *State) Idle(v *cluster.View) bool {
	for k := range s.known {
		if !over(v, k) {
			return false
		}
		delete(s.known, k)
	}
	return true
}

// Next returns what to change now.
func (s *State) Next(v *cluster.View, now time.Time) Plan {
	at := s.look(v, now)
	p := Plan{Again: at.nextAge}
	switch {
	case len(at.over) > 0:
		p.end("their wait is over", at.over...)
	case len(at.collecting) > 1:
		p.end("another one collects, which precedes them", at.collecting[1:]...)
	case len(at.collecting) == 1:
		s.goOn(&p, at, at.collecting[0])
	default:
		s.begin(&p, at)
	}
	return p
}

// end adds the end of collections.
func (p *Plan) end(reason string, of ...claimant) {
	p.Reason = reason
	for _, x := range of {
		p.Changes = append(p.Changes, Change{x.key(), nil})
	}
}

// direct adds a direction, unless it is in force.
func (p *Plan) direct(reason string, x claimant, to types.Collect) {
	if was := x.Info.V.Collect; was != nil && slices.Equal(was.On, to.On) && was.LendUntil == to.LendUntil {
		return
	}
	p.Reason = reason
	p.Changes = append(p.Changes, Change{x.key(), &to})
}

// goOn decides about what collects.
func (s *State) goOn(p *Plan, at *moment, x claimant) {
	s.follow(x, at.now)
	switch {
	case grants.OverPools(at.v, x.Reservation):
		p.end("it asks for more than a cluster-wide resource has", x)
		return
	case x.Grant.V != nil && overdrawn(at.v, x):
		p.end("a cluster-wide resource that it requests has less than is in use", x)
		return
	case s.roomIsMade(at.v, x):
		p.end("a reservation collects for its job, where its maker directs it", x)
		return
	case s.givesWay(at.v, x):
		p.end("a reservation above it lacks what it has collected", x)
		return
	case x.Grant.V == nil && at.now.Sub(s.since) >= s.silence:
		s.passed[x.key()] = at.now.Add(s.silence)
		p.end("no scheduler collects for it", x)
		return
	}
	if y, on := s.rival(p, at, x); on != nil {
		p.end("another one that precedes it may collect", x)
		p.direct(p.Reason, y, types.Collect{On: on})
		return
	}
	on := s.targets(p, at, x)
	to := types.Collect{On: on}
	if g := x.Grant.V; g != nil && slices.Equal(on, x.Info.V.Collect.On) && slices.Equal(on, g.Bundles) {
		if end := grants.Completion(at.v, x.Reservation, g); !end.IsZero() {
			to.LendUntil = end.UnixNano()
		}
	}
	p.direct("it collects", x, to)
}

// begin lets the first candidate that can begin collect. With too many candidates, it continues
// after the ones tried before.
func (s *State) begin(p *Plan, at *moment) {
	if len(at.aged) == 0 || !s.maySearch(p, &s.places, at.now) {
		return
	}
	start := s.next
	s.next = 0
	tried := make(map[string]bool)
	for i := range at.aged {
		x := at.aged[(start+i)%len(at.aged)]
		shape := x.shape()
		if tried[shape] {
			continue // a candidate fails wherever an equal request of equal priority failed
		}
		if len(tried) == triesPerSearch {
			s.next, s.places.changes = (start+i)%len(at.aged), -1
			p.again(at.now.Add(searchEvery))
			return
		}
		tried[shape] = true
		if on := s.placesFor(at, x); on != nil {
			p.direct("it has waited long, and collects", x, types.Collect{On: on})
			return
		}
	}
}

// rival returns another candidate that should collect instead of x, and where: it precedes x, has
// waited long enough, and has nodes to begin on.
func (s *State) rival(p *Plan, at *moment, x claimant) (y claimant, on []string) {
	if len(at.aged) == 0 || !at.aged[0].precedes(x) || !s.maySearch(p, &s.rivals, at.now) {
		return y, nil
	}
	for i, y := range at.aged {
		if i == triesPerSearch || !y.precedes(x) {
			break
		}
		if on := s.placesFor(at, y); on != nil {
			return y, on
		}
	}
	return y, nil
}

// maySearch reports whether a search is due, and records it: something has changed, and the last
// search was at least searchEvery ago.
func (s *State) maySearch(p *Plan, last *paced, now time.Time) bool {
	if last.changes == s.changes {
		return false
	}
	if next := last.at.Add(searchEvery); next.After(now) {
		p.again(next)
		return false
	}
	*last = paced{now, s.changes}
	return true
}

// again makes the plan call Next at a time, unless it does so earlier.
func (p *Plan) again(at time.Time) {
	if p.Again.IsZero() || at.Before(p.Again) {
		p.Again = at
	}
}
