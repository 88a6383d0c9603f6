package room

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
)

// LeastAttained puts jobs that have been served little before those that have been served much, whatever
// their lengths: discretized two-dimensional LAS (Tiresias, NSDI 2019). It is shared: the jobs that use it
// compare with one another. A job is in the first queue until its service, devices times time, reaches
// Threshold, and then in the second. Within a queue the oldest is first.
//
// Tasks of the second queue are evicted for the first, with the warning and grace of their specs, gangs
// whole, and no more of them than needed. So are younger jobs of its own queue for one that has waited for
// long. A job of the second queue that waits too long, compared with what
// it had, comes to the first again.
type LeastAttained struct {
	// Threshold is the device time of the first queue; 0 means 8 hours: a node of 8 devices for an hour.
	Threshold manifest.Duration `json:"threshold,omitempty" desc:"devices times time after which a job is in the second queue; 8h if it is left out" zero:"would put every job into the second queue: give a longer time, or leave it out for 8h"`
	// Starve is how many times as long as it ran a job of the second queue waits, until it comes to the
	// first again; 0 means 4.
	Starve int `json:"starve,omitempty" desc:"how many times as long as it ran a job of the second queue waits, at most, until it comes to the first again; 4 if it is left out" zero:"would leave no job in the second queue: give 1 or more, or leave it out for 4" max:"1000000"`
	// After is how long a task or gang of the first queue waits before others are evicted for it.
	After manifest.Wait `json:"after,omitempty" desc:"how long a task, or gang, waits before others are evicted for it; 1s if it is left out, at once if it is 0s"`
	// Older is how long a job waits until younger ones of its queue are evicted for it; 0 means 1 h.
	Older manifest.Wait `json:"older,omitempty" desc:"how long a job waits until younger ones of its own queue are evicted for it; 1h if it is left out, at once if it is 0s"`
	// Spare is how long an evicted task runs before it is evicted again.
	Spare manifest.Wait `json:"spare,omitempty" desc:"how long a task that was evicted runs before it is evicted once more; 5m if it is left out, no time if it is 0s"`
}

// Kind returns least-attained.
func (LeastAttained) Kind() string { return "least-attained" }

// Describe says what the policy does, and its flag.
func (LeastAttained) Describe() esl.Description {
	return esl.Description{Does: "jobs that have had little device time come before those that have had much, which are evicted for them", OnlyDeclared: true,
		Frees: "evicts tasks of the second queue for the first", Flags: []esl.Flag{{
			Name: "least-attained", Usage: "NAME of a declared least-attained: jobs with little device time first; others are evicted, and run again later",
			Pattern: "^" + manifest.NamePattern + "$", Text: esl.Sets[string]("name"),
		}}}
}

// Apply refuses: jobs take part by Use.
func (LeastAttained) Apply(*esl.Group) error { return esl.SharedOnly("least-attained") }

// Validate checks the parameters.
func (p LeastAttained) Validate() error {
	return esl.Join(
		esl.InvalidIf(p.Threshold < 0, "threshold: %s is negative: give a device time, or leave it out for 8h", time.Duration(p.Threshold)),
		esl.InvalidIf(p.Starve < 0 || p.Starve > mostStarve, "starve: %d is not within 1 and %d: change it, or leave it out for 4", p.Starve, mostStarve),
	)
}

const mostStarve = 1_000_000

// Declare returns no resources: those of a job are made when it has been served.
func (p LeastAttained) Declare(id string) ([]controlplane.Resource, error) {
	return nil, cmp.Or(p.Validate(), named(id, strconv.Itoa(atATime-1)))
}

// named checks the name of what is made for a job.
func named(id, suffix string) error {
	return esl.CheckMade("name", id, esl.OwnName(id, LeastAttained{}.Kind(), suffix))
}

// Use leaves the tasks as they are: room is made for what they request.
func (p LeastAttained) Use(g *esl.Group, u esl.Use) error {
	if err := cmp.Or(u.Only(p.Kind()), named(u.Name, g.ID+servedPool)); err != nil {
		return err
	}
	g.Raises()
	g.Evicts()
	return noScheduler(g, p.Kind())
}

// Pace bounds how often Next is called, as it reads all nodes.
func (LeastAttained) Pace() time.Duration { return time.Second }

func (p LeastAttained) census(s *esl.State) *census {
	return censusOf(s, cmp.Or(time.Duration(p.Threshold), 8*time.Hour), cmp.Or(p.Starve, 4))
}

// Next writes what jobs have attained, moves what waits between the queues, and makes room for the first.
func (p LeastAttained) Next(s *esl.State) esl.Plan {
	c := p.census(s)
	if plan := c.recorded(); !plan.Nothing() {
		return plan
	}
	if plan := c.reordered(); !plan.Nothing() {
		return plan
	}
	plan := c.makeRoom(p.After.Or(time.Second), p.Older.Or(time.Hour), p.Spare.Or(5*time.Minute))
	if at := c.nextChange(); !at.IsZero() {
		plan.RequeueAfter = taskset.Earliest(plan.RequeueAfter, at)
	}
	return plan.WhenIdle("each job is in its queue, and nothing is evicted for what waits")
}

// Why says in which queue the job of a task is, and what is done for it.
func (p LeastAttained) Why(s *esl.State, task string) why.Reason {
	t, waits := taskset.Waits(s, task)
	c := p.census(s)
	if !waits || c.byID[t.Info.V.Job] == nil {
		return why.Reason{}
	}
	x := c.byID[t.Info.V.Job]
	mine := slices.DeleteFunc(slices.Clone(c.rooms), func(r *cluster.Reservation) bool { return r.Info.V.Job != x.job })
	if len(mine) > 0 {
		return c.making(0).ending(mine)
	}
	had, most := why.InWords(seconds(x.served)), why.InWords(seconds(c.threshold))
	if x.second {
		return why.Say(why.Order, "least-attained: its job has had %s of device time, and comes after jobs that have had less than %s; that ends in %s", had, most, why.InWords(x.back.Sub(s.Now)))
	}
	return why.Say(why.Order, "least-attained: its job has had less than %s of device time, and comes before jobs that have had more, which are evicted for it if it fits then", most)
}
