package admission

import (
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

// An opening is an ephemeral resource that is nowhere until it is opened. Then every node, later
// ones included, has more of it than there can be tasks. A task that requests one waits until then.
// A lost node loses none of it.

// maxChanges bounds the changes of a plan: a stock etcd takes 128 operations at once. The next plan
// has the rest.
const maxChanges = 25

// isOpen reports whether an opening is open.
func isOpen(s *esl.State, name string) bool {
	return s.View.Everywhere[types.Resolve(s.Namespace, name)] != nil
}

// opened returns the change that opens an opening until the job ends. Its capacity stores when that
// was, in Unix seconds, because no task requests more than one.
func opened(s *esl.State, name string) controlplane.Resource {
	return controlplane.Resource{Name: name, Capacity: esl.Stamp(s.Now), Where: controlplane.OnEvery(), Options: esl.OfJob(s.Job)}
}

// taskNames returns the names of the tasks of a group, with their indices.
func taskNames(g *esl.Group) map[string][]int {
	out := make(map[string][]int)
	for i, t := range g.Tasks {
		if name := t.Task.Name; name != "" {
			out[name] = append(out[name], i)
		}
	}
	return out
}

// unknownTask returns an error about a name that no task has.
func unknownTask(field, name string, known map[string][]int) error {
	names := make([]string, 0, len(known))
	for n := range known {
		names = append(names, n)
	}
	slices.Sort(names)
	if len(names) == 0 {
		return esl.Invalid("%s: no task is called %q: give the tasks names", field, name)
	}
	return esl.Invalid("%s: no task is called %q: there are %s", field, name, words.List(names, 8))
}

// byName returns the tasks of a job by their names.
func byName(tasks []*cluster.Task) map[string][]*cluster.Task {
	out := make(map[string][]*cluster.Task)
	for _, t := range tasks {
		if t.Info.V != nil {
			out[t.Info.V.Name] = append(out[t.Info.V.Name], t)
		}
	}
	return out
}

// waitText says for the log of decisions how many tasks wait for their turn; "" for none.
func waitText(waiting []unit) string {
	n := 0
	for _, u := range waiting {
		n += len(u)
	}
	if n == 0 {
		return ""
	}
	return "the limit is used up, and " + words.Count(n, "task") + " more would begin"
}

// endWaiting adds the end of waiting tasks to a plan, with a reason, up to maxChanges. It skips
// tasks that the plan ends already.
func endWaiting(plan *esl.Plan, tasks []*cluster.Task, reason string) {
	for _, t := range tasks {
		twice := slices.ContainsFunc(plan.Stop, func(s esl.Stop) bool { return s.Task == t.ID.ID })
		if len(plan.Set)+len(plan.Stop) < maxChanges && taskset.IsWaiting(t) && !twice {
			plan.Stop = append(plan.Stop, esl.Stop{Task: t.ID.ID, StopOptions: controlplane.StopOptions{Reason: reason}})
			plan.Reason = reason
		}
	}
}
