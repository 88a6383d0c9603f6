package esltest

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Asking is a task with one more request.
func Asking(task controlplane.Submission, name string, amount types.Quantity) controlplane.Submission {
	task.Task.Requests = task.Task.Requests.Plus(types.Requests{{Name: name, Amount: amount}})
	return task
}
