package controlplane

import (
	"context"

	"github.com/escher-sched/escher/types"
)

// UpdateJob writes a job again, in place of that of a revision, and adds tasks to it, perhaps none.
// The tasks have their Index and Count. It returns their ids. Conflict: the job has changed.
func (t *Transaction) UpdateJob(id string, job types.Job, revision int64, tasks ...Submission) []string {
	t.If(ReadSet{JobKey(t.c.ns, id): revision})
	t.add(&putJob{t.c.ns, id, &job}, job.Validate())
	if len(tasks) == 0 {
		return nil
	}
	e, err := t.c.newLaunch(nil, tasks)
	if t.add(e, err); err != nil {
		return nil
	}
	for i := range e.tasks {
		e.tasks[i].task.Job = id
	}
	return e.launched().Tasks
}

// putJob is an edit that writes a job, which the read set of its transaction compares.
type putJob struct {
	ns, id string
	job    *types.Job
}

func (e *putJob) verb() string { return "update job " + e.id }

func (e *putJob) draw(_ context.Context, _ Store, change *Change) error {
	change.Put(JobKey(e.ns, e.id), e.job)
	return nil
}

func (e *putJob) refused(context.Context, Store, []KV) error { return nil }
func (e *putJob) once() bool                                 { return false }
func (e *putJob) done(int64)                                 {}
