package document

import (
	"context"
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// EachTask calls f for the tasks of a namespace after an id, for all of them if it is empty: in the order
// of their ids and at one revision, which it returns. It reads atOnce tasks first, so a page of a
// list costs the same however many tasks there are. It stops at and returns an error of f.
func EachTask(ctx context.Context, store controlplane.Store, ns, after string, atOnce int, f func(controlplane.TaskState) error) (revision int64, err error) {
	r := &taskReader{store: store, ns: ns, last: after, complete: make(map[string]bool)}
	opts := controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Tasks, ns), Limit: atOnce}
	if after != "" {
		opts.After = controlplane.TaskKey(ns, after)
	}
	for {
		page, err := store.List(ctx, opts)
		if err != nil {
			return 0, err
		}
		if r.revision = page.Revision; len(page.KVs) > 0 {
			err = r.take(ctx, page.KVs, f)
		}
		if err != nil || !page.More {
			return page.Revision, err
		}
		opts.Revision, opts.After = page.Revision, page.KVs[len(page.KVs)-1].Key
		opts.Limit = min(2*opts.Limit, maxAtOnce) // f takes few of them
	}
}

// maxAtOnce bounds the tasks that are read at once.
const maxAtOnce = 10_000

// taskReader completes the tasks of a listing.
type taskReader struct {
	store    controlplane.Store
	ns       string
	revision int64
	// complete tells of the known jobs whether they exist, and last is the id of the last task.
	complete map[string]bool
	last     string
}

// take calls f for the next tasks.
func (r *taskReader) take(ctx context.Context, part []controlplane.KV, f func(controlplane.TaskState) error) error {
	var tasks []controlplane.TaskState
	for _, kv := range part {
		k, ok := controlplane.Parse(kv.Key)
		t := controlplane.TaskState{ID: k.ID, Task: new(types.Task)}
		if ok && controlplane.Read(kv, t.Task) {
			tasks = append(tasks, t)
		}
	}
	if err := r.readJobs(ctx, tasks); err != nil {
		return err
	}
	end, _ := controlplane.Parse(part[len(part)-1].Key)
	statuses, err := r.statuses(ctx, end.ID, len(part))
	if err != nil {
		return err
	}
	for _, t := range tasks {
		t.Accepted, t.Status = t.Task.Job == "" || r.complete[t.Task.Job], statuses[t.ID]
		if err := f(t); err != nil {
			return err
		}
	}
	return nil
}

// readJobs reads which jobs of tasks exist.
func (r *taskReader) readJobs(ctx context.Context, tasks []controlplane.TaskState) error {
	asked := make(map[string]string) // the jobs by key
	for _, t := range tasks {
		if _, known := r.complete[t.Task.Job]; t.Task.Job != "" && !known {
			asked[controlplane.JobKey(r.ns, t.Task.Job)], r.complete[t.Task.Job] = t.Task.Job, false
		}
	}
	for keys := range slices.Chunk(slices.Sorted(maps.Keys(asked)), r.store.Limits().Ops) {
		page, err := r.store.List(ctx, controlplane.ListOptions{Keys: keys, Revision: r.revision})
		if err != nil {
			return err
		}
		for _, kv := range page.KVs {
			r.complete[asked[kv.Key]] = true
		}
	}
	return nil
}

// statuses reads the statuses of the next n tasks, up to an id. There may be some without a task.
func (r *taskReader) statuses(ctx context.Context, end string, n int) (map[string]*types.Status, error) {
	out := make(map[string]*types.Status, n)
	opts := controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Statuses, r.ns), Revision: r.revision, Limit: n}
	if r.last != "" {
		opts.After = controlplane.StatusKey(r.ns, r.last)
	}
	r.last = end
	for {
		page, err := r.store.List(ctx, opts)
		if err != nil {
			return nil, err
		}
		for _, kv := range page.KVs {
			k, _ := controlplane.Parse(kv.Key)
			if k.ID > end {
				return out, nil
			}
			if s := new(types.Status); controlplane.Read(kv, s) {
				out[k.ID] = s
			}
			opts.After = kv.Key
		}
		if !page.More {
			return out, nil
		}
	}
}
