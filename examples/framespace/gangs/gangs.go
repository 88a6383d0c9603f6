// Package gangs builds gang scheduling into a scheduler: of a job whose name begins with gang, all
// tasks are bound in one transaction, or none. A task that has run before, and waits for its next
// attempt, is bound by itself.
package gangs

import (
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler"
)

// Gangs groups the tasks of gangs for the scheduler.
type Gangs struct{}

// Unit returns the job of a task, if that is a gang.
func (Gangs) Unit(v *cluster.View, t *cluster.Task) string {
	job := v.Jobs[cluster.ID{Namespace: t.ID.Namespace, ID: t.Info.V.Job}]
	if job == nil || job.V == nil || !strings.HasPrefix(job.V.Name, "gang") {
		return ""
	}
	return t.Info.V.Job
}

// Place places all tasks, or none.
func (Gangs) Place(p *scheduler.Placing, tasks []*cluster.Task) bool {
	if first := tasks[0]; first.Status.V == nil && len(tasks) < size(p.View(), first) {
		return false
	}
	for _, t := range tasks {
		if !p.Put(t) {
			return false
		}
	}
	return true
}

// size is the number of tasks in the job of a task.
func size(v *cluster.View, t *cluster.Task) int {
	return v.Jobs[cluster.ID{Namespace: t.ID.Namespace, ID: t.Info.V.Job}].V.Tasks
}
