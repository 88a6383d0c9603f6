package controlplane

import (
	"bytes"
	"context"

	"github.com/escher-sched/escher/types"
)

// Request changes the requests of a waiting task: its next attempt makes them. It ignores a task that
// does not wait; id is the full id. Invalid: the task with these requests is.
func (t *Transaction) Request(id string, requests types.Requests) *Transaction {
	return t.add(&request{c: t.c, id: id, requests: requests}, requests.Validate("requests"))
}

// request is an edit that changes the requests of a task.
type request struct {
	c        *Client
	id       string
	requests types.Requests
}

func (e *request) verb() string { return "change the requests of task " + e.id }

// draw compares the status too: an attempt holds what its task requested when it was bound.
func (e *request) draw(ctx context.Context, _ Store, change *Change) error {
	t, err := e.c.read(ctx, e.id)
	if err != nil {
		return err
	}
	change.IfUnchanged(TaskKey(e.c.ns, e.id), t.mod)
	change.IfUnchanged(StatusKey(e.c.ns, e.id), t.statusMod)
	was := types.Encode(0, t.Task)
	t.Task.Requests = e.requests
	if t.Phase() != types.Pending || bytes.Equal(was, types.Encode(0, t.Task)) {
		return nil
	}
	if err := t.Task.Validate(); err != nil {
		return types.Errorf(types.Invalid, "task %s: %w", e.id, err)
	}
	change.Put(TaskKey(e.c.ns, e.id), t.Task)
	return nil
}

func (e *request) refused(context.Context, Store, []KV) error { return nil }
func (e *request) once() bool                                 { return false }
func (e *request) done(int64)                                 {}
