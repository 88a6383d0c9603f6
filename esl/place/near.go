package place

import (
	"context"
	"slices"
	"strconv"
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

// Near runs tasks where data is: data locality. An ephemeral resource with the name of the data is
// on each node that has a copy. Replicate puts it there, or the task that wrote the data provides
// it. It may come before the tasks or after them. A copy ends with the session of its node.
//
// A task waits for a place near the data before it takes one farther away: delay scheduling. Steps widen
// where it may go, each after its time. After Wait it goes anywhere; with Cache, its node has a copy then.
type Near struct {
	// To is the name of the data. With Each, the i-th task is near To.i, from 0.
	To   string `json:"to" desc:"the name of the data" is:"resource"`
	Each bool   `json:"each,omitempty" desc:"each task has data of its own: the name, a dot, and its number from 0"`
	// In is how near: on a node with the data, or in a rack or zone of one; empty means node.
	In esl.Domain `json:"in,omitempty" desc:"how near: node, or in the rack or zone of one; node if it is left out"`
	// Steps are larger domains, to which a task goes when it has waited.
	Steps []Step `json:"steps,omitempty" desc:"racks or zones of nodes with the data, to which a task goes after a while, the smallest first"`
	// Wait is how long a task waits before it goes anywhere; 0 means without limit.
	Wait manifest.Wait `json:"wait,omitempty" desc:"after how long a task goes anywhere; never if it is left out, at once if it is 0s"`
	// Cache gives the node of a task that runs elsewhere a copy.
	Cache bool `json:"cache,omitempty" desc:"a task that runs elsewhere leaves a copy on its node" needs:"wait"`
	// Copies is how many copies Cache makes at most, existing ones included; 0 means no limit.
	Copies int `json:"copies,omitempty" desc:"the most copies that cache makes; no limit if it is left out" zero:"are none: leave cache out, or leave copies out for no bound" needs:"cache"`
}

// Step is a domain to which a task goes after a while.
type Step struct {
	// In is the domain: the rack or zone of a node with the data.
	In esl.Domain `json:"in" desc:"the rack or zone of a node with the data"`
	// After is how long after its submission a task goes there.
	After manifest.Duration `json:"after,omitempty" desc:"how long after its submission a task goes there; at once if it is left out, but nearer nodes first"`
}

// Kind returns near.
func (Near) Kind() string { return "near" }

// Describe says what the policy does, and its flags.
func (Near) Describe() esl.Description {
	return esl.Description{Does: "tasks run where their data is; after a while, anywhere", OneByOne: true, Flags: []esl.Flag{{
		Name: "near", Usage: "name of data: run on a node that has it, as a resource of this name", Text: esl.Sets[string]("to"), Values: esl.Values{Resources: true},
		With: []esl.Flag{{
			Name: "near-step", Usage: "with --near: rack,after=10s or zone,after=1m: after how long to run in the rack or zone of such a node; repeat for both",
			Texts: nearSteps, Values: esl.Values{Words: []string{"rack,after=", "zone,after="}}, Alone: "is given without --near: name the data",
		}, {
			Name: "near-wait", Usage: "with --near: after how long to run anywhere; 0s means at once (default: never)",
			Time: esl.Sets[time.Duration]("wait"), Alone: "is given without --near: name the data",
		}},
	}}}
}

// Validate checks the parameters.
func (p Near) Validate() error {
	errs := append([]error{types.ValidateEphemeral("to", p.To), p.In.Or(esl.Node).Validate("in")}, p.validSteps()...)
	switch {
	case p.Copies < 0:
		errs = append(errs, esl.Invalid("copies: %d is negative: give how many at most, or leave it out for no bound", p.Copies))
	case p.Copies > 0 && !p.Cache:
		errs = append(errs, esl.Invalid("copies: %d are allowed, and cache is not set, by which they are made: set it, or leave this out", p.Copies))
	case p.Cache && p.Wait == 0:
		errs = append(errs, esl.Invalid("cache: no task runs elsewhere, as wait is not given: give it, or leave this out"))
	}
	return esl.Join(errs...)
}

// data returns the name of the data of the i-th task.
func (p Near) data(i int) string {
	if p.Each {
		return p.To + "." + strconv.Itoa(i)
	}
	return p.To
}

// Apply makes each task request the data: one copy is enough for any number of tasks.
func (p Near) Apply(g *esl.Group) error {
	if err := p.Validate(); err != nil {
		return err
	}
	steps := p.steps()
	for i := range g.Tasks {
		if err := types.ValidateEphemeral("to", p.data(i)); err != nil {
			return err
		}
		var near []types.Alternative
		for _, step := range steps {
			name, own := p.resource(g.Own, step, i)
			if own && (i == 0 || p.Each) {
				g.Make(name, 0, controlplane.OnEvery())
			}
			near = append(near, types.Alternative{After: time.Duration(step.After)})
			if name != "" {
				near[len(near)-1].Requests = types.NewRequests(map[string]types.Quantity{name: 1})
			}
		}
		if len(near) == 1 {
			g.Ask(i, near[0].Requests[0].Name, near[0].Requests[0].Amount)
			continue
		}
		if n := len(g.Tasks[i].Task.Alternatives); n*len(near) > types.MaxAlternatives {
			return esl.Invalid("wait: with the %d alternatives that task %d has there are %d: at most %d are allowed, drop some", n, i, n*len(near), types.MaxAlternatives)
		}
		g.Either(i, near...)
	}
	return nil
}

// Next keeps the resource of each rack or zone where the data is, and records copies.
func (p Near) Next(s *esl.State) esl.Plan {
	plan := esl.Plan{Reason: "where the data is", Idle: "its resources are where the data is"}
	s.Seek(esl.Seeking{}) // it follows its tasks and the data
	if s.Ended() {
		return plan
	}
	var data map[int]string
	for _, step := range p.steps() {
		if step.In == esl.Rack || step.In == esl.Zone {
			if data == nil {
				data = p.wanted(s)
			}
			p.widen(s, &plan, step, data)
		}
	}
	if p.Cache {
		p.cache(s, &plan)
	}
	return plan
}

// widen puts a resource of the policy on all nodes of each rack or zone that has the data.
func (p Near) widen(s *esl.State, plan *esl.Plan, step Step, wanted map[int]string) {
	for i, data := range wanted {
		s.NoteLacking(s.Job, types.Resolve(s.Namespace, data))
		own, _ := p.resource(s.Own, step, i)
		has := make(map[string]bool)
		for _, n := range replicasOf(s, data) {
			has[step.In.Of(n)] = true
		}
		delete(has, "")
		open(s, plan, own, types.Inf, false, func(n *cluster.Node) bool { return has[step.In.Of(n)] })
	}
}

// wanted returns the names of the data of the tasks of the job, by number.
func (p Near) wanted(s *esl.State) map[int]string {
	if !p.Each {
		return map[int]string{0: p.To}
	}
	out := make(map[int]string)
	for _, t := range s.Members() {
		if i, ok := p.number(s, t); ok && !t.Phase().Ended() {
			out[i] = p.data(i)
		}
	}
	return out
}

// number returns the number of a task in the job, by its requests.
func (p Near) number(s *esl.State, t *cluster.Task) (int, bool) {
	prefix := p.To + "."
	if p.In.Or(esl.Node) != esl.Node {
		prefix = s.Own("") + "."
	}
	if t.Info.V == nil {
		return 0, false
	}
	vectors := []types.Requests{t.Info.V.Requests}
	for _, a := range t.Info.V.Alternatives {
		vectors = append(vectors, a.Requests)
	}
	for _, v := range vectors {
		for _, r := range v {
			rest, ok := strings.CutPrefix(r.Name, prefix)
			if i, err := strconv.Atoi(rest); ok && err == nil {
				return i, true
			}
		}
	}
	return 0, false
}

// replicasOf returns the alive nodes that have a copy, by name.
func replicasOf(s *esl.State, data string) []*cluster.Node {
	return openNodes(s, types.Resolve(s.Namespace, data))
}

// cache records the copies of tasks that run on nodes without one.
func (p Near) cache(s *esl.State, plan *esl.Plan) {
	copies := make(map[string]int)
	for _, t := range s.Members() {
		n := s.View.Nodes[nodeOf(t)]
		if t.Phase() != types.Running || n == nil || n.Alive.V == nil || len(t.Bindings) == 0 {
			continue
		}
		data := p.To
		if i, ok := p.number(s, t); ok && p.Each {
			data = p.data(i)
		}
		s.NoteLacking(s.Job, types.Resolve(s.Namespace, data))
		if invalidatedAt(s, n, data) >= t.Bindings[0].Info.Create || taskset.Capacity(s, n, types.Resolve(s.Namespace, data)) > 0 {
			continue
		}
		if copies[data] == 0 {
			copies[data] = len(replicasOf(s, data))
		}
		if p.Copies > 0 && copies[data] >= p.Copies {
			continue
		}
		if slices.ContainsFunc(plan.Set, func(x controlplane.Resource) bool { return x.Name == data && x.Where.Nodes[0] == n.Name }) {
			continue // two tasks on one node
		}
		copies[data]++
		plan.Set = append(plan.Set, controlplane.Resource{Name: data, Capacity: types.Inf, Where: controlplane.OnNode(n.Name)})
		s.Unchanged(plan, data, n.Name)
		s.Unchanged(plan, data, types.EveryNode) // an invalidation may also have changed this
	}
}

// invalidatedAt returns the revision at which data on a node was last invalidated, 0 if never.
func invalidatedAt(s *esl.State, n *cluster.Node, data string) int64 {
	id, since := types.Resolve(s.Namespace, data), int64(0)
	if c := n.Own[id]; c != nil && c.V.Capacity == 0 {
		since = c.Mod
	}
	if c := s.View.Everywhere[id]; c != nil {
		since = max(since, c.Mod)
	}
	return since
}

// Watches returns the data.
func (p Near) Watches() []string { return []string{p.To} }

// ClusterScoped is set: the data of each task has a name of its own.
func (Near) ClusterScoped() {}

// Why says where the data is, and how long the task waits to fit there.
func (p Near) Why(s *esl.State, task string) why.Reason {
	t, ok := taskset.Waits(s, task)
	if !ok {
		return why.Reason{}
	}
	data := p.To
	if i, ok := p.number(s, t); ok && p.Each {
		data = p.data(i)
	}
	where := "which is nowhere yet"
	if nodes := names(replicasOf(s, data)); len(nodes) > 0 {
		where = "which is on " + strings.Join(nodes[:min(len(nodes), 6)], ", ")
	}
	return p.whyWaits(data, where, s.Now.Sub(time.Unix(0, t.Info.V.Submitted)))
}

// Replicate records that nodes have a copy of data, until they are lost, or it is invalidated. The
// nodes must be alive: Precondition.
func Replicate(ctx context.Context, c *controlplane.Client, data string, nodes ...string) error {
	_, err := c.SetResource(ctx, data, types.Inf, controlplane.OnNode(nodes...), controlplane.SetOptions{})
	return err
}

// Invalidate removes all copies of data, of any origin: tasks wait for new ones. A task bound
// before that leaves none. With nodes, which must be alive, it applies to their copies alone.
func Invalidate(ctx context.Context, c *controlplane.Client, data string, nodes ...string) error {
	where := controlplane.OnEvery()
	if len(nodes) > 0 {
		where = controlplane.OnNode(nodes...)
	}
	if err := c.RemoveProvided(ctx, data, nodes...); err != nil {
		return err
	}
	// Each write closes the data again: tasks bound before it may have read the old data, and leave
	// no copy from then on. The last write removes copies recorded during the first ones.
	for _, how := range []controlplane.SetOptions{{}, {Declare: true}, {Declare: true}} {
		if _, err := c.SetResource(ctx, data, 0, where, how); err != nil {
			return err
		}
	}
	return nil
}
