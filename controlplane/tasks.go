package controlplane

import (
	"context"
	"time"

	"github.com/escher-sched/escher/types"
)

// TaskState is a task with its status.
type TaskState struct {
	ID   string
	Task *types.Task
	// Status is nil before the first attempt.
	Status *types.Status
	// Accepted reports whether the task's job, if any, is complete.
	Accepted bool

	mod, statusMod int64
}

// Phase returns the phase of the task.
func (t *TaskState) Phase() types.Phase {
	if t.Status == nil {
		return types.Pending
	}
	return t.Status.Phase
}

// Attempt returns the number of the present attempt, 0 before the first.
func (t *TaskState) Attempt() int {
	if t.Status == nil {
		return 0
	}
	return t.Status.Attempt
}

// Status returns a task with its status; id may be a unique prefix.
func (c *Client) Status(ctx context.Context, id string) (TaskState, error) {
	id, err := c.Resolve(ctx, id)
	if err != nil {
		return TaskState{}, err
	}
	return c.read(ctx, id)
}

// read reads a task by its full id. NotFound: it does not exist.
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
		return t, Unreadable(page.KVs[0].Key)
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

// Tasks returns all tasks of the namespace, by id, at one revision. EachTask needs less memory for
// very many.
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

// decode decodes the task, and reports whether it is readable.
func (t *TaskState) decode(kv KV, complete func(job string) bool) bool {
	t.Task, t.mod = new(types.Task), kv.ModRevision
	if !Read(kv, t.Task) {
		return false
	}
	t.Accepted = t.Task.Job == "" || complete != nil && complete(t.Task.Job)
	return true
}

// decodeStatus decodes the status. An unreadable one counts as none.
func (t *TaskState) decodeStatus(kv KV) {
	t.Status, t.statusMod = new(types.Status), kv.ModRevision
	if !Read(kv, t.Status) {
		t.Status = nil
	}
}

// Spec returns the spec with a digest. NotFound: the namespace has none.
func (c *Client) Spec(ctx context.Context, digest string) (*types.Spec, error) {
	kv, err := Get(ctx, c.store, SpecKey(c.ns, digest))
	if err != nil {
		return nil, err
	}
	if kv.ModRevision == 0 {
		return nil, types.Errorf(types.NotFound, "there is no spec %s in namespace %s", digest, c.ns)
	}
	spec := new(types.Spec)
	if !Read(kv, spec) {
		return nil, Unreadable(kv.Key)
	}
	return spec, nil
}

// DefaultGrace is the time between stop signal and kill for a spec without a grace.
const DefaultGrace = 10 * time.Second

// GraceOf returns the time between stop signal and kill; spec may be nil.
func GraceOf(spec *types.Spec) time.Duration {
	if spec == nil || spec.Grace == 0 {
		return DefaultGrace
	}
	return spec.Grace
}

// EachTask calls f for every task of the namespace, by id, at one revision, which it returns. It
// holds no listing in memory, because there may be millions. It stops at and returns an error of f.
func (c *Client) EachTask(ctx context.Context, f func(TaskState) error) (revision int64, err error) {
	jobs, revision, err := ListAll(ctx, c.store, ListOptions{Prefix: Prefix(Jobs, c.ns), KeysOnly: true})
	if err != nil {
		return 0, err
	}
	complete := make(map[string]bool, len(jobs))
	for _, kv := range jobs {
		complete[kv.Key] = true
	}
	statuses, stop := c.readStatuses(ctx, revision)
	defer stop()
	_, err = Scan(ctx, c.store, ListOptions{Prefix: Prefix(Tasks, c.ns), Revision: revision}, func(part []KV) error {
		for _, kv := range part {
			t, readable, err := c.taskState(kv, complete, statuses)
			if err == nil && readable {
				err = f(t)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return revision, err
}

// taskState decodes a stored task, and reports whether it is readable.
func (c *Client) taskState(kv KV, complete map[string]bool, statuses *statusReader) (t TaskState, readable bool, err error) {
	k, ok := Parse(kv.Key)
	t = TaskState{ID: k.ID}
	if !ok || !t.decode(kv, func(job string) bool { return complete[JobKey(c.ns, job)] }) {
		return t, false, nil
	}
	status, err := statuses.of(StatusKey(c.ns, k.ID))
	if err == nil && status.Key != "" {
		t.decodeStatus(status)
	}
	return t, true, err
}

// statusReader reads statuses in parallel with the tasks; both are sorted by id.
type statusReader struct {
	parts chan []KV
	err   error // once parts is closed
	part  []KV
}

// readStatuses starts reading the statuses of the namespace; stop ends that.
func (c *Client) readStatuses(ctx context.Context, revision int64) (r *statusReader, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	r = &statusReader{parts: make(chan []KV)}
	go func() {
		defer close(r.parts)
		_, r.err = Scan(ctx, c.store, ListOptions{Prefix: Prefix(Statuses, c.ns), Revision: revision}, func(part []KV) error {
			select {
			case r.parts <- part:
				return nil
			case <-ctx.Done():
				return types.Errorf(types.Unavailable, "read statuses: %w", ctx.Err())
			}
		})
	}()
	return r, func() {
		cancel()
		for range r.parts { // until the goroutine has ended
			continue
		}
	}
}

// of returns the value of a key, empty if there is none. Keys must come in ascending order.
func (r *statusReader) of(key string) (KV, error) {
	for {
		for len(r.part) > 0 && r.part[0].Key < key {
			r.part = r.part[1:]
		}
		if len(r.part) > 0 {
			if r.part[0].Key != key {
				return KV{}, nil
			}
			return r.part[0], nil
		}
		part, ok := <-r.parts
		if !ok {
			return KV{}, r.err
		}
		r.part = part
	}
}
