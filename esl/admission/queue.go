package admission

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
	"github.com/escher-sched/escher/types/words"
)

// Queue bounds how many tasks run at once, and how many begin in a time. It is shared: tasks
// of jobs with a Use wait in it. Waiting tasks are ordered by priority, then by age.
type Queue struct {
	// Limit is how many tasks run at once; 0 means any number.
	Limit int `json:"limit,omitempty" desc:"how many tasks run at once; any number if it is left out" max:"1073741824" zero:"is not without limit, nor none: write closed: true to let none begin, or leave it out for any number"`
	// Rate is how many tasks begin within Per; 0 means any number. It applies to tasks submitted
	// while there was a rate.
	Rate int `json:"rate,omitempty" desc:"how many tasks begin within per; any number if it is left out" max:"1073741824" zero:"is not without limit, nor none: write closed: true to let none begin, or leave it out for any number"`
	// Per is the interval of Rate; 0 means one second.
	Per manifest.Duration `json:"per,omitempty" desc:"the time within which rate tasks begin; 1s if it is left out" zero:"is not a duration: give one, or leave it out for 1s" needs:"rate"`
	// Closed starts no task. Running ones go on.
	Closed bool `json:"closed,omitempty" desc:"lets no task begin; those that run go on"`
}

// Kind returns queue.
func (Queue) Kind() string { return "queue" }

// Describe says what the policy does.
func (Queue) Describe() esl.Description {
	return esl.Description{Does: "limits how many tasks run at once, or begin within a time", OnlyDeclared: true, Flags: []esl.Flag{{
		Name: "queue", Usage: "NAME[/FLOW]: declared queue, or fair queue, to wait in",
		Pattern: "^" + manifest.NamePattern + "$",
		Text: func(text string) (esl.Parameters, error) {
			if strings.Contains(text, "/") {
				return nil, nil // of a fair queue
			}
			return esl.Parameters{"name": text}, nil
		},
	}}}
}

// Apply refuses: jobs take part by Use.
func (Queue) Apply(*esl.Group) error { return esl.SharedOnly("queue") }

// Validate checks the parameters.
func (p Queue) Validate() error {
	return esl.Join(
		esl.InvalidIf(p.Limit < 0 || p.Limit > maxLimit, "limit: %d is out of range: give from 1 to %d, or leave it out for any number", p.Limit, maxLimit),
		esl.InvalidIf(p.Rate < 0 || p.Rate > maxLimit, "rate: %d is out of range: give from 1 to %d, or leave it out for any number", p.Rate, maxLimit),
		esl.InvalidIf(p.Per < 0, "per: %s is negative: give a time, or leave it out for 1s", time.Duration(p.Per)),
		esl.InvalidIf(p.Per > 0 && p.Rate == 0, "per: there is no rate: say how many begin within %s, or leave per out", time.Duration(p.Per)),
	)
}

// Declare returns the resource of which each task requests one.
func (p Queue) Declare(id string) ([]controlplane.Resource, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return []controlplane.Resource{p.pool(id)}, nil
}

func (p Queue) pool(id string) controlplane.Resource {
	capacity := types.Inf
	switch {
	case p.Closed:
		capacity = 0
	case p.Limit > 0:
		capacity = types.Quantity(p.Limit) * esl.One
	}
	return controlplane.Resource{Name: esl.OwnName(id, p.Kind(), ""), Capacity: capacity, Where: controlplane.InCluster(), Options: controlplane.SetOptions{Declare: true}}
}

// CheckAtOnce refuses more tasks at once than the rate allows.
func (p Queue) CheckAtOnce(id string, tasks int) error {
	if p.Rate > 0 && p.Rate < tasks {
		return esl.Invalid("policies: all %d tasks begin at once, and %s lets %d begin within %s: have fewer tasks, or raise its rate", tasks, id, p.Rate, p.per())
	}
	return nil
}

func (p Queue) per() time.Duration { return cmp.Or(time.Duration(p.Per), time.Second) }

// Next admits the tasks whose turn it is, if there is a rate. An admitted task counts until it
// begins, and for Per after that. So no more than Rate begin within that time.
func (p Queue) Next(s *esl.State) esl.Plan {
	want := p.pool(s.ID)
	if pool := s.Pool(want.Name); pool == nil || pool.Capacity() != want.Capacity {
		return esl.Plan{Set: []controlplane.Resource{want}, Reason: "the queue has another limit"}
	}
	if p.Closed {
		return esl.Plan{Idle: "the queue is closed"}
	}
	l := p.line(s)
	var opened []controlplane.Resource
	for room := l.room(p); ; {
		var in unit
		if in, l.waiting = take(l.waiting, room, s.MaxChanges()-len(opened)); len(in) == 0 {
			break
		}
		opened = append(opened, in.open(s.Now)...)
		room -= len(in)
	}
	reason := "admit " + words.Count(len(opened), "task")
	closed, again := closeIdle(s, l.gates)
	opened = append(opened, closed[:min(len(closed), max(0, s.MaxChanges()-len(opened)))]...)
	plan := esl.Plan{Set: withEnded(opened, l.ended, s.MaxChanges()), Reason: reason, RequeueAfter: again}
	plan.Idle = waitText(l.waiting)
	if len(l.waiting) > 0 && len(l.begun) > 0 {
		plan.RequeueAfter = taskset.Earliest(plan.RequeueAfter, time.Unix(0, slices.Min(l.begun)).Add(p.per()))
	}
	return plan
}

// A line is the tasks at a queue with a rate.
type line struct {
	gates
	// all are the gates of all tasks.
	all []gate
	// begun holds when tasks began within the last Per, in Unix nanoseconds.
	begun []int64
}

// line computes the state of the line from all tasks that request one of the queue, because tasks
// of ended jobs count for a while.
func (p Queue) line(s *esl.State) line {
	var l line
	since := s.Now.Add(-p.per()).UnixNano()
	name := esl.OwnName(s.ID, p.Kind(), "")
	for t := range s.View.Tasks() {
		if t.ID.Namespace != s.Namespace || t.Info.V == nil || !mayAskFor(t.Info.V, name) {
			continue
		}
		gateName, index, ok := taskset.GateOf(t.Info.V.Requests, t.Info.V.Job, p.Kind())
		if !ok {
			continue
		}
		if v := t.Status.V; v != nil && v.Bound > since {
			l.begun = append(l.begun, v.Bound)
		}
		l.all = append(l.all, gate{task: t, job: t.Info.V.Job, index: index, name: gateName, pool: s.Pool(gateName)})
	}
	l.gates = sortGates(s, l.all, p.Rate)
	return l
}

// mayAskFor reports whether a task, or one of its alternatives, requests a resource.
func mayAskFor(t *cluster.TaskValue, name string) bool {
	return taskset.AsksFor(t.Requests, name) || slices.ContainsFunc(t.Alternatives, func(a types.Alternative) bool { return taskset.AsksFor(a.Requests, name) })
}

// Pace bounds how often Next is called.
func (Queue) Pace() time.Duration { return 50 * time.Millisecond }

// room is how many more tasks may be admitted.
func (l *line) room(p Queue) int {
	if p.Rate == 0 {
		return maxLimit
	}
	return max(0, p.Rate-len(l.begun)-len(l.entering))
}

// Use makes each task request one of the queue, and a gate of its own if the queue has a rate.
func (p Queue) Use(g *esl.Group, u esl.Use) error {
	if err := u.Only(p.Kind()); err != nil {
		return err
	}
	g.AskAll(esl.OwnName(u.Name, p.Kind(), ""), esl.One)
	if p.Rate == 0 {
		return nil
	}
	return askGates(g, p.Kind())
}

// WhyUsed says how long the queue is.
func (p Queue) WhyUsed(s *esl.State, u esl.Use, task string) why.Reason {
	t := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: task})
	if t == nil || t.Info.V == nil || t.Phase() != types.Pending {
		return why.Reason{}
	}
	if p.Closed {
		return why.Say(why.Order, "queue %s is closed", u.Name)
	}
	l := p.line(s)
	if n, ok := ahead(l.waiting, t); ok && p.Rate == 0 {
		return why.Say(why.Order, "queue %s is about to let it in; %d are before it", u.Name, n)
	} else if ok {
		return why.Say(why.Order, "queue %s lets %d begin in %s; %d are before it", u.Name, p.Rate, p.per(), n)
	}
	if reason := whyOutside(s, "queue "+u.Name, l.all, t, p.Rate); !reason.IsZero() {
		return reason
	}
	if pool := s.Pool(s.Own("")); pool != nil && pool.Free() < esl.One {
		return why.Say(why.Budget, "queue %s has all of its %d in use", u.Name, p.Limit)
	}
	return why.Reason{}
}
