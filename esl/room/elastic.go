package room

import (
	"cmp"
	"slices"
	"time"

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

// Kind returns elastic.
func (Elastic) Kind() string { return "elastic" }

// Describe says what the policy does, and its flags.
func (Elastic) Describe() esl.Description {
	return esl.Description{Does: "a minimum of tasks runs, and more while no other task waits for the room", Flags: []esl.Flag{{
		Name: "elastic", Usage: "start at least this many of the --count tasks, all at once or none; the others run while no other task waits for the room",
		Number: func(n int) (esl.Parameters, error) {
			return esl.Parameters{"min": n}, esl.InvalidIf(n < 0, "elastic: %d is negative: give how many of the tasks run at least", n)
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
	const tooMany = "%s: %d is more than the tasks of the job, which are %d: give that at most, or submit more tasks (%s)"
	n := len(g.Tasks)
	if err := cmp.Or(
		p.Validate(),
		esl.InvalidIf(p.Min > n, tooMany, "min", p.Min, n, action.TaskCount.Of()),
		esl.InvalidIf(p.Max > n, tooMany, "max", p.Max, n, action.TaskCount.Of()),
	); err != nil {
		return err
	}
	g.Resizes()
	inTwoParts(g, p.Min)
	return nil
}

// NeedsNodes reports whether a core is refused if it fits on no nodes.
func (p Elastic) NeedsNodes() bool { return p.Min > 0 }

// Next keeps the core, and decides how many others run: all or, when other jobs wait, the running ones
// less those evicted for them and, if these others fit nowhere, as many more as fit on what is free.
func (p Elastic) Next(s *esl.State) esl.Plan {
	core, more := coreOf(s)
	if len(core)+len(more) == 0 || s.Ended() {
		return esl.Plan{Idle: taskset.AllEnded}
	}
	switch plan, has := keepCore(s, core, more); {
	case !plan.Nothing():
		return plan
	case !has:
		s.Seek(esl.Seeking{}) // it waits as its reservation does
		return withMore(s, esl.Plan{Reason: "its core waits", Idle: "its core waits for room"}, 0)
	}
	limit := cmp.Or(p.Max, p.Min+len(more)) - p.Min
	stay := slices.DeleteFunc(slices.Clone(more), func(t *cluster.Task) bool { return !taskset.Remains(t) })
	plan := esl.Plan{Reason: "there may be room", Idle: "as many may run as there are, and nobody waits for what they take"}
	if taskset.Ended(more) {
		return plan
	}
	y := giveWay(s, stay, more[0].Info.V.Priority, p.GiveWay.Or(time.Second))
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
	return withMore(s, plan, limit)
}

// ClusterScoped is set: it gives way to other jobs.
func (Elastic) ClusterScoped() {}

// Pace bounds how often Next is called, as it reads all waiting tasks.
func (Elastic) Pace() time.Duration { return 100 * time.Millisecond }

// Why says what the core, or one of the others, waits for.
func (p Elastic) Why(s *esl.State, task string) why.Reason {
	t, waits := taskset.Waits(s, task)
	core, more := coreOf(s)
	has := taskset.Ended(core) || taskset.Granted(s.Reservation(s.Own("")))
	switch first, pool := slices.Contains(core, t), s.Pool(s.Own(elasticMore)); {
	case !waits || first && has:
	case first:
		return why.Say(why.Room, "elastic: it is one of the first %d tasks, which wait until there is room for all of them", len(core))
	case !has:
		return why.Say(why.Room, "elastic: it begins after the first %d tasks have their place", len(core))
	case pool != nil && pool.Free() < esl.One:
		return why.Say(why.Room, "elastic: %d of %d run besides the first %d; others wait for what it needs, or no more may run", int(pool.Capacity()/esl.One), len(more), len(core))
	}
	return why.Reason{}
}

// Peers makes the tasks know which others run.
func (Elastic) Peers() types.Peers { return types.RunningPeers }
