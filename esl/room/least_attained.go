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
	"github.com/escher-sched/escher/types"
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
	if name := esl.OwnName(id, LeastAttained{}.Kind(), suffix); len(name) > types.MaxName {
		return esl.Invalid("name: %s has %d bytes: at most %d are allowed, shorten the name of the policy, or that of the job", name, len(name), types.MaxName)
	}
	return nil
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
	return censusOf(s, cmp.Or(time.Duration(p.Threshold), 8*time.Hour).Seconds())
}

// Next writes what jobs have attained, moves what waits between the queues, and makes room for the first.
func (p LeastAttained) Next(s *esl.State) esl.Plan {
	c := p.census(s)
	if plan := p.record(c); len(plan.Set) > 0 {
		return plan
	}
	if plan := reorder(c); len(plan.Raise) > 0 {
		return plan
	}
	plan := p.makeRoom(c)
	for _, x := range c.jobs {
		if x.rate > 0 && !x.second {
			plan.RequeueAfter = taskset.Earliest(plan.RequeueAfter, s.Now.Add(max(time.Second, seconds((c.threshold-x.served)/x.rate))))
		}
	}
	for _, w := range c.waits {
		if x := c.byID[w.Job]; x.second && x.rate == 0 {
			plan.RequeueAfter = taskset.Earliest(plan.RequeueAfter, p.starves(x, w))
		}
	}
	return plan.WhenIdle("each job is in its queue, and nothing is evicted for what waits")
}

// starves returns when a job of the second queue of which nothing runs comes to the first again.
func (p LeastAttained) starves(x *service, w taskset.Wish) time.Time {
	ran, since := x.ran(), w.Since
	if left := time.Unix(0, x.left); left.After(since) {
		since = left
	}
	return since.Add(ran * time.Duration(min(cmp.Or(p.Starve, 4), int(mostWait/max(ran, 1)))))
}

// record returns the plan that writes what jobs have attained, and moves those to the first queue that
// have waited too long.
func (p LeastAttained) record(c *census) esl.Plan {
	plan := esl.Plan{Reason: "jobs have been served"}
	back := make(map[string]bool)
	for _, w := range c.waits {
		x := c.byID[w.Job]
		back[w.Job] = back[w.Job] || x.second && x.rate == 0 && !c.s.Now.Before(p.starves(x, w))
	}
	for _, x := range c.jobs {
		served := x.served
		switch {
		case len(plan.Set)+2 > c.s.MaxChanges():
			return plan
		case back[x.job]:
			served, plan.Reason = 0, "jobs have waited for long, and come to the first queue again"
		case !x.stale && (!x.second || x.recorded >= c.threshold):
			continue
		}
		plan.Set = append(plan.Set, c.record(x, served)...)
	}
	return plan
}

// reorder returns the plan that puts what waits of the second queue behind the first.
func reorder(c *census) esl.Plan {
	plan := esl.Plan{Reason: "jobs are in another queue"}
	for _, w := range c.waits {
		if by := -taskset.BoolInt(c.byID[w.Job].second); by != w.Raised && len(plan.Raise) < taskset.AtOnce {
			plan.Raise = append(plan.Raise, esl.Raise{ID: w.ID, Reservation: w.Reservation, By: by})
		}
	}
	return plan
}

// makeRoom evicts tasks of jobs that come after what waits.
func (p LeastAttained) makeRoom(c *census) (plan esl.Plan) {
	again := c.inOrder(p.Older.Or(time.Hour))
	m, waits := c.making(p.Spare.Or(5*time.Minute)), c.waits
	for _, r := range c.rooms {
		m.tries(r.Info.V.Job).note(c.s, r)
	}
	if len(c.rooms) > 0 {
		if plan = m.goOn(c.rooms, slices.Clone(waits)); !plan.Nothing() {
			return plan
		}
		waits = without(c.s, slices.Clone(waits), c.rooms)
	}
	if !c.victims() {
		return plan
	}
	var long []taskset.Wish
	for _, w := range waits[:min(len(waits), mostConsidered)] {
		x, due := c.byID[w.Job], w.Since.Add(p.After.Or(time.Second))
		switch {
		case c.s.Now.Before(due):
			again = taskset.Earliest(again, due)
		case x.second && !x.long || c.s.Now.Before(m.tries(w.Job).until):
		default:
			long = append(long, w)
		}
	}
	if len(long) > 0 && len(c.free) > 0 {
		more, _ := m.begin(long, c.free)
		more.RequeueAfter, plan = plan.RequeueAfter, more
		again = taskset.Earliest(again, nextTry(c.s.Now, long))
	}
	if !again.IsZero() {
		plan.RequeueAfter = taskset.Earliest(plan.RequeueAfter, again)
	}
	return plan
}

// Why says in which queue the job of a task is, and what is done for it.
func (p LeastAttained) Why(s *esl.State, task string) why.Reason {
	t, ok := taskset.Waits(s, task)
	if !ok {
		return why.Reason{}
	}
	c := p.census(s)
	x := c.byID[t.Info.V.Job]
	if x == nil {
		return why.Reason{}
	}
	mine := slices.DeleteFunc(slices.Clone(c.rooms), func(r *cluster.Reservation) bool { return r.Info.V.Job != x.job })
	if len(mine) > 0 {
		return c.making(0).ending(mine)
	}
	had, most := why.InWords(seconds(x.served)), why.InWords(seconds(c.threshold))
	if x.second {
		var back time.Time
		for _, w := range c.waits {
			if w.Job == x.job {
				back = taskset.Earliest(back, p.starves(x, w))
			}
		}
		return why.Say(why.Order, "least-attained: its job has had %s of device time, and comes after jobs that have had less than %s; that ends in %s", had, most, why.InWords(back.Sub(s.Now)))
	}
	return why.Say(why.Order, "least-attained: its job has had less than %s of device time, and comes before jobs that have had more, which are evicted for it if it fits then", most)
}
