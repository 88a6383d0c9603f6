package controlplane

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Remove deletes ended tasks and their statuses before the collector does; ids are full ids. It
// works in parts of a few dozen tasks. Precondition: a task has not ended; its part is not deleted.
// Missing tasks are no error.
func (c *Client) Remove(ctx context.Context, ids ...string) error {
	return c.remove(ctx, KV{}, ids)
}

// RemoveJob deletes a job and all its tasks, which must have ended; id is the full id. It returns
// the number of tasks. NotFound: there is no such job. Precondition: a task has not ended; nothing
// is deleted.
func (c *Client) RemoveJob(ctx context.Context, id string) (int, error) {
	kv, err := Get(ctx, c.store, JobKey(c.ns, id))
	if err != nil {
		return 0, err
	}
	if kv.ModRevision == 0 {
		return 0, types.Errorf(types.NotFound, "there is no job %s in namespace %s", id, c.ns)
	}
	tasks, _, err := c.Tasks(ctx)
	if err != nil {
		return 0, err
	}
	var ids []string
	busy := 0
	for i := range tasks {
		if tasks[i].Task.Job != id {
			continue
		}
		ids = append(ids, tasks[i].ID)
		if !tasks[i].Phase().Ended() {
			busy++
		}
	}
	if busy > 0 {
		return 0, types.Errorf(types.Precondition, "remove job %s: %d of its %d tasks have not ended: stop it first", id, busy, len(ids))
	}
	return len(ids), c.remove(ctx, kv, ids)
}

const removeCompares = 3 // those of a task, and some reserve

// remove deletes in parts. The job, if any, goes last, and unchanged: no task has joined it.
func (c *Client) remove(ctx context.Context, job KV, ids []string) error {
	part := max(1, c.store.Limits().Ops/removeCompares)
	for {
		e := &remove{c: c, ids: ids[:min(part, len(ids))]}
		if ids = ids[len(e.ids):]; len(ids) == 0 {
			e.job = job
		}
		if len(e.ids) > 0 || e.job.Key != "" {
			if _, err := perform(ctx, c.store, nil, e); err != nil {
				return err
			}
		}
		if len(ids) == 0 {
			return nil
		}
	}
}

// remove is an edit that deletes ended tasks, and their job if it is set.
type remove struct {
	c   *Client
	ids []string
	job KV // as read when its tasks were listed
}

func (e *remove) verb() string {
	if len(e.ids) == 1 {
		return "remove task " + e.ids[0]
	}
	return fmt.Sprintf("remove %d tasks", len(e.ids))
}

func (e *remove) draw(ctx context.Context, s Store, change *Change) error {
	for _, id := range e.ids {
		t, err := e.c.read(ctx, id)
		if types.Is(err, types.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if !t.Phase().Ended() {
			return types.Errorf(types.Precondition, "it is %s: stop it first", t.Phase())
		}
		change.IfUnchanged(TaskKey(e.c.ns, id), t.mod)
		change.IfUnchanged(StatusKey(e.c.ns, id), t.statusMod)
		change.Delete(TaskKey(e.c.ns, id))
		change.Delete(StatusKey(e.c.ns, id))
	}
	if e.job.Key == "" {
		return nil
	}
	kv, err := Get(ctx, s, e.job.Key)
	switch {
	case err != nil || kv.ModRevision == 0:
		return err
	case kv.ModRevision > e.job.ModRevision:
		return types.Errorf(types.Conflict, "an update has changed the job: try again")
	}
	change.IfUnchanged(kv.Key, kv.ModRevision)
	change.Delete(kv.Key)
	return nil
}

func (e *remove) refused(context.Context, Store, []KV) error { return nil }
func (e *remove) once() bool                                 { return false }
func (e *remove) done(int64)                                 {}

// abandonTime bounds the deletion of an abandoned launch.
const abandonTime = 30 * time.Second

// abandon deletes the tasks of a job that was never completed, which no scheduler has seen. It
// deletes the first task first, if revision is not 0 but the revision it was written at. From then
// on late parts of the launch do nothing. The collector deletes leftovers after a while.
func (c *Client) abandon(ctx context.Context, job, first string, revision int64) error {
	// The end of ctx may be what broke the launch off.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTime)
	defer cancel()
	if revision != 0 {
		if err := c.deleteUnseen(ctx, job, []KV{{Key: TaskKey(c.ns, first), ModRevision: revision}}); err != nil {
			return err
		}
	}
	kvs, _, err := ListAll(ctx, c.store, ListOptions{Prefix: Prefix(Tasks, c.ns)})
	if err != nil {
		return err
	}
	var left []KV
	for _, kv := range kvs {
		var t types.Task
		if Read(kv, &t) && t.Job == job {
			left = append(left, kv)
		}
	}
	for part := range slices.Chunk(left, max(1, c.store.Limits().Ops/removeCompares)) {
		if err := c.deleteUnseen(ctx, job, part); err != nil {
			return err
		}
	}
	return nil
}

// deleteUnseen deletes tasks of a job that does not exist. Conflict: it does.
func (c *Client) deleteUnseen(ctx context.Context, job string, tasks []KV) error {
	change := NewChange(NewBatch())
	change.IfUnchanged(JobKey(c.ns, job), 0)
	for _, kv := range tasks {
		k, _ := Parse(kv.Key)
		change.IfUnchanged(kv.Key, kv.ModRevision)
		change.IfUnchanged(StatusKey(c.ns, k.ID), 0)
		change.Delete(kv.Key)
	}
	res, err := Commit(ctx, c.store, change.Txn())
	if err != nil {
		return err
	}
	if !res.Committed {
		return types.Errorf(types.Conflict, "job %s or one of its tasks exists after all: %s", job, action.ListTasksOf.Of(job))
	}
	return nil
}
