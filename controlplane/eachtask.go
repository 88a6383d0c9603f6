package controlplane

import (
	"context"

	"github.com/escher-sched/escher/types"
)

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
