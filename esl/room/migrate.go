package room

import (
	"cmp"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Migrate moves the tasks of a job, when they all run, onto fewer nodes as soon as they fit there.
// First it reserves the capacity. With Ask, it then waits until the tasks have saved their state.
// In one transaction, it then forbids tasks to begin elsewhere, evicts the tasks that move, and
// reserves their former places. When all run at the destination, both reservations end. If a task
// cannot save, nothing has changed for it. If the destination is lost, a task does not start there,
// or the move takes too long, the tasks that do not run yet return.
//
// The whole state of a move is in the store: any process can continue it. See
// migrate_next.go.
type Migrate struct {
	// Pause is the least time between the beginnings of two moves; 0 means a minute.
	Pause manifest.Duration `json:"pause,omitempty" desc:"time from the beginning of a move to the next; 1m if it is left out" zero:"means no pause, and a move that is given up would begin again at once: give a longer time, or leave it out for 1m"`
	// Within is how long a move may take; 0 means five minutes.
	Within manifest.Duration `json:"within,omitempty" desc:"how long a move may take before it is given up; 5m if it is left out" zero:"leaves no time to move: give a longer time, or leave it out for 5m"`
	// Ask asks the tasks to save their state before any of them is evicted.
	Ask bool `json:"ask,omitempty" desc:"ask the tasks to save what they need before any is told to end: each says that it has, or that it could not, and then nothing moves; see docs/policies.md"`
}

// Kind returns migrate.
func (Migrate) Kind() string { return kindMigrate }

// Describe says what the policy does, and its flags.
func (Migrate) Describe() esl.Description {
	return esl.Description{Does: "running tasks move to better nodes when capacity becomes free", Flags: []esl.Flag{{
		Name: "migrate", Usage: "move the running tasks onto fewer nodes when there is room; they save their state when told to end",
	}}}
}

// Validate checks the times.
func (p Migrate) Validate() error {
	return esl.InvalidIf(p.Pause < 0 || p.Within < 0, "pause, within: %s and %s: one is negative: leave it out", time.Duration(p.Pause), time.Duration(p.Within))
}

// Apply gives each task alternatives: to draw on one of the reservations, or to run anywhere. The
// task passes its gates only once, however it moves.
func (p Migrate) Apply(g *esl.Group) error {
	g.Moves()
	g.Make(g.Own(migrateAnywhere), types.Inf, controlplane.OnEvery())
	g.Make(g.Own(migrateBack), 0, controlplane.OnEvery())
	g.Lastly(func() error { return homes(g, p.Ask) })
	return p.Validate()
}

func (p Migrate) moving(s *esl.State) *moving {
	return movingOf(s, cmp.Or(time.Duration(p.Within), 5*time.Minute), p.Ask)
}

// Next begins a move to fewer nodes, continues it, and ends it.
func (p Migrate) Next(s *esl.State) esl.Plan {
	m := p.moving(s)
	if len(m.live) == 0 {
		return esl.Plan{Idle: taskset.AllEnded}
	}
	if plan, on := m.next(); on {
		return plan
	}
	for _, t := range m.live {
		if t.Phase() != types.Running || taskset.Leaving(t) {
			return esl.Plan{Idle: "not all of its tasks run"}
		}
	}
	if last := s.Pool(s.Own(migrateBegun)); last != nil {
		if next := esl.Stamped(last.Capacity()).Add(cmp.Or(time.Duration(p.Pause), time.Minute)); s.Now.Before(next) {
			return esl.Plan{RequeueAfter: next, Idle: "it rests after its last move"}
		}
	}
	return m.begin(onFewer(m.targets())).WhenIdle("its tasks do not fit on fewer nodes")
}

// ClusterScoped is set: free capacity changes with other jobs.
func (Migrate) ClusterScoped() {}

// Pace bounds how often Next is called.
func (Migrate) Pace() time.Duration { return 100 * time.Millisecond }

// Why says where a moving task goes, and why the job does not move.
func (p Migrate) Why(s *esl.State, task string) why.Reason {
	m, unsaved := p.moving(s), unsaved(s)
	switch t, waits := taskset.Waits(s, task); {
	case waits && m.to != nil && m.closed:
		return why.Say(why.Room, "migrate: it moves to %v, where room is reserved for it", taskset.SortedKeys(m.to.nodes))
	case waits && m.from != nil && m.closed:
		return why.Say(why.Room, "migrate: its move was given up, and it returns to one of %v, where its place is kept", taskset.SortedKeys(m.from.nodes))
	case p.Ask && !unsaved.IsZero():
		return unsaved
	case waits && !m.closed && !hasRoom(s, t):
		return why.Say(why.Room, "migrate: it begins anywhere, where there is room for what it asks for: no node has that at present")
	}
	return why.Reason{}
}
