package escher

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
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
// is then that of ctx. Without ids, it follows all tasks of the namespace. It takes ids in full, and
// waits for those that do not exist. A task has its first status when it is bound or stopped. Name
// and Labels are not set.
//
// It goes on after a lost connection, and yields once what changed several times meanwhile. In a
// task, it does not yield what was removed meanwhile.
func (c *Client) Watch(ctx context.Context, ids ...string) iter.Seq2[TaskChange, error] {
	return func(yield func(TaskChange, error) bool) {
		w := requests.Watch{IDs: ids}
		lost := c.reconnects("watch")
		for {
			err := c.requests.Watch(ctx, w, func(e requests.Event) error {
				w.After = max(w.After, e.ID)
				lost.reset()
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
			if err := lost.pause(ctx, err); err != nil {
				yield(TaskChange{}, err)
				return
			}
		}
	}
}

// reconnects paces the tries of a request whose connection is lost.
type reconnects struct {
	what string
	log  *zap.Logger
	wait backoff.BackOff
	// logged reports whether the present loss was logged.
	logged bool
}

func (c *Client) reconnects(what string) *reconnects {
	return &reconnects{what: what, log: c.log, wait: controlplane.RetryPolicy()}
}

// pause waits before the next try, longer each time. Its error is that of ctx.
func (r *reconnects) pause(ctx context.Context, err error) error {
	if !r.logged && ctx.Err() == nil {
		r.logged = true
		r.log.Warn("connection lost, retrying", zap.String("component", r.what), zap.Error(err))
	}
	return supervise.Pause(ctx, r.wait.NextBackOff())
}

// reset notes that there is an answer.
func (r *reconnects) reset() {
	r.wait.Reset()
	r.logged = false
}

// changeOf decodes an event; the change of one that is about no task has no id.
func changeOf(e requests.Event) (change TaskChange, err error) {
	if e.Kind != "task" {
		return change, nil
	}
	var gone requests.Removed
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
