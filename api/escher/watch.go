package escher

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// TaskChange is a change of a task.
type TaskChange struct {
	Status
	// Removed reports whether the task was removed; only its ID is set then.
	Removed bool
}

// errEnough ends a watch whose caller wants no more.
var errEnough = errors.New("the watch was ended")

// Watch yields the present status of tasks, and then each change, until ctx is done: its last error
// is then that of ctx. Without ids, it follows all tasks of the namespace. It goes on after a lost
// connection; what changed several times meanwhile is yielded once.
func (c *Client) Watch(ctx context.Context, ids ...string) iter.Seq2[TaskChange, error] {
	return func(yield func(TaskChange, error) bool) {
		w := tasksocket.Watch{IDs: ids}
		retry := controlplane.RetryPolicy()
		for {
			err := c.requests.Watch(ctx, w, func(e tasksocket.Event) error {
				w.After = max(w.After, e.ID)
				retry.Reset()
				change, err := changeOf(e)
				if err == nil && change.ID != "" && !yield(change, nil) {
					err = errEnough
				}
				return err
			})
			switch {
			case errors.Is(err, errEnough):
				return
			case !errors.Is(err, types.Unavailable):
				yield(TaskChange{}, err)
				return
			}
			if err := supervise.Pause(ctx, retry.NextBackOff()); err != nil {
				yield(TaskChange{}, err)
				return
			}
		}
	}
}

// changeOf decodes an event; the change of one that is about no task has no id.
func changeOf(e tasksocket.Event) (change TaskChange, err error) {
	if e.Kind != "task" {
		return change, nil
	}
	var gone tasksocket.Removed
	if err := json.Unmarshal(e.Data, &gone); err != nil {
		return change, types.Errorf(types.Internal, "read event: %w", err)
	}
	if gone.Removed {
		return TaskChange{Status: Status{ID: gone.ID}, Removed: true}, nil
	}
	if err := json.Unmarshal(e.Data, &change.Status); err != nil {
		return change, types.Errorf(types.Internal, "read event: %w", err)
	}
	return change, nil
}
