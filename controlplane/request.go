package controlplane

import (
	"bytes"
	"context"

	"github.com/escher-sched/escher/types"
)

// Request changes the requests of a waiting task: its next attempt makes them. It ignores a task that
// does not wait; id is the full id. Invalid: the task with these requests is.
func (t *Transaction) Request(id string, requests types.Requests) *Transaction {
	edit := func(task *types.Task) { task.Requests = requests }
	return t.add(&waitingEdit{c: t.c, id: id, does: "change the requests of task", edit: edit, strict: true}, requests.Validate("requests"))
}

// waitingEdit is an edit that changes a waiting task, and ignores others.
type waitingEdit struct {
	c        *Client
	id, does string
	edit     func(*types.Task)
	// strict compares the status too: the change must not come after a bind.
	strict bool
}

func (e *waitingEdit) verb() string { return e.does + " " + e.id }

func (e *waitingEdit) draw(ctx context.Context, _ Store, change *Change) error {
	t, err := e.c.read(ctx, e.id)
	if err != nil {
		return err
	}
	change.IfUnchanged(TaskKey(e.c.ns, e.id), t.mod)
	if e.strict {
		change.IfUnchanged(StatusKey(e.c.ns, e.id), t.statusMod)
	}
	was := types.Encode(0, t.Task)
	if e.edit(t.Task); t.Phase() != types.Pending || bytes.Equal(was, types.Encode(0, t.Task)) {
		return nil
	}
	if err := t.Task.Validate(); err != nil {
		return types.Errorf(types.Invalid, "task %s: %w", e.id, err)
	}
	change.Put(TaskKey(e.c.ns, e.id), t.Task)
	return nil
}

func (e *waitingEdit) refused(context.Context, Store, []KV) error { return nil }
func (e *waitingEdit) once() bool                                 { return false }
func (e *waitingEdit) done(int64)                                 {}
