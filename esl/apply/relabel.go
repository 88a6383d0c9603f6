package apply

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// labeled is a task, or a job if task is empty, and its wanted labels.
type labeled struct {
	task, job string
	labels    []types.Label
}

// relabel records which labels of an object that stays differ: they say nothing about what runs, so
// they change in place.
func (d *decider) relabel(c *Change, t there, wanted []controlplane.Submission) {
	at := make(map[int][]types.Label, len(wanted))
	for i, s := range wanted {
		if s.Task.Count > 0 {
			i = s.Task.Index
		}
		at[i] = s.Task.Labels
	}
	differ := func(one labeled, is []types.Label) {
		if slices.Equal(is, one.labels) {
			return
		}
		for _, field := range different(labelFields(is), labelFields(one.labels)) {
			if len(c.relabels) == 0 && !slices.Contains(c.Differences, field) {
				c.Differences = append(c.Differences, field)
			}
		}
		c.relabels = append(c.relabels, one)
	}
	if c.Kind == manifest.KindJob {
		differ(labeled{job: t.id, labels: c.Labels()}, d.view.Jobs[cluster.ID{Namespace: d.ns, ID: t.id}].V.Labels)
	}
	for _, m := range t.tasks {
		v := m.Info.V
		switch u := c.InPlace; {
		case v.Job != "" && v.Count == 0: // it is of an older version: its index is not known
			continue
		case u != nil && (slices.Contains(u.Replaces, m.ID.ID) || slices.Contains(u.Removes, m.ID.ID)):
			continue
		}
		if labels, ok := at[v.Index]; ok {
			differ(labeled{task: m.ID.ID, labels: labels}, v.Full().Labels)
		}
	}
	if c.Action == Unchanged && len(c.relabels) > 0 {
		c.Action = Relabel
	}
}

// labelFields returns labels as fields of a document.
func labelFields(labels []types.Label) map[string]string {
	fields := make(map[string]string, len(labels))
	for _, l := range labels {
		fields["labels."+l.Name] = l.Value
	}
	return fields
}

// relabelsAtOnce is how many objects are relabeled at a time.
const relabelsAtOnce = 16

// relabel changes the labels of objects that stay. An update in place writes those of its job itself.
func (d *Decision) relabel(ctx context.Context, c *controlplane.Client) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(relabelsAtOnce)
	for i := range d.Changes {
		x := &d.Changes[i]
		for _, one := range x.relabels {
			if one.job != "" && x.InPlace != nil {
				continue
			}
			all.Go(func() error {
				if err := one.write(ctx, c); err != nil {
					return types.Errorf(types.ClassOf(err), "change the labels of %s: %w: apply the file again", x, err)
				}
				return nil
			})
		}
	}
	return all.Wait()
}

// write changes the labels of one object, if it is there and can be read.
func (l labeled) write(ctx context.Context, c *controlplane.Client) error {
	key := controlplane.TaskKey(c.Namespace(), l.task)
	if l.job != "" {
		key = controlplane.JobKey(c.Namespace(), l.job)
	}
	for {
		kv, err := controlplane.Get(ctx, c.Store(), key)
		if err != nil || kv.ModRevision == 0 {
			return err
		}
		var job types.Job
		var task types.Task
		value, is := types.Message(&task), &task.Labels
		if l.job != "" {
			value, is = &job, &job.Labels
		}
		if !controlplane.Read(kv, value) || slices.Equal(*is, l.labels) {
			return nil
		}
		*is = l.labels
		change := controlplane.NewChange(controlplane.NewBatch())
		change.IfUnchanged(key, kv.ModRevision)
		change.Put(key, value)
		if res, err := controlplane.Commit(ctx, c.Store(), change.Txn()); err != nil || res.Committed {
			return err
		}
	}
}
