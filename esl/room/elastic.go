package room

import (
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
	"github.com/escher-sched/escher/types/action"
)

// Elastic lets a job be of any size within bounds. Its first Min tasks, the core, are placed at one
// revision or not at all, and stay. The others run while no other task waits for the capacity they
// take. When one does, the youngest of them are evicted, no more than needed, and wait until they
// fit again. Elastic jobs of one priority get the same number of others running: a job with fewer
// that wants more is waited for.
type Elastic struct {
	// Min is the size of the core; 0 means none.
	Min int `json:"min" desc:"how many of the tasks are placed at once or none, and are not evicted for others" min:"0"`
	// Max is how many tasks run at most; 0 means all.
	Max int `json:"max,omitempty" desc:"how many of the tasks run at most; all if it is left out" zero:"is no task: give how many run at most, or leave it out for all"`
	// GiveWay is how long another task waits before tasks are evicted for it; 0 means 1 s.
	GiveWay manifest.Wait `json:"giveWay,omitempty" desc:"how long others wait before tasks are evicted for them; 1s if it is left out, at once if it is 0s"`
}

// elasticMore is the pool of which each task outside the core requests one.
const elasticMore = "more"

// Kind returns elastic.
func (Elastic) Kind() string { return "elastic" }

// Describe says what the policy does, and its flags.
func (Elastic) Describe() esl.Description {
	return esl.Description{Does: "a minimum of tasks runs, and more while no other task waits for the room", Flags: []esl.Flag{{
		Name: "elastic", Usage: "start at least this many of the --count tasks, all at once or none; the others run while no other task waits for the room",
		Number: func(n int) (esl.Parameters, error) {
			if n < 0 {
				return nil, esl.Invalid("elastic: %d is negative: give how many of the tasks run at least", n)
			}
			return esl.Parameters{"min": n}, nil
		},
	}}}
}

// Validate checks the parameters without the tasks.
func (p Elastic) Validate() error {
	return esl.Join(
		esl.InvalidIf(p.Min < 0, "min: %d is negative: give how many tasks run at least", p.Min),
		esl.InvalidIf(p.Max < 0, "max: %d is negative: give how many tasks run at most, or leave it out for all", p.Max),
		esl.InvalidIf(p.Max > 0 && p.Max < p.Min, "max: %d is less than min, %d: raise it, or leave it out for all tasks", p.Max, p.Min),
	)
}

// Apply makes tasks outside the core request one of a pool, and reserves the requests of the core
// after every policy has added its own.
func (p Elastic) Apply(g *esl.Group) error {
	if err := p.Validate(); err != nil {
		return err
	}
	const tooMany = "%s: %d is more than the tasks of the job, which are %d: give that at most, or submit more tasks (%s)"
	switch n := len(g.Tasks); {
	case p.Min > n:
		return esl.Invalid(tooMany, "min", p.Min, n, action.TaskCount.Of())
	case p.Max > n:
		return esl.Invalid(tooMany, "max", p.Max, n, action.TaskCount.Of())
	}
	g.Resizes()
	g.Make(g.Own(elasticMore), 0, controlplane.InCluster())
	for i := p.Min; i < len(g.Tasks); i++ {
		g.Ask(i, g.Own(elasticMore), esl.One)
	}
	if p.Min > 0 {
		g.Lastly(func() error { return p.lock(g) })
	}
	return nil
}

// lock creates the reservation of the core, and makes the core draw on it.
func (p Elastic) lock(g *esl.Group) error {
	core := *g
	core.Tasks = g.Tasks[:p.Min]
	if err := checkInTurn(&core); err != nil {
		return err
	}
	r, err := core.Lock(g.Own(""), 1)
	if err != nil {
		return err
	}
	g.Resources, g.Reservations = core.Resources, core.Reservations
	if err := core.CheckDomains(); err != nil {
		return err
	}
	needs := taskset.NeedsOf(nil, g.Namespace, &r)
	if most, known := taskset.MostInNodes(g.Nodes, "", needs); known && most < p.Min {
		return types.Errorf(types.Precondition, "min: the cluster is too small: were nothing else there, %d of the first %d tasks would fit%s: lower it, ask for less, or add nodes first",
			most, p.Min, taskset.ShortInNodes(g.Nodes, "", needs))
	}
	return nil
}

// checkInTurn refuses a core in which tasks begin only after others of the job have begun or ended:
// those others are in the core, or begin after it.
func checkInTurn(g *esl.Group) error {
	for i := range g.Tasks {
		for _, x := range g.Tasks[i].Task.Requests {
			rest, own := strings.CutPrefix(x.Name, g.ID+".")
			switch {
			case own && strings.HasPrefix(rest, taskset.KindBarrier):
			case own && strings.HasPrefix(rest, taskset.KindAfter) && !strings.Contains(rest, "."+taskset.JobGate):
			case strings.HasSuffix(x.Name, "."+taskset.KindElasticBalance) && len(g.Tasks) > 1:
			default:
				continue
			}
			return esl.Invalid("min: the first %d tasks begin at once, and by %s tasks[%d] waits for others of the job: lower min, put tasks first that wait for no other, or drop one of the policies",
				len(g.Tasks), x.Name, i)
		}
	}
	return nil
}

// NeedsNodes reports whether a core is refused if it fits on no nodes.
func (p Elastic) NeedsNodes() bool { return p.Min > 0 }

// parts returns the core, and the others.
func (p Elastic) parts(s *esl.State) (core, more []*cluster.Task) {
	pool := s.Own(elasticMore)
	for _, t := range s.Members() {
		switch {
		case t.Info.V == nil:
		case t.Info.V.Requests.Get(pool) > 0:
			more = append(more, t)
		default:
			core = append(core, t)
		}
	}
	return core, more
}

// Next keeps the core, and lets as many others run as fit.
func (p Elastic) Next(s *esl.State) esl.Plan {
	core, more := p.parts(s)
	if len(core)+len(more) == 0 || s.Ended() {
		return esl.Plan{Idle: allEnded}
	}
	r := s.Reservation(s.Own(""))
	locked := r != nil && r.Info.V != nil
	over := taskset.Ended(core)
	switch lost := taskset.Broken(core); {
	case lost != "":
		return taskset.StopAll(slices.Concat(core, more), lost)
	case over && locked:
		return esl.Plan{Unreserve: []string{s.Own("")}, Reason: "its core has ended"}
	case !over && !locked:
		return taskset.LockAgain(s, core, func(int) int { return 1 }, types.WaitForNode, "the place of its core was taken away")
	case !over && !taskset.Granted(r):
		s.Seek(esl.Seeking{}) // it waits as its reservation does
		return p.sized(s, esl.Plan{Reason: "its core waits", Idle: "its core waits for room"}, 0)
	}
	return p.size(s, more)
}

// size decides how many tasks outside the core run: all or, when other jobs wait, the running ones
// less those evicted for them and, if these others fit nowhere, as many more as fit on what is free.
func (p Elastic) size(s *esl.State, more []*cluster.Task) esl.Plan {
	limit := len(more)
	if p.Max > 0 {
		limit = p.Max - p.Min
	}
	var stay []*cluster.Task
	for _, t := range more {
		if t.Phase().Held() && !taskset.Leaving(t) {
			stay = append(stay, t)
		}
	}
	plan := esl.Plan{Reason: "there may be room", Idle: "as many may run as there are, and nobody waits for what they take"}
	if len(more) == 0 || taskset.Ended(more) {
		return plan
	}
	y := p.giveWay(s, stay, more[0].Info.V.Priority)
	switch {
	case y.waited:
		plan = evictAll(y.evicted, "")
		plan.Reason, plan.Idle = "others wait for what it takes", "others wait, and no more of it may begin"
		limit = min(limit, len(stay)-len(plan.Evict))
	case y.behind:
		plan.Reason, plan.Idle = "others wait, and do not fit on what is free", "others wait, and no more of it may begin than fits on what is free"
		limit = min(limit, len(stay)+fitting(s, y.rooms))
	}
	plan.RequeueAfter = y.again
	return p.sized(s, plan, limit)
}

// sized adds to a plan how many tasks outside the core run.
func (p Elastic) sized(s *esl.State, plan esl.Plan, limit int) esl.Plan {
	name, capacity := s.Own(elasticMore), types.Quantity(limit)*esl.One
	if pool := s.Pool(name); pool == nil || pool.Info.V == nil || pool.Info.V.Capacity != capacity {
		plan.Set = append(plan.Set, controlplane.Resource{Name: name, Capacity: capacity, Where: controlplane.InCluster(), Options: esl.OfJob(s.Job)})
	}
	return plan
}

// ClusterScoped is set: it gives way to other jobs.
func (Elastic) ClusterScoped() {}

// Pace bounds how often Next is called, as it reads all waiting tasks.
func (Elastic) Pace() time.Duration { return 100 * time.Millisecond }

func (p Elastic) patience() time.Duration { return p.GiveWay.Or(time.Second) }

// Why says what the core, or one of the others, waits for.
func (p Elastic) Why(s *esl.State, task string) why.Reason {
	t, ok := taskset.Waits(s, task)
	if !ok {
		return why.Reason{}
	}
	core, more := p.parts(s)
	r := s.Reservation(s.Own(""))
	has := p.Min == 0 || taskset.Ended(core) || r != nil && taskset.Granted(r)
	switch pool := s.Pool(s.Own(elasticMore)); {
	case slices.Contains(core, t) && has:
		return why.Reason{}
	case slices.Contains(core, t):
		return why.Say(why.Room, "elastic: it is one of the first %d tasks, which wait until there is room for all of them", len(core))
	case !has:
		return why.Say(why.Room, "elastic: it begins after the first %d tasks have their place", len(core))
	case pool != nil && pool.Free() < esl.One:
		return why.Say(why.Room, "elastic: %d of %d run besides the first %d; others wait for what it needs, or no more may run",
			int(pool.Capacity()/esl.One), len(more), len(core))
	}
	return why.Reason{}
}

// isMore reports whether a task is outside the core of an elastic job.
func isMore(t *cluster.Task) bool {
	return slices.ContainsFunc(t.Info.V.Requests, func(x types.Request) bool {
		rest, ok := strings.CutPrefix(x.Name, t.Info.V.Job)
		return ok && strings.HasPrefix(rest, ".elastic") && strings.HasSuffix(rest, "."+elasticMore)
	})
}
