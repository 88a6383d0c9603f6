package controlplane

import (
	"context"
	"time"

	"github.com/escher-sched/escher/types"
)

// TaskState is a task as it is.
type TaskState struct {
	ID   string
	Task *types.Task
	// Status is nil before the first attempt.
	Status *types.Status
	// Accepted is false while the job it belongs to is not complete.
	Accepted bool

	mod, statusMod int64
}

// Phase returns how far the task is.
func (t *TaskState) Phase() types.Phase {
	if t.Status == nil {
		return types.Pending
	}
	return t.Status.Phase
}

// Attempt returns which attempt it is at, 0 before the first.
func (t *TaskState) Attempt() int {
	if t.Status == nil {
		return 0
	}
	return t.Status.Attempt
}

// Status returns a task with its status; id may be a prefix that only one has.
func (c *Client) Status(ctx context.Context, id string) (TaskState, error) {
	id, err := c.Resolve(ctx, id)
	if err != nil {
		return TaskState{}, err
	}
	return c.read(ctx, id)
}

// read reads a task by its id in full. NotFound: it is not there.
func (c *Client) read(ctx context.Context, id string) (TaskState, error) {
	t := TaskState{ID: id, Accepted: true}
	page, err := c.store.List(ctx, ListOptions{Key: TaskKey(c.ns, id)})
	if err != nil {
		return t, err
	}
	if len(page.KVs) == 0 {
		return t, types.Errorf(types.NotFound, "there is no task %s in namespace %s", id, c.ns)
	}
	if !t.decode(page.KVs[0], nil) {
		return t, unreadable(page.KVs[0].Key)
	}
	status, err := c.store.List(ctx, ListOptions{Key: StatusKey(c.ns, id), Revision: page.Revision})
	if err == nil && len(status.KVs) == 1 {
		t.decodeStatus(status.KVs[0])
	}
	if err != nil || t.Task.Job == "" {
		return t, err
	}
	job, err := c.store.List(ctx, ListOptions{Key: JobKey(c.ns, t.Task.Job), Revision: page.Revision})
	t.Accepted = len(job.KVs) == 1
	return t, err
}

// Tasks returns all tasks of the namespace, by id, at one revision. Where they may be
// very many, EachTask needs less memory.
func (c *Client) Tasks(ctx context.Context) ([]TaskState, int64, error) {
	out := make([]TaskState, 0)
	revision, err := c.EachTask(ctx, func(t TaskState) error {
		out = append(out, t)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return out, revision, nil
}

// decode reads the task, and reports whether it is readable.
func (t *TaskState) decode(kv KV, complete func(job string) bool) bool {
	t.Task, t.mod = new(types.Task), kv.ModRevision
	if !Read(kv, t.Task) {
		return false
	}
	t.Accepted = t.Task.Job == "" || complete != nil && complete(t.Task.Job)
	return true
}

// decodeStatus reads the status. One that cannot be read counts as none.
func (t *TaskState) decodeStatus(kv KV) {
	t.Status, t.statusMod = new(types.Status), kv.ModRevision
	if !Read(kv, t.Status) {
		t.Status = nil
	}
}

// Spec returns the spec that tasks of the namespace name by its digest. NotFound: it
// is not there.
func (c *Client) Spec(ctx context.Context, digest string) (*types.Spec, error) {
	kv, err := get(ctx, c.store, SpecKey(c.ns, digest))
	if err != nil {
		return nil, err
	}
	if kv.ModRevision == 0 {
		return nil, types.Errorf(types.NotFound, "there is no spec %s in namespace %s", digest, c.ns)
	}
	spec := new(types.Spec)
	if !Read(kv, spec) {
		return nil, unreadable(kv.Key)
	}
	return spec, nil
}

// DefaultGrace is the time between stop signal and kill of a spec that does not say.
const DefaultGrace = 10 * time.Second

// GraceOf returns the time between stop signal and kill; spec may be nil.
func GraceOf(spec *types.Spec) time.Duration {
	if spec == nil || spec.Grace == 0 {
		return DefaultGrace
	}
	return spec.Grace
}
