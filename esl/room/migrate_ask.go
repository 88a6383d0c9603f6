package room

import (
	"fmt"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// How tasks are asked to save, and answer: by resources of the whole cluster that are named
// after them, all of which end with the task. The question has the number of the move as
// its capacity, and so has the answer: so one that is of an earlier move is none.
//
//	<task>.save      it is to save what it needs, and to wait until it is told to end, or
//	                 this is gone: then nothing moves, and it goes on
//	<task>.saved     it has
//	<task>.unsaved   it could not
const (
	askSave    = ".save"
	askSaved   = ".saved"
	askUnsaved = ".unsaved"
)

// maxAskedID is how long the id of a task may be that is asked, in bytes, as names of
// resources begin with it; maxAskedName how long a name may be that an id is made of, which
// is at most eighteen longer.
const (
	maxAskedID   = types.MaxName - len(askUnsaved)
	maxAskedName = maxAskedID - 18
)

// tooLongToAsk reports whether a task could not be asked, or answer.
func tooLongToAsk(s controlplane.Submission) bool {
	return len(s.ID) > maxAskedID || s.ID == "" && len(s.Task.Name) > maxAskedName
}

// ask asks tasks to save; saved is true when all of them have. One that could not ends the
// move, which has changed nothing for any of them.
func (p Migrate) ask(s *esl.State, m move, tasks []*cluster.Task) (plan esl.Plan, saved bool) {
	number := types.Quantity(m.to.r.Info.Create) * esl.One
	plan = esl.Plan{RequeueAfter: p.due(m.to), Reason: "they are asked to save what they need"}
	saved = true
	for _, t := range tasks {
		id := t.ID.ID
		if answer := s.Pool(id + askUnsaved); answer != nil && answer.Capacity() == number {
			return p.end(s, m, fmt.Sprintf("task %s could not save what it needs", id)), false
		} else if answer != nil {
			plan.Set = append(plan.Set, esl.Set{Name: id + askUnsaved, Where: controlplane.InCluster()}) // of an earlier move
		}
		if asked := s.Pool(id + askSave); asked == nil || asked.Capacity() != number {
			plan.Set = append(plan.Set, esl.Set{Name: id + askSave, Capacity: number, Where: controlplane.InCluster(), Options: ofTask(id)})
		}
		answer := s.Pool(id + askSaved)
		saved = saved && answer != nil && answer.Capacity() == number
	}
	return plan, saved
}

// unask takes the questions back when nothing moves any more.
func (p Migrate) unask(s *esl.State, live []*cluster.Task) esl.Plan {
	plan := esl.Plan{Reason: "they need not wait any more"}
	for _, t := range live {
		if p.Ask && s.Pool(t.ID.ID+askSave) != nil {
			plan.Set = append(plan.Set, esl.Set{Name: t.ID.ID + askSave, Where: controlplane.InCluster()})
		}
	}
	return plan
}

// unsaved says who could not save when it was asked last.
func (p Migrate) unsaved(s *esl.State) string {
	for _, t := range s.Members() {
		if s.Pool(t.ID.ID+askUnsaved) != nil {
			return fmt.Sprintf("migrate: the job stays where it is, as task %s could not save what it needs; it is asked again when it would move the next time", t.ID.ID)
		}
	}
	return ""
}

// ofTask is a resource that ends with a task.
func ofTask(id string) controlplane.SetOptions {
	return controlplane.SetOptions{Declare: true, Lifetime: types.OfTask, Owner: id}
}
