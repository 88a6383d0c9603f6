package place

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Colocate runs the tasks of a job on one node, or in one rack or zone: where most of them fit. It
// chooses when the first of them waits, and again while none of them has a node. With With they
// follow another task, or the tasks of another job, which do not know of it. After those move, the
// next tasks follow.
type Colocate struct {
	// In is node, rack or zone; empty means node.
	In esl.Domain `json:"in,omitempty" desc:"what the tasks share: node, rack or zone; node if it is left out"`
	// With is the id, or the name, of another task or job.
	With string `json:"with,omitempty" desc:"the id or name of a task or job to be with; the tasks are with one another if it is left out" is:"name"`
	// OnLoss says what happens to the others when one of the tasks is lost or evicted: alone, the
	// default, leaves them; restart makes all of them begin again, together; fail stops them.
	OnLoss esl.Loss `json:"onLoss,omitempty" desc:"when a task is lost: alone leaves the others, restart starts all again, fail stops them; alone if it is left out"`
}

// Kind returns colocate.
func (Colocate) Kind() string { return "colocate" }

// Describe says what the policy does, and its flags.
func (Colocate) Describe() esl.Description {
	return esl.Description{Does: "all tasks run in one node, rack or zone, or where another task or job runs", Flags: []esl.Flag{{
		Name: "together", Usage: "put all tasks on one node, rack or zone", Text: esl.Sets[string]("in"), Values: esl.Values{Words: esl.Domain("").Choices()},
		With: []esl.Flag{{Name: "on-loss", Text: esl.Sets[string]("onLoss")}},
	}, {
		Name: "colocate-with", Usage: "id or name of a task or job: run on its node", Text: esl.Sets[string]("with"), Values: esl.Values{Jobs: true},
	}}}
}

// Validate checks the parameters.
func (p Colocate) Validate() error {
	errs := []error{p.In.Or(esl.Node).Validate("in")}
	if p.With != "" {
		errs = append(errs, types.ValidateName("with", p.With))
	}
	errs = append(errs, esl.InvalidIf(p.OnLoss != "" && !slices.Contains(p.OnLoss.Choices(), string(p.OnLoss)), "onLoss: %q is unknown: use %s", string(p.OnLoss), strings.Join(p.OnLoss.Choices(), ", ")))
	return esl.Join(errs...)
}

// Apply makes each task request one of a resource that Next creates where the tasks may run.
func (p Colocate) Apply(g *esl.Group) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if p.With == "" {
		g.Together(p.In.Or(esl.Node))
	}
	g.Steers()
	name := g.Own(p.suffix())
	g.Make(name, 0, controlplane.OnEvery())
	g.AskAll(name, esl.One)
	return nil
}

// suffix is that of the resource.
func (p Colocate) suffix() string {
	if p.With != "" {
		return taskset.ColocateWith
	}
	return ""
}

// Next opens the domain where the tasks may run, and closes the former one.
func (p Colocate) Next(s *esl.State) esl.Plan {
	c := taskset.Of(s, s.Own(p.suffix()))
	if len(c.Waiting)+len(c.Held) == 0 && !c.Gang {
		return esl.Plan{Idle: nothingWaits}
	}
	if plan := p.lost(s); !plan.Nothing() {
		return plan
	}
	plan := esl.Plan{Idle: nothingWaits}
	if p.With != "" {
		plan = p.follow(s)
	} else {
		p.seek(s, c)
		if len(c.Waiting) > 0 {
			plan = p.choose(s, c)
			plan.RequeueAfter = c.Next
		}
	}
	s.TakeTurn(&plan)
	return plan
}

// seek notes that free capacity matters on all nodes, and that the tasks may begin in the open domain.
func (p Colocate) seek(s *esl.State, c taskset.Set) {
	opened, id := make(map[string]int), types.Resolve(s.Namespace, s.Own(""))
	for _, n := range s.View.Nodes {
		if taskset.Capacity(s, n, id) > 0 {
			opened[n.Name] = len(c.Waiting)
		}
	}
	c.SeekOn(s, opened, string(p.In.Or(esl.Node)), nil)
}

// lost ends the other tasks, or their attempts, after one task was lost. It compares attempts: an
// attempt lower than the one that follows a loss began before it.
func (p Colocate) lost(s *esl.State) esl.Plan {
	if p.OnLoss != esl.Restart && p.OnLoss != esl.Fail {
		return esl.Plan{}
	}
	plan := esl.Plan{}
	next, lost := 0, ""
	for _, t := range s.Members() {
		st := t.Status.V
		switch {
		case st == nil || t.Phase().Ended():
		case st.Phase == types.Pending && st.Attempt >= next:
			next, lost = st.Attempt+1, t.ID.ID
		case st.Attempt > next:
			next, lost = st.Attempt, t.ID.ID
		}
	}
	if next < 2 {
		return plan
	}
	plan.Reason = "attempt of " + lost + " was lost"
	for _, t := range s.Members() {
		switch {
		case t.Info.V == nil || t.Phase().Ended() || t.Info.V.Stop != nil:
		case p.OnLoss == esl.Fail:
			plan.Stop = append(plan.Stop, esl.Stop{Task: t.ID.ID, StopOptions: controlplane.StopOptions{Reason: "colocate: " + lost + " was lost"}})
		case t.Phase().Held() && t.Status.V.Attempt < next && t.Info.V.Evict != t.Status.V.Attempt:
			plan.Evict = append(plan.Evict, esl.Evict{Task: t.ID.ID, Attempt: t.Status.V.Attempt})
		}
	}
	return plan
}

// follow puts the resource where the other tasks are.
func (p Colocate) follow(s *esl.State) esl.Plan {
	name, in := s.Own(taskset.ColocateWith), p.In.Or(esl.Node)
	want := p.partnersIn(s)
	plan := esl.Plan{Reason: p.With + " is elsewhere", Idle: "its tasks may go where " + p.With + " is"}
	open(s, &plan, name, types.Inf, false, func(n *cluster.Node) bool { return want[in.Of(n)] })
	return plan
}

// partnersIn returns the domains of the other tasks.
func (p Colocate) partnersIn(s *esl.State) map[string]bool {
	out := make(map[string]bool)
	for _, t := range partnersOf(s, p.With) {
		if n := s.View.Nodes[nodeOf(t)]; n != nil {
			out[p.In.Or(esl.Node).Of(n)] = true
		}
	}
	delete(out, "") // a node without the label
	return out
}

// partnersOf returns the task with an id, the tasks of the job with that id, and those of the jobs
// with that name. If none of these has a node, it adds the tasks of that name that have one.
func partnersOf(s *esl.State, name string) []*cluster.Task {
	var out []*cluster.Task
	if t := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: name}); t != nil && t.Info.V != nil {
		out = append(out, t)
	}
	out = append(out, s.JobTasks(name)...)
	for id, c := range s.View.Jobs {
		if id.Namespace == s.Namespace && c.V != nil && c.V.Name == name {
			out = append(out, s.JobTasks(id.ID)...)
		}
	}
	if slices.ContainsFunc(out, func(t *cluster.Task) bool { return t.Phase().Held() }) {
		return out
	}
	for _, n := range s.View.Nodes {
		for _, b := range n.Bindings {
			if t := b.Task; t.ID.Namespace == s.Namespace && t.Info.V != nil && t.Info.V.Name == name {
				out = append(out, t)
			}
		}
	}
	return out
}

// ClusterScoped is set: other tasks move, and free capacity changes with them.
func (Colocate) ClusterScoped() {}

// Pace bounds how often Next is called: one call handles all waiting tasks.
func (Colocate) Pace() time.Duration { return widePace }

// Why says where the task may go, or which tasks it follows.
func (p Colocate) Why(s *esl.State, task string) why.Reason {
	if _, ok := taskset.Waits(s, task); !ok {
		return why.Reason{}
	}
	in := p.In.Or(esl.Node)
	if p.With != "" {
		places := p.partnersIn(s)
		if len(places) == 0 {
			return why.Say(why.Place, "colocate: it is to be on the %s of %s, which is on none: it waits until that has a node", in, p.With)
		}
		return why.Say(why.Place, "colocate: it is to be on the %s of %s: %s", in, p.With, strings.Join(slices.Sorted(maps.Keys(places)), ", "))
	}
	if at := p.opened(s, s.Own("")); at != "" {
		return why.Say(why.Place, "colocate: the tasks of its job share a %s: %s", in, at)
	}
	return why.Say(why.Place, "colocate: no %s that takes tasks is large enough for any of the tasks, which are to share one", in)
}

// choose opens one domain: the one where most tasks are already, otherwise the one where most fit.
// Opening another one takes two plans: after the first, no task can be bound in the old domain; the
// second knows which tasks were bound there before that.
func (p Colocate) choose(s *esl.State, c taskset.Set) esl.Plan {
	name, in := s.Own(""), p.In.Or(esl.Node)
	id := types.Resolve(s.Namespace, name)
	parts := domainsOf(s, in, id, c)
	is, want := p.opened(s, name), p.best(s, parts, c)
	if at := p.inUse(s, name); at != "" {
		want = at
	}
	switch {
	case want == "":
		return esl.Plan{Idle: fmt.Sprintf("no %s has room for them", in)}
	case is == want:
		return esl.Plan{Idle: fmt.Sprintf("they go to %s %s", in, is)}
	case is != "":
		return p.open(s, is, 0, fmt.Sprintf("no longer on %s %s", in, is))
	}
	return p.open(s, want, types.Inf, fmt.Sprintf("together on %s %s", in, want))
}

// opened returns the open domain, "" if there is none.
func (p Colocate) opened(s *esl.State, name string) string {
	id := types.Resolve(s.Namespace, name)
	if p.In.Or(esl.Node) == esl.Node {
		for _, n := range openNodes(s, id) {
			return n.Name
		}
		return ""
	}
	c := s.View.Everywhere[id]
	if c == nil || c.V.Capacity == 0 || c.V.Selector == nil {
		return ""
	}
	for _, l := range c.V.Selector.Labels {
		return l.Value
	}
	return ""
}

// open sets the capacity of the resource in a domain.
func (p Colocate) open(s *esl.State, domain string, capacity types.Quantity, reason string) esl.Plan {
	plan := esl.Plan{Reason: reason}
	name, in := s.Own(""), p.In.Or(esl.Node)
	set := controlplane.Resource{Name: name, Capacity: capacity, Where: controlplane.OnNode(domain), Options: s.Lifetime()}
	switch {
	case in == esl.Node && capacity == 0:
		set.Options = controlplane.SetOptions{}
	case in != esl.Node && capacity == 0:
		set.Where = controlplane.OnEvery()
	case in != esl.Node:
		set.Where = controlplane.OnEvery(types.Label{Name: string(in), Value: domain})
	}
	plan.Set = append(plan.Set, set)
	return plan
}

// inUse returns the domain where most of the resource is in use, by tasks or their reservations, ""
// if none is.
func (p Colocate) inUse(s *esl.State, name string) string {
	id := types.Resolve(s.Namespace, name)
	used := make(map[string]types.Quantity)
	most := ""
	for _, n := range s.View.Nodes {
		q := n.Used(id)
		if q == 0 || n.Alive.V == nil {
			continue
		}
		d := p.In.Or(esl.Node).Of(n)
		if used[d] += q; most == "" || used[d] > used[most] || used[d] == used[most] && d < most {
			most = d
		}
	}
	return most
}

// best returns the domain where most tasks fit, of equal ones the open one. If no task fits in any,
// it returns the one that is large enough for most.
func (p Colocate) best(s *esl.State, parts []*domain, c taskset.Set) string {
	is, best := p.opened(s, s.Own("")), ""
	most := fit{now: -1}
	for _, d := range parts {
		f := d.fit(c)
		if better := f.compare(most); better > 0 || better == 0 && d.name == is {
			best, most = d.name, f
		}
	}
	return best
}
