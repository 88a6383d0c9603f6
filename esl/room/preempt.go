package room

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
)

// Preempt evicts tasks of lower priority for tasks of the job: no more than necessary, and none if
// the waiting task or gang would not fit even then. Evicted tasks have the grace of their spec, and
// wait for their next attempt: that is no failure.
//
// Before the first eviction, a reservation collects for the job on the chosen nodes. So the freed
// capacity goes to the job alone, all of it in the transaction that places the tasks. Each call
// chooses victims again from that reservation: a new process continues, and evictions stop once
// there is enough capacity.
type Preempt struct {
	// After is how long a task, or gang, waits before others are evicted for it; 0 means 1 s.
	After manifest.Wait `json:"after,omitempty" desc:"how long a task, or gang, waits before others are evicted for it; 1s if it is left out, at once if it is 0s"`
	// Spare is how long an evicted task runs before this job may evict it again; 0 means 1 min.
	Spare manifest.Wait `json:"spare,omitempty" desc:"how long a task that was evicted runs before it is evicted for this job once more; 1m if it is left out, no time if it is 0s"`
	// Within is how long evicted tasks may take to end; 0 means 10 min.
	Within manifest.Duration `json:"within,omitempty" desc:"how long it waits for evicted tasks to end before it gives up the freed capacity; 10m if it is left out" zero:"leaves no time to end: give a longer time, or leave it out for 10m"`
}

// Kind returns preempt.
func (Preempt) Kind() string { return "preempt" }

// Describe says what the policy does, and its flags.
func (Preempt) Describe() esl.Description {
	return esl.Description{Does: "tasks of lower priority are evicted for it, if it fits then", Frees: "evicts tasks of lower priority for it", Flags: []esl.Flag{{
		Name: "preempt", Usage: "evict tasks of lower --priority in the namespace if that makes room; they run again later",
	}}}
}

// Validate checks the parameters.
func (p Preempt) Validate() error {
	if p.Within < 0 {
		return esl.Invalid("within: %s is negative: give a time, or leave it out for 10m", time.Duration(p.Within))
	}
	return nil
}

// Apply leaves the tasks unchanged: capacity is made for their requests. It refuses tasks with a
// scheduler of their own: such a scheduler does not hand over capacity.
func (p Preempt) Apply(g *esl.Group) error {
	_ = g.Own(strconv.Itoa(atATime - 1)) // reports a job id that is too long
	g.Evicts()
	return cmp.Or(noScheduler(g, p.Kind()), p.Validate())
}

func (p Preempt) after() time.Duration { return p.After.Or(time.Second) }

func (p Preempt) spare() time.Duration { return p.Spare.Or(time.Minute) }

func (p Preempt) within() time.Duration { return cmp.Or(time.Duration(p.Within), 10*time.Minute) }

// ClusterScoped is set: the victims are tasks of other jobs.
func (Preempt) ClusterScoped() {}

// Pace bounds how often Next is called, as it reads all nodes.
func (Preempt) Pace() time.Duration { return 250 * time.Millisecond }

// Next reserves capacity for waiting units, evicts tasks for it, and removes reservations that are
// no longer needed.
func (p Preempt) Next(s *esl.State) esl.Plan {
	rooms, free := p.rooms(s)
	waiting, long, again := p.wanting(s)
	m := p.making(s)
	tries := m.tries(s.Job)
	for _, r := range rooms {
		tries.note(s, r)
	}
	switch {
	case len(rooms) > 0:
		return m.goOn(rooms, waiting).WhenIdle("evicted tasks are ending, or the freed capacity is being bound")
	case len(free) == 0:
		s.Seek(esl.Seeking{})
		return esl.Plan{RequeueAfter: s.Now.Add(time.Second), Idle: "earlier reservations are being released"}
	case len(long) == 0:
		s.Seek(esl.Seeking{})
		return esl.Plan{RequeueAfter: again, Idle: "no task has waited long enough"}
	case s.Now.Before(tries.until):
		s.Seek(esl.Seeking{})
		return esl.Plan{RequeueAfter: tries.until, Idle: "evicting tasks had no effect: the next try is later"}
	}
	plan, _ := m.begin(long, free)
	plan.RequeueAfter = m.nextChange(long)
	if !again.IsZero() {
		plan.RequeueAfter = taskset.Earliest(plan.RequeueAfter, again)
	}
	p.seek(s, long)
	return plan.WhenIdle("no set of tasks of lower priority would make room by its end")
}

// making returns the engine for the job: what has a lower priority may be evicted.
func (p Preempt) making(s *esl.State) *making {
	tries := esl.Remember(s, func() *triedInVain { return new(triedInVain) })
	return &making{s: s, kind: p.Kind(), of: " of lower priority", within: p.within(),
		victims: func(priority int, patient bool) *clearing { return newClearing(s, priority, p.spare(), patient) },
		tries:   func(string) *triedInVain { return tries },
	}
}

// wanting returns all waiting units, and the long-waiting ones, both in order; again is when the
// next unit will have waited long enough.
func (p Preempt) wanting(s *esl.State) (all, long []taskset.Wish, again time.Time) {
	all = slices.Concat(taskset.WaitingReservations(s), taskset.WaitingTasks(s))
	long, again = byWait(all, s.Now, p.after())
	return all, long, again
}

// rooms returns the reservations that make capacity for the job, and the free ids for more of them.
// Older versions used only the id without a number.
func (p Preempt) rooms(s *esl.State) (rooms []*cluster.Reservation, free []string) {
	if r := s.Reservation(s.Own("")); taskset.Locked(r) {
		rooms = append(rooms, r)
	}
	numbered, free := taskset.Numbered(s, atATime)
	return append(rooms, numbered...), free
}

// Why says which tasks are evicted for a task, or why none is.
func (p Preempt) Why(s *esl.State, task string) why.Reason {
	if _, ok := taskset.Waits(s, task); !ok {
		return why.Reason{}
	}
	rooms, free := p.rooms(s)
	if len(rooms) > 0 {
		return p.making(s).ending(rooms)
	}
	_, long, again := p.wanting(s)
	switch {
	case len(long) == 0 && again.IsZero():
		return why.Reason{}
	case len(long) == 0:
		return why.Say(why.Room, "preempt: in %s it evicts tasks of lower priority, if that makes room enough", again.Sub(s.Now).Round(time.Second))
	}
	switch plan, fits := p.making(s).begin(long, free); {
	case len(plan.Reserve) > 0:
		return why.Say(why.Room, "preempt: tasks of lower priority are about to be evicted for it")
	case fits:
		return why.Say(why.Room, "preempt: no task is evicted for it: it fits when the tasks that are leaving have ended")
	}
	return why.Say(why.Room, "preempt: it would not fit even if all tasks of lower priority were gone that may be evicted for it")
}
