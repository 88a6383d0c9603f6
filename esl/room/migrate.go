package room

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
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

// The resources of the policy, besides its reservations.
const (
	migrateAnywhere = "anywhere"
	migrateBack     = "back"
	migrateBegun    = "begun"

	allEnded = "its tasks have ended"
)

// migrateTo are the slots of destinations, migrateFrom those of former places. There are two each:
// a task draws on its slot until it ends, and may have to move meanwhile.
func migrateTo() [2]string { return [2]string{"a", "b"} }

func migrateFrom() [2]string { return [2]string{"c", "d"} }

// Kind returns migrate.
func (Migrate) Kind() string { return "migrate" }

// Describe says what the policy does, and its flags.
func (Migrate) Describe() esl.Description {
	return esl.Description{Does: "running tasks move to better nodes when capacity becomes free", Flags: []esl.Flag{{
		Name: "migrate", Usage: "move the running tasks onto fewer nodes when there is room; they save their state when told to end",
	}}}
}

// Validate checks the times.
func (p Migrate) Validate() error {
	if p.Pause < 0 || p.Within < 0 {
		return esl.Invalid("pause, within: %s and %s: one is negative: leave it out", time.Duration(p.Pause), time.Duration(p.Within))
	}
	return nil
}

// Apply gives each task alternatives: to draw on one of the reservations, or to run anywhere. The
// task passes its gates only once, however it moves.
func (p Migrate) Apply(g *esl.Group) error {
	g.Moves()
	g.Make(g.Own(migrateAnywhere), types.Inf, controlplane.OnEvery())
	g.Make(g.Own(migrateBack), 0, controlplane.OnEvery())
	g.Lastly(func() error { return p.homes(g) })
	return p.Validate()
}

func (p Migrate) homes(g *esl.Group) error {
	if len(g.Reservations) > 0 {
		return esl.Invalid("policies: what another policy has locked does not move: drop migrate, or gang or elastic")
	}
	var errs []error
	gates := make([]types.Requests, len(g.Tasks))
	for i := range g.Tasks {
		t := &g.Tasks[i].Task
		gates[i], t.Requests = taskset.GatesAmong(t.Requests, g.ID)
		switch {
		case len(t.Alternatives) > 0 || len(t.Devices) > 0:
			errs = append(errs, esl.Invalid("tasks[%d]: it has alternatives, or asks for certain devices, and is to be moved: drop them, or migrate", i))
		case drawsOn(t.Requests) != "":
			errs = append(errs, esl.Invalid("tasks[%d].requests: %q is of a reservation, which does not move: ask for it without, or drop migrate", i, drawsOn(t.Requests)))
		case len(t.Requests) == 0:
			errs = append(errs, esl.Invalid("tasks[%d].requests: it asks for nothing, and no room can be reserved for it: give what it takes", i))
		case p.Ask && tooLongToAsk(g.Tasks[i]):
			errs = append(errs, esl.Invalid("tasks[%d].name: %q, with the id %q, is too long, as the resources by which it is asked to save begin with its id: at most %d bytes are allowed, or %d of an id that is given; shorten it", i, t.Name, g.Tasks[i].ID, maxAskedName, maxAskedID))
		case i > 0 && !esl.Alike(t, &g.Tasks[0].Task):
			errs = append(errs, esl.Invalid("tasks[%d].requests: those that move ask for the same, and this one for something else than tasks[0], or it provides something: make a job of its own of it", i))
		}
	}
	if err := esl.Join(errs...); err != nil {
		return err
	}
	asked := g.Tasks[0].Task.Requests
	var ways []types.Alternative
	at := func(slot string) types.Requests {
		there := types.Task{Requests: asked}
		esl.DrawOn(&there, g.Own(slot), nil)
		return there.Requests
	}
	for _, slot := range migrateTo() {
		ways = append(ways, types.Alternative{Requests: at(slot)})
	}
	for _, slot := range migrateFrom() {
		ways = append(ways, types.Alternative{Requests: at(slot).Plus(types.Requests{{Name: g.Own(migrateBack), Amount: esl.One}})})
	}
	ways = append(ways, types.Alternative{Requests: asked.Plus(types.Requests{{Name: g.Own(migrateAnywhere), Amount: esl.One}})})
	for i := range g.Tasks {
		g.Tasks[i].Task.Requests, g.Tasks[i].Task.Alternatives = gates[i], slices.Clone(ways)
	}
	return nil
}

// Next begins a move to fewer nodes, continues it, and ends it.
func (p Migrate) Next(s *esl.State) esl.Plan {
	var live []*cluster.Task
	for _, t := range s.Members() {
		if t.Info.V != nil && !t.Phase().Ended() {
			live = append(live, t)
		}
	}
	m := p.moving(s)
	switch {
	case len(live) == 0:
		return esl.Plan{Idle: allEnded}
	case m.to != nil && m.closed:
		return p.leave(s, m, live)
	case m.to != nil:
		return p.prepare(s, m, live)
	case m.from != nil && m.closed:
		return p.back(s, m, live)
	case m.from != nil || m.closed:
		return p.end(s, m, "the place was taken away")
	}
	if told := p.unask(s, live); !told.Nothing() {
		return told
	}
	return p.begin(s, live)
}

// ClusterScoped is set: free capacity changes with other jobs.
func (Migrate) ClusterScoped() {}

// Pace bounds how often Next is called.
func (Migrate) Pace() time.Duration { return 100 * time.Millisecond }

// Why says where a moving task goes, and why the job does not move.
func (p Migrate) Why(s *esl.State, task string) why.Reason {
	m := p.moving(s)
	_, waits := taskset.Waits(s, task)
	switch {
	case waits && m.to != nil && m.closed:
		return why.Say(why.Room, "migrate: it moves to %v, where room is reserved for it", taskset.SortedKeys(m.to.nodes))
	case waits && m.from != nil && m.closed:
		return why.Say(why.Room, "migrate: its move was given up, and it returns to one of %v, where its place is kept", taskset.SortedKeys(m.from.nodes))
	}
	if r := p.unsaved(s); p.Ask && !r.IsZero() {
		return r
	}
	if t, _ := taskset.Waits(s, task); waits && !m.closed && !p.hasRoom(s, t) {
		return why.Say(why.Room, "migrate: it begins anywhere, where there is room for what it asks for: no node has that at present")
	}
	return why.Reason{}
}

// drawsOn returns the first request that draws on a reservation, "" if there is none.
func drawsOn(requests types.Requests) string {
	for _, x := range requests {
		if strings.Contains(x.Name, "@") {
			return x.Name
		}
	}
	return ""
}

// better returns bundles for the tasks that move, so that all are on fewer nodes, and those nodes;
// nil if they do not fit.
func (p Migrate) better(s *esl.State, live []*cluster.Task) (bundles []types.Bundle, to []string) {
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
	slices.SortStableFunc(rooms, func(a, b *esl.Room) int {
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
		more := min(left, room[n]) - min(left, there[n])
		if more == 0 {
			return nil, nil // bundles name destinations only: tasks there would have to leave
		}
		for range more {
			bundles = append(bundles, types.Bundle{Requests: asked, Node: n})
		}
		left -= room[n]
	}
	if left > 0 {
		return nil, nil
	}
	return bundles, to
}

// asked returns the requests of a task, and those of its node.
func (p Migrate) asked(s *esl.State, t *cluster.Task) (asked types.Requests, needs []cluster.Need) {
	asked = askedAnywhere(t.Info.V.Alternatives, s.Own(migrateAnywhere))
	return asked, s.View.Needs(s.Namespace, asked)
}

// askedAnywhere returns the requests of the alternative to run anywhere.
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
