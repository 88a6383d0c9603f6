package room

import (
	"fmt"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// The question to save, and its answer: cluster-wide resources named after a task, which end with
// the task. The capacity of both is the number of the move, so an answer to an earlier move does
// not count.
//
//	<task>.save      asks the task to save its state, and to wait until it is evicted or
//	                 this resource is gone: then the move is off, and the task goes on
//	<task>.saved     it has saved
//	<task>.unsaved   it could not save
const (
	askSave    = ".save"
	askSaved   = ".saved"
	askUnsaved = ".unsaved"
)

// maxAskedID is the most bytes in the id of a task that is asked: names of resources begin with it.
// maxAskedName is the most bytes in a name from which an id is made, which is at most eighteen
// longer.
const (
	maxAskedID   = types.MaxName - len(askUnsaved)
	maxAskedName = maxAskedID - 18
)

// tooLongToAsk reports whether the id of a task would be too long for these resources.
func tooLongToAsk(s controlplane.Submission) bool {
	return len(s.ID) > maxAskedID || s.ID == "" && len(s.Task.Name) > maxAskedName
}

// ask asks tasks to save; saved reports whether all of them have. A task that could not ends the
// move, which has changed nothing yet.
func (m *moving) ask(tasks []*cluster.Task) (plan esl.Plan, saved bool) {
	number := types.Quantity(m.to.r.Info.Create) * esl.One
	plan = esl.Plan{RequeueAfter: m.due(m.to), Reason: "they are asked to save what they need"}
	saved = true
	for _, t := range tasks {
		id := t.ID.ID
		if answer := m.s.Pool(id + askUnsaved); answer != nil && answer.Capacity() == number {
			return m.end(fmt.Sprintf("task %s could not save what it needs", id)), false
		} else if answer != nil {
			plan.Set = append(plan.Set, controlplane.Resource{Name: id + askUnsaved, Where: controlplane.InCluster()}) // from an earlier move
		}
		if asked := m.s.Pool(id + askSave); asked == nil || asked.Capacity() != number {
			plan.Set = append(plan.Set, controlplane.Resource{Name: id + askSave, Capacity: number, Where: controlplane.InCluster(), Options: ofTask(id)})
		}
		answer := m.s.Pool(id + askSaved)
		saved = saved && answer != nil && answer.Capacity() == number
	}
	return plan, saved
}

// unask removes the questions when no move is on.
func (m *moving) unask() esl.Plan {
	plan := esl.Plan{Reason: "they need not wait any more"}
	for _, t := range m.live {
		if m.asks && m.s.Pool(t.ID.ID+askSave) != nil {
			plan.Set = append(plan.Set, controlplane.Resource{Name: t.ID.ID + askSave, Where: controlplane.InCluster()})
		}
	}
	return plan
}

// unsaved names a task that could not save when last asked.
func unsaved(s *esl.State) why.Reason {
	for _, t := range s.Members() {
		if s.Pool(t.ID.ID+askUnsaved) != nil {
			return why.Say(why.Room, "migrate: the job stays where it is, as task %s could not save what it needs; it is asked again when it would move the next time", t.ID.ID)
		}
	}
	return why.Reason{}
}

// ofTask returns options of a resource that ends with a task.
func ofTask(id string) controlplane.SetOptions {
	return controlplane.SetOptions{Declare: true, Lifetime: types.OfTask, Owner: id}
}
