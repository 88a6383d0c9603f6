package esl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// Queue lets so many tasks run at once, and so many begin in a time. It is shared: jobs
// name it by Queued. Those who wait come by priority, then by age.
type Queue struct {
	// Limit is how many run at once; 0: any number.
	Limit int `json:"limit,omitempty" desc:"how many tasks run at once; any number if it is left out" max:"1073741824" zero:"is not without limit, nor none: write closed: true to let none begin, or leave it out for any number"`
	// Rate is how many begin within Per; 0: any number. It is about tasks that were
	// submitted while there was a rate.
	Rate int `json:"rate,omitempty" desc:"how many tasks begin within per; any number if it is left out" max:"1073741824" zero:"is not without limit, nor none: write closed: true to let none begin, or leave it out for any number"`
	// Per is the time that Rate is about; 0 is a second.
	Per manifest.Duration `json:"per,omitempty" desc:"the time within which rate tasks begin; 1s if it is left out" zero:"is no time: give one, or leave it out for 1s" needs:"rate"`
	// Closed lets none begin. Those that run go on.
	Closed bool `json:"closed,omitempty" desc:"lets no task begin; those that run go on"`
}

// Kind is queue.
func (Queue) Kind() string { return "queue" }

// Apply refuses: it is for jobs to name it.
func (Queue) Apply(*Group) error {
	return invalid("queue is shared: declare it under an id, and have jobs name it by the policy queued")
}

// Validate checks the parameters.
func (p Queue) Validate() error {
	var errs []error
	if p.Limit < 0 || p.Limit > maxLimit {
		errs = append(errs, invalid("limit: %d is out of range: give from 1 to %d, or leave it out for any number", p.Limit, maxLimit))
	}
	if p.Rate < 0 || p.Rate > maxLimit {
		errs = append(errs, invalid("rate: %d is out of range: give from 1 to %d, or leave it out for any number", p.Rate, maxLimit))
	}
	if p.Per < 0 {
		errs = append(errs, invalid("per: %s is negative: give a time, or leave it out for 1s", time.Duration(p.Per)))
	}
	if p.Per > 0 && p.Rate == 0 {
		errs = append(errs, invalid("per: there is no rate: say how many begin within %s, or leave per out", time.Duration(p.Per)))
	}
	return joined(errs)
}

// maxLimit is how many tasks a limit may be.
const maxLimit = 1 << 30

// Declare makes the resource that the tasks ask for one of.
func (p Queue) Declare(id string) ([]Set, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return []Set{p.pool(id)}, nil
}

func (p Queue) pool(id string) Set {
	capacity := types.Inf
	switch {
	case p.Closed:
		capacity = 0
	case p.Limit > 0:
		capacity = types.Quantity(p.Limit) * One
	}
	return Set{Name: own(id, p.Kind(), ""), Capacity: capacity, Where: controlplane.InCluster(), Options: controlplane.SetOptions{Declare: true}}
}

func (p Queue) per() time.Duration { return cmp.Or(time.Duration(p.Per), time.Second) }

// Next lets in those whose turn it is, where there is a rate. Who was let in counts from
// then to its beginning, and for a while after that: so no more begin within that time.
func (p Queue) Next(s *State) Plan {
	want := p.pool(s.ID)
	if pool := s.Pool(want.Name); pool == nil || pool.Capacity() != want.Capacity {
		return Plan{Set: []Set{want}, Reason: "the queue has another limit"}
	}
	if p.Closed {
		return Plan{}
	}
	l := p.line(s)
	var opened []Set
	for room := l.room(p); ; {
		var in unit
		if in, l.waiting = take(l.waiting, room, s.changes()-len(opened)); len(in) == 0 {
			break
		}
		for _, g := range in {
			opened = append(opened, g.open(s.Now))
		}
		room -= len(in)
	}
	reason := fmt.Sprintf("%d tasks are let in", len(opened))
	closed, again := s.inVain(l.gates)
	opened = append(opened, closed[:min(len(closed), max(0, s.changes()-len(opened)))]...)
	plan := Plan{Set: withEnded(opened, l.ended, s.changes()), Reason: reason, Again: again}
	if len(l.waiting) > 0 && len(l.begun) > 0 {
		plan.Again = earliest(plan.Again, time.Unix(0, slices.Min(l.begun)).Add(p.per()))
	}
	return plan
}

// A line is who waits at a queue with a rate.
type line struct {
	gates
	// all are the gates of all.
	all []gate
	// begun is when those of the last while began, in Unix nanoseconds.
	begun []int64
}

// line finds out who is where: of all tasks that ask for one of the queue, as those of
// jobs that have ended count for a while.
func (p Queue) line(s *State) line {
	var l line
	since := s.Now.Add(-p.per()).UnixNano()
	name := own(s.ID, p.Kind(), "")
	for t := range s.View.Tasks() {
		if t.ID.Namespace != s.Namespace || t.Info.V == nil || !mayAskFor(t.Info.V, name) {
			continue
		}
		gateName, index, ok := gateOf(t.Info.V.Requests, t.Info.V.Job+"."+Queued{}.Kind())
		if !ok {
			continue
		}
		if v := t.Status.V; v != nil && v.Bound > since {
			l.begun = append(l.begun, v.Bound)
		}
		l.all = append(l.all, gate{task: t, job: t.Info.V.Job, index: index, name: gateName, pool: s.Pool(gateName)})
	}
	l.gates = s.sorted(l.all, p.Rate)
	return l
}

// mayAskFor reports whether a task asks for some of a resource, in any case or in one of the
// ways that it may go.
func mayAskFor(t *cluster.TaskValue, name string) bool {
	return asksFor(t.Requests, name) || slices.ContainsFunc(t.Alternatives, func(a types.Alternative) bool { return asksFor(a.Requests, name) })
}

// asksFor reports whether some of a resource is asked for, by the task itself or as part
// of a gang.
func asksFor(requests types.Requests, name string) bool {
	return slices.ContainsFunc(requests, func(x types.Request) bool {
		rest, ok := strings.CutPrefix(x.Name, name)
		return ok && (rest == "" || rest[0] == '@')
	})
}

// Pace is how often it looks at most.
func (Queue) Pace() time.Duration { return 50 * time.Millisecond }

// room is how many more may be let in.
func (l *line) room(p Queue) int {
	if p.Rate == 0 {
		return maxLimit
	}
	return max(0, p.Rate-len(l.begun)-len(l.entering))
}

// Queued has the tasks of a job wait in a Queue.
type Queued struct {
	// In is the id of the Queue.
	In string `json:"in" desc:"the queue that the tasks wait in, by its name" is:"name"`
}

// Kind is queued.
func (Queued) Kind() string { return "queued" }

// Shared is the Queue.
func (p Queued) Shared() string { return p.In }

// Apply has every task ask for one of the queue, and be let in if that has a rate.
func (p Queued) Apply(g *Group) error {
	q, ok := g.Shared[p.In].(Queue)
	if !ok {
		return invalid("in: %q is no queue: name one that is declared", p.In)
	}
	name := own(p.In, q.Kind(), "")
	g.AskAll(name, One)
	if q.Rate == 0 {
		return nil
	}
	return g.asksGates()
}

// Why says how long the queue is.
func (p Queued) Why(s *State, task string) string {
	t := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: task})
	if t == nil || t.Info.V == nil || t.Phase() != types.Pending {
		return ""
	}
	made, shared := s.named(p.In)
	q, ok := made.(Queue)
	if !ok {
		return fmt.Sprintf("there is no queue %s any more: declare it again, or submit the job without", p.In)
	}
	if q.Closed {
		return fmt.Sprintf("queue %s is closed", p.In)
	}
	l := q.line(shared)
	if n, ok := ahead(l.waiting, t); ok && q.Rate == 0 {
		return fmt.Sprintf("queue %s is about to let it in; %d are before it", p.In, n)
	} else if ok {
		return fmt.Sprintf("queue %s lets %d begin in %s; %d are before it", p.In, q.Rate, q.per(), n)
	}
	if why := shared.outside(l.all, t, q.Rate); why != "" {
		return fmt.Sprintf("queue %s %s", p.In, why)
	}
	if pool := s.Pool(own(p.In, q.Kind(), "")); pool != nil && pool.Free() < One {
		return fmt.Sprintf("queue %s has all of its %d in use", p.In, q.Limit)
	}
	return ""
}

// named returns the shared policy of an id, and its state; nil if there is none that is
// known.
func (s *State) named(id string) (Policy, *State) {
	c := s.View.Policies[cluster.ID{Namespace: s.Namespace, ID: id}]
	if c == nil || c.V == nil || len(c.V.Policies) == 0 {
		return nil, nil
	}
	made, err := s.kinds.Read(c.V.Policies[0])
	if err != nil {
		return nil, nil
	}
	return made, &State{View: s.View, Now: s.Now, Namespace: s.Namespace, ID: id, label: made.Kind(), kinds: s.kinds, book: s.book}
}
