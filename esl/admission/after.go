package admission

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// After starts tasks only when others have succeeded. The tasks of a job form a directed acyclic
// graph, or come after other jobs. Tasks with the same predecessors share a gate, which opens when
// all of those have succeeded. Each preceding job has a gate of its own, so that its success is
// remembered after its tasks are forgotten.
type After struct {
	// Tasks maps the name of tasks to the names of their predecessors.
	Tasks map[string][]string `json:"tasks,omitempty" desc:"for the tasks of a name, the names of those of the job that come before them" or:"jobs"`
	// Jobs holds ids or names of jobs that precede all tasks; of several with a name, the newest at
	// submission. It also holds ids of tasks, or names of jobless tasks. Each must exist.
	Jobs []string `json:"jobs,omitempty" desc:"ids or names of jobs, or of tasks without a job, that come before all tasks" is:"name"`
	// Each makes a task come after the tasks of its index alone, in each of Jobs.
	Each bool `json:"each,omitempty" desc:"a task comes after the tasks of the same index alone, in each of jobs" needs:"jobs"`
	// OnFailure says what happens to the successors of a task that does not succeed.
	OnFailure OnFailure `json:"onFailure,omitempty" desc:"when one that comes before does not succeed: fail ends what comes after it, run lets it begin; fail if it is left out"`
}

// OnFailure is what happens to tasks when a predecessor does not succeed.
type OnFailure string

// The values of OnFailure.
const (
	// FailToo ends them, with the reason.
	FailToo OnFailure = "fail"
	// RunAnyway starts them when all predecessors have ended.
	RunAnyway OnFailure = "run"
)

// Choices returns the valid values.
func (OnFailure) Choices() []string { return []string{string(FailToo), string(RunAnyway)} }

// Kind returns after.
func (After) Kind() string { return "after" }

// Describe says what the policy does, and its flags.
func (After) Describe() esl.Description {
	each := esl.Flag{Name: "after-each", Usage: "with --after: start each task when the tasks of its index have succeeded", Switch: esl.Parameters{"each": true}, Alone: "is given without --after: say which job the tasks come after"}
	return esl.Description{Does: "tasks begin when others, of the job or of other jobs, have succeeded", Flags: []esl.Flag{{
		Name: "after", Usage: "id or name of a job or task: start when it, or all of its tasks, have succeeded; repeat for several",
		Texts: esl.Sets[[]string]("jobs"), Values: esl.Values{Jobs: true}, With: []esl.Flag{each},
	}}}
}

// Validate checks the parameters without the tasks.
func (p After) Validate() error {
	var errs []error
	errs = append(errs, esl.InvalidIf(p.Each && len(p.Jobs) == 0, "each: is about jobs, and there are none: name them, or leave it out"))
	errs = append(errs, esl.InvalidIf(len(p.Tasks) == 0 && len(p.Jobs) == 0, "tasks: nothing comes after anything: give {later: [earlier]}, or jobs"))
	errs = append(errs, esl.InvalidIf(p.OnFailure != "" && !slices.Contains(p.OnFailure.Choices(), string(p.OnFailure)), "onFailure: %q is unknown: use fail or run", string(p.OnFailure)))
	for i, id := range p.Jobs {
		errs = append(errs, types.ValidateName("jobs["+strconv.Itoa(i)+"]", id))
	}
	if round := p.cycle(); len(round) > 0 {
		errs = append(errs, esl.Invalid("tasks: %s come after one another in a circle: drop one of them", strings.Join(round, ", ")))
	}
	return esl.Join(errs...)
}

// Apply makes each task request the resources of its gates.
func (p After) Apply(g *esl.Group) error {
	known := taskNames(g)
	errs := []error{p.Validate()}
	for _, later := range slices.Sorted(maps.Keys(p.Tasks)) {
		if known[later] == nil {
			errs = append(errs, unknownTask("tasks", later, known))
		}
		for _, earlier := range p.Tasks[later] {
			if known[earlier] == nil {
				errs = append(errs, unknownTask("tasks."+later, earlier, known))
			}
		}
	}
	if err := esl.Join(errs...); err != nil {
		return err
	}
	if len(p.gates()) > 0 {
		g.InTurn()
	}
	for k, gate := range p.gates() {
		for _, later := range gate.later {
			for _, i := range known[later] {
				g.Ask(i, g.Own(strconv.Itoa(k)), esl.One)
			}
		}
	}
	for i := range p.Jobs {
		for k := range g.Tasks {
			g.Ask(k, g.Own(p.gateOfJob(i, g.Index(k))), esl.One)
		}
	}
	return nil
}

// gateOfJob returns the suffix of the gate of the i-th job, for tasks with an index.
func (p After) gateOfJob(i, index int) string {
	name := taskset.JobGate + strconv.Itoa(i)
	if p.Each {
		name += "." + strconv.Itoa(index)
	}
	return name
}

// afterGate is a gate of tasks, named by later, with the same predecessors, named by earlier.
type afterGate struct {
	earlier, later []string
	// name is the resource of the gate.
	name string
}

// gatesOf returns the gates with their names, computed once.
func (p After) gatesOf(s *esl.State) []afterGate {
	return esl.Remember(s, func() []afterGate {
		gates := p.gates()
		for k := range gates {
			gates[k].name = s.Own(strconv.Itoa(k))
		}
		return gates
	})
}

// gates returns the gates, always in the same order.
func (p After) gates() []afterGate {
	found := make(map[string]*afterGate)
	for _, later := range slices.Sorted(maps.Keys(p.Tasks)) {
		earlier := slices.Compact(slices.Sorted(slices.Values(p.Tasks[later])))
		if len(earlier) == 0 {
			continue
		}
		key := strings.Join(earlier, ",")
		if found[key] == nil {
			found[key] = &afterGate{earlier: earlier}
		}
		found[key].later = append(found[key].later, later)
	}
	out := make([]afterGate, 0, len(found))
	for _, key := range slices.Sorted(maps.Keys(found)) {
		out = append(out, *found[key])
	}
	return out
}

// cycle returns the names on a cycle, nil if there is none. It removes names without predecessors
// until none are left (Kahn). Each remaining name is on a cycle or comes after one, so walking back
// from any of them ends on a cycle.
func (p After) cycle() []string {
	left, behind := make(map[string]int), make(map[string][]string)
	for later, all := range p.Tasks {
		for _, earlier := range all {
			left[later]++
			behind[earlier] = append(behind[earlier], later)
		}
	}
	var free []string
	for earlier := range behind {
		if left[earlier] == 0 {
			free = append(free, earlier)
		}
	}
	for len(free) > 0 {
		one := free[len(free)-1]
		free = free[:len(free)-1]
		for _, later := range behind[one] {
			if left[later]--; left[later] == 0 {
				delete(left, later)
				free = append(free, later)
			}
		}
	}
	if len(left) == 0 {
		return nil
	}
	at := slices.Min(slices.Collect(maps.Keys(left)))
	var way []string
	for !slices.Contains(way, at) {
		way = append(way, at)
		at = p.Tasks[at][slices.IndexFunc(p.Tasks[at], func(n string) bool { return left[n] > 0 })]
	}
	way = way[slices.Index(way, at):]
	slices.Reverse(way)
	first := slices.Index(way, slices.Min(way))
	return slices.Concat(way[first:], way[:first])
}

// standing is how far the predecessors of a gate are.
type standing struct {
	// waiting describes what has not ended, failed what did not succeed; empty means nothing.
	waiting, failed string
}

// open reports whether a gate with such predecessors opens.
func (p After) open(st standing) bool {
	return st.waiting == "" && (st.failed == "" || p.OnFailure == RunAnyway)
}

// ends reports whether tasks behind a gate with such predecessors end.
func (p After) ends(st standing) bool { return st.failed != "" && p.OnFailure != RunAnyway }

// Next opens gates whose predecessors have all succeeded, and ends the successors of those that did
// not.
func (p After) Next(s *esl.State) esl.Plan {
	plan := esl.Plan{Idle: "what must end first has not ended, or nothing waits behind it"}
	members := s.Members()
	named := byName(members)
	for _, gate := range p.gatesOf(s) {
		var later []*cluster.Task
		for _, n := range gate.later {
			later = append(later, named[n]...)
		}
		p.decide(s, &plan, gate.name, later, func() standing { return p.standingOf(named, gate.earlier) })
	}
	for i, job := range p.Jobs {
		for index, later := range p.byIndex(members) {
			p.decide(s, &plan, s.Own(p.gateOfJob(i, index)), later, func() standing { return p.standingOfJob(s, job, index) })
		}
	}
	return plan
}

// byIndex yields tasks by their index, in order; all of them together, under 0, unless Each is set.
func (p After) byIndex(tasks []*cluster.Task) iter.Seq2[int, []*cluster.Task] {
	return func(yield func(int, []*cluster.Task) bool) {
		if !p.Each {
			yield(0, tasks)
			return
		}
		of := make(map[int][]*cluster.Task)
		for _, t := range tasks {
			if taskset.IsWaiting(t) {
				of[t.Info.V.Index] = append(of[t.Info.V.Index], t)
			}
		}
		for _, index := range slices.Sorted(maps.Keys(of)) {
			if !yield(index, of[index]) {
				return
			}
		}
	}
}

// decide adds to a plan the opening of a closed gate, or the end of the tasks that wait for it, up
// to maxChanges.
func (p After) decide(s *esl.State, plan *esl.Plan, gate string, later []*cluster.Task, standing func() standing) {
	if len(plan.Set)+len(plan.Stop) >= maxChanges || !slices.ContainsFunc(later, taskset.IsWaiting) || isOpen(s, gate) {
		return
	}
	switch st := standing(); {
	case p.ends(st):
		endWaiting(plan, later, "it comes after "+st.failed)
	case p.open(st):
		plan.Set = append(plan.Set, opened(s, gate))
		plan.Reason = "what comes before has ended"
	}
}

// standingOf returns how far the tasks with some names are. A name whose tasks are all forgotten
// counts as failed, because their outcome is unknown.
func (p After) standingOf(named map[string][]*cluster.Task, names []string) standing {
	var st standing
	for _, name := range names {
		if len(named[name]) == 0 {
			st.failed = fmt.Sprintf("the tasks called %s, which are not there", name)
		}
		for _, t := range named[name] {
			st.count(t, "")
		}
	}
	return st
}

// standingOfJob returns how far a preceding job is; with Each, its tasks of an index. It counts as failed
// if all of its tasks are forgotten, or if some were before this job was submitted. While an update
// replaces its tasks, it has not ended.
func (p After) standingOfJob(s *esl.State, job string, index int) standing {
	var st standing
	before := s.Preceding(job)
	tasks := before.Tasks
	switch {
	case before.Updating:
		return standing{waiting: fmt.Sprintf("job %s, an update of which has begun and not finished", job)}
	case len(tasks) == 0:
		st.failed = fmt.Sprintf("job %s, which is not there", job)
	case before.Forgotten > 0:
		st.failed = fmt.Sprintf("job %s, of which %d of %d tasks had ended, and were deleted, before this was submitted: how they ended is unknown", job, before.Forgotten, before.Forgotten+len(tasks))
	}
	if p.Each && st.failed == "" {
		tasks = slices.DeleteFunc(tasks, func(t *cluster.Task) bool { return t.Info.V == nil || t.Info.V.Count == 0 || t.Info.V.Index != index })
		if len(tasks) == 0 {
			st.failed = fmt.Sprintf("task %d of job %s, which has none of that index", index, job)
		}
	}
	of := " of job " + job
	if len(tasks) > 0 && (tasks[0].ID.ID == job || tasks[0].Info.V.Job == "") {
		of = "" // it is a task
	}
	for _, t := range tasks {
		st.count(t, of)
	}
	return st
}

// Watches returns the preceding jobs.
func (p After) Watches() []string { return p.Jobs }

// Follows returns the preceding jobs.
func (p After) Follows() []string { return p.Jobs }

// count adds a task of this or another job.
func (st *standing) count(t *cluster.Task, of string) {
	phase, text := t.Phase(), &st.waiting
	switch {
	case phase == types.Succeeded:
		return
	case phase.Ended():
		text = &st.failed
	}
	if *text == "" {
		*text = fmt.Sprintf("task %s%s, which is %s", t.ID.ID, of, phase)
	}
}

// Why names the predecessors that have not ended.
func (p After) Why(s *esl.State, task string) why.Reason {
	t := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: task})
	if t == nil || !taskset.IsWaiting(t) {
		return why.Reason{}
	}
	named := byName(s.Members())
	for _, gate := range p.gatesOf(s) {
		if !slices.Contains(gate.later, t.Info.V.Name) || isOpen(s, gate.name) {
			continue
		}
		if st := p.standingOf(named, gate.earlier); st.waiting != "" {
			return why.Say(why.Awaits, "It comes after %s.", st.waiting)
		}
	}
	index := t.Info.V.Index
	for i, job := range p.Jobs {
		if isOpen(s, s.Own(p.gateOfJob(i, index))) {
			continue
		}
		if st := p.standingOfJob(s, job, index); st.waiting != "" {
			return why.Say(why.Awaits, "It comes after %s.", st.waiting)
		}
	}
	return why.Reason{}
}
