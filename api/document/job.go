package document

import (
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Job is a job and the phases of its tasks.
type Job struct {
	ID     string            `json:"id"`
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// User is the submitter, as a server has authenticated it.
	User string `json:"user,omitempty"`
	// Phase sums up those of its tasks: waiting or running comes before ended.
	Phase types.Phase `json:"phase"`
	// Tasks is the number of its tasks; Phases is how many of the stored ones are in each phase.
	Tasks     int                 `json:"tasks"`
	Phases    map[types.Phase]int `json:"phases"`
	Submitted *time.Time          `json:"submitted,omitempty"`
	// Revision is that of the last change of the job or of the status of one of its tasks: once it has ended, that
	// of its end.
	Revision int64 `json:"revision"`
}

// JobOf returns the document of a job of a view.
func JobOf(view *cluster.View, id cluster.ID) Job {
	j := view.Jobs[id].V
	out := Job{
		ID: id.ID, Name: j.Name, Labels: types.LabelMap(j.Labels), User: j.User, Tasks: j.Tasks, Phases: make(map[types.Phase]int), Submitted: Moment(j.Submitted),
		Revision: view.Jobs[id].Mod,
	}
	for _, t := range view.Members(id) {
		if t.Info.V != nil {
			out.Phases[t.Phase()]++
			out.Revision = max(out.Revision, t.Status.Mod)
		}
	}
	out.Phase = phaseOf(out.Phases)
	return out
}

// phaseOf sums up phases: running while a task runs, pending while one waits, and failed if one has.
func phaseOf(phases map[types.Phase]int) types.Phase {
	for _, p := range []types.Phase{types.Running, types.Bound, types.Pending, types.Failed, types.Cancelled} {
		if phases[p] > 0 {
			return p
		}
	}
	return types.Succeeded
}
