package place

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Colocate has the tasks of a job run on one node, or in one rack or zone: where the most
// of them have room, chosen when the first of them waits, and anew while none of them is
// on a node. With With they go where a task, or the tasks of a job, are, which know
// nothing of it; and where that moves, the next ones go.
type Colocate struct {
	// In is node, rack or zone; empty is node.
	In esl.Domain `json:"in,omitempty" desc:"what the tasks share: node, rack or zone; node if it is left out"`
	// With is the id, or the name, of another task or job.
	With string `json:"with,omitempty" desc:"the id or name of a task or job to be with; the tasks are with one another if it is left out" is:"name"`
	// OnLoss says what becomes of the others when one of the tasks is lost or evicted:
	// alone, which is what happens if it is left out, leaves them; restart has all of them
	// begin anew, together; fail stops them.
	OnLoss esl.Loss `json:"onLoss,omitempty" desc:"when a task is lost: alone leaves the others, restart has all begin anew, fail stops them; alone if it is left out"`
}

// Kind is colocate.
func (Colocate) Kind() string { return "colocate" }

// Validate checks the parameters.
func (p Colocate) Validate() error {
	errs := []error{p.In.Or(esl.Node).Validate("in")}
	if p.With != "" {
		errs = append(errs, types.ValidateName("with", p.With))
	}
	if p.OnLoss != "" && !slices.Contains(p.OnLoss.Choices(), string(p.OnLoss)) {
		errs = append(errs, esl.Invalid("onLoss: %q is unknown: use %s", string(p.OnLoss), strings.Join(p.OnLoss.Choices(), ", ")))
	}
	return esl.Join(errs)
}

// Apply has each task ask for one of a resource that Next makes where they are to be.
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

// Next opens the place where the tasks are to be, and closes it when it is another one.
func (p Colocate) Next(s *esl.State) esl.Plan {
	c := taskset.Of(s, s.Own(p.suffix()))
	if len(c.Waiting)+len(c.Held) == 0 && !c.Gang {
		return esl.Plan{}
	}
	if plan := p.lost(s); !plan.Nothing() {
		return plan
	}
	var plan esl.Plan
	switch {
	case p.With != "":
		plan = p.follow(s)
	case len(c.Waiting) > 0:
		plan = p.choose(s, c)
		plan.RequeueAfter = c.Next
	}
	takeTurn(s, &plan)
	return plan
}

// lost ends what is not to go on when one of the tasks was lost. Attempts are counted: who
// is at an earlier one than that which follows a loss began before it.
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

// follow has the resource where the others are.
func (p Colocate) follow(s *esl.State) esl.Plan {
	name, in := s.Own(taskset.ColocateWith), p.In.Or(esl.Node)
	id := types.Resolve(s.Namespace, name)
	want := make(map[string]bool)
	for _, t := range partnersOf(s, p.With) {
		if n := s.View.Nodes[nodeOf(t)]; n != nil {
			want[in.Of(n)] = true
		}
	}
	delete(want, "")
	plan := esl.Plan{Reason: p.With + " is elsewhere"}
	var on, off []string
	for _, n := range s.View.Nodes {
		switch here := want[in.Of(n)]; {
		case n.Alive.V == nil:
		case here && taskset.Capacity(s, n, id) == 0:
			on = append(on, n.Name)
		case !here && taskset.Capacity(s, n, id) > 0:
			off = append(off, n.Name)
		}
	}
	setOn(s, &plan, name, types.Inf, on, off)
	return plan
}

// nodeOf returns the node that a task is on, "" if it is on none.
func nodeOf(t *cluster.Task) string {
	if !t.Phase().Held() {
		return ""
	}
	return t.Status.V.Node
}

// partnersOf returns the tasks that a name is of: the task, or those of the job, of that
// id, and those of the jobs of that name; if none of these is on a node, the tasks of that
// name that are.
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

// ClusterScoped tells that others move, and what is free changes with what they do.
func (Colocate) ClusterScoped() {}

// Pace is how often it looks at most: what waits is seen to as a whole.
func (Colocate) Pace() time.Duration { return widePace }

// Why says where the task is to go, or what it is to be with.
func (p Colocate) Why(s *esl.State, task string) string {
	if _, ok := taskset.Waits(s, task); !ok {
		return ""
	}
	in := p.In.Or(esl.Node)
	if p.With != "" {
		places := make(map[string]bool)
		for _, t := range partnersOf(s, p.With) {
			if n := s.View.Nodes[nodeOf(t)]; n != nil {
				places[in.Of(n)] = true
			}
		}
		if len(places) == 0 {
			return fmt.Sprintf("colocate: it is to be on the %s of %s, which is on none: it waits until that has a node", in, p.With)
		}
		return fmt.Sprintf("colocate: it is to be on the %s of %s: %s", in, p.With, strings.Join(slices.Sorted(maps.Keys(places)), ", "))
	}
	if at := p.opened(s, s.Own("")); at != "" {
		return fmt.Sprintf("colocate: the tasks of its job share a %s: %s", in, at)
	}
	return fmt.Sprintf("colocate: no %s that takes tasks is large enough for any of the tasks, which are to share one", in)
}
